"""Readers keep every option of a result: those of our tools typed, all others verbatim, and none that is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agents.drivers import registry
from agents.texts.parsed_result import ParsedResult

CASES = Path(__file__).parents[1] / "cases" / "readers"
START = "{}: (g=0): rw={}, bs=4K-4K/4K-4K, ioengine=libaio, iodepth=4\n"
HEAD = """{}: (groupid=0, jobs=1): err= 0: pid=17: Thu Jan  1 00:00:00 2026
  read : io=4096.0KB, bw=1024.0KB/s, iops=256, runt=  4000msec
"""
LINE = {"ioengine": "libaio", "iodepth": 4, "rw": "randread", "block_size": 4096}
DD = "1024+0 records in\n1024+0 records out\n1073741824 bytes (1.1 GB) copied, 5.0 s, 215 MB/s\n"


def run_of(**jobs: str) -> str:
    """Text of fio 2.2 for jobs of these names and patterns."""
    jobs = jobs or {"w": "randread"}
    starts = "".join(START.format(name, rw) for name, rw in jobs.items())
    heads = "".join(HEAD.format(name) for name in jobs)
    return f"{starts}fio-2.2.10\nStarting 1 process\n{heads}Run status group 0 (all jobs):\n\n"


def read(kind: str, text: str) -> list[ParsedResult]:
    return registry.all_readers()[kind].find_results(text, "")


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("fio --name=w --size=4m --sync=1", {"size": 4 << 20, "sync": "1"}),
        ("fio -name=w -filename=/dev/sdb -bs=4k", {"filename": "/dev/sdb"}),
        ("fio --name w --size 8k --rw randread", {"size": 8192}),
        ("fio --direct=1 --name=w --time_based --thread", {"direct": True, "time_based": True, "thread": True}),
        ("fio --group_reporting --name=w --numa_cpu_nodes=0", {"group_reporting": True, "numa_cpu_nodes": "0"}),
        ("sudo fio --name=w --runtime=1m --ramp_time=5 --size=50%", {"runtime_s": 60, "ramp_s": 5, "size": "50%"}),
        ("fio --output-format=json --eta never --name=w --output=x", {}),
        ("fio --name=a --rw=write --name=w --rw=randread --rate=10m", {"rate": "10m"}),
        ("fio --name=w --description='two words'", {"description": "two words"}),
        ("fio --name=w --rw=randread:8 --bssplit=4k/50", {"rw": "randread:8", "bssplit": "4k/50"}),
    ],
)  # fmt: skip
def test_a_command_of_fio(command: str, options: dict[str, Any]) -> None:
    [result] = read("fio", f"$ {command}\n{run_of()}")
    assert result.options == {**LINE, **options, "name": "w", "numjobs": 1}
    assert result.options_complete and not result.trouble


@pytest.mark.parametrize(
    "above",
    [
        "",
        "$ fio job.fio\n",
        "$ fio --name=other --sync=1\n",
        "$ fio --name=w --rw=write --sync=1\n",
        "$ for n in 1 2; do fio --name=w --iodepth=$n; done\n",
    ],
)
def test_a_command_that_tells_nothing_of_the_run(above: str) -> None:
    [result] = read("fio", above + run_of())
    assert result.options == {**LINE, "name": "w", "numjobs": 1}
    assert not result.options_complete


JOBS = """$ cat jobs/job.fio
; two jobs
[global]
bs=4k
direct = 1
[a]
rw=read
[w]
stonewall
sync=1
"""


@pytest.mark.parametrize("command", ["$ fio --output=x job.fio\n", "$ sudo fio jobs/job.fio\n", ""])
def test_a_job_file_in_the_text(command: str) -> None:
    [result] = read("fio", f"{JOBS}{command}{run_of()}")
    own = {"direct": True, "stonewall": True, "sync": "1", "name": "w", "numjobs": 1}
    assert result.options == {**LINE, **own} and result.options_complete
    [other] = read("fio", f"{JOBS}$ fio --name=w --sync=0\n{run_of()}")
    assert other.options == {**LINE, "sync": "0", "name": "w", "numjobs": 1}


def test_jobs_that_one_result_sums_up() -> None:
    command = "$ fio --size=4k --name=a --sync=1 --rw=read --name=w\n"
    [result] = read("fio", command + run_of(a="read", w="randread"))
    own = {"size": 4096, "a.sync": "1", "a.rw": "read", "w.rw": "randread"}
    assert own.items() <= result.options.items()
    assert "sync" not in result.options and not result.options_complete


def test_each_group_has_its_own_options() -> None:
    starts = START.format("a", "randread") + START.format("b", "randread").replace("g=0", "g=1")
    heads = HEAD.format("a") + HEAD.format("b").replace("groupid=0", "groupid=1")
    command = "$ fio --size=4k --name=a --rw=randread --name=b --stonewall --sync=1 --rw=randread\n"
    [result] = read(
        "fio", f"{command}{starts}fio-2.2.10\n{heads}Run status group 0 (all jobs):\n\n"
    )
    assert result.varies == "group" and list(result.parts) == ["0", "1"]
    first, second = result.each_part()
    own = {**LINE, "size": 4096, "numjobs": 1}
    assert (first.title, first.options) == ("a", {**own, "name": "a"})
    assert (second.title, second.options) == (
        "b",
        {**own, "sync": "1", "stonewall": True, "name": "b"},
    )
    for part in (first, second):
        assert part.options_complete and part.outstanding == 4 and part.metrics
        assert not any(metric.labels for metric in part.metrics)


@pytest.mark.parametrize(
    ("kind", "text", "options"),
    [
        ("dd", f"dd if=/dev/zero of=x bs=1M count=1024 conv=fdatasync,excl oflag=direct seek=3 status=progress\n{DD}",
         {"if": "/dev/zero", "of": "x", "block_size": 1 << 20, "count": 1024, "direction": "write", "source": "zero",
          "conv": ["fdatasync", "excl"], "oflag": ["direct"], "seek": "3"}),
        ("pg_test_fsync", "$ pg_test_fsync -s 2 --filename /x/y\n2 seconds per test\n"
         "Compare file sync methods using one 8kB write:\n        fdatasync      100.000 ops/sec   10000 usecs/op\n",
         {"seconds": 2, "filename": "/x/y"}),
    ],
)  # fmt: skip
def test_other_commands(kind: str, text: str, options: dict[str, Any]) -> None:
    [result] = read(kind, text)
    assert result.options == options and result.options_complete


def test_a_command_of_sysbench() -> None:
    """Of 0.4, above an output of 1.0: what the output says itself counts."""
    lines = (CASES / "sysbench" / "terminal.txt").read_text().split("\n")
    at = next(index for index, line in enumerate(lines) if "--time=3" in line)
    lines[at] = (
        "$ sysbench --test=fileio --max-time=3 --num-threads=9 --file-merged-requests=2 --percentile=99 run"
    )
    result = read("sysbench", "\n".join(lines))[0]
    assert {
        "time_s": 3,
        "file-merged-requests": "2",
        "threads": 2,
    }.items() <= result.options.items()
    assert (
        result.options_complete
        and not {"test", "num-threads", "percentile"} & result.options.keys()
    )


@pytest.mark.parametrize(
    ("options", "same"),
    [
        ({"filename": "/dev/sdb", "size": 4096, "sync": "0"}, True),
        ({"sync": "1"}, False),
        ({"rate": "10m"}, False),
        ({"fdatasync": 1}, False),
    ],
)
def test_other_work_of_another_campaign_is_not_the_same(
    options: dict[str, Any], same: bool
) -> None:
    plain = registry.same_work("fio", LINE)
    assert (registry.same_work("fio", {**LINE, **options}) == plain) is same
