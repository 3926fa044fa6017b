"""Two people dismiss the same finding at the same moment, from the same page: no failure, and the second is told."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.test import Client

from benchlab.findings.models import Finding
from benchlab.runs import events
from benchlab.team.models import Membership
from tests.charts import made

NOTES = {"alice": "The ARC is what we measure.", "carol": "Known since May."}


@pytest.fixture
def found(team) -> Finding:
    campaign, load = made.campaign(team), made.workload(team)
    layout = made.done_layout(campaign, made.host(team), made.topology(team, "raw"))
    attempt = made.finished(campaign, layout, load, 1, 1, 1000.0)
    return Finding.objects.create(
        campaign=campaign, attempt=attempt, kind="cached_read", says="90 % came from a cache",
        severity="doubt", runs=[attempt.run_id],
    )  # fmt: skip


@pytest.fixture
def people(team, user) -> dict[str, User]:
    carol = User.objects.create_user("carol")
    Membership.objects.create(team=team, user=carol)
    return {"alice": user, "carol": carol}


def browser(person: User, **headers: str) -> Client:
    client = Client(headers=headers)
    client.force_login(person)
    return client


@pytest.mark.django_db
def test_with_htmx_the_second_sees_who_was_faster(people, found):
    url = f"/findings/{found.pk}/dismiss/"
    first = browser(people["alice"]).post(url, {"note": NOTES["alice"]})
    assert first.status_code == 302
    carol = browser(people["carol"], **{"HX-Request": "true"})
    second = carol.post(url, {"note": NOTES["carol"], "on": "campaign"})
    assert second.status_code == 200
    assert "alice dismissed it before you. Your note was not kept." in second.text
    assert NOTES["alice"] in second.text and f"/findings/{found.pk}/take-back/" in second.text
    plainly = browser(people["carol"]).post(url, {"note": NOTES["carol"]}, follow=True)
    assert "alice dismissed it before you" in plainly.text


@pytest.mark.django_db
def test_open_pages_of_the_campaign_are_told(people, found, monkeypatch):
    told: list[int] = []
    monkeypatch.setattr(events, "notify_pages", told.append)
    browser(people["alice"]).post(f"/findings/{found.pk}/dismiss/", {"note": "x"})
    assert told == [found.campaign_id]


@pytest.mark.django_db(transaction=True)
def test_at_the_very_moment_one_of_them_is_told(people, found):
    for _ in range(5):
        Finding.objects.update(dismissed_at=None, dismissed_by=None, note="")
        both = Barrier(2)

        def press(name: str, both: Barrier = both) -> tuple[int, str]:
            client = browser(people[name], **{"HX-Request": "true"})
            both.wait()
            try:
                answer = client.post(f"/findings/{found.pk}/dismiss/", {"note": NOTES[name]})
                return answer.status_code, answer.text
            finally:
                connections.close_all()

        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(press, NOTES))
        assert [status for status, _ in answers] == [200, 200]
        beaten = [("before you" in text) for _, text in answers]
        assert sorted(beaten) == [False, True]
        found.refresh_from_db()
        winner = list(NOTES)[beaten.index(False)]
        assert found.dismissed_by == people[winner] and found.note == NOTES[winner]
