# SPDX-License-Identifier: Apache-2.0
"""The part of a run's page that only a run of IOmeter's dynamo has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.tools.dynamo import MESSAGES
from benchlab.dynamo import run_details
from benchlab.runs.models import Attempt, Measurement

TOOL = "dynamo"
TEMPLATE = "dynamo/_run.html"


def context(attempt: Attempt, measured: Sequence[Measurement]) -> dict[str, Any]:
    return {
        "parts": run_details.run_parts(measured),
        "bins": run_details.latency_bins(measured),
        "polling": run_details.polling_cost(measured),
        "kept": any(row.name == MESSAGES for row in attempt.artifacts.all()),
        "now": run_details.live_figures(attempt) if not attempt.outcome else {},
    }
