# SPDX-License-Identifier: Apache-2.0
"""Writes critical_values.json: what the largest t over all splits (changes.largest_t) stays below by chance.

    python3 -m benchlab.analysis.make_critical_values

Of SERIES simulated normal series of each length, twelve lengths a doubling, every length with a seed of its own
(SEED and the length), so that any of them can be checked alone. Takes some two minutes.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from benchlab.analysis.changes import LEAST_SIDE, largest_t

SEED, SERIES, AT_ONCE = 20261123, 100_000, 2_000
A_DOUBLING, LONGEST = 12, 1024
# shares of series without a change whose t exceeds the critical value
ALPHAS = (0.002, 0.01)
FILE = Path(__file__).with_name("critical_values.json")


def lengths() -> list[int]:
    """Lengths of the series: twelve per doubling, from the shortest that can be split."""
    steps = range(int(A_DOUBLING * np.log2(LONGEST / (2 * LEAST_SIDE))) + 2)
    return sorted(
        {min(LONGEST, round(2 * LEAST_SIDE * 2 ** (step / A_DOUBLING))) for step in steps}
    )


def critical_values(length: int) -> list[float]:
    """Critical values at each level of ALPHAS, to four digits."""
    dice = np.random.default_rng([SEED, length])
    parts = [largest_t(dice.normal(size=(AT_ONCE, length)))[1] for _ in range(SERIES // AT_ONCE)]
    quantiles = np.quantile(np.concatenate(parts), [1 - alpha for alpha in ALPHAS])
    return [round(float(value), 3) for value in quantiles]


def main() -> None:
    rows = {str(length): critical_values(length) for length in lengths()}
    document = {"seed": SEED, "series": SERIES, "alphas": ALPHAS, "critical": rows}
    text = (
        json.dumps(document)
        .replace('": {"', '": {\n"')
        .replace("], ", "],\n")
        .replace("}}", "\n}}")
    )
    FILE.write_text(text + "\n")
    print(f"{len(rows)} lengths, seed {SEED}: {FILE.name}")


if __name__ == "__main__":
    main()
