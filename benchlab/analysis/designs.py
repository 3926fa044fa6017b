# SPDX-License-Identifier: Apache-2.0
"""The order in which two set-ups were measured, and what that adds to every error (docs/analysis.md, section 1).

The order is the trap that outweighs all statistics: what was built and measured one after the other differs by drift,
by the age of the disks and by the luck of a build, and more repeats only make one surer of that. So each design has a
`tau`: the standard deviation (of ln) between two builds of the same, which no number of repeats takes away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum, unique
from math import sqrt

# Pairs of rebuilt equals from which a lab's luck of a build is learned, and the least that may be learned (of ln): it
# also stands for drift within a campaign.
ENOUGH_PAIRS, LEAST_TAU = 10, 0.01
# What is learned counts beside two pairs that differ by the constant.
PRIOR_PAIRS = 2


@unique
class Order(StrEnum):
    # both set-ups in every block
    INTERLEAVED = "interleaved"
    # each built in at least two visits, in turns
    ABBA = "abba"
    ONE_AFTER_OTHER = "one_after_other"
    # results from elsewhere, treated as the worst case
    UNTOLD = "untold"


# Standard deviation of ln(second / first) by the luck of builds, in two visits each if built in turns.
TAU = {Order.INTERLEAVED: 0.0, Order.ABBA: 0.025, Order.ONE_AFTER_OTHER: 0.05, Order.UNTOLD: 0.05}
WORDS = {
    Order.INTERLEAVED: "measured in turns",
    Order.ABBA: "built in turns",
    Order.ONE_AFTER_OTHER: "built one after the other",
    Order.UNTOLD: "measured in unknown order",
}


# block -> number of the visit in which it was measured, sorted
Visits = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class RunNoise:
    """Standard deviations (of ln) of a single run, and of what a repeat of a whole sweep shares; degrees of freedom."""

    run: float
    sweep: float
    df: float


@dataclass(frozen=True, slots=True)
class Design:
    """Order of the measurements of two set-ups, and tau.

    `learned`: number of pairs of rebuilt equals that `tau` was learned from; 0: it is a constant. `visits`: of both
    set-ups, if they were built in turns and it is known. `noise`: of this lab's other runs, for set-ups with one run.
    """

    order: Order
    tau: float
    learned: int = 0
    visits: tuple[Visits, Visits] | None = None
    noise: RunNoise | None = None

    @property
    def interleaved(self) -> bool:
        return self.order == Order.INTERLEAVED

    @property
    def may_say_none(self) -> bool:
        """True for set-ups measured or built in turns.

        Those built one after the other are never called equal within 5 %: the luck of two builds may have cancelled a
        difference.
        """
        return self.order in (Order.INTERLEAVED, Order.ABBA)

    @property
    def order_text(self) -> str:
        return WORDS[self.order]

    @property
    def tau_percent(self) -> str:
        """Percent by which two builds of the same differ, as people read it."""
        return f"{self.tau * 100:.1f} %"

    def reversed(self) -> Design:
        """The same with the second set-up first."""
        return replace(self, visits=self.visits[::-1]) if self.visits else self


def design(order: Order, rebuilt: Sequence[float] = (), visits: int = 2) -> Design:
    """Return the design with its tau.

    `rebuilt`: unbiased estimates of the variance (of ln) of the luck of one build, one for each pair of builds that
    should be equal (`variance_of_builds`). Enough of them determine tau, never below its constant unless the set-ups
    were built in turns: what was measured one after the other also drifts. The luck of a build averages out over the
    `visits` of each set-up.
    """
    if order == Order.INTERLEAVED or len(rebuilt) < ENOUGH_PAIRS:
        return Design(order, TAU[order])
    known = TAU[Order.ABBA] ** 2
    build = (PRIOR_PAIRS * known + sum(rebuilt)) / (PRIOR_PAIRS + len(rebuilt))
    if order == Order.ABBA:
        tau = sqrt(max(build * 2 / visits, LEAST_TAU**2))
        return Design(order, tau, len(rebuilt))
    if 2 * build <= TAU[order] ** 2:
        return Design(order, TAU[order])
    return Design(order, sqrt(2 * build), len(rebuilt))


def variance_of_builds(difference: float, noise: float) -> float:
    """Unbiased estimate of the variance of the luck of one build, below 0 where noise happens to explain more.

    `difference`: ln ratio of two builds of the same; `noise`: its variance by the noise of runs.
    """
    return (difference**2 - noise) / 2


MAX_REPEATS = 30
NOT_DECIDABLE = f"even {MAX_REPEATS} repeats would not decide: reduce the noise"
