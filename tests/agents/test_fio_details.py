# SPDX-License-Identifier: Apache-2.0
"""Output of fio beside its figures (Disk stats, ctx, spread of rates, depths): the same from text and from JSON."""

from __future__ import annotations

import json

import pytest

from agents.readers import fio

TEXT = """\
a: (groupid=0, jobs=1): err= 0: pid=1: Tue Mar 12 10:14:07 2024
  read: IOPS=250, BW=1000KiB/s (1024kB/s)(9.77MiB/10000msec)
    clat (usec): min=31, max=535, avg=82.60, stdev=17.41
   bw (  KiB/s): min=  900, max= 1100, per=50.00%, avg=1000.50, stdev=20.25, samples=19
   iops        : min=  225, max=  275, avg=250.10, stdev= 5.06, samples=19
  cpu          : usr=2.90%, sys=8.80%, ctx=2500, majf=0, minf=11
  IO depths    : 1=100.0%, 2=0.0%, 4=0.0%, 8=0.0%, 16=0.0%, 32=0.0%, >=64=0.0%
     submit    : 0=0.0%, 4=100.0%, 8=0.0%, 16=0.0%, 32=0.0%, 64=0.0%, >=64=0.0%
     issued rwts: total=2500,0,0,0 short=0,0,0,0 dropped=0,0,0,0
b: (groupid=0, jobs=1): err= 0: pid=2: Tue Mar 12 10:14:07 2024
  read: IOPS=750, BW=3000KiB/s (3072kB/s)(29.3MiB/10000msec)
    clat (usec): min=31, max=535, avg=82.60, stdev=17.41
   bw (  KiB/s): min= 2900, max= 3100, per=50.00%, avg=3000.50, stdev=20.25, samples=19
   iops        : min=  725, max=  775, avg=750.10, stdev= 5.06, samples=19
  cpu          : usr=2.90%, sys=8.80%, ctx=7500, majf=0, minf=11
  IO depths    : 1=20.0%, 2=80.0%, 4=0.0%, 8=0.0%, 16=0.0%, 32=0.0%, >=64=0.0%
     submit    : 0=0.0%, 4=100.0%, 8=0.0%, 16=0.0%, 32=0.0%, 64=0.0%, >=64=0.0%
     issued rwts: total=7500,0,0,0 short=0,0,0,0 dropped=0,0,0,0

Run status group 0 (all jobs):
   READ: bw=4000KiB/s (4096kB/s), 1000KiB/s-3000KiB/s (1024kB/s-3072kB/s), io=39.1MiB (41.0MB), run=10000-10000msec

Disk stats (read/write):
    md0: ios=10000/3, merge=0/0, ticks=0/0, in_queue=0, util=0.00%, aggrios=5000/1, aggrmerge=0/0, aggrticks=1/0
  sda: ios=5000/1, sectors=40000/8, merge=12/2, ticks=4000/10, in_queue=4010, util=41.30%
"""


def json_job(name: str, iops: int, ctx: int, levels: dict[str, float]) -> dict[str, object]:
    ios, kib = iops * 10, iops * 4
    read = {
        "io_bytes": kib * 10240, "io_kbytes": kib * 10, "bw_bytes": kib * 1024, "bw": kib, "iops": float(iops),
        "runtime": 10000, "total_ios": ios,
        "bw_min": kib - 100, "bw_max": kib + 100, "bw_mean": kib + 0.5, "bw_dev": 20.25, "bw_samples": 19,
        "iops_min": iops - 25, "iops_max": iops + 25, "iops_mean": iops + 0.1, "iops_stddev": 5.06, "iops_samples": 19,
    }  # fmt: skip
    return {
        "jobname": name, "groupid": 0, "error": 0, "read": read, "usr_cpu": 2.9, "sys_cpu": 8.8, "ctx": ctx,
        "iodepth_level": levels,
    }  # fmt: skip


DOCUMENT = {
    "fio version": "fio-3.36",
    "jobs": [
        json_job("a", 250, 2500, {"1": 100.0, "2": 0.0, ">=64": 0.0}),
        json_job("b", 750, 7500, {"1": 20.0, "2": 80.0, ">=64": 0.0}),
    ],
    "disk_util": [
        {"name": "md0", "read_ios": 10000, "write_ios": 3, "util": 0.0},
        {
            "name": "sda", "read_ios": 5000, "write_ios": 1, "read_merges": 12, "write_merges": 2, "read_ticks": 4000,
            "write_ticks": 10, "in_queue": 4010, "util": 41.3,
        },
    ],
}  # fmt: skip

EXPECTED = {
    "ctx": 10000.0,
    # 2,500 I/Os at depth 1 wholly, 7,500 by a fifth
    "depth.level.1": 0.4,
    "depth.level.2": 0.6,
    "depth.level.64": 0.0,
    # means add up; the lowest of a sum is unknown
    "read.bandwidth.mean": 4001 * 1024.0,
    "read.bandwidth.min": None,
    "read.iops.mean": 1000.2,
    "read.iops.samples": 38.0,
    "disk.read.ios sda": 5000.0,
    "disk.read.ios md0": 10000.0,
    "disk.write.merges sda": 2.0,
    "disk.read.ticks sda": 4.0,
    "disk.queue sda": 4.01,
    "disk.util sda": 0.413,
}


def details(text: str) -> dict[str, tuple[float | None, int]]:
    (result,) = fio.find_results(text, "")
    assert not result.trouble
    return {
        f"{m.name} {m.labels.get('device', '')}".strip(): (m.value, m.line) for m in result.details
    }


@pytest.mark.parametrize("text", [TEXT, json.dumps(DOCUMENT, indent=2)], ids=["text", "json"])
def test_details_of_two_jobs(text: str) -> None:
    printed = details(text)
    values = {name: printed.get(name, (None, 0))[0] for name in EXPECTED}
    assert values == pytest.approx(EXPECTED)


@pytest.mark.parametrize("text", [TEXT, json.dumps(DOCUMENT, indent=2)], ids=["text", "json"])
def test_details_of_one_job_have_the_spread(text: str) -> None:
    if text == TEXT:
        alone = TEXT[: TEXT.index("b: (")] + TEXT[TEXT.index("\nRun status") :]
    else:
        alone = json.dumps({**DOCUMENT, "jobs": DOCUMENT["jobs"][:1]}, indent=2)
    printed = details(alone)
    assert printed["read.bandwidth.min"][0] == 900 * 1024.0
    assert printed["read.iops.stddev"][0] == 5.06


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("ctx", "ctx"),
        ("disk.util sda", "util"),
        ("read.iops.mean", "iops"),
        ("disk.util md0", "util"),
    ],
)
def test_details_name_their_line(name: str, part: str) -> None:
    for text in (TEXT, json.dumps(DOCUMENT, indent=2)):
        assert part in f"x\n{text}".split("\n")[details(f"x\n{text}")[name][1] - 1]


def test_several_groups_are_labelled() -> None:
    second = TEXT.index("b: (groupid=0")
    text = TEXT[:second] + TEXT[second:].replace("groupid=0", "groupid=1", 1)
    (result,) = fio.find_results(text, "")
    switches = [(m.labels.get("group"), m.value) for m in result.details if m.name == "ctx"]
    assert switches == [("0", 2500.0), ("1", 7500.0)]
