"""Drive campaigns by hand, as worker and beat do together, until nothing is left to do."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchlab.campaigns.models import Campaign
from benchlab.engine import commands
from benchlab.engine import tasks as engine
from benchlab.engine.checks import previews
from benchlab.runs.models import Layout
from benchlab.runs.states import LayoutPhase

OVER = (LayoutPhase.DONE, LayoutPhase.STUCK)


def plan_and_start(campaign: Campaign) -> None:
    """Do what a person does: look at the plans, agree to them."""
    for layout in campaign.layouts.filter(phase=LayoutPhase.DRAFT):
        previews.plan_draft(layout.pk)
    drafts = campaign.layouts.filter(phase=LayoutPhase.DRAFT)
    commands.start_campaign(campaign, dict(drafts.values_list("pk", "plan_fingerprint")))


def until(campaign: Campaign, true: Callable[[], bool], seconds: float = 300.0) -> None:
    """Step every layout until `true`; AssertionError with what the layouts say when it takes too long."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, list(
            campaign.layouts.values_list("pk", "phase", "outcome", "reason_text", "trouble")
        )
        for layout_id in campaign.layouts.exclude(phase__in=OVER).values_list("pk", flat=True):
            engine.step_until_waiting(layout_id)


def to_the_end(campaign: Campaign, seconds: float = 300.0) -> None:
    until(
        campaign,
        lambda: not Layout.objects.filter(campaign=campaign).exclude(phase__in=OVER).exists(),
        seconds,
    )
