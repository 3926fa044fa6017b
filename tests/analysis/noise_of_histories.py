"""Simulated histories of one set-up whose truth is known: noise, bad runs, luck of builds, a step, a drift."""

from __future__ import annotations

import numpy as np

from tests.analysis.noise_of_curves import Array, Dice

BAD = 0.03  # share of runs at half


def history(
    runs: int,
    noise: float,
    dice: Dice,
    *,
    luck: float = 0.0,
    build: int = 1,
    step: float = 0.0,
    rho: float = 0.0,
    drift: float = 0.0,
    walk: float = 0.0,
) -> list[float]:
    """Values around 1000; `build` runs in a row share the luck of their build; by `step` lower from the middle on.

    `rho`: autocorrelation of the noise. `drift`: rise over all runs. `walk`: step of a random walk from build to build.
    """
    logs = noise * autocorrelated(runs, rho, dice) + np.log(0.5) * (dice.random(runs) < BAD)
    count = -(-runs // build)
    of_builds = luck * dice.normal(size=count) + walk * np.cumsum(dice.normal(size=count))
    logs += np.repeat(of_builds, build)[:runs] + drift * np.linspace(0, 1, runs)
    logs[runs // 2 :] += np.log(1 - step)
    return [float(value) for value in 1000 * np.exp(logs)]


def autocorrelated(runs: int, rho: float, dice: Dice) -> Array:
    """Of variance 1."""
    values = dice.normal(size=runs)
    for run in range(1, runs):
        values[run] = rho * values[run - 1] + np.sqrt(1 - rho**2) * values[run]
    return values


def builds(runs: int, build: int) -> list[int]:
    return [run // build for run in range(runs)]
