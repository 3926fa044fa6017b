"""The mean of a wait or a hit ratio is what a host's counters give between both ends of the window."""

from __future__ import annotations

from math import nan

import pytest

from benchlab.charts.tables import device_rows
from benchlab.charts.tracks import Track

TIMES, SPANS = (1.0, 2.0, 4.0), (1.0, 1.0, 2.0)


def track(metric: str, *values: float, unit: str = "1", device: str = "dm-0") -> Track:
    return Track(device, metric, unit, TIMES, values, SPANS)


def mean(*tracks: Track) -> float:
    return device_rows(tracks, {})[0].summary.mean


def test_a_busy_second_counts_as_many_requests_as_it_had():
    """1 miss, 1,000 hits, and a second and a half of nothing: 99.9 %, and not the half that seconds would say."""
    hits = track("read.hits", 0, 1000, 0), track("read.misses", 1, 0, 0)
    assert mean(track("read.hit_ratio", 0, 1, nan), *hits) == pytest.approx(1000 / 1001 * 100)


def test_a_wait_is_over_reads_and_writes_for_as_long_as_each_sample_is():
    rates = track("read.iops", 10, 0, 100), track("write.iops", 0, 1, 100)
    wait = mean(track("await", 0.5, 2, 0.001, unit="s"), *rates)
    assert wait == pytest.approx((10 * 0.5 + 1 * 2 + 400 * 0.001) / 411)


def test_rates_are_over_time():
    assert mean(track("read.iops", 10, 10, 40)) == 25


@pytest.mark.parametrize("others", [(), (Track("dm-0", "read.iops", "op/s", (1.0, 2.0), (1, 1)),)])
def test_where_nobody_counted_the_requests_a_wait_is_over_time(others):
    assert mean(track("await", 1, 1, 4, unit="s"), *others) == 2.5


def test_another_devices_requests_do_not_weigh():
    rates = track("read.iops", 1, 1, 0), track("read.iops", 0, 0, 9, device="sda")
    assert mean(track("await", 1, 3, 9, unit="s"), *rates) == 2
