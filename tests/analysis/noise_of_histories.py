"""Simulated histories of one set-up whose truth is known: normal noise, bad runs at half, and the luck of builds."""

from __future__ import annotations

import numpy as np

from tests.analysis.noise_of_curves import Dice

BAD = 0.03  # share of runs at half


def history(
    runs: int, noise: float, dice: Dice, *, luck: float = 0.0, build: int = 1, step: float = 0.0
) -> list[float]:
    """Values around 1000; `build` runs in a row share the luck of their build; by `step` lower from the middle on."""
    found = noise * dice.normal(size=runs) + np.log(0.5) * (dice.random(runs) < BAD)
    found += luck * np.repeat(dice.normal(size=-(-runs // build)), build)[:runs]
    found[runs // 2 :] += np.log(1 - step)
    return [float(value) for value in 1000 * np.exp(found)]


def builds(runs: int, build: int) -> list[int]:
    return [run // build for run in range(runs)]
