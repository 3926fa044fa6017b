"""Rates at which findings of devices are made of clean runs, and where they are due. The seed is printed.

Clean: stripes of 1, 2, 4 and 12 disks that share the work with 10 or 30 % of noise a second and member, 40 to 95 %
busy, on cores that are not; with what a journal adds, a tenth of the writes flushed, and pg_test_fsync's sizes with a
noise of 2 to 20 %.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from benchlab.analysis import finding
from benchlab.analysis.evidence import Access, Layer, Line, Run, Track, Window
from benchlab.testing import profiles
from tests.analysis.simulated_stripes import stripe

RUNS = 2000 if profiles.profile() == profiles.FULL else 200
SEED = 14
KINDS = (
    "amplified",
    "cache_read_under_writes",
    "cpu_bound",
    "extended_not_restriped",
    "few_members",
    "flush_bound",
    "in_turn",
    "nothing_is_full",
    "raid5_read_modify_write",
    "slow_member",
    "sub_sector_writes",
    "uneven_members",
)
NAMES = tuple(f"sd{letter}" for letter in "bcdefghijklm")
BLOCK = 16384


def track(device, metric, values):
    values = np.asarray(values, dtype=float)
    times = tuple(float(second) for second in range(1, values.size + 1))
    return Track(device, metric, "", times, tuple(values.tolist()))


def made(
    dice,
    shares,
    *,
    seconds=0,
    adds=1.0,
    strays=0.0,
    flushed=0.1,
    busy=None,
    core=None,
    noise=None,
    slow=1.0,
    **more,
):
    """A run of writes over so many disks; `shares` of the bytes, one or one a second, `strays`: read meanwhile, of what
    is written. `slow`: times that the second takes for a request, of the others' time."""
    n, seconds = len(shares), seconds or int(dice.integers(10, 120))
    noise = noise or float(dice.choice([0.1, 0.3]))
    rate = float(np.exp(dice.uniform(np.log(5e6), np.log(5e8))))
    moved = (
        rate
        * adds
        * np.asarray(shares).reshape(n, -1)
        * dice.lognormal(-(noise**2) / 2, noise, (n, seconds))
    )
    tracks = []
    wait, load = float(np.exp(dice.uniform(np.log(2e-4), np.log(1e-2)))), dice.uniform(0.4, 0.95)
    for index, (name, row) in enumerate(zip(NAMES, moved, strict=False)):
        factor = slow if index == 1 else 1.0
        level = busy or (load if slow > 1 and index == 1 else load / slow * dice.uniform(0.9, 1.1))
        read = strays * row * dice.lognormal(0, 0.5, seconds)
        writes = row / BLOCK
        tracks += [
            track(name, "write.bandwidth", row),
            track(name, "write.iops", writes / (1 - flushed)),
            track(name, "flush.iops", writes * flushed / (1 - flushed)),
            track(name, "read.bandwidth", read),
            track(name, "read.iops", read / BLOCK),
            track(
                name,
                "util",
                np.clip(dice.normal(level, 0.03, seconds), 0, 1),
            ),
            track(
                name,
                "write.await",
                wait * factor * dice.uniform(0.8, 1.3) * dice.lognormal(0, noise, seconds),
            ),
        ]
    for index in range(4):
        load = core if core and index == 2 else dice.uniform(0.1, 0.8)
        tracks.append(
            track(f"cpu{index}", "cpu.idle", 1 - np.clip(dice.normal(load, 0.05, seconds), 0, 1))
        )
    figures = {
        "write.bandwidth": rate,
        "cpu.user": dice.uniform(0, 0.4),
        "cpu.system": dice.uniform(0, 0.4),
        **synced(dice),
    }
    kind = more.pop("layer", None) or Layer("lvm", {"type": "striped"}, {"data": NAMES[:n]})
    return Run(
        "fio", Access(reads=False, writes=True, block=BLOCK), figures=figures, tracks=tuple(tracks), layers=(kind,),
        windows=(Window("measured", 0.0, float(seconds)),), **more,
    )  # fmt: skip


def synced(dice, slower=1.0):
    """pg_test_fsync's sizes: a write takes as long whatever its size, or `slower` below 4 kB."""
    noise = float(dice.choice([0.02, 0.05, 0.1, 0.2]))
    each = {"4x4": 1.0, "8x2": slower, "16x1": slower}
    return {
        f"open_sync.{name}.ops": 1e4
        / int(name.partition("x")[0])
        / times
        * dice.lognormal(0, noise)
        for name, times in each.items()
    }


def even(dice, **more):
    n = int(dice.choice([1, 2, 4, 12]))
    return made(dice, [1 / n] * n, adds=dice.uniform(1, 1.2), strays=dice.uniform(0, 0.08), **more)


def clean(dice):
    """Also on parity with whole stripes, in a cache, and after a growth that was restriped."""
    drawn = int(dice.integers(4))
    if drawn == 1:
        return made(
            dice,
            [1 / 4] * 4,
            adds=4 / 3,
            strays=dice.uniform(0, 0.08),
            layer=Layer("md", {"level": 5}, {"data": NAMES[:4]}),
        )
    if drawn == 2:
        cached = Layer("bcache", {}, {"backing": NAMES[:1], "cache": NAMES[1:2]})
        return made(dice, [0.5, 0.5], adds=2, strays=dice.uniform(0, 0.05), layer=cached)
    return even(dice, stage="after-1" if drawn == 3 else "")


@pytest.fixture(scope="module")
def told():
    dice = np.random.default_rng(SEED)
    found: Counter[str] = Counter()
    for _ in range(RUNS):
        run = clean(dice)
        found.update(kind for kind in KINDS if finding.run_findings()[kind].applies(run))
    print(f"\nseed {SEED}, {RUNS} clean runs: {dict(found)}")
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_clean_runs_are_told_nothing(told, kind):
    assert told[kind] <= RUNS / 100


def few(dice):
    return made(dice, [0.46, 0.46, 0.04, 0.04])


def lone(dice):
    return made(dice, [0.4, 0.2, 0.2, 0.2], seconds=60)


def turns(dice):
    """Two of four, each for 5 s."""
    now = np.arange(60) // 5 % 2
    return made(dice, [0.5 * (now == disk % 2) for disk in range(4)], seconds=60)


def grown(dice):
    return made(dice, [0.45, 0.45, 0.1], stage="after-1", seconds=60)


def parity(dice):
    return made(
        dice, [1 / 4] * 4, adds=2, strays=1, layer=Layer("md", {"level": 5}, {"data": NAMES[:4]})
    )


def copying(dice):
    cached = Layer("bcache", {}, {"backing": NAMES[:1], "cache": NAMES[1:2]})
    return made(dice, [0.5, 0.5], adds=2, strays=0.8, layer=cached)


def small(dice):
    return Run("pg_test_fsync", figures=synced(dice, slower=4))


# Finding: a run that is due for it, the least share of such that is found.
DUE = {
    "few_members": (few, 0.98),
    "uneven_members": (lone, 0.95),
    "in_turn": (turns, 0.98),
    "extended_not_restriped": (grown, 0.95),
    "raid5_read_modify_write": (parity, 0.99),
    "cache_read_under_writes": (copying, 0.99),
    "sub_sector_writes": (small, 0.98),
    "cpu_bound": (lambda dice: even(dice, core=0.97), 0.99),
    "nothing_is_full": (lambda dice: even(dice, busy=0.03), 0.95),
    "amplified": (lambda dice: made(dice, [1.0], adds=2.5), 0.99),
    "slow_member": (lambda dice: made(dice, [1 / 4] * 4, slow=3.5), 0.95),
    "flush_bound": (lambda dice: even(dice, flushed=0.6), 0.99),
}


@pytest.mark.one_in(2)
def test_queues_make_no_member_slow():
    """Members that differ by up to 20 % under 1 to 256 requests: deep queues gather at the slowest."""
    dice, found, runs = np.random.default_rng(SEED), 0, RUNS // 4
    for _ in range(runs):
        servers, members = int(dice.choice([1, 4])), int(dice.choice([2, 4, 6]))
        services = servers * dice.uniform(5e-3, 1e-2) * dice.uniform(1, 1.2, members)
        made_up = stripe(dice, services, int(2 ** dice.integers(0, 9)), 12, servers)
        found += bool(finding.run_findings()["slow_member"].applies(made_up))
    print(f"seed {SEED}: slow_member in {found} of {runs} stripes of nearly alike members")
    assert found <= runs / 100


@pytest.mark.one_in(2)
def test_what_holds_a_sweep_back_is_bounded():
    """The slowest disk of a stripe is named, and no depth does more than it allows."""
    dice = np.random.default_rng(SEED)
    services = [8e-3, 14e-3, 8e-3]
    runs = tuple(stripe(dice, services, depth, 40) for depth in (1, 4, 16, 64))
    [one] = finding.line_findings()["holds_back"].applies([Line("a", "w", runs, (1,) * 4)])
    print(f"seed {SEED}: {one.sentence}")
    assert "sdc limits a to" in one.sentence and "an I/O takes 4." in one.sentence
    # A third of the I/Os needs 14 ms of it.
    assert one.numbers["most"].value == pytest.approx(3 / 14e-3, rel=0.05)
    assert one.numbers["next"].value == pytest.approx(3 / 8e-3, rel=0.1)


@pytest.mark.parametrize("depth", [1, 4, 16])
def test_what_a_slow_member_costs_is_bounded(depth):
    """One of four takes three times as long; what the sentence says could be gained is at least what is gained."""
    dice = np.random.default_rng(SEED)
    services = [8e-3, 24e-3, 8e-3, 8e-3]
    slow, mended = (stripe(dice, each, depth, 40) for each in (services, [8e-3] * 4))
    [one] = finding.run_findings()["slow_member"].applies(slow)
    assert one.about.startswith("sdc ")
    gain = mended.figures["iops"] / slow.figures["iops"]
    print(
        f"seed {SEED}: {depth} outstanding: at most {one.numbers['gain'].value:.2f}, gained {gain:.2f}"
    )
    assert gain <= 1.05 * one.numbers["gain"].value <= 1.8 * gain


@pytest.mark.parametrize("kind", DUE)
def test_what_is_due_is_found(kind):
    due, least = DUE[kind]
    dice = np.random.default_rng(SEED)
    found = sum(bool(finding.run_findings()[kind].applies(due(dice))) for _ in range(RUNS // 2))
    print(f"seed {SEED}: {kind} found in {found} of {RUNS // 2}")
    assert found >= least * (RUNS // 2)
