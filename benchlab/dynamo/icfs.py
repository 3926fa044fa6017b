"""Workloads that an .icf file describes, stored: from its own page, from the import and by API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchlab.campaigns.models import Workload
from benchlab.campaigns.services import Person, create_workload
from benchlab.team.models import Team

TOOL = "dynamo"


def keep(
    *,
    team: Team,
    user: Person | None,
    name: str,
    options: Mapping[str, Any],
    sweep: Mapping[str, Sequence[Any]],
) -> Workload:
    """As one that a person made. Raises ValidationError."""
    lists = {option: list(values) for option, values in sweep.items()}
    return create_workload(
        team=team, user=user, name=name[:100], tool=TOOL, options=dict(options), sweep=lists
    )
