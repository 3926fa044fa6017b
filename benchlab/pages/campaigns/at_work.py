# SPDX-License-Identifier: Apache-2.0
"""Campaigns that run, with the step that each is at: what is built, measured or taken down just now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from benchlab.campaigns import points
from benchlab.campaigns.models import Campaign
from benchlab.pages.campaigns import layout_steps
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.states import AttemptPhase

MEASURING = (AttemptPhase.STARTING, AttemptPhase.RUNNING, AttemptPhase.COLLECTING)


@dataclass(frozen=True, slots=True)
class Building:
    """`step` in words: what its command does, or what is done between commands."""

    work: layout_steps.LayoutWork
    step: str


@dataclass(frozen=True, slots=True)
class Measuring:
    attempt: Attempt
    point: str
    since: datetime | None


@dataclass(slots=True)
class CampaignWork:
    buildings: list[Building] = field(default_factory=list)
    measurings: list[Measuring] = field(default_factory=list)

    @property
    def line_count(self) -> int:
        return len(self.buildings) + len(self.measurings)


def work_by_campaign(campaigns: Iterable[Campaign]) -> dict[int, CampaignWork]:
    """Return what each campaign does now, in two queries."""
    works: dict[int, CampaignWork] = defaultdict(CampaignWork)
    ids = [campaign.pk for campaign in campaigns]
    if not ids:
        return works
    layouts = layout_steps.annotate_work(Layout.objects.holding().filter(campaign__in=ids))
    for work in layout_steps.layouts_at_work(layouts.select_related("host", "topology")):
        works[work.layout.campaign_id].buildings.append(Building(work, _step_text(work)))
    attempts = Attempt.objects.filter(run__campaign__in=ids, phase__in=MEASURING)
    for attempt in attempts.select_related("run__host", "run__topology", "run__workload"):
        measuring = Measuring(attempt, points.describe_point(attempt.run.point), attempt.started_at)
        works[attempt.run.campaign_id].measurings.append(measuring)
    return works


def _step_text(work: layout_steps.LayoutWork) -> str:
    begun = work.step_began and work.steps_done < work.step_count
    return work.steps[work.steps_done][0] if begun else work.pause_text
