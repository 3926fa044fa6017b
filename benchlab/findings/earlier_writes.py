# SPDX-License-Identifier: Apache-2.0
"""Find earlier runs that wrote all that a run reads: then it read no block that was never written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import Any

from agents import options
from agents.contracts import AgentError
from agents.drivers import registry
from benchlab.runs.models import Attempt, Measurement
from benchlab.runs.states import Outcome

TRIMMED = "trim.bytes"
# of fio, and of dd, which does one thing only
MOVED = ("write.bytes", "bytes", TRIMMED)
# options that may set the offset
ELSEWHERE = ("extra", "job_file")


@dataclass(frozen=True, slots=True)
class EarlierWrite:
    """A run's writes: bytes from the volume's start without a gap; 0 if it discarded blocks."""

    ended: datetime
    contiguous_bytes: float


def writes_by_layout(layouts: Collection[int]) -> Mapping[int, list[EarlierWrite]]:
    """Return, by layout and in the order of time, its runs' sequential writes and discards. One query."""
    rows = Measurement.objects.filter(
        attempt__layout__in=layouts,
        attempt__outcome=Outcome.SUCCEEDED,
        attempt__ended_at__isnull=False,
        labels={},
        name__in=MOVED,
        value__gt=0,
    ).values_list(
        "attempt__layout",
        "attempt__ended_at",
        "attempt__run__tool",
        "attempt__run__options",
        "name",
        "value",
    )
    writes: dict[int, list[EarlierWrite]] = defaultdict(list)
    for layout, ended, tool, tool_options, name, moved in rows.order_by(
        "attempt__ended_at", "name"
    ):
        assert ended is not None
        upto = 0.0 if name == TRIMMED else _contiguous_bytes(tool, tool_options, moved or 0.0)
        if upto or name == TRIMMED:
            writes[layout].append(EarlierWrite(ended, upto))
    return writes


def _contiguous_bytes(tool: str, given_options: Mapping[str, Any], moved: float) -> float:
    """Return the bytes that one completed sequential stream wrote from the volume's start; 0 if it was none."""
    if any(given_options.get(name) for name in ELSEWHERE):
        return 0.0
    try:
        access = registry.access_pattern(
            tool, options.build_options(registry.tool(tool).Options, given_options)
        )
    except AgentError:
        # a tool or an option that no longer exists
        return 0.0
    if not access.writes or access.reads or access.random is not False:
        return 0.0
    # 0 is fio's whole volume, and it ends behind it
    if not access.size:
        return inf if given_options.get("size") == 0 and not access.runtime_s else 0.0
    return float(access.size) if moved >= access.size else 0.0


def cover_read(row: Attempt, size: int | None, writes: Collection[EarlierWrite]) -> bool:
    """True when its first `size` B were written before this attempt began, and not discarded since."""
    upto = 0.0
    for write in writes:
        if row.started_at is not None and write.ended <= row.started_at:
            upto = max(upto, write.contiguous_bytes) if write.contiguous_bytes else 0.0
    return upto >= (size or inf)
