"""A host's two clocks about a job: a fork that takes long between them is no jump of a clock."""

from __future__ import annotations

import pytest

from agents.jobs import job

BOOTED = 1_700_000_000.0  # the wall clock's seconds at the monotonic clock's zero


def step(slow_start: float, late: float, slow_end: float = 0.0, jump: float = 0.0) -> float:
    """Of a job of 10 s: `date` takes so many seconds, and reads the clock after the share `late` of them."""
    notes = {
        "state": "exited",
        "started_ns": str(int(100e9)),
        "noted_from_ns": str(int(100.1e9)),
        "noted_ns": str(int((100.1 + slow_start) * 1e9)),
        "noted_at": f"{BOOTED + 100.1 + late * slow_start:.9f}",
        "ended_ns": str(int(110e9)),
        "fetched_from_ns": str(int(111e9)),
        "fetched_ns": str(int((111 + slow_end) * 1e9)),
        "fetched_at": f"{BOOTED + jump + 111 + late * slow_end:.9f}",
    }
    found = job._meta(notes, 0).clock_step
    assert found is not None
    return found


@pytest.mark.parametrize("late", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("start", "end"), [(0.002, 0.002), (0.6, 0.002), (0.002, 0.6), (2.0, 1.0)])
def test_a_busy_host_is_told_no_jump(start, end, late):
    assert abs(step(start, late, end)) < 1e-6


@pytest.mark.parametrize("jump", [-5.0, -0.5, 0.5, 5.0])
def test_a_jump_is_told_less_what_reading_took(jump):
    found = step(0.2, 1.0, 0.1, jump)
    assert found * jump > 0
    assert abs(jump) - 0.31 <= abs(found) <= abs(jump) + 1e-6


def test_a_spool_from_before_has_the_second_look_only():
    notes = {
        "state": "exited",
        "started_ns": str(int(100e9)),
        "noted_ns": str(int(100.3e9)),
        "noted_at": f"{BOOTED + 100.3:.9f}",
        "fetched_ns": str(int(111e9)),
        "fetched_at": f"{BOOTED + 113:.9f}",
    }
    found = job._meta(notes, 0)
    assert found.clock_step == pytest.approx(2.0, abs=1e-6)
    assert found.started_at == pytest.approx(BOOTED + 100.0, abs=1e-6)


def test_a_clock_that_was_set_and_set_back_is_told_by_the_samples():
    def samples(*booted: int) -> bytes:
        return b"".join(b"@ 1\n# /proc/stat\n cpu 1\n btime %d\n.\n" % at for at in booted)

    assert job.clock_set(samples(1_700_000_000, 1_700_003_600, 1_700_000_000)) == 3600.0
    assert job.clock_set(samples(1_700_000_000, 1_699_999_940, 1_700_000_000)) == -60.0
    assert job.clock_set(samples(1_700_000_000, 1_700_000_000)) == 0.0
    assert job.clock_set(b"") == 0.0
