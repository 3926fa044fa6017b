# SPDX-License-Identifier: Apache-2.0
"""Progress of kernel work (resync, reshape) on a campaign's hosts while runs wait for it, or measure in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.utils import timezone

from benchlab.runs.models import Layout
from benchlab.runs.states import LayoutPhase


@dataclass(frozen=True, slots=True)
class Work:
    """One resync or reshape. `left_s`: seconds until all of its layout is through; None when nobody can tell."""

    layout: Layout
    says: str
    # 0 to 1
    done: float
    left_s: float | None

    @property
    def percent(self) -> int:
        """Rounded down: 100 is for what is through."""
        return min(99, int(self.done * 100))


def of(layouts: Iterable[Layout]) -> list[Work]:
    """Of those that measure, or are to."""
    ready = [row for row in layouts if row.phase == LayoutPhase.READY]
    return [
        Work(row, one["says"], one["done"], _left_s(row)) for row in ready for one in row.progress
    ]


def _left_s(layout: Layout) -> float | None:
    if layout.awaited_until is None:
        return None
    return max(0.0, (layout.awaited_until - timezone.now()).total_seconds())
