# SPDX-License-Identifier: Apache-2.0
"""The largest two-sample t over all splits of a series, by which a change point is found. Pure numpy.

`changes` and the program for its critical values (`make_critical_values`) both use it, so that they compute it alike.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# runs on each side of a split
LEAST = 3


def largest_t(series: Array) -> tuple[NDArray[np.int64], Array]:
    """Best split of each row of `series` (of at least 2 x LEAST values): (start of the second part, t with pooled sd).

    If the parts of a row have no spread, t is infinite where they differ and 0 where they do not.
    """
    n = series.shape[1]
    before = np.arange(LEAST, n - LEAST + 1)
    centred = series - series.mean(axis=1, keepdims=True)
    sums = np.cumsum(centred, axis=1)[:, before - 1]
    total = (centred**2).sum(axis=1, keepdims=True)
    # Centred, the second part's sum is minus the first's.
    between = sums**2 * (1 / before + 1 / (n - before))
    within = np.maximum(total - between, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        squared = np.where(between > 1e-12 * total, between / within * (n - 2), 0.0)
    best = squared.argmax(axis=1)
    rows = np.arange(len(series))
    return before[best], np.sqrt(squared[rows, best])
