"""Amplification, hit ratios and flushes, each computed by hand from raw numbers."""

from __future__ import annotations

import pytest

from agents.outputs import pg_test_fsync_text as printed
from benchlab.analysis.devices import (
    PER_TEST,
    amplification,
    application_rates,
    byte_hit_ratio,
    flushes,
    request_hit_ratio,
)

NAN = float("nan")
KB = 1024.0  # of iostat

# --- amplification


def test_a_mirror_writes_twice():
    assert amplification([5e6, 5e6], 5e6) == 2


def test_nothing_to_hold_against():
    assert amplification([5e6], None) is None
    assert amplification([5e6], 0.0) is None
    assert amplification([5e6], NAN) is None
    assert amplification([], 5e6) is None
    assert amplification([5e6, NAN], 5e6) is None
    assert amplification([0.0], 5e6) == 0


def test_article_000s_lvm_cache_writes_each_byte_about_twice():
    """one.open_datasync, 8,124.408 times 8 KiB; iostat of that time: 63,312 kB/s on the SSD, 56,192 behind it."""
    figures = {"one.open_datasync.ops": 8124.408}
    told = application_rates(figures, "one.open_datasync", alone=False)
    assert told == {"read": None, "write": pytest.approx(66_555_150.3)}
    behind = [4664 * KB] * 4 + [4708 * KB] * 4 + [4676 * KB] * 4
    assert sum(behind) == 56192 * KB
    # By hand: 64,831,488 / 66,555,150 and 57,540,608 / 66,555,150.
    assert amplification([63312 * KB], told["write"]) == pytest.approx(0.9741, abs=1e-4)
    assert amplification(behind, told["write"]) == pytest.approx(0.8646, abs=1e-4)


def test_each_test_of_pg_test_fsync_that_has_bytes_is_known():
    told = {
        name.partition(".")[0]
        for section in printed.SECTIONS.values()
        for name in section.rows.values()
    }
    assert PER_TEST.keys() <= told
    sized = application_rates({"open_sync.8x2.ops": 834.181}, "open_sync.8x2", alone=False)
    assert sized["write"] == 834.181 * 16384
    nothing = {"read": None, "write": None}
    assert application_rates({"unsynced.write.ops": 3e5}, "unsynced.write", alone=False) == nothing


def test_figures_are_of_the_one_window_only():
    figures = {"read.bandwidth": 1e6, "iops": 5.0}
    assert application_rates(figures, "measured", alone=True) == {"read": 1e6, "write": None}
    assert application_rates(figures, "measured", alone=False) == {"read": None, "write": None}


# --- hit ratio


def test_hits_are_held_against_all_that_was_asked():
    """By hand: 1 s with 90 of 100, 1 s with 0 of 1, 2 s with 10 of 10 a second: 110 of 121."""
    assert request_hit_ratio([90, 0, 10], [10, 1, 0], [1, 1, 2]) == pytest.approx(110 / 121)


def test_what_is_not_known_is_left_out():
    assert request_hit_ratio([90, NAN, 10], [10, 5, NAN], [1, 1, 1]) == 0.9
    assert request_hit_ratio([0, 0], [0, 0], [1, 1]) is None
    assert request_hit_ratio([], [], []) is None
    assert request_hit_ratio([NAN], [NAN], [1]) is None


def test_by_bytes():
    assert byte_hit_ratio(3e6, 1e6) == 0.75
    assert byte_hit_ratio(0.0, 0.0) is None
    assert byte_hit_ratio(0.0, 1e6) == 0
    assert byte_hit_ratio(NAN, 1e6) is None


# --- flushes


def test_article_000s_idle_members_were_only_flushed():
    """By hand: 328 kB/s are 335,872 B/s, or 656 writes of a sector at most: 7,248 - 656 = 6,592."""
    found = flushes(7248.0, 328 * KB)
    assert found.empty == 6592 and found.share == pytest.approx(0.909, abs=0.001)


def test_its_busy_members_wrote_so_much_that_it_cannot_be_told():
    """14,413 w/s with 28,988 kB/s; of blocks of 4 KiB it can: 14,413 - 7,247 = 7,166, the others' 7,248 or so."""
    assert flushes(14413.0, 28988 * KB).empty == 0
    assert flushes(14413.0, 28988 * KB, block=4096).empty == pytest.approx(7166)


def test_a_kernel_that_counts_flushes_is_believed():
    """fio with fsync=1: each write of 4 KiB is followed by a flush, which counts as a write of nothing as well."""
    found = flushes(200.0, 100 * 4096.0, counted=100.0)
    assert found.empty == 0 and found.share == 0.5
    assert flushes(100.0, 4e6, counted=300.0).share == 1
    assert flushes(100.0, 4e6, counted=NAN).counted is None


def test_no_writes():
    assert flushes(0.0, 0.0).share == 0
    assert flushes(NAN, 0.0) is None and flushes(1.0, NAN) is None
