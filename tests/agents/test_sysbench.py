"""sysbench fileio: its figures read by other means than the driver's, of broken outputs, and of a real run."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from agents import options as driver_options
from agents.contracts import Metric, ParseError, Target, Timing
from agents.drivers import registry
from agents.jobs import job as jobs
from agents.jobs import spool
from agents.readers import sysbench as sysbench_reader
from agents.tools import _scripts, sysbench
from benchlab.testing.profiles import examples
from tests.agents.conftest import shell_as
from tests.each_case import check_each

CASES = Path(__file__).parents[1] / "cases" / "tools" / "sysbench"
RUNS = sorted(CASES.glob("1.0.20-*.txt"))
MIB = 1 << 20
SMALL = {"size": 4 * MIB, "files": 4, "time_s": 1}
# A figure, the label in front of it, what it is multiplied by.
PLAIN = (
    ("read.iops", "reads/s:", 1), ("write.iops", "writes/s:", 1), ("fsync.ops", "fsyncs/s:", 1),
    ("read.bandwidth", "read, MiB/s:", MIB), ("write.bandwidth", "written, MiB/s:", MIB),
    ("runtime", "total time:", 1), ("events", "total number of events:", 1),
)  # fmt: skip


def case(path: Path) -> tuple[str, sysbench.Options]:
    asked = json.loads(path.with_suffix(".expected.json").read_text())["options"]
    return path.read_text(), driver_options.build_options(sysbench.Options, asked)


def figures(text: str, options: sysbench.Options) -> dict[str, Metric]:
    return {one.name: one for one in sysbench.parse({"stdout": text.encode()}, options)}


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_each_figure_is_what_stands_behind_its_label(path):
    text, options = case(path)
    found, told = figures(text, options), {}
    for name, label, times in PLAIN:
        shown = re.search(rf"^ +{re.escape(label)} +([\d.]+)", text, re.M)
        told[name] = float(shown[1]) * times
        assert name not in found or found[name].value == pytest.approx(told[name]), name
        assert name in found or not told[name], name
    assert found["iops"].value == pytest.approx(told["read.iops"] + told["write.iops"])
    for one in found.values():
        assert one.line and one.output == "stdout"


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_rate_times_mean_is_the_threads_at_work(path):
    """Little's law, of the printed sums alone: no thread does two things at once."""
    text, options = case(path)
    found = figures(text, options)
    [mean] = [one.value for name, one in found.items() if name.endswith(".mean")]
    busy = found["events"].value / found["runtime"].value * mean
    assert 0 < busy <= options.threads * 1.02


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({"mode": "rndrd"}, "lat.mean"),
        ({"mode": "seqrd", "io_mode": "mmap"}, "lat.mean"),
        ({"mode": "rndwr", "fsync_freq": 0}, "lat.mean"),
        ({"mode": "rndwr"}, "event.mean"),
        ({"mode": "rndrw", "fsync_freq": 0, "fsync_all": True}, "event.mean"),
        ({"mode": "rndrd", "io_mode": "async"}, "event.mean"),
    ],
)
def test_a_time_is_called_a_latency_only_where_it_is_one(asked, name):
    wish = sysbench._requested_run(driver_options.build_options(sysbench.Options, asked))
    assert f"{wish.times}.mean" == name


def test_what_it_printed_meanwhile_is_a_series():
    text, options = case(CASES / "1.0.20-debian11-rndrw.txt")
    found = {one.metric: one for one in sysbench.parse_series({"stdout": text.encode()}, options)}
    assert set(found) == {"read.bandwidth", "write.bandwidth", "fsync.ops", "event.p99"}
    lines = re.findall(r"^\[ (\d+)s \] reads: ([\d.]+) MiB/s", text, re.M)
    assert found["read.bandwidth"].times == tuple(float(at) for at, _ in lines)
    assert found["read.bandwidth"].values == tuple(float(said) * MIB for _, said in lines)
    silent, quiet = case(CASES / "1.0.20-debian12-seqrewr-dsync.txt")
    assert sysbench.parse_series({"stdout": silent.encode()}, quiet) == []


def broken(random: Random, text: str) -> str:
    lines = text.split("\n")
    at = random.randrange(len(lines))
    how = random.randrange(5)
    if how == 0:
        return "\n".join(lines[:at])
    if how == 1:
        del lines[at]
    elif how == 2:
        lines.insert(at, random.choice(lines))
    elif how == 3:
        lines[at] = lines[at][: random.randrange(len(lines[at]) + 1)]
    else:
        digits = [m.start() for m in re.finditer(r"\d", lines[at])]
        if digits:
            where = random.choice(digits)
            lines[at] = lines[at][:where] + random.choice("0123456789,") + lines[at][where + 1 :]
    return "\n".join(lines)


def test_a_broken_output_gives_an_error_or_figures_that_stand_in_it():
    check_each(check_broken, range(examples(3_000)))


def check_broken(seed):
    random = Random(seed)
    text, options = case(random.choice(RUNS))
    text = broken(random, text)
    try:
        found = figures(text, options)
    except ParseError:
        return
    rows = text.split("\n")
    for name, label, times in PLAIN:
        if name in found:
            row = rows[found[name].line - 1]
            assert label in row and float(row.split()[-1].rstrip("s")) * times == found[name].value


@pytest.mark.skipif(shutil.which("sysbench") is None, reason="sysbench is not installed")
@pytest.mark.parametrize(
    "asked", [{"mode": "rndrw", "threads": 2}, {"mode": "seqwr", "events": 500}]
)
@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_a_real_run(shell, asked, base, tmp_path):
    """Laid out, run, told when, and nothing left of it; also of what a killed one left."""
    place = tmp_path / "mnt"
    (place / sysbench.DIRECTORY / "old").mkdir(parents=True)
    options = driver_options.build_options(sysbench.Options, {**SMALL, **asked})
    job = sysbench.build_job(options, Target("bl1", mount=str(place)))
    job = replace(job, drop_caches=False, root=os.geteuid() == 0)
    there = shell_as(shell, tmp_path / "bin")
    here = spool.Spool("attempt-1", root=job.root, base=str(base))
    try:
        jobs.start_job(there, here, job, ("/proc/diskstats",), interval_s=0.5)
        assert jobs.poll(there, here, 60).state.is_over
        done = jobs.fetch(there, here, job.outputs)
    finally:
        jobs.stop_job(there, here)
    assert done.meta.exit_code == 0, done.files
    found = figures(done.files["stdout"].decode(), options)
    assert not list(place.iterdir())
    windows = told_windows(done, options)
    names = ["measured"] if asked["mode"] == "seqwr" else ["file layout", "measured"]
    assert [one.name for one in windows] == names
    took = windows[-1].end - windows[-1].start
    assert took >= found["runtime"].value - 0.1


def told_windows(done: jobs.Fetched, options: sysbench.Options):
    began, ended = done.meta.started_mono, done.meta.ended_mono
    return sysbench.parse_windows(done.files, options, Timing(began, ended, done.meta.started_at))


@pytest.mark.skipif(shutil.which("sysbench") is None, reason="sysbench is not installed")
def test_a_mount_that_is_full_fails_and_says_why(base, tmp_path):
    """Files cannot be laid out, here because a file is in the place of the directory."""
    place = tmp_path / "mnt"
    place.write_text("no directory")
    job = sysbench.build_job(
        driver_options.build_options(sysbench.Options, SMALL), Target("bl1", mount=str(place))
    )
    job = replace(job, drop_caches=False, root=os.geteuid() == 0)
    there = shell_as("dash", tmp_path / "bin")
    here = spool.Spool("attempt-1", root=job.root, base=str(base))
    try:
        jobs.start_job(there, here, job, ("/proc/diskstats",), interval_s=0.5)
        assert jobs.poll(there, here, 60).state.is_over
        done = jobs.fetch(there, here, job.outputs)
    finally:
        jobs.stop_job(there, here)
    assert done.meta.exit_code and b"mkdir" in done.files["stderr"]
    with pytest.raises(ParseError, match="printed nothing"):
        sysbench.parse(done.files, sysbench.Options())


def outputs(marks: str) -> Mapping[str, bytes]:
    return {_scripts.MARKS: marks.encode()}


def test_no_window_is_guessed():
    timing = Timing(10.0, 20.0, None)
    options = sysbench.Options()
    assert sysbench.parse_windows(outputs(""), options, timing) == []
    assert sysbench.parse_windows(outputs("12000000000 began\n"), options, timing) == []
    told = sysbench.parse_windows(
        outputs("12000000000 began\n15000000000 ended\n"), options, timing
    )
    assert [(one.name, one.start, one.end, one.measured) for one in told] == [
        ("file layout", 0.0, 2.0, False),
        ("measured", 2.0, 5.0, True),
    ]


def test_the_charts_know_which_options_make_the_outstanding_ios():
    assert set(registry.depth_options()) >= {
        "iodepth",
        "numjobs",
        "outstanding_ios",
        "threads",
        "async_backlog",
    }


def test_details_tell_the_time_of_the_mean_thread():
    """Printed beside the figures, for the diagnosis alone."""
    path = Path(__file__).parents[1] / "cases" / "readers" / "sysbench" / "terminal.txt"
    text = path.read_text()
    details = [
        metric for result in sysbench_reader.find_results(text, "") for metric in result.details
    ]
    assert {metric.name for metric in details} == {"thread.events", "thread.time"}
    for metric in details:
        assert f"{metric.value:.4f}" in text.split("\n")[metric.line - 1]
