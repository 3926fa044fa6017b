"""The cost of a curve's knee, and of the library of shapes that it needs once for each set of depths.

Curves of seven depths and three repeats, each another one, so that nothing is remembered. Reference in the same run:
numpy's sorting of as many numbers as the library has (9,720 x 7). Target: a curve costs at most 20 of those, so that a
page of twenty lines waits for less than a tenth of a second. Measured on 2026-11-23 (2 cores of a busy machine):
the library 22 ms, a curve 3.3 ms (5.8 ms before its sums were shared), the same curve again 3 µs; ratio 11. With the
test of its fit and its cap (2026-11-28, another machine) a curve is 5.8 ms, ratio 2.2.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

from benchlab.analysis import knees
from tests.bench import options

DEPTHS = (1, 2, 4, 8, 16, 32, 64)
CURVES, TARGET = 100, 20.0


def main() -> int:
    options.none(__doc__)
    dice = np.random.default_rng(1)
    made = median_s(lambda: knees.library.__wrapped__(DEPTHS), 5)
    knees.library(DEPTHS)
    curve = median_s(lambda: knees.knee(_curve(dice)), CURVES)
    again = _curve(dice)
    knees.knee(again)
    remembered = median_s(lambda: knees.knee(again), CURVES)
    numbers = dice.random(knees.library(DEPTHS).curves.size)
    reference = median_s(lambda: np.sort(numbers), CURVES)
    print(f"library of {len(DEPTHS)} depths: {made * 1e3:.1f} ms, once; a curve: {curve * 1e3:.2f} ms; "
          f"the same curve again: {remembered * 1e6:.0f} µs")  # fmt: skip
    ratio = curve / reference
    print(
        f"sorting as many numbers: {reference * 1e3:.2f} ms, ratio {ratio:.1f}, target {TARGET:g}"
    )
    return int(ratio > TARGET)


def _curve(dice: np.random.Generator) -> dict[int, list[float]]:
    return {d: list(min(d, 8) * 1000 * np.exp(dice.normal(0, 0.05, 3))) for d in DEPTHS}


def median_s(do: Callable[[], object], times: int) -> float:
    """CPU seconds, so that others on the machine count little."""
    found = []
    for _ in range(times):
        begun = time.process_time()
        do()
        found.append(time.process_time() - begun)
    return statistics.median(found)


if __name__ == "__main__":
    sys.exit(main())
