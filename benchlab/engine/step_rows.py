# SPDX-License-Identifier: Apache-2.0
"""The rows of a step: what a decision is done to, and what a poll has just brought of it."""

from __future__ import annotations

from dataclasses import dataclass

from agents.jobs import job
from benchlab.engine.polls import PollAnswer
from benchlab.runs.models import Attempt, Layout


@dataclass(slots=True)
class StepRows:
    """Rows that a decision is done to."""

    layout: Layout
    attempt: Attempt | None
    # of a poll of the attempt
    answer: PollAnswer | None = None
    # content of the answer
    polled: job.Polled | None = None
    # of the samples that are here, where that is known
    offset: int | None = None


def layout_team(layout_id: int) -> int | None:
    """The team whose host a layout is for. Raises Layout.DoesNotExist."""
    return Layout.objects.order_by().values_list("host__team", flat=True).get(pk=layout_id)
