# SPDX-License-Identifier: Apache-2.0
"""Workloads that an .icf file describes, stored: from its own page, from the import and by API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agents.contracts import ParseError
from agents.dynamo import icf
from benchlab.campaigns.models import Workload
from benchlab.campaigns.services import Person, create_workload
from benchlab.team.models import Team

TOOL = "dynamo"
# characters of a file; a real one has some tens of thousands
MAX_FILE_CHARACTERS = 2**20


def icf_text(row: Workload) -> str:
    """The .icf file of a workload. Raises ParseError where IOmeter cannot do the same."""
    if row.tool != TOOL or row.imported:
        raise ParseError(f"{row} is not a workload of dynamo.")
    try:
        return icf.write_icf(
            icf.build_config(
                [icf.Workload(row.name, row.options, row.sweep, description=row.description)]
            )
        )
    except ParseError as error:
        raise ParseError(f"IOmeter cannot do this one: {error}") from None


def create_icf_workload(
    *,
    team: Team,
    user: Person | None,
    name: str,
    options: Mapping[str, Any],
    sweep: Mapping[str, Sequence[Any]],
    description: str = "",
) -> Workload:
    """Create the workload as if a person had. Raises ValidationError."""
    lists = {option: list(values) for option, values in sweep.items()}
    return create_workload(
        team=team,
        user=user,
        name=name[:100],
        tool=TOOL,
        options=dict(options),
        sweep=lists,
        description=description,
    )
