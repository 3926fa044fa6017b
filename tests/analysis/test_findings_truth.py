"""Rates at which findings are made of clean runs, and where they are due (tests.analysis.simulated_runs).

Every finding of a run that there is, found by scanning: at most 1 in 100 clean runs may be told it. `-s` shows both
tables; the seed stands above them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from benchlab.analysis import finding, set_ups, steady
from benchlab.analysis.evidence import Access, Line, Run
from benchlab.testing.profiles import CI, FULL, QUICK, profile
from tests.analysis import test_device_findings as devices
from tests.analysis.simulated_runs import STACKS, Truth, carried, clean, compress, run

SEED = 14
RUNS = {QUICK: 150, CI: 1_000, FULL: 20_000}[profile()]
EACH = {QUICK: 12, CI: 200, FULL: 1_000}[profile()]
MOST = 0.01
CHANGES = 0.05  # A rate that really drifts or waves by as much is not steady: from 10 % on it is to be told.
SLACK = 3 * np.sqrt(MOST * (1 - MOST) / RUNS)  # what chance allows so few runs


@pytest.fixture(scope="module")
def told():
    """Number of clean runs that each finding was told of."""
    dice = np.random.default_rng(SEED)
    found: Counter[str] = Counter()
    for _ in range(RUNS):
        truth = clean(dice)
        made = run(truth)
        for kind, module in finding.run_findings().items():
            said = module.applies(made)
            found[kind] += bool(said) and not (kind == "not_steady" and truth.wander > CHANGES)
    print(f"\nseed {SEED}, {RUNS} clean runs; told of:")
    for kind in finding.run_findings():
        print(f"  {kind:22} {100 * found[kind] / RUNS:5.2f} %")
    return found


@pytest.mark.parametrize(("depths", "figure"), [((1, 1), "bandwidth"), ((1, 4), "iops")])
def test_lines_are_compared_by_iops_along_a_sweep_and_by_throughput_elsewhere(depths, figure):
    figures = {"iops": 100.0, "bandwidth": 4096e2}
    runs = [Run("fio", Access(outstanding=depth), figures=figures) for depth in depths]
    assert set_ups.common_figure([Line("a", "b", tuple(runs), (1, 2))]) == figure


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", list(finding.run_findings()))
def test_clean_runs_are_told_nothing(told, kind):
    assert told[kind] / RUNS <= MOST + SLACK


@pytest.mark.parametrize("correlation", [0.5, 0.7])
def test_neighbours_alike_are_not_underrated_in_a_short_series(correlation):
    """The variance of a mean of an AR(1) series is (1 + r) / (1 - r) times wider; 20 values show it but roughly."""
    dice = np.random.default_rng(SEED)
    found = []
    for _ in range(200):
        series = dice.standard_normal(120)
        for at in range(1, series.size):
            series[at] += correlation * series[at - 1]
        fit = steady._fit_curve(series[100:], steady.State.TREND, 1)
        variance, _ = steady._long_run_noise(fit, steady.TIERS[0][1])
        found.append(variance / fit.noise.var(ddof=2))
    assert np.median(found) >= (1 + correlation) / (1 - correlation)


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_a_rate_that_wanders_for_long_is_not_called_unsteady(share):
    """Neighbours alike by 0.95: levels last for some 40 intervals, as long as many a run."""
    dice = np.random.default_rng(SEED)
    found = judged = 0
    for _ in range(RUNS):
        truth = clean(dice, "fio", "raw", carries=(0.95, share))
        if truth.wander > CHANGES:
            continue
        truth.tool_told = True
        judged += 1
        found += bool(finding.run_findings()["not_steady"].applies(run(truth)))
    print(f"\nseed {SEED}, {judged} runs, rho 0.95 in {share:.0%}: {100 * found / judged:.2f} %")
    assert found / judged <= MOST + 3 * np.sqrt(MOST * (1 - MOST) / judged)


def slow_start(share, depth):
    """The first `share` of the run at `depth` of its rate."""

    def change(truth):
        first = int(share * truth.seconds)
        truth.rate = truth.rate * np.where(np.arange(truth.seconds) < first, depth, 1)

    return change


def credits(spell, low):
    """Spells of so many seconds, at the rate and at `low` of it."""

    def change(truth):
        truth.rate = truth.rate * np.where(np.arange(truth.seconds) // spell % 2, low, 1)

    return change


def sets(**more):
    def change(truth):
        for name, value in more.items():
            setattr(truth, name, value)

    return change


def counted(**more):
    """By the kernel, beside the tool."""
    return sets(counted=True, **more)


def misses_depth(truth):
    """A tenth less in flight, of two I/Os or more: a single one is no depth to be missed."""
    truth.flight = 0.9
    truth.outstanding = truth.access["outstanding"] = max(2, truth.outstanding)


def packs(truth):
    """Zeros on a pool that compresses."""
    compress(truth)
    truth.fill = True
    truth.lag = 0.05


# Finding: what is done, the least share that is found; the run that it is done to.
DUE: dict[str, tuple[str, Callable[[Truth], None], float, dict]] = {
    "warm-up of 10 % at half, noise 5 %": ("not_steady", slow_start(0.1, 0.5), 0.9, {"seconds": 120, "noise": 0.05}),
    "warm-up of 30 % at 3/4, noise 5 %": ("not_steady", slow_start(0.3, 0.75), 0.9, {"seconds": 120, "noise": 0.05}),
    "warm-up of 20 % at 3/4, noise 10 %": ("not_steady", slow_start(0.2, 0.75), 0.5, {"seconds": 120, "noise": 0.1}),
    "fast for 20 %, then 2/3": ("not_steady", slow_start(0.2, 1.5), 0.7, {"seconds": 60, "noise": 0.05}),
    "credits: 30 s each, 0.5": ("not_steady", credits(30, 0.5), 0.9, {"seconds": 200, "noise": 0.05}),
    "credits: 15 s each, 0.7": ("not_steady", credits(15, 0.7), 0.8, {"seconds": 120, "noise": 0.02}),
    "credits: 30 s each, 0.7, noise 5 %": ("not_steady", credits(30, 0.7), 0.5, {"seconds": 200, "noise": 0.05}),
    "a tenth less in flight": ("depth_not_reached", misses_depth, 0.95, {}),
    "a third more than the rating": ("above_ceiling", sets(rated=0.75), 1, {"stack": "raw"}),
    "above the link": ("above_ceiling", sets(link=0.9), 1, {"stack": "raw"}),
    "98 % of the rating": ("rating_reached", sets(rated=1 / 0.98), 0.9, {"stack": "raw"}),
    "zeros, lz4": ("compressible_data", packs, 1, {"stack": "raidz"}),
    "a resync": ("resync_meanwhile", sets(resync=8e7), 1, {"stack": "mirror"}),
    "discards": ("resync_meanwhile", sets(discards=5e7), 1, {"stack": "striped"}),
    "the other way, a fifth": ("other_io", sets(other=0.2), 0.9, {"stack": "striped"}),
    "half as much again": ("other_io", sets(extra=1.5), 0.9, {"stack": "raid0"}),
    "5 % of CPU time": ("cpu_throttled", sets(steal=0.05), 0.9, {"seconds": 60}),
    "hot in a second of ten": ("cpu_slowed", sets(heat=0.1), 1, {"seconds": 60}),
    "a quota used up in a tenth of its periods": ("cpu_slowed", sets(quota=0.1), 1, {"seconds": 60}),
    "a step of 2 s": ("clock_jumped", sets(step=2.0), 1, {}),
    "two thirds from a cache": ("cached_read", sets(extra=1 / 3, reads=True), 1, {"stack": "striped"}),
    "submission takes all of its time": ("submit_bound", sets(submits=0.97), 0.8, {}),
    "a fifth from a cache": ("cached_read", counted(extra=0.8, reads=True), 0.8, {"stack": "striped", "seconds": 60}),
    "a fifth came later": ("buffered", sets(lag=0.8), 0.8, {"tool": "dd", "stack": "striped"}),
    "no write reached a disk": ("writes_missing", sets(extra=0.0), 1, {"stack": "striped"}),
    "a tenth of the I/Os failed": ("dynamo_crosscheck", counted(failed=0.1), 0.95, {"tool": "dynamo", "seconds": 60}),
    "a fifth by somebody else": ("dynamo_crosscheck", counted(beside=0.2), 0.95, {"tool": "dynamo", "seconds": 60}),
    "half of it was written before": ("unwritten_blocks", sets(filled=0.5, reads=True), 1, {"stack": "raw"}),
}  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("what", DUE)
def test_what_is_due_is_found(what):
    kind, change, least, given = DUE[what]
    dice = np.random.default_rng(SEED)
    found = 0
    for _ in range(EACH):
        truth = clean(dice, **{"tool": "fio", "stack": str(dice.choice(list(STACKS)[:4])), **given})
        truth.tool_told = truth.disks_told = True
        truth.reads = False
        truth.access["outstanding"] = truth.outstanding
        change(truth)
        found += bool(finding.run_findings()[kind].applies(run(truth)))
    print(f"\nseed {SEED}, {EACH} runs, {what}: {kind} in {100 * found / EACH:.0f} %")
    chance = 3 * np.sqrt(least * (1 - least) / EACH)
    assert found / EACH >= least - chance


@pytest.fixture(scope="module")
def evidence():
    """Evidence that clean runs carry, by the name of the simulation that makes them."""
    dice = np.random.default_rng(SEED)
    own = [carried(run(clean(dice))) for _ in range(150)]
    other = [carried(devices.clean(dice)) for _ in range(150)]
    return {"runs": set().union(*own), "devices": set().union(*other)}


@pytest.mark.parametrize("kind", list(finding.run_findings()))
def test_a_finding_could_be_made_of_what_clean_runs_carry(kind, evidence):
    """Of a drawn tool on a drawn stack, changed in its values alone. What looks at evidence that clean runs never carry
    would be told of none of them, whatever is wrong with it."""
    dice = np.random.default_rng(SEED)
    changes = [change for of, change, *_ in DUE.values() if of == kind]
    if not changes:
        made = devices.DUE[kind][0](dice)
        assert finding.run_findings()[kind].applies(made) and carried(made) <= evidence["devices"]
        return
    told = 0
    for _ in range(150):
        truth = clean(dice)
        changes[0](truth)
        made = run(truth)
        told += bool(finding.run_findings()[kind].applies(made))
        assert carried(made) <= evidence["runs"]
    print(f"\nseed {SEED}, {kind}: said of {told} of 150 drawn runs that were made so")
    assert told


def torn(made, dice):
    """The run with a half of what is known gone, or not a number, or nought."""

    def lost(value):
        return (value, value, None, float("nan"), 0.0)[int(dice.integers(5))]

    fields = made.access.__dataclass_fields__
    keep = {name: getattr(made.access, name) if dice.random() < 0.5 else None for name in fields}
    tracks = [
        replace(
            one,
            values=tuple(lost(v) or 0.0 for v in one.values) if dice.random() < 0.3 else one.values,
        )
        for one in made.tracks
        if dice.random() < 0.7
    ]
    return replace(
        made,
        access=Access(**keep),
        figures={name: lost(v) or 0.0 for name, v in made.figures.items() if dice.random() < 0.7},
        tracks=tuple(tracks),
        windows=made.windows if dice.random() < 0.7 else (),
        devices={n: replace(d, link=None) for n, d in made.devices.items() if dice.random() < 0.7},
        layers=made.layers[: int(dice.integers(3))],
        meta={"during": {"start": [{"says": "resync"}], "end": None}}
        if dice.random() < 0.3
        else {},
        options={},
        memory=None,
        unwritten="it reads what was never written" if dice.random() < 0.3 else "",
    )


def test_what_is_not_known_is_neither_a_crash_nor_a_number():
    dice = np.random.default_rng(SEED)
    for _ in range(EACH * 5):
        made = torn(run(clean(dice, seconds=int(dice.integers(1, 40)))), dice)
        for kind, module in finding.run_findings().items():
            for one in module.applies(made):
                values = [number.value for number in one.numbers.values()]
                assert "nan" not in one.sentence.split() and np.isfinite(values).all(), (
                    kind,
                    one.sentence,
                )
