"""The cost of changes, drifts and unusual runs of long histories.

Twenty lines of 1,000 runs, half of them with a build a run and half with three, each another one. Reference in the same
run: numpy's sorting of as many numbers. Targets: 2 s of CPU for all lines, and at most 3,000 of those sortings.
Measured on 2026-11-28 (2 cores of a busy machine): 1.1 s, ratio 1,840.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from benchlab.analysis import changes
from tests.bench import options
from tests.bench.bench_knees import median_s

LINES, RUNS, TARGET_S, TARGET = 20, 1000, 2.0, 3000.0


def main() -> int:
    options.none(__doc__)
    rng = np.random.default_rng(1)
    histories = [1000 * np.exp(rng.normal(0, 0.05, RUNS)) for _ in range(LINES)]
    begun = time.process_time()
    for line, values in enumerate(histories):
        _analyse(values.tolist(), [run // (1 + 2 * (line % 2)) for run in range(RUNS)])
    cost = time.process_time() - begun
    numbers = np.concatenate(histories)
    reference = median_s(lambda: np.sort(numbers), 20)
    ratio = cost / reference
    print(f"{LINES} lines of {RUNS} runs: {cost:.2f} s, target {TARGET_S:g}")
    print(
        f"sorting as many numbers: {reference * 1e3:.2f} ms, ratio {ratio:.0f}, target {TARGET:g}"
    )
    return int(ratio > TARGET)


def _analyse(values: list[float], builds: list[int]) -> None:
    found = changes.find_changes(values, builds)
    changes.find_drift(values, builds, found)
    changes.find_unusual(values, found)


if __name__ == "__main__":
    sys.exit(main())
