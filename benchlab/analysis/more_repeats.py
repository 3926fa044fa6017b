# SPDX-License-Identifier: Apache-2.0
"""Number of repeats needed for a mean within +-x, and to distinguish two set-ups (docs/analysis.md, section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf, log, sqrt

import numpy as np
from scipy.special import stdtrit

from benchlab.analysis.designs import MAX_REPEATS
from benchlab.analysis.differences import LEAST, TWO_SIDED
from benchlab.analysis.repeats import robust_means

# Quantile of the normal distribution: 80 % of such comparisons are decided.
POWER = 0.84
# number of repeats while the noise is unknown
FIRST = 3
# repeats of which one may be left out
ENOUGH = 3
# repeats among which an odd one can be recognized
OUTVOTES = 5


def repeats_for_mean(cells: Sequence[Sequence[float]], within: float) -> int | None:
    """Repeats of each point, in all, for a 95 % interval of +-`within` (0.05: 5 %); None above 30.

    `cells`: the repeats of each point of a sweep, above 0; they share one noise. FIRST while the noise is unknown.
    """
    logs = [np.log(np.asarray(cell, dtype=float)) for cell in cells]
    df = sum(len(log) - 1 for log in logs)
    if df < 1:
        return FIRST
    noise = sqrt(sum(float(((log - log.mean()) ** 2).sum()) for log in logs) / df)
    return _reasonable(max(_repeats_for_noise(noise, df, within), *(len(log) for log in logs)))


def repeats_to_agree(cells: Sequence[Sequence[float]], within: float) -> int | None:
    """Repeats of each point, in all, that give it a robust mean within +-`within` (95 %), also where one is far off.

    As `repeats_for_mean`, but the noise leaves out what robust means leave out. At least OUTVOTES, and no more than
    that if there are too few repeats to distinguish an odd one from noise. A cell with a value of 0 adds nothing to the
    noise. None above 30.
    """
    least = max(OUTVOTES, *map(len, cells))
    positive = [cell for cell in cells if min(cell) > 0]
    freedom = sum(len(cell) - 1 for cell in positive)
    if freedom < 1 or min(map(len, cells)) < ENOUGH:
        return _reasonable(least)
    noise = sqrt(robust_means(positive, ENOUGH).within / freedom)
    return _reasonable(max(_repeats_for_noise(noise, freedom, within), least))


def _repeats_for_noise(noise: float, freedom: int, within: float) -> int:
    return ceil((float(stdtrit(freedom, TWO_SIDED)) * noise / log(1 + within)) ** 2)


def repeats_to_decide(est: float, se: float, df: float, repeats: int, tau: float) -> int | None:
    """Repeats of each set-up, in all, that show a difference as large as seen, or of 5 %, in 80 % of cases.

    `est`, `se`: of ln ratio; `tau` in it is the part that no repeat reduces. None: more than 30, or no number at all.
    """
    if df <= 0 or repeats < 2 or se == inf:
        return max(FIRST, repeats + 1)
    effect = max(abs(est), LEAST)
    allowed = (effect / (float(stdtrit(df, TWO_SIDED)) + POWER)) ** 2 - tau**2
    if allowed <= 0:
        return None
    needed = repeats * max(se**2 - tau**2, 0) / allowed
    return _reasonable(max(ceil(needed), repeats + 1))


def _reasonable(repeats: int) -> int | None:
    return repeats if repeats <= MAX_REPEATS else None
