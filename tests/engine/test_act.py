"""Acts on the database alone: the locks that they take, and the rows that come together or not at all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from django.db import DataError, OperationalError, connection, transaction

from agents.safety import apply
from benchlab.audit.models import Entry
from benchlab.campaigns.models import Campaign
from benchlab.engine import access
from benchlab.engine.phases import step_log
from benchlab.runs.models import Attempt, Layout, StepLog
from tests.runs.conftest import campaign, host, make_layout

__all__ = ["campaign", "host", "make_layout"]
WIPE = apply.StepRecord(0, ("wipefs", "/dev/sdb"), "Erase", datetime.now(UTC), destroys=("wwn:1",))


def is_free(rows) -> bool:
    """For somebody else, now."""
    try:
        with transaction.atomic():
            rows.select_for_update(nowait=True, of=("self",)).order_by("pk").get()
    except OperationalError:
        return False
    finally:
        connection.close()
    return True


@pytest.mark.django_db(transaction=True)
def test_what_is_through_locks_its_layout_and_not_its_campaign(make_layout):
    layout = make_layout(phase="ready")
    Attempt.objects.filter(layout=layout).update(phase="done", outcome="succeeded")
    of_layout = Layout.objects.filter(pk=layout.pk)
    of_campaign = Campaign.objects.filter(pk=layout.campaign_id)
    with transaction.atomic(), ThreadPoolExecutor(1) as elsewhere:
        access._check_no_queued_runs(layout)
        assert elsewhere.submit(is_free, of_campaign).result()
        assert not elsewhere.submit(is_free, of_layout).result()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("says", ["Erase", "Era\0se"])
def test_a_command_that_destroys_is_logged_and_audited_or_neither(make_layout, says):
    """The audit log cannot be mended later: a command that it names has its row, with what came of it."""
    layout = make_layout(phase="provisioning")
    record = replace(WIPE, says=says)
    try:
        step_log._log_start(layout, StepLog.Kind.APPLY, "", record)
    except DataError:  # a NUL, which PostgreSQL takes in no text
        assert "\0" in says
    kept = int("\0" not in says)
    assert (StepLog.objects.count(), Entry.objects.filter(action="destroy").count()) == (kept, kept)


@pytest.mark.django_db(transaction=True)
def test_what_the_audit_log_refuses_has_no_row(make_layout):
    layout = make_layout(phase="provisioning")
    layout.campaign.team_id = 2**63
    with pytest.raises(DataError, match="out of range"):
        step_log._log_start(layout, StepLog.Kind.APPLY, "", WIPE)
    assert not StepLog.objects.exists() and not Entry.objects.filter(action="destroy").exists()
