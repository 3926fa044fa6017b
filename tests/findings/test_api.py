"""/api/findings/: what there is, narrowed down; dismissed with a note and taken back with one."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import F
from rest_framework.test import APIClient

from agents.plans import applied_part
from benchlab.audit.models import Entry
from benchlab.campaigns.models import Run
from benchlab.findings import storing
from benchlab.findings.models import Finding
from benchlab.hosts.models import FactSnapshot
from benchlab.runs.models import Measurement, Series
from benchlab.team import tokens
from benchlab.team.models import Membership
from benchlab.team.roles import Role
from benchlab.verdicts import set_ups
from tests.api.conftest import api, client_of, everything, nudges, other_api, ours, theirs  # noqa: F401
from tests.topologies import plans

pytestmark = pytest.mark.django_db


def listed(client, query="") -> list[dict]:
    answer = client.get(f"/api/findings/{query}")
    assert answer.status_code == 200, answer.content
    return answer.json()["results"]


def test_a_finding_as_json(api, ours):  # noqa: F811
    [one] = listed(api)
    assert (one["kind"], one["label"], one["method"]) == (
        "cached_read",
        "Read from a cache",
        "Findings",
    )
    assert (one["campaign"], one["run"], one["attempt"], one["workload"]) == (
        ours.campaign.pk, ours.run.pk, ours.attempts[0].pk, None,
    )  # fmt: skip
    assert one["numbers"]["read"]["value"] == 4e8 and one["runs"] == [ours.run.pk]
    assert one["dismissed_at"] is one["dismissed_by"] is None


def test_filters(api, ours):  # noqa: F811
    pk = ours.campaign.pk
    for query, found in {
        f"?campaign={pk}": 1, f"?campaign={pk + 1}": 0, f"?run={ours.run.pk}": 1, "?severity=doubt": 1,
        "?severity=note": 0, "?kind=cached_read": 1, "?dismissed=false": 1, "?dismissed=true": 0,
    }.items():  # fmt: skip
        assert len(listed(api, query)) == found, query
    for wrong in ("?severity=bad", "?kind=nonsense", "?dismissed=maybe", "?colour=red", "?run=x"):
        assert api.get(f"/api/findings/{wrong}").status_code == 400, wrong


def test_what_is_found_no_longer_is_not_told(api, ours):  # noqa: F811
    Finding.objects.update(stands=False)
    assert listed(api) == []
    assert api.get(f"/api/findings/{ours.finding.pk}/").status_code == 404
    assert api.post(f"/api/findings/{ours.finding.pk}/dismiss/", {"note": "x"}).status_code == 404


def test_dismissed_and_taken_back_with_a_note(api, ours, user):  # noqa: F811
    url = f"/api/findings/{ours.finding.pk}"
    for body in ({}, {"note": ""}, {"note": " \x00 "}, {"note": "x" * 2001}):
        refused = api.post(f"{url}/dismiss/", body, format="json")
        assert refused.status_code == 400 and "note" in refused.json()["errors"], body
    told = api.post(f"{url}/dismiss/", {"note": "The ARC is what we measure."}, format="json")
    assert told.status_code == 200 and told.json()["dismissed_by"] == "alice"
    assert [one["note"] for one in listed(api, "?dismissed=true")] == [
        "The ARC is what we measure."
    ]
    entry = Entry.objects.filter(action="finding.dismiss", outcome="done").get()
    assert (entry.actor, entry.team_id) == ("alice", ours.team.pk)
    assert entry.subject.startswith(f"finding {ours.finding.pk} (half of it")
    back = api.post(f"{url}/take-back/", {"note": "It is not."}, format="json").json()
    assert (back["dismissed_at"], back["dismissed_by"], back["note"]) == (None, None, "It is not.")


@pytest.mark.parametrize("place", ["/api/findings/{}/dismiss/", "/findings/{}/dismiss/"])
def test_one_that_is_found_no_longer_right_then_is_no_failure(api, web, ours, monkeypatch, place):  # noqa: F811
    """A run that is read again makes its findings anew: the row may go while somebody dismisses it."""
    save = Finding.save

    def then_gone(row: Finding, **given: Any) -> None:
        save(row, **given)
        Finding.objects.filter(pk=row.pk).delete()

    monkeypatch.setattr(Finding, "save", then_gone)
    client = api if place.startswith("/api/") else web
    answer = client.post(
        place.format(ours.finding.pk), {"note": "x"}, headers={"HX-Request": "true"}
    )
    assert answer.status_code == 200
    assert (answer.json()["dismissed_by"] if client is api else "alice") == "alice"


def test_the_second_of_two_is_told_and_the_first_ones_words_stand(api, ours, team):  # noqa: F811
    carol = User.objects.create_user("carol")
    Membership.objects.create(team=team, user=carol)
    url = f"/api/findings/{ours.finding.pk}"
    assert client_of(carol).post(f"{url}/dismiss/", {"note": "known"}).status_code == 200
    refused = api.post(f"{url}/dismiss/", {"note": "mine"})
    assert refused.status_code == 409
    assert refused.json()["detail"] == "carol dismissed it before you. Your note was not kept."
    told = api.get(f"{url}/").json()
    assert (told["dismissed_by"], told["note"]) == ("carol", "known")
    assert Entry.objects.filter(action="finding.dismiss", outcome="refused").count() == 1
    assert client_of(carol).post(f"{url}/dismiss/", {"note": "well known"}).status_code == 200
    assert api.post(f"{url}/take-back/", {"note": "no"}).status_code == 200
    assert api.post(f"{url}/take-back/", {"note": "no"}).status_code == 200  # sent twice
    assert client_of(carol).post(f"{url}/take-back/", {"note": "yes"}).status_code == 409


def test_another_team_sees_and_dismisses_nothing(other_api, ours):  # noqa: F811
    assert listed(other_api) == []
    for deed in ("dismiss", "take-back"):
        answer = other_api.post(f"/api/findings/{ours.finding.pk}/{deed}/", {"note": "x"})
        assert answer.status_code == 404
    ours.finding.refresh_from_db()
    assert ours.finding.dismissed_at is None


def test_a_viewer_reads_and_dismisses_nothing(ours, user):  # noqa: F811
    _, key = tokens.create_token(user, "reads", Role.VIEWER)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {key}")
    assert len(listed(client)) == 1
    assert (
        client.post(f"/api/findings/{ours.finding.pk}/dismiss/", {"note": "x"}).status_code == 403
    )


def test_the_librarys_are_seen_and_dismissed_by_nobody(api, ours):  # noqa: F811
    ours.team.library = True
    ours.team.memberships = None
    ours.team.membership_set.all().delete()
    ours.team.save()
    assert len(listed(api, "?library=true")) == 1 and listed(api) == []
    answer = api.post(f"/api/findings/{ours.finding.pk}/dismiss/", {"note": "x"})
    assert answer.status_code in (403, 404)


def test_an_enterprise_ssd_is_not_accused_of_losing_data(lab, user):
    """Two stacks that differ in their disk: one with a volatile write cache, one that reports none."""
    caches = {"hdd": ("sdb", "write back", "870 QVO"), "ssd": ("nvme0n1", "write through", "PM893")}
    facts = plans.many_disks()
    snapshot = FactSnapshot.objects.latest()
    snapshot.facts["devices"] = [
        {"name": name, "queue": {"write_cache": cache}, "model": model, "rotational": False}
        for name, cache, model in caches.values()
    ]
    snapshot.save()
    for layout, role in zip(lab.campaign.layouts.order_by("pk"), caches, strict=True):
        layout.stack = [plans.layer("raw", data=(role, 1))]
        layout.plan = applied_part.to_json(plans.made(layout.stack, facts))
        layout.save()
    Run.objects.update(options={"rw": "randwrite", "size": 1 << 30, "fsync": 1})
    slow = Measurement.objects.filter(name="iops", attempt__layout=lab.campaign.layouts.first())
    slow.update(value=F("value") / 20)
    set_ups.sweep_campaigns([lab.campaign.pk])
    client = client_of(user)
    [finding] = listed(client, "?kind=sync_disabled")
    assert "its disks (PM893) report no volatile write cache" in finding["says"]
    assert "With power-loss protection that is safe" in finding["says"]
    assert (finding["severity"], finding["label"]) == ("note", "Durability differs")
    assert listed(client, "?kind=conditions_differ") == []


def test_a_slow_member_is_named_from_what_is_stored(lab, user):
    """One of four disks that spin takes 8 ms where the others take 2 ms, and holds its sweep back."""
    facts = FactSnapshot.objects.latest()
    for device in facts.facts["devices"]:
        device["rotational"] = True
    facts.save()
    times = [float(second) for second in range(1, 9)]
    rows = [
        (attempt, name, metric, value)
        for attempt in lab.attempts
        for name in ("sdb", "sdc", "sdd", "sde")
        for metric, value in (
            ("read.await", 8e-3 if name == "sdc" else 2e-3),
            ("read.iops", 120.0),
            ("read.bandwidth", 120.0 * 4096),
            ("util", 0.96 if name == "sdc" else 0.24),
        )
    ]
    Series.objects.filter(attempt__in=lab.attempts).delete()
    Series.objects.bulk_create(
        Series(
            attempt=attempt,
            sampler="diskstats",
            device=name,
            metric=metric,
            unit="1",
            times=times,
            values=[value] * 8,
        )
        for attempt, name, metric, value in rows
    )
    storing.find_for_attempts([lab.attempt.pk])
    client = client_of(user)
    [finding] = listed(client, "?kind=slow_member")
    assert finding["says"].startswith(
        "sdc takes 8.00 ms a request where the other 3 take 2.00 ms or less, with no more requests"
        " (busy 96 % against 24 %)"
    )
    assert finding["runs"] == [lab.run.pk]
    [line, *_] = set_ups._evidence_lines(set_ups._campaign_groups(lab.campaign), ())
    assert {track.metric for track in line.runs[0].tracks} == {"util"}
