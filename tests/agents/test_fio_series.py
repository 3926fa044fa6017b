"""Rates in fio's logs: what all jobs moved between two moments, however late each was looked at."""

from __future__ import annotations

from math import isnan, nan

import pytest

from agents.contracts import ParseError, Series, Target
from agents.outputs import fio_log, fio_series
from agents.outputs.fio_series import LogIntervals
from agents.tools import fio

RUN = [0.5 * at for at in range(1, 9)]


def log(*rows: tuple[float, float, int]) -> str:
    return "".join(f"{1000 * at:.0f}, {value:.0f}, {way}, 0, 0\n" for at, value, way in rows)


def told(metric: str, **files: str) -> Series:
    """As fio 3.33 wrote them."""
    return told_by((3, 33), metric, **files)


def told_by(seen: tuple[int, int], metric: str, **files: str) -> Series:
    named = {f"fio_{name}.log".replace("__", "."): text for name, text in files.items()}
    [found] = [one for one in fio_series.logs_to_series(named, seen) if one.metric == metric]
    return found


def moved(found: Series) -> float:
    ends = (0.0, *found.times)
    return sum((b - a) * v for a, b, v in zip(ends, found.times, found.values, strict=False))


def late(first: float, each: float, until: float) -> list[float]:
    """As fio 3.33 looks at rates: some ms late each time."""
    return [first + number * each for number in range(int((until - first) / each) + 1)]


def test_jobs_that_are_looked_at_late_add_up_to_what_they_moved():
    jobs = [late(first, 0.1005, 40) for first in (0.116, 0.122, 0.144)]
    logs = {f"iops__{n}": log(*((at, 100 * n, 0) for at in one)) for n, one in enumerate(jobs, 1)}
    found = told("read.iops", **logs)
    assert len(found.times) == len(jobs[0])
    assert found.values == pytest.approx([600] * len(found.times))


def test_an_interval_of_which_there_is_no_sample_moved_nothing():
    """fio 3.33 with thinktime=3s: 6,000 op/s for half a second, and no sample before the next burst."""
    rows = [(0.5, 6006, 0), (3.5, 6000, 0), (6.507, 1828, 0), (7.011, 4143, 0), (10.015, 5988, 0)]
    found = told("read.iops", iops=log(*rows))
    assert found.times[:7] == (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5)
    assert found.values[:7] == (6006, 0, 0, 0, 0, 0, 6000)
    assert moved(found) == pytest.approx(12_003, rel=0.01)  # I/Os, as fio counts them
    alone = fio_series.logs_to_series(
        {"fio_iops.log": log((3.0, 10, 0), (6.0, 10, 0))}, (3, 33), LogIntervals(1)
    )
    assert alone[0].values == (0, 0, 10, 0, 0, 10)


def test_both_directions_of_a_job_tell_when_it_was_looked_at():
    rows = [row for at in RUN for row in [(at, 100, 0), *([(at + 0.001, 50, 1)] * (at in (2, 4)))]]
    logs = {"iops__1": log(*rows), "iops__2": log(*((at, 7, 0) for at in RUN))}
    assert told("write.iops", **logs).values == pytest.approx((0, 0, 0, 50, 0, 0, 0, 50), abs=0.2)
    assert set(told("read.iops", **logs).values) == {107}


def test_behind_the_end_of_one_job_nobody_knows():
    logs = {"iops__1": log(*((at, 5, 0) for at in RUN)), "iops__2": log((0.5, 5, 0), (1, 5, 0))}
    found = told("read.iops", **logs)
    assert found.values[:2] == (10, 10) and all(map(isnan, found.values[2:]))
    assert len(found.values) == len(RUN)


def test_an_old_fio_looked_only_when_an_io_ended():
    """Before 2.2 a rate is of all since the one before."""
    found = told_by((2, 1), "read.iops", iops=log((0.5, 8, 0), (3.5, 2, 0), (4.0, 8, 0)))
    assert found.times == (0.5, 3.5, 4.0) and found.values == (8, 2, 8)


def test_a_latency_weighs_by_the_ios_of_the_same_time():
    rates = [late(0.507, 0.503, 4.2), late(0.531, 0.503, 4.2)]
    logs = {f"lat__{n}": log(*((at, us * 1000, 0) for at in RUN)) for n, us in ((1, 1), (2, 9))}
    logs |= {f"iops__{n}": log(*((at, 30 / n, 0) for at in one)) for n, one in enumerate(rates, 1)}
    found = told("read.lat.mean", **logs)
    assert found.times == tuple(RUN)
    assert found.values == pytest.approx([(1e-6 * 30 + 9e-6 * 15) / 45] * len(RUN))


def test_a_latency_of_unknown_weight_is_unknown():
    rows, rates = (log(*((at, value, 0) for at in RUN)) for value in (1000, 5))
    logs = {"lat__1": rows, "lat__2": rows, "iops__1": rates}
    named = {f"fio_{name.replace('__', '.')}.log": text for name, text in logs.items()}
    assert [one.metric for one in fio_series.logs_to_series(named, (3, 33))] == ["read.iops"]
    half = log(*((at, 5, 0) for at in RUN[:4]))
    found = told("read.lat.mean", **logs | {"iops__2": half})
    assert found.values == pytest.approx([1e-6] * 4 + [nan] * 4, nan_ok=True)


@pytest.mark.parametrize(
    ("times", "says"),
    [
        (RUN, 0.5),
        (late(0.531, 0.505, 40), 0.5),
        ([0.5, 3.5, 6.507, 7.011, 10.015], 0.5),
        ([*RUN, 4.1], 0.5),  # what was left when the job ended
        ([1, 1.7, 3.1, 3.9, 5.0, 6.2, 7.0], 1.0),
        ([0.9], 0.9),
    ],
)
def test_the_interval_that_was_asked_for(times, says):
    run = fio_log.Run("read", list(times), [1.0] * len(times))
    assert fio_log.interval([run]) == pytest.approx(says, rel=0.02)


def test_a_gap_of_years_is_not_told_second_by_second():
    found = told("read.iops", iops=log((1, 5, 0), (2, 5, 0), (3, 5, 0), (3_000_000, 5, 0)))
    assert found.times == (1, 2, 3, 4, 2_999_999, 3_000_000)
    assert found.values == (5, 5, 5, 0, 0, 5)


@pytest.mark.parametrize(("late", "series"), [("", 1), ("startdelay=4\n", 0), ("stonewall\n", 0)])
def test_jobs_that_begin_one_after_another_are_not_added_up(late, series):
    """Each log counts from its own job's beginning, and fio before 3.36 does not tell when that was."""
    text = f"[a]\nrw=randread\nruntime=2\n[b]\n{late}rw=randread\nruntime=2\n"
    options = fio.Options(job_file=text, log_avg_msec=500)
    target = Target("t", volume="/dev/sdb", size=1 << 30)
    logs = [name for name in fio.build_job(options, target).outputs if "iops" in name]
    assert logs == ["fio_iops.1.log", "fio_iops.2.log"]
    outputs = {name: log(*((at, 5, 0) for at in RUN)).encode() for name in logs}
    assert len(fio.parse_series(outputs, options)) == series


def hist(*rows: tuple[float, int, int]) -> str:
    """(s, number of a bin, I/Os in it)."""
    return "".join(
        f"{1000 * at:.0f}, 0, 4096, {', '.join(str(hits * (at_ == place)) for at_ in range(1856))}\n"
        for at, place, hits in rows
    )


def test_what_a_job_counted_after_another_was_over_is_not_put_into_its_last_interval():
    """One does quick I/Os for 2 s, the other one slow ones for 4 s."""
    quick, slow = hist(*((at, 600, 900) for at in RUN[:4])), hist(*((at, 1200, 100) for at in RUN))
    found = told("read.clat.p50", clat_hist__1=quick, clat_hist__2=slow)
    assert found.times == tuple(RUN)
    assert found.values[0] < found.values[-1] / 100
    assert len(set(found.values[:4])) == 1 == len(set(found.values[4:]))
    pause = hist(*((at, 600, 900) for at in (0.5, 1.0, 3.5, 4.0)))
    found = told("read.clat.p50", clat_hist__1=pause, clat_hist__2=hist((2.0, 1200, 100)))
    assert found.times == (0.5, 1.0, 2.0, 3.5, 4.0)


@pytest.mark.parametrize(
    ("longest", "ends"),
    [([3.2, 4.2], [1.0, 2.0, 3.0, 4.2]), ([3.6, 4.6], [1.0, 2.0, 3.0, 3.6, 4.6])],
)
def test_a_job_that_goes_on_longer_adds_intervals_beyond_the_half_of_one(longest, ends):
    assert fio_series._interval_ends([[1.0, 2.0, 3.0], longest], 1.0) == ends


@pytest.mark.parametrize(
    ("rows", "column"),
    [
        ([[1, 500, 0, 4096]], 2),
        ([[1, 500, 0, 4096, 0]], 2),
        ([[1, 500, 700, 1, 4096]], 3),
        ([[1, 500, 700, 2, 4096], [2, 500, 500, 0, 4096]], 3),
        ([[1, 500, 700, 1, 4096], [2, 500, 400, 1, 4096]], 2),  # a maximum below its mean
        ([[1, 500, 700, 6, 4096]], 2),  # no such direction
    ],
)
def test_the_column_of_the_direction_follows_the_maximum_where_there_is_one(rows, column):
    assert fio_log._direction_column([(at, row) for at, row in enumerate(rows, 1)]) == column


def test_a_column_that_may_be_either_is_refused():
    with pytest.raises(ParseError, match="cannot be told"):
        fio_log._direction_column([(1, [1, 0, 1, 1, 4096])])
