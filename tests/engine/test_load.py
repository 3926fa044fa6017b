"""Rows by a query that is compiled once: they are what Django makes of them, and what is read is never of before."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models import Model
from django.utils import timezone

from benchlab.campaigns.models import Campaign
from benchlab.engine import load_state
from benchlab.hosts.models import Host
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.states import AttemptPhase
from tests.runs.conftest import campaign, host, make_layout  # noqa: F401

pytestmark = pytest.mark.django_db
PATHS = ("layout", "layout__host", "layout__host__credential", "layout__campaign")


def told(row: Model) -> dict[str, Any]:
    """All that is read of a row, without what is left for later."""
    left = row.get_deferred_fields()
    names = [one.attname for one in row._meta.concrete_fields if one.attname not in left]
    return {name: getattr(row, name) for name in names}


def same(row: Model, other: Model) -> None:
    assert type(row) is type(other) and row == other
    assert row._state.db == other._state.db and not row._state.adding
    assert row.get_deferred_fields() == other.get_deferred_fields()
    mine, theirs = told(row), told(other)
    assert mine == theirs
    assert {name: type(one) for name, one in mine.items()} == {
        name: type(one) for name, one in theirs.items()
    }


def test_an_attempt_with_its_layout_is_as_django_reads_it(
    make_layout,  # noqa: F811
    django_assert_num_queries,
):
    layout = make_layout(
        phase="ready", runs=3, plan={"a": [1, None]}, stages=[{"b": "é"}], log_end=1.5,
        degraded=["x"], looked_at=timezone.now(), glance="g", measure_resync=True,
    )  # fmt: skip
    attempt = layout.attempts.get(run__position=1)
    attempt.phase, attempt.meta = AttemptPhase.RUNNING, {"during": {"start": []}}
    attempt.started_at, attempt.timeout_s = timezone.now(), 3.5
    attempt.save()
    with django_assert_num_queries(1):
        found = load_state.load_rows(layout.pk).attempt
        assert found is not None and found.layout.host.credential and found.layout.campaign
        assert found.run.options == {}
    rows = Attempt.objects.select_related("run", *PATHS).defer("layout__plan")
    wanted = rows.get(pk=attempt.pk)
    same(found, wanted)
    same(found.run, wanted.run)
    same(found.layout, wanted.layout)
    same(found.layout.host, wanted.layout.host)
    same(found.layout.host.credential, wanted.layout.host.credential)
    same(found.layout.campaign, wanted.layout.campaign)
    with django_assert_num_queries(1):
        assert found.layout.plan == {"a": [1, None]}


def test_a_layout_without_attempts_is_as_django_reads_it(make_layout):  # noqa: F811
    layout = make_layout(phase="ready", runs=0, plan={})
    found = load_state.load_rows(layout.pk)
    assert found.attempt is None
    wanted = Layout.objects.select_related("host__credential", "campaign").defer("plan")
    same(found.layout, wanted.get(pk=layout.pk))
    same(found.layout.host.credential, layout.host.credential)


def test_the_one_on_the_host_comes_before_those_that_wait(make_layout):  # noqa: F811
    layout = make_layout(phase="ready", runs=3)
    first, second, third = layout.attempts.order_by("run__position")
    for phases, wanted in (
        (("queued", "queued", "queued"), first),
        (("queued", "queued", "collecting"), third),
        (("done", "queued", "queued"), second),
    ):
        for attempt, phase in zip((first, second, third), phases, strict=True):
            outcome = "succeeded" if phase == "done" else ""
            Attempt.objects.filter(pk=attempt.pk).update(phase=phase, outcome=outcome)
        assert load_state.load_rows(layout.pk).attempt == wanted


def test_nothing_is_kept_of_what_was_read(make_layout, host, campaign):  # noqa: F811
    layout = make_layout(phase="ready", runs=1)
    before = load_state.load_rows(layout.pk)
    now = timezone.now()
    Host.objects.filter(pk=host.pk).update(offered_key="another")
    Campaign.objects.filter(pk=campaign.pk).update(paused_at=now)
    Layout.objects.filter(pk=layout.pk).update(cancelled_at=now)
    after = load_state.load_rows(layout.pk)
    assert (after.layout.host.offered_key, before.layout.host.offered_key) == ("another", "")
    assert after.layout.campaign.paused_at == after.layout.cancelled_at == now
    scene = load_state.load_state(after)
    assert scene.paused and scene.cancelled


def test_a_host_without_a_key_and_a_layout_that_is_gone(make_layout, host, team):  # noqa: F811
    bare = Host.objects.create(team=team, name="bare", access="dynamo")
    for runs in (1, 0):
        layout = make_layout(phase="ready" if runs else "waiting", runs=runs, on=bare)
        assert load_state.load_rows(layout.pk).layout.host.credential is None
    with pytest.raises(Layout.DoesNotExist):
        load_state.load_rows(layout.pk + 1)
