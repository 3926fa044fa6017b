# SPDX-License-Identifier: Apache-2.0
"""Moments of a layout when a run measures: as built, during the first resync, during a growth, after it. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

CODE = re.compile(r"(during|after)-([1-9][0-9]{0,3})")
AS_BUILT, RESYNC = "", "resync"


@dataclass(frozen=True, slots=True)
class Moment:
    """Moment after `stage` stages have begun; `growing` if the kernel works on the last one (0: the first resync)."""

    stage: int = 0
    growing: bool = False

    @property
    def code(self) -> str:
        """Code that a run stores."""
        if not self.stage:
            return RESYNC if self.growing else AS_BUILT
        return f"{'during' if self.growing else 'after'}-{self.stage}"

    @property
    def phrase(self) -> str:
        """Phrase such as "after growth 1"; empty as built."""
        if not self.stage:
            return "during the first resync" if self.growing else ""
        return f"{'during' if self.growing else 'after'} growth {self.stage}"

    @property
    def grown(self) -> int:
        """Number of stages whose space is there: a layer that grows has its old size until the kernel is through."""
        return max(0, self.stage - self.growing)

    @property
    def time_order(self) -> tuple[int, bool]:
        """Key to sort moments by time."""
        return self.stage, not self.growing


def parse_moment(code: str) -> Moment:
    """Parse the moment of a run. Raises ValueError for one that no run has."""
    if code in (AS_BUILT, RESYNC):
        return Moment(0, code == RESYNC)
    if not (match := CODE.fullmatch(code)):
        raise ValueError(f"{code!r} is not a stage: resync, during-1, after-1, …")
    return Moment(int(match[2]), match[1] == "during")


def describe_moment(code: str, beside: Collection[str]) -> str:
    """Words for a moment shown together with those of `beside`: "before growth" only where one of them has growth."""
    if code != AS_BUILT:
        return parse_moment(code).phrase
    others = {parse_moment(other) for other in beside}
    if any(other.stage for other in others):
        return "before growth"
    return "after the first resync" if Moment(0, True) in others else ""


def measured_moments(stages: Sequence[Mapping[str, Any]], measure_resync: bool) -> list[Moment]:
    """All moments at which a topology's runs measure, in the order of time."""
    ordered = [Moment(0, True)] if measure_resync else []
    ordered.append(Moment())
    for number, stage in enumerate(stages, start=1):
        if stage.get("during"):
            ordered.append(Moment(number, True))
        ordered.append(Moment(number))
    return ordered
