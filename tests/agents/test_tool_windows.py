"""Windows as each tool tells them: on a real run of the runner on this machine, and from outputs alone."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agents.contracts import Frame, ParseError, Target, Timing, Window
from agents.drivers import protocols, registry
from agents.jobs import job as jobs
from agents.jobs import spool
from agents.outputs import bonnie_output
from agents.tools import bonnie, dd, fio, pg_test_fsync
from tests.agents.conftest import shell_as
from tests.agents.test_bonnie_pg_real import embedded

MIB = 1 << 20
CASES = Path(__file__).parents[1] / "cases" / "tools"
TICK = 0.1


@pytest.fixture(params=["dash", "bash"])
def ran(request, base, tmp_path):
    """Runs a tool as the engine does; windows since the job began, the frames, and how it was."""
    shell = shell_as(request.param, tmp_path / "bin")
    (tmp_path / "mnt").mkdir()
    made = []

    def run(kind: str, options: Any) -> tuple[list[Window], list[Frame], jobs.Fetched]:
        marking = registry.implements(kind, protocols.MeasuredWindows)
        assert marking is not None
        job = registry.tool(kind).build_job(options, Target("bl1", mount=str(tmp_path / "mnt")))
        job = replace(job, drop_caches=False, root=os.geteuid() == 0)
        here = spool.Spool("attempt-1", root=job.root, base=str(base))
        made.append(here)
        jobs.start_job(shell, here, job, ("/proc/diskstats",), interval_s=TICK)
        assert jobs.poll(shell, here, 60).state.is_over
        done = jobs.fetch(shell, here, job.outputs)
        assert done.meta.exit_code == 0, done.files
        began, ended = done.meta.started_mono, done.meta.ended_mono
        assert began is not None and ended is not None
        found = marking.parse_windows(
            done.files, options, Timing(began, ended, done.meta.started_at)
        )
        assert all(-0.01 <= one.start <= one.end <= ended - began + 0.01 for one in found), found
        return found, jobs.frames(done.samples), done

    yield run
    for here in made:
        jobs.stop_job(shell, here)
    assert not list((tmp_path / "mnt").iterdir())


@pytest.mark.one_in(2)
@pytest.mark.alone  # on a busy machine a line is seen late, and a second looks like less
def test_pg_test_fsync_tells_each_test(ran):
    options = pg_test_fsync.Options(seconds=1, program=embedded())
    found, _, done = ran("pg_test_fsync", options)
    rates = [m.name.removesuffix(".ops") for m in pg_test_fsync.parse(done.files, options)
             if m.name.endswith(".ops") and m.value is not None]  # fmt: skip
    assert [one.name for one in found] == rates and len(rates) > 12
    # How much more says how busy the machine is
    assert all(one.end - one.start >= 0.99 for one in found), found
    assert all(a.end <= b.start + 0.01 for a, b in pairwise(found))


def test_dd_tells_when_it_read_and_when_its_file_was_laid_out(ran):
    found, _, done = ran("dd", dd.Options(direction="read", count=64))
    assert [(one.name, one.measured) for one in found] == [
        ("file layout", False),
        ("measured", True),
    ]
    seconds = {m.name: m.value for m in dd.parse(done.files, dd.Options())}["runtime"]
    assert seconds is not None
    assert seconds <= found[1].end - found[1].start
    assert found[0].end == found[1].start


@pytest.mark.skipif(shutil.which("bonnie++") is None, reason="bonnie++ is not installed")
@pytest.mark.slow
def test_bonnie_tells_each_test(ran):
    found, _, done = ran("bonnie", bonnie.Options(size=64 * MIB, ram=32 * MIB, files=1))
    names = [one.name for one in found]
    assert names == [*bonnie_output.IO, *bonnie_output.FILES]
    assert b"Writing intelligently...done\n" in done.files["stderr"]
    assert all(a.end == b.start for a, b in pairwise(found))


@pytest.mark.one_in(2)
@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
def test_fio_tells_its_ramp_and_what_it_measured(ran):
    """Its own log and the window are of the same clock: what it moved by its log, it moved in there."""
    options = fio.Options(rw="randwrite", size=32 * MIB, runtime_s=2, ramp_s=1, iodepth=1,
                          ioengine="psync", direct=False, log_avg_msec=100)  # fmt: skip
    found, _, done = ran("fio", options)
    assert [one.name for one in found][-2:] == ["ramp", "measured"]
    measured = found[-1]
    runtime = json.loads(done.files["fio.json"])["jobs"][0]["write"]["runtime"] / 1000
    assert measured.start > 1.0 and runtime - 0.31 < measured.end - measured.start < runtime + 0.01
    lasts = max(one.times[-1] for one in fio.parse_series(done.files, options))
    assert lasts <= runtime + 0.2, "the log counts from where the window begins"


def windows_of(case: str, timing: Timing, options: fio.Options = fio.Options()) -> list[Window]:  # noqa: B008
    raw = (CASES / "fio" / case).read_bytes()
    return fio.parse_windows({"fio.json": raw}, options, timing)


def test_fio_that_tells_when_a_job_began():
    # 3.41: job_start 1795232021405, runtime 2001 ms
    found = windows_of(
        "3.41-randread.json", Timing(50.0, 56.0, 1795232020.0), fio.Options(ramp_s=0)
    )
    assert [(one.name, one.measured) for one in found] == [
        ("file layout", False),
        ("measured", True),
    ]
    assert found[0].start == 0 and found[0].end == found[1].start
    assert (found[1].start, found[1].end) == pytest.approx((1.405, 3.406), abs=1e-3)


def test_an_older_fio_tells_its_end_only():
    raw = json.loads((CASES / "fio" / "3.25-randrw.json").read_text())
    stamp = raw["timestamp_ms"] / 1000
    ran_s = max(raw["jobs"][0][name]["runtime"] for name in ("read", "write")) / 1000
    found = windows_of("3.25-randrw.json", Timing(0.0, 100.0, stamp - 60), fio.Options(ramp_s=10))
    assert [one.name for one in found] == ["file layout", "ramp", "measured"]
    assert found[-1].start == pytest.approx(60 - ran_s) and found[-1].end == pytest.approx(59.7)
    assert found[1].start == pytest.approx(50 - ran_s)


def test_several_groups_of_an_older_fio_are_not_guessed():
    stamp = json.loads((CASES / "fio" / "3.33-stonewall.json").read_text())["timestamp_ms"] / 1000
    assert windows_of("3.33-stonewall.json", Timing(0.0, 100.0, stamp - 60)) == []
    text = "[one]\nrw=read\nsize=4m\n[two]\nstartdelay=5\nrw=read\nsize=4m\n"
    late = fio.Options(job_file=text)
    stamp = json.loads((CASES / "fio" / "3.25-randrw.json").read_text())["timestamp_ms"] / 1000
    assert windows_of("3.25-randrw.json", Timing(0.0, 100.0, stamp - 60), late) == []


@pytest.mark.parametrize(
    "timing", [Timing(0.0, 9.0, None), Timing(0.0, 9.0, 1.0), Timing(0.0, 1.0, 1795232020.0)]
)
def test_where_the_wall_clock_was_set_nothing_is_told(timing):
    assert windows_of("3.41-randread.json", timing) == []


def test_a_program_that_keeps_its_lines_back_tells_no_times():
    lines = (CASES / "pg_test_fsync" / "15.18.txt").read_text()
    marks = "".join(f"9000000000 {line}\n" for line in lines.split("\n"))
    outputs = {"stdout": lines.encode(), "marks": marks.encode()}
    assert (
        pg_test_fsync.parse_windows(outputs, pg_test_fsync.Options(), Timing(1.0, 99.0, None)) == []
    )


def fsync_windows(late: dict[str, float]) -> dict[str, tuple[float, float]]:
    """Windows of a run whose tests take 1.02 s each from 10 s on; `late`: seconds by which a test's line is late."""
    lines = (CASES / "pg_test_fsync" / "15.18.txt").read_text().split("\n")
    stdout = "\n".join(lines).encode()
    figures = pg_test_fsync.parse({"stdout": stdout}, pg_test_fsync.Options())
    rows = {
        m.line: m.name.removesuffix(".ops") for m in figures if m.name.endswith(".ops") and m.value
    }
    at, marks = 10.0, []
    for number, line in enumerate(lines[:-1], start=1):
        at += 1.02 if number in rows else 0.0
        seen = at + late.get(rows.get(number, ""), 0.0)
        marks.append(f"{int(seen * 1e9)} {line}\n")
    outputs = {"stdout": stdout, "marks": "".join(marks).encode()}
    found = pg_test_fsync.parse_windows(
        outputs, pg_test_fsync.Options(seconds=1), Timing(0.0, 99.0, None)
    )
    return {one.name: (round(one.start, 2), round(one.end, 2)) for one in found}


def test_on_a_busy_host_each_test_has_its_window():
    """A line that is seen late makes its test longer and the next one shorter; all 17 were lost by one of them."""
    punctual = fsync_windows({})
    assert list(punctual.items())[:2] == [
        ("one.open_datasync", (10.0, 11.02)), ("one.fdatasync", (11.02, 12.04)),
    ]  # fmt: skip
    assert len(punctual) == 16 and all(a[1] == b[0] for a, b in pairwise(punctual.values()))
    # Behind the last test of a section, too, whose end is also the beginning of the next section's first.
    late = {
        "one.open_datasync": 0.3,
        "one.open_sync": 0.4,
        "other_descriptor.write_fsync_close": 0.25,
    }
    busy = fsync_windows(late)
    assert busy.keys() == punctual.keys()
    for name, (start, end) in busy.items():
        assert end - start >= 1.0 and start - punctual[name][0] in (0, pytest.approx(0.02)), name
        assert end - punctual[name][1] in (0, pytest.approx(0.02)), name


def test_a_test_whose_line_came_far_too_late_costs_its_neighbours_no_window():
    punctual, found = fsync_windows({}), fsync_windows({"two.fsync": 0.8})
    assert punctual.keys() - found.keys() == {"two.fsync", "two.open_sync"}
    assert found.items() <= punctual.items()


def test_without_a_clock_of_the_runner_there_are_no_marks():
    timing = Timing(1.0, 9.0, None)
    assert dd.parse_windows({"marks": b"0 dd\n0 end\n"}, dd.Options(), timing) == []
    assert dd.parse_windows({}, dd.Options(), timing) == []
    with pytest.raises(ParseError, match="line 2"):
        dd.parse_windows({"marks": b"5 dd\nend\n"}, dd.Options(), timing)


@pytest.mark.parametrize(
    ("line", "test"),
    [
        ("Writing with putc()...done", "write.char"),
        ("Writing 8192 bytes at a time...done", "write.block"),
        ("start 'em...done...done...done...done...done...", "seeks"),
        ("Stat files in random order...done.", "stat.random"),
        ("Writing intelligently...", ""),
        ("Using uid:0, gid:0.", ""),
    ],
)
def test_whose_progress_a_line_of_bonnie_tells(line, test):
    assert bonnie_output.test_of(line) == test
