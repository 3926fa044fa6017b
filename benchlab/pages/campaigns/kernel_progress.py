# SPDX-License-Identifier: Apache-2.0
"""Progress of kernel work (resync, reshape) on a campaign's hosts while runs wait for it, or measure in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.utils import timezone

from benchlab.runs.models import Layout
from benchlab.runs.states import LayoutPhase


@dataclass(frozen=True, slots=True)
class KernelWork:
    """One resync or reshape. `left_s`: seconds until all of its layout is through; None when nobody can tell."""

    layout: Layout
    description: str
    # 0 to 1
    share: float
    seconds_left: float | None

    @property
    def percent(self) -> int:
        """Rounded down: 100 is for what is through."""
        return min(99, int(self.share * 100))


def kernel_work(layouts: Iterable[Layout]) -> list[KernelWork]:
    """List the kernel work of layouts that measure, or are about to."""
    ready = [row for row in layouts if row.phase == LayoutPhase.READY]
    return [
        KernelWork(row, progress["says"], progress["done"], _seconds_left(row))
        for row in ready
        for progress in row.progress
    ]


def _seconds_left(layout: Layout) -> float | None:
    if layout.awaited_until is None:
        return None
    return max(0.0, (layout.awaited_until - timezone.now()).total_seconds())
