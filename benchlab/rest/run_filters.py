# SPDX-License-Identifier: Apache-2.0
"""Filters of runs and of all that belongs to one."""

from __future__ import annotations

from typing import Any

import django_filters
from django.db.models import OuterRef, QuerySet, Subquery

from benchlab.runs import campaign_order
from benchlab.runs.models import Attempt
from benchlab.runs.progress import State
from benchlab.runs.states import AttemptPhase, Outcome
from benchlab.topologies import moments
from benchlab.web.filters import StrictChoiceFilter


class StageFilter(django_filters.CharFilter):  # type: ignore[misc]
    """Filter for the stage of a layout that a run measures."""

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Raises ValueError for what no run has."""
        return super().filter(qs, moments.parse_moment(value).code if value else value)  # type: ignore[no-any-return]


class CampaignStateFilter(StrictChoiceFilter):
    """Filter for the `state` of a campaign."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(choices=State.choices, **kwargs)

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        if not value:
            return qs
        place = campaign_order.STATE_ORDER.index(State(value))
        ranked: QuerySet[Any] = qs.alias(state_rank=campaign_order.state_rank())
        return ranked.filter(state_rank=place)


QUEUED, RUNNING = "queued", "running"


class RunOutcomeFilter(StrictChoiceFilter):
    """Filter for how a run's latest attempt ended, else queued or running, as a campaign's `progress` counts them."""

    def __init__(self, **kwargs: Any) -> None:
        words = [*Outcome.values, RUNNING, QUEUED]
        super().__init__(choices=[(word, word) for word in words], **kwargs)

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        if not value:
            return qs
        latest = Attempt.objects.filter(run=OuterRef("pk")).order_by("-number")
        rows: QuerySet[Any] = qs.alias(
            latest_phase=Subquery(latest.values("phase")[:1]),
            latest_outcome=Subquery(latest.values("outcome")[:1]),
        )
        if value == QUEUED:
            return rows.filter(latest_phase=AttemptPhase.QUEUED)
        if value == RUNNING:
            return rows.exclude(latest_phase__in=(AttemptPhase.QUEUED, AttemptPhase.DONE))
        return rows.filter(latest_phase=AttemptPhase.DONE, latest_outcome=value)
