"""After the period of grace: everything goes, in small parts, whatever is killed in between, and the log says so."""

from __future__ import annotations

import zlib
from datetime import timedelta

import pytest
from django.apps import apps
from django.db import connection
from django.utils import timezone

from benchlab.audit import chain
from benchlab.audit.models import Entry
from benchlab.campaigns.models import Campaign, Run, Workload
from benchlab.engine import host_cleanup
from benchlab.imports.models import Source
from benchlab.lifecycle import deleting, purging
from benchlab.lifecycle.tasks import sweep_deleted
from benchlab.runs.models import Artifact, ArtifactPiece, Attempt, Layout, StepLog
from benchlab.sharing import links
from benchlab.sharing.models import Comment, SavedView, Share
from benchlab.topologies.models import Topology
from tests.charts import made


@pytest.fixture
def deleted(lab, user):
    """Longer ago than the period of grace."""
    ArtifactPiece.objects.create(
        attempt=lab.attempts[0], name="big.log", number=0, packed=zlib.compress(b"x" * 999)
    )
    Artifact.objects.create(
        attempt=lab.attempts[0], name="big.log", content=b"", size=999, sha256="0" * 64
    )
    Source.objects.create(campaign=lab.campaign, name="a", content=b"a", size=1, sha256="0" * 64)
    for kind, pk in (("campaign", lab.campaign.pk), ("run", lab.run.pk)):
        links.create_link(links.check_target(user, kind, pk), user)
        Comment.objects.create(team=lab.team, kind=kind, object_id=pk, text="Look.")
    SavedView.objects.create(team=lab.team, name="one", query=f"campaign={lab.campaign.pk}")
    deleting.delete(lab.campaign, user, f"delete {lab.campaign}")
    long_ago(Campaign, lab.campaign)
    return lab


def long_ago(model, row) -> None:
    model.even_deleted.filter(pk=row.pk).update(deleted_at=timezone.now() - timedelta(days=15))


def held() -> dict[str, int]:
    """Rows of every table that holds something of a campaign."""
    rooms = ("campaigns", "runs", "findings", "imports", "sharing", "dynamo")
    models = (m for m in apps.get_models() if m._meta.app_label in rooms and m._meta.managed)
    return {m._meta.label: m._base_manager.count() for m in models}


def test_nothing_of_it_is_left(deleted):
    before = held()
    assert before["runs.Artifact"] and before["runs.ArtifactPiece"] and before["runs.Series"]
    sweep_deleted()
    left = {label: number for label, number in held().items() if number}
    # Its topologies and workloads, and this installation's name, are not its own.
    assert left == {"campaigns.Workload": 2, "runs.Installation": 1} or left == {
        "campaigns.Workload": 2
    }
    begun, over = Entry.objects.filter(action__startswith="campaign-remove").order_by("pk")
    assert over.subject == f"campaign {deleted.campaign.pk} (Stripe sizes)" and over.actor == ""
    assert begun.details["runs"] == 4 and begun.details["bytes"] > 999
    assert begun.details["deleted_by"] == "alice"
    assert chain.check_log().broken == ""


def test_the_bytes_are_the_databases_to_use_again(deleted):
    """They lie in tables: what is removed there is free for what comes next, after a vacuum."""
    sweep_deleted()
    with connection.cursor() as cursor:
        for table in ("runs_artifact", "runs_artifactpiece", "imports_source"):
            cursor.execute(f"SELECT count(*) FROM {table}")
            assert cursor.fetchone() == (0,)


def test_before_that_it_stays(lab, user):
    deleting.delete(lab.campaign, user, f"delete {lab.campaign}")
    before = held()
    assert purging.purge_due() == 0
    assert held() == before


def test_the_setting_says_how_long(lab, user, settings):
    settings.BENCHLAB_GRACE_DAYS = 30
    deleting.delete(lab.campaign, user, f"delete {lab.campaign}")
    long_ago(Campaign, lab.campaign)
    assert purging.purge_due() == 0
    settings.BENCHLAB_GRACE_DAYS = 0
    assert purging.purge_due() > 0
    assert not Campaign.even_deleted.exists()


def test_a_batch_is_small_and_the_next_sweep_goes_on(deleted, monkeypatch):
    monkeypatch.setattr(purging, "ATTEMPTS", 1)
    monkeypatch.setattr(purging, "SWEEP_BUDGET_S", 0.0)
    assert purging.purge_due() == 0, "no time, nothing done"
    taken: set[int] = set()
    purging._purge_batch(Campaign, taken)
    assert Campaign.even_deleted.get().going_at and Attempt.objects.count() == 4
    purging._purge_batch(Campaign, taken)
    assert (
        Attempt.objects.count() == 3 and Entry.objects.filter(action="campaign-remove").count() == 0
    )
    monkeypatch.setattr(purging, "SWEEP_BUDGET_S", 60.0)
    sweep_deleted()
    assert not Campaign.even_deleted.exists() and not Attempt.objects.exists()


@pytest.mark.parametrize("killed_at", range(1, 9))
def test_killed_anywhere_it_leaves_no_row_without_its_bytes(deleted, monkeypatch, killed_at):
    """Each artifact that is there can be read; the next sweep removes the rest."""
    monkeypatch.setattr(purging, "ATTEMPTS", 1)
    real, calls = purging._delete_some, iter(range(1, 1000))

    def dies(rows, most):
        found = real(rows, most)
        if next(calls) == killed_at:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(purging, "_delete_some", dies)
    with pytest.raises(KeyboardInterrupt):
        purging.purge_due()
    for artifact in Artifact.objects.all():
        assert len(artifact.read()) == artifact.size
    pieces = ArtifactPiece.objects.values_list("attempt", "name")
    assert set(pieces) <= set(Artifact.objects.values_list("attempt", "name"))
    monkeypatch.setattr(purging, "_delete_some", real)
    purging.purge_due()
    assert not Campaign.even_deleted.exists() and not ArtifactPiece.objects.exists()


def test_links_and_what_was_said_go_with_it(deleted):
    assert Share.objects.count() == 2
    sweep_deleted()
    assert not Share.objects.exists() and not Comment.objects.exists()
    assert not SavedView.objects.exists(), "a comparison of nothing"


def test_a_comparison_with_others_stays(deleted):
    other = made.campaign(deleted.team, "Another")
    query = f"campaign={deleted.campaign.pk}&campaign={other.pk}"
    SavedView.objects.create(team=deleted.team, name="two", query=query)
    sweep_deleted()
    assert [view.name for view in SavedView.objects.all()] == ["two"]


def test_a_topology_waits_for_the_runs_that_refer_to_it(lab, user):
    deleting.delete(lab.campaign, user, f"delete {lab.campaign}")
    for model, row in ((Topology, lab.topology), (Workload, lab.workload)):
        deleting.delete(row, user)
        long_ago(model, row)
    assert purging.purge_due() == 0
    long_ago(Campaign, lab.campaign)
    purging.purge_due()
    assert not Run.objects.exists() and not Layout.objects.exists()
    assert not Topology.even_deleted.filter(name="stripe").exists()
    assert not Workload.even_deleted.filter(pk=lab.workload.pk).exists()


def test_what_is_found_on_a_host_meanwhile_keeps_its_record(deleted, monkeypatch):
    """A disk that was away when it was deleted came back with something of the layout."""
    from types import SimpleNamespace

    left = SimpleNamespace(name=deleted.layout.name, layout=deleted.layout)
    monkeypatch.setattr(host_cleanup, "find_orphans", lambda host, snapshot: [left])
    purging.purge_due()
    assert StepLog.objects.exists() and Campaign.even_deleted.get().going_at is None
    monkeypatch.setattr(host_cleanup, "find_orphans", lambda host, snapshot: [])
    purging.purge_due()
    assert not Campaign.even_deleted.exists()
