"""Pairs of set-ups with the noise of docs/analysis.md, of which the truth is known.

Log-normal noise of 2, 5, 10 or 20 % (equal shares), up to 1.6 times larger or smaller towards one end of the sweep, a
quarter of its variance carried over from run to run (rho 0.6), a drift of up to +-10 % and a wave of up to 5 % over the
campaign, 2 % of runs at half, and in 15 % of campaigns a token bucket (runs at 0.7 in bursts, 9 % of the time).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from benchlab.analysis.designs import Order

NOISES = (0.02, 0.05, 0.10, 0.20)
BURST, TIME_IN_BURSTS = 5, 0.09


def pairs(dice, count, repeats, effect, order=Order.INTERLEAVED, depths=7, luck=0.0):
    """(logs as benchlab.analysis.differences takes them, index of each pair's noise). `effect`: ln, one or one a depth.

    `luck`: standard deviation of a build, where each visit of a set-up is one.
    """
    which = np.arange(count) % len(NOISES)
    slots = _slots(dice, count, depths, repeats, order)
    runs = slots.shape[1]
    time = np.arange(runs) / (runs - 1)
    tilt = 1.6 ** (dice.uniform(-1, 1, (count, 1)) * np.linspace(0, 1, depths))
    sizes = np.take_along_axis(tilt, slots // repeats % depths, 1)
    own = np.sqrt(0.75) * dice.normal(size=(count, runs)) + 0.5 * _carried(dice, count, runs)
    logs = sizes * np.asarray(NOISES)[which][:, None] * own
    wave = np.sin(2 * np.pi * (dice.uniform(0.5, 3, (count, 1)) * time + dice.random((count, 1))))
    logs += dice.uniform(-0.1, 0.1, (count, 1)) * time + dice.uniform(0, 0.05, (count, 1)) * wave
    logs += np.where(dice.random((count, runs)) < 0.02, np.log(0.5), 0)
    bucket = dice.random((count, 1)) < 0.15
    logs += np.where(bucket & _bursts(dice, count, runs), np.log(0.7), 0)
    found = np.empty_like(logs)
    np.put_along_axis(found, slots, logs, 1)
    found = found.reshape(count, 2, depths, repeats)
    found[:, 1] += np.broadcast_to(effect, depths)[None, :, None]
    for blocks in _visits(order, repeats):
        found[..., blocks] += dice.normal(0, luck, (count, 2, 1, 1)) if luck else 0
    return found, which


def _slots(dice, count, depths, repeats, order):
    """(pairs, runs in the order of time): which (set-up, depth, block) each is."""

    def block(setup, number):
        return (setup * depths + np.argsort(dice.random((count, depths)), 1)) * repeats + number

    if order == Order.INTERLEAVED:
        both = [
            np.argsort(dice.random((count, 2 * depths)), 1) * repeats + n for n in range(repeats)
        ]
        return np.concatenate(both, 1)
    first, *rest = _visits(order, repeats)
    turns = [(0, first), (1, first), *(turn for more in rest for turn in ((1, more), (0, more)))]
    return np.concatenate([block(s, n) for s, blocks in turns for n in blocks], 1)


def visit_numbers(order, repeats):
    """(2, blocks), as benchlab.analysis.differences takes them; None where nothing was built in turns."""
    if order != Order.ABBA:
        return None
    numbers = np.repeat(np.arange(2), [len(one) for one in _visits(order, repeats)])
    return np.stack([numbers, numbers])


def _visits(order, repeats):
    if order == Order.ABBA:
        return [list(range((repeats + 1) // 2)), list(range((repeats + 1) // 2, repeats))]
    return [list(range(repeats))]


def _carried(dice, count, runs):
    now, found = dice.normal(size=count), np.empty((count, runs))
    for slot in range(runs):
        now = 0.6 * now + 0.8 * dice.normal(size=count)
        found[:, slot] = now
    return found


def _bursts(dice, count, runs, share=TIME_IN_BURSTS):
    begin = share / (1 - share) / BURST
    on, found = dice.random(count) < share, np.empty((count, runs), bool)
    for slot in range(runs):
        found[:, slot] = on
        chance = dice.random(count)
        on = np.where(on, chance >= 1 / BURST, chance < begin)
    return found


@dataclass(frozen=True)
class Disturbance:
    """Noise of one kind, without any of the others. `noises`: standard deviation (of ln) of each set-up's runs.

    `repeats`: of each set-up. `tilt`: ratio of the noise of the last depth to that of the first. `luck`: of each build.
    `bucket`: share of the time at 0.7, in spells; `half`: share of runs at half; `slow_first`: loss of the first run of
    each build; `rho`: correlation of a run's noise with that of the run before.
    """

    noises: tuple[float, float] = (0.05, 0.05)
    repeats: tuple[int, int] = (3, 3)
    tilt: float = 1.0
    luck: float = 0.0
    bucket: float = 0.0
    half: float = 0.0
    slow_first: float = 0.0
    rho: float = 0.0

    def logs(self, dice, count, order, effect=0.0, depths=7):
        """(pairs, 2, depths, blocks), as benchlab.analysis.differences takes them; blocks that lack are NaN."""
        repeats = max(self.repeats)
        slots = _slots(dice, count, depths, repeats, order)
        runs = slots.shape[1]
        noise = dice.normal(size=(count, runs))
        for slot in range(1, runs):
            noise[:, slot] = (
                self.rho * noise[:, slot - 1] + np.sqrt(1 - self.rho**2) * noise[:, slot]
            )
        which = slots // repeats
        sizes = np.asarray(self.noises)[which // depths]
        sizes = sizes * self.tilt ** ((which % depths) / max(depths - 1, 1) - 0.5)
        in_time = noise * sizes + np.where(dice.random((count, runs)) < self.half, np.log(0.5), 0)
        if self.bucket:
            in_time += np.where(_bursts(dice, count, runs, self.bucket), np.log(0.7), 0)
        visits = _visits(order, repeats)
        if self.slow_first:
            in_time += self._slow_firsts(slots, depths * repeats, visits)
        found = np.empty_like(in_time)
        np.put_along_axis(found, slots, in_time, 1)
        found = found.reshape(count, 2, depths, repeats)
        found[:, 1] += np.broadcast_to(effect, depths)[None, :, None]
        for blocks in visits:
            found[..., blocks] += dice.normal(0, 1, (count, 2, 1, 1)) * self.luck
        for setup, own in enumerate(self.repeats):
            found[:, setup, :, _lacking(visits, own)] = np.nan
        return found

    def _slow_firsts(self, slots, of_setup, visits):
        """The loss of the first run of each build, in the order of time."""
        lost = np.zeros(slots.shape)
        repeat = slots % sum(map(len, visits))
        for setup in (0, 1):
            for blocks in visits:
                of_build = (slots // of_setup == setup) & np.isin(repeat, blocks)
                first = of_build.argmax(axis=1)
                lost[np.arange(len(slots)), first] = np.log(1 - self.slow_first)
        return lost


def _lacking(visits, own):
    """Blocks that a set-up with fewer repeats lacks: the last ones of each visit, in turns."""
    order = [block for some in zip_longest(*visits) for block in some if block is not None]
    return sorted(order[own:])
