"""The mean of a wait or a hit ratio is what a host's counters give between both ends of the window."""

from __future__ import annotations

from math import nan

import pytest

from benchlab.charts.device_tables import device_rows
from benchlab.charts.sampled_tracks import Track

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


def test_the_mean_counts_the_time_of_waits_that_cannot_be():
    """A dm device: 1,000 began in the first second, and waited for 500 s in all, most of it while 1 began.

    Of the others alone the mean would be (1000 x 0.01 + 200 x 0.05) / 1200 = 17 ms.
    """
    rates = track("write.iops", 1000, 1, 100), track("queue", 10, 480, 5)
    wait = mean(track("await", 0.01, nan, 0.05, unit="s"), *rates)
    assert wait == pytest.approx((10 + 480 + 2 * 5) / (1000 + 1 + 2 * 100))


def test_a_second_without_requests_is_no_gap():
    rates = track("write.iops", 10, 0, 10), track("queue", 9, 9, 9)
    assert mean(track("await", 0.1, nan, 0.4, unit="s"), *rates) == pytest.approx(0.3)


def test_a_gap_of_which_nobody_knows_the_queue_is_left_out():
    wait = mean(track("await", 0.1, nan, 0.4, unit="s"), track("write.iops", 10, 5, 10))
    assert wait == pytest.approx(0.3)
