"""Pairs of set-ups with the noise of docs/analysis.md, of which the truth is known.

Log-normal noise of 2, 5, 10 or 20 % (equal shares), up to 1.6 times larger or smaller towards one end of the sweep, a
quarter of its variance carried over from run to run (rho 0.6), a drift of up to +-10 % and a wave of up to 5 % over the
campaign, 2 % of runs at half, and in 15 % of campaigns a token bucket (runs at 0.7 in bursts, 9 % of the time).
"""

from __future__ import annotations

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


def _bursts(dice, count, runs):
    begin = TIME_IN_BURSTS / (1 - TIME_IN_BURSTS) / BURST
    on, found = dice.random(count) < TIME_IN_BURSTS, np.empty((count, runs), bool)
    for slot in range(runs):
        found[:, slot] = on
        chance = dice.random(count)
        on = np.where(on, chance >= 1 / BURST, chance < begin)
    return found
