"""Falls and caps past the knee: what people published, what is none, and simulated truth."""

from __future__ import annotations

import numpy as np
import pytest

from benchlab.analysis.curves import Little, common_factor
from benchlab.analysis.knees import Cap, cap, collapse
from tests.analysis import noise_of_curves
from tests.analysis.noise_of_curves import DEPTHS, allowed, many, measured, truths

SSD = dict(zip((1, 2, 4, 8, 16), (1683.0, 3327.0, 5095.0, 5101.0, 5099.0), strict=True))
SSD_LATENCY = dict(zip((1, 2, 4, 8, 16), (2.38e-3, 2.40e-3, 3.14e-3, 6.27e-3, 12.55e-3), strict=True))  # fmt: skip


def cells(values, repeats=3, noise=0.01):
    spread = np.linspace(-noise, noise, repeats) if repeats > 1 else [0.0]
    return {depth: [value * (1 + one) for one in spread] for depth, value in values.items()}


def test_the_articles_cloud_disk_is_capped():
    """002's SSD: 5,095, 5,101 and 5,099 IOPS at 4, 8 and 16, each with twice the latency."""
    latencies = {depth: [value] for depth, value in SSD_LATENCY.items()}
    found = cap(cells(SSD, 1), latencies)
    assert isinstance(found, Cap)
    assert (found.low, found.high, round(found.iops)) == (4, 16, 5098)


def test_a_depth_that_was_not_reached_is_no_cap():
    """IOPS stand still, and so does latency: the tool kept fewer in flight."""
    latencies = {depth: [3.1e-3] for depth in SSD}
    assert cap(cells(SSD), latencies) is None


@pytest.mark.parametrize(
    "values",
    [
        {1: 100.0, 2: 200.0, 4: 390.0, 8: 395.0},  # one doubling
        {1: 100.0, 2: 200.0, 4: 300.0, 8: 310.0, 16: 318.0},  # 3 and 2.6 % a doubling
        {1: 100.0, 2: 0.0, 4: 0.0},
        {},
    ],
)
def test_no_cap(values):
    assert cap(cells(values)) is None


def test_a_fall_is_told_with_its_peak():
    values = dict(zip(DEPTHS, (100.0, 200.0, 400.0, 390.0, 330.0, 280.0, 240.0), strict=True))
    found = collapse(cells(values, noise=0.02))
    assert found is not None
    assert (found.peak, found.last, round(found.share, 2)) == (4, 64, 0.40)


@pytest.mark.parametrize("repeats", [1, 2])
def test_no_fall_without_three_repeats(repeats):
    values = dict(zip(DEPTHS, (100.0, 200.0, 400.0, 390.0, 330.0, 280.0, 240.0), strict=True))
    assert collapse(cells(values, repeats)) is None


def test_a_slump_of_4_percent_is_no_fall():
    values = dict(zip(DEPTHS, (100.0, 200.0, 400.0, 400.0, 396.0, 390.0, 385.0), strict=True))
    assert collapse(cells(values, noise=0.002)) is None


@pytest.mark.draws
@pytest.mark.parametrize("noise", [0.03, 0.10])
def test_simulated_falls_and_caps(noise):
    """At most one false fall and one false cap in 100; more than a third of large falls are found."""
    dice = noise_of_curves.dice(f"plateaus {noise}")
    steady, fallen, rising = [], [], []
    for truth in truths(many(1000), dice):
        found = dict(zip(DEPTHS, measured(truth.iops, noise, 3, dice), strict=True))
        if truth.fall < 0.005:
            steady.append(collapse(found) is not None)
        elif truth.fall > np.log(1 / 0.8):
            fallen.append(collapse(found) is not None)
        if truth.iops[-1] > 1.1 * truth.iops[-3]:
            rising.append(cap(found) is not None)
    print(f"noise {noise:.0%}: false falls {sum(steady)} of {len(steady)}, falls found {sum(fallen)} of "
          f"{len(fallen)}, false caps {sum(rising)} of {len(rising)}")  # fmt: skip
    assert sum(steady) <= allowed(0.01, len(steady))
    assert sum(rising) <= allowed(0.01, len(rising))
    assert len(fallen) - sum(fallen) <= allowed(0.65, len(fallen))


def test_several_workers_are_one_factor():
    """Article 002: IOPS x latency over the depth is 3.97 to 4.01 at all ten points."""
    assert common_factor([Little(4.0, 3.97), Little(32.0, 4.01), Little(64.2, 4.0)]) == 4
    assert common_factor([Little(4.0, 4.0), Little(8.0, 4.0), Little(20.0, 2.5)]) is None
    assert common_factor([Little(1.0, 1.0), Little(2.0, 1.0)]) is None
    assert common_factor([Little(4.0, 4.0)]) is None
