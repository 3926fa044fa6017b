# SPDX-License-Identifier: Apache-2.0
"""The order in which two set-ups were measured, and what that adds to every error (docs/analysis.md, section 1).

The order is the trap that outweighs all statistics: what was built and measured one after the other differs by drift,
by the age of the disks and by the luck of a build, and more repeats only make one surer of that. So each design has a
`tau`: the standard deviation (of ln) between two builds of the same, which no number of repeats takes away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt
from statistics import median

ENOUGH_PAIRS = 5
# safety factor, as a standard deviation of five pairs is itself uncertain
SAFETY = 1.5


class Order(StrEnum):
    # both set-ups in every block
    INTERLEAVED = "interleaved"
    # each built in at least two visits, in turns
    ABBA = "abba"
    ONE_AFTER_OTHER = "one_after_other"
    # results from elsewhere, treated as the worst case
    UNTOLD = "untold"


TAU = {Order.INTERLEAVED: 0.0, Order.ONE_AFTER_OTHER: 0.05, Order.UNTOLD: 0.05}
# Built in turns: (most repeats, tau). More repeats make one surer of what is luck. With 2 % of luck per build these
# keep false verdicts below 5 % of curves and sweeps.
IN_TURNS = ((3, 0.02), (5, 0.0225))
IN_TURNS_MORE = 0.025
# Least tau that a lab's own spread may give. It also stands for drift within a campaign, which the medians of equal
# builds do not show.
FLOOR = {Order.ABBA: 0.015, Order.ONE_AFTER_OTHER: 0.05, Order.UNTOLD: 0.05}
WORDS = {
    Order.INTERLEAVED: "measured in turns",
    Order.ABBA: "built in turns",
    Order.ONE_AFTER_OTHER: "built one after the other",
    Order.UNTOLD: "the source does not tell in what order",
}


@dataclass(frozen=True, slots=True)
class Design:
    """Order of the measurements, and tau.

    `learned`: number of pairs of rebuilt equals that `tau` was learned from; 0: it is a constant.
    """

    order: Order
    tau: float
    learned: int = 0

    @property
    def interleaved(self) -> bool:
        return self.order == Order.INTERLEAVED

    @property
    def may_say_none(self) -> bool:
        """True for set-ups measured or built in turns.

        Those built one after the other are never called equal: the luck of two builds may have cancelled a difference.
        """
        return self.order in (Order.INTERLEAVED, Order.ABBA)

    @property
    def order_text(self) -> str:
        return WORDS[self.order]

    @property
    def tau_percent(self) -> str:
        """Percent by which two builds of the same differ, as people read it."""
        return f"{self.tau * 100:.1f} %"


def design(
    order: Order, rebuilt: Sequence[float] = (), visits: int = 2, repeats: int = 3
) -> Design:
    """Return the design with its tau.

    `rebuilt`: ln(second / first) of pairs of builds that should be equal. Five or more determine tau, as far as it is
    above the effect of drift alone (FLOOR). The luck of a build averages out over the `visits` of each set-up. The sign
    of a pair means nothing, so their middle is 0.
    """
    if order == Order.INTERLEAVED or len(rebuilt) < ENOUGH_PAIRS:
        return Design(order, _in_turns(repeats) if order == Order.ABBA else TAU[order])
    spread = SAFETY * 1.4826 * median(map(abs, rebuilt))
    shared = spread / sqrt(visits) if order == Order.ABBA else spread
    if shared <= FLOOR[order]:
        return Design(order, FLOOR[order])
    return Design(order, shared, len(rebuilt))


def _in_turns(repeats: int) -> float:
    return next((tau for most, tau in IN_TURNS if repeats <= most), IN_TURNS_MORE)


MAX_REPEATS = 30
NOT_DECIDABLE = "not decidable in reason: lower the noise"
