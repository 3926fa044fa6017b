"""Figures of live pages are made once for all open pages of a campaign, and sent again only where they are others."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from benchlab.charts import figure, figure_views
from benchlab.runs import events
from benchlab.runs.events import ChangeListener
from benchlab.runs.models import Measurement
from benchlab.team.models import Membership
from benchlab.web.shared_answers import MAX_QUERY_LENGTH, SharedAnswers
from tests.charts import made, made_live

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def ear(monkeypatch) -> ChangeListener:
    """It listens, and nothing grows old by itself."""
    found = ChangeListener()
    found.start_listening()
    monkeypatch.setattr("benchlab.runs.events.MAX_AGE_S", 3600.0)
    monkeypatch.setattr(figure_views, "change_listener", found)
    monkeypatch.setattr(figure_views, "RENDERED", SharedAnswers[bytes]())
    return found


@pytest.fixture
def dumps(monkeypatch) -> list[int]:
    """Of figures that were made."""
    found: list[int] = []

    def counted(made):
        found.append(1)
        return figure.figure_json(made)

    monkeypatch.setattr(figure_views, "figure_json", counted)
    return found


def colleague(team, name: str) -> Client:
    person = User.objects.create_user(name)
    Membership.objects.create(team=team, user=person)
    client = Client()
    client.force_login(person)
    return client


def test_a_chart_is_made_once_for_all_who_ask_for_the_same(web, other_web, lab, ear, dumps):
    url = reverse("campaign-figure", args=[lab.campaign.pk])
    first = web.get(url).json()
    assert colleague(lab.team, "carol").get(url).json() == first and len(dumps) == 1
    assert other_web.get(url).status_code == 404
    assert Client().get(url).status_code == 302
    assert web.get(url, {"metric": "bandwidth"}).json() != first and len(dumps) == 2
    Measurement.objects.update(value=7.0)
    assert web.get(url).json() == first
    ear.record_change(events.campaign_channel(lab.campaign.pk))
    assert web.get(url).json() != first and len(dumps) == 3


def test_a_running_point_is_read_once_for_all_who_watch_it(web, other_web, lab, ear, dumps):
    attempt = made_live.running(
        lab.campaign, lab.host, lab.stacks[0], made.workload(lab.team, "running")
    )
    url = reverse("attempt-live-figure", args=[attempt.pk])
    first = web.get(url).json()
    assert first["data"] and colleague(lab.team, "carol").get(url).json() == first
    assert len(dumps) == 1
    assert other_web.get(url).status_code == 404
    attempt.live.all().delete()
    ear.record_change(events.campaign_channel(lab.campaign.pk))
    assert web.get(url).json()["data"] == []


def test_a_browser_that_has_it_is_told_so(web, lab, ear):
    url = reverse("campaign-figure", args=[lab.campaign.pk])
    answer = web.get(url, headers={"Accept-Encoding": "gzip"})
    tag = answer["ETag"]
    assert tag.startswith('W/"') and answer["Cache-Control"] == "no-cache, private"
    again = web.get(url, headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again["Cache-Control"]) == (
        304,
        b"",
        "no-cache, private",
    )
    Measurement.objects.update(value=7.0)
    ear.record_change(events.campaign_channel(lab.campaign.pk))
    assert web.get(url, headers={"If-None-Match": tag}).status_code == 200


def test_a_wrong_wish_is_told_each_time(web, lab, dumps):
    url = reverse("campaign-figure", args=[lab.campaign.pk])
    for _ in range(2):
        assert web.get(url, {"metric": "nonsense"}).status_code == 400
    assert web.get(url, {"metric": "iops", "x": "y" * MAX_QUERY_LENGTH}).status_code == 200
    assert not figure_views.RENDERED._kept or len(dumps) == 1
