"""A team's rule on raw output: it goes so many days after the end, figures stay, and pages say what became of it."""

from __future__ import annotations

import zlib
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from benchlab.audit.models import Entry
from benchlab.campaigns.models import Campaign
from benchlab.lifecycle import retention
from benchlab.lifecycle.tasks import sweep_raw
from benchlab.runs.models import Artifact, ArtifactPiece, Attempt, Layout, Measurement, Series
from benchlab.runs.outputs import RawRemoved
from benchlab.runs.states import LayoutPhase
from benchlab.sharing import links
from benchlab.sharing.models import Star


@pytest.fixture
def old(lab):
    """Ended eight days ago, in a team that keeps raw output for a week."""
    ArtifactPiece.objects.create(
        attempt=lab.attempts[0], name="big.log", number=0, packed=zlib.compress(b"x" * 999)
    )
    Artifact.objects.create(
        attempt=lab.attempts[0], name="big.log", content=b"", size=999, sha256="0" * 64
    )
    Layout.objects.update(ended_at=timezone.now() - timedelta(days=8))
    lab.team.keep_raw_days = 7
    lab.team.save()
    return lab


def test_raw_output_goes_and_figures_stay(old):
    figures = Measurement.objects.count()
    sweep_raw()
    assert not Series.objects.exists() and not ArtifactPiece.objects.exists()
    assert all(bytes(row.content) == b"" for row in Artifact.objects.all())
    assert Measurement.objects.count() == figures and Artifact.objects.count() == 5
    assert set(Attempt.objects.values_list("raw_removed_after", flat=True)) == {7}
    with pytest.raises(RawRemoved, match="by the team's rule of 7 days"):
        Artifact.objects.first().read()
    entry = Entry.objects.get(action="campaign-remove-raw")
    assert entry.details["rule_days"] == 7 and entry.details["files"] == 5
    sweep_raw()
    assert Entry.objects.filter(action="campaign-remove-raw").count() == 1


def test_pages_say_what_became_of_it(old, web, api):
    sweep_raw()
    artifact = Artifact.objects.filter(attempt=old.attempts[0]).first()
    page = web.get(f"/runs/{old.run.pk}/").content.decode()
    assert "by the team&#x27;s rule of 7 days. Its figures stay." in page
    assert f"/artifacts/{artifact.pk}/" not in page
    for address in (f"/artifacts/{artifact.pk}/", f"/artifacts/{artifact.pk}/lines/"):
        answer = web.get(address)
        assert answer.status_code == 410, address
        assert "rule of 7 days" in answer.content.decode()
    answer = api.get(f"/api/artifacts/{artifact.pk}/content/")
    assert answer.status_code == 410 and "rule of 7 days" in answer.json()["detail"]
    assert api.get(f"/api/attempts/{old.attempts[0].pk}/").json()["raw_removed_at"]
    assert web.get(f"/campaigns/{old.campaign.pk}/").status_code == 200
    assert web.get(f"/campaigns/{old.campaign.pk}/report/").status_code == 200


def test_guests_are_told_too(old, user):
    sweep_raw()
    _, token = links.create_link(
        links.check_target(user, "run", old.run.pk), user, hide_hosts=False
    )
    guest = Client()
    assert guest.get(f"/s/{token}/").status_code == 200
    artifact = Artifact.objects.filter(attempt__run=old.run).first()
    answer = guest.get(f"/s/{token}/artifacts/{artifact.pk}/")
    assert answer.status_code == 410 and "rule of 7 days" in answer.content.decode()


def test_without_a_rule_it_is_kept_for_ever(old):
    old.team.keep_raw_days = None
    old.team.save()
    assert retention.remove_due_output() == 0 and Series.objects.exists()


@pytest.mark.parametrize(
    "why", ["young", "open", "imported", "starred", "run starred", "shared", "compared"]
)
def test_what_is_left_alone(old, user, why):
    if why == "young":
        Layout.objects.update(ended_at=timezone.now() - timedelta(days=6))
    elif why == "open":
        Layout.objects.update(phase=LayoutPhase.DRAFT, outcome="")
    elif why == "imported":
        Campaign.objects.update(source="imported")
    elif why == "starred":
        Star.objects.create(user=user, kind="campaign", object_id=old.campaign.pk)
    elif why == "run starred":
        Star.objects.create(user=user, kind="run", object_id=old.run.pk)
    elif why == "shared":
        links.create_link(links.check_target(user, "report", old.campaign.pk), user)
    elif why == "compared":
        query = f"campaign={old.campaign.pk}"
        links.create_link(links.check_target(user, "comparison", None, query), user)
    assert retention.remove_due_output() == 0
    assert Series.objects.exists() and not Attempt.objects.exclude(raw_removed_at=None).exists()


def test_a_link_that_is_over_keeps_nothing(old, user):
    share, _ = links.create_link(links.check_target(user, "campaign", old.campaign.pk), user)
    links.revoke_link(share)
    assert retention.remove_due_output() == 1


def test_in_small_batches_each_whole(old, monkeypatch):
    monkeypatch.setattr(retention, "ATTEMPTS", 1)
    retention._remove_batch(old.campaign, 7)
    removed = Attempt.objects.exclude(raw_removed_at=None)
    assert removed.count() == 1
    for row in Artifact.objects.select_related("attempt"):
        if row.attempt.raw_removed_at is None:
            assert len(row.read()) == row.size
    assert not Entry.objects.filter(action="campaign-remove-raw").exists()
    assert retention.remove_due_output() == 3
    assert Entry.objects.filter(action="campaign-remove-raw").count() == 1


def test_commands_pass_over_it(old):
    Artifact.objects.filter(name="big.log").delete()
    sweep_raw()
    figures = list(Measurement.objects.order_by("pk").values_list("pk", "value"))
    said = StringIO()
    call_command("reparse", stdout=said)
    assert "0 attempts parsed again" in said.getvalue()
    assert list(Measurement.objects.order_by("pk").values_list("pk", "value")) == figures
    with pytest.raises(CommandError, match=r"^SSH keys that no"):  # those of the test are none
        call_command("doctor", stdout=said)
    assert "Artifacts: 0" in said.getvalue()


def test_an_owner_sets_the_rule(web, api, team):
    sent = {"name": team.name, "keep_raw_days": "30"}
    assert web.post(f"/team/{team.pk}/change/", sent).status_code == 302
    team.refresh_from_db()
    assert team.keep_raw_days == 30
    assert "keep_raw_days = 30" in Entry.objects.get(action="team-change").subject
    assert api.patch(f"/api/teams/{team.pk}/", {"keep_raw_days": 0}).status_code == 400
    assert (
        api.patch(f"/api/teams/{team.pk}/", {"keep_raw_days": None}).json()["keep_raw_days"] is None
    )
