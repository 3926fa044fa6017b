"""The time that fio may take before it is stopped: as long as its jobs say, or as their sizes need."""

from __future__ import annotations

import pytest

from agents.contracts import Target
from agents.outputs import fio_jobfile as jobfile
from agents.tools import fio

TB = 10**12
DISK = Target("bl1", volume="/dev/bl1/data", size=4 * TB)
FILL = "[fill]\nrw=write\nbs=1M\nsize=100%\n"


def test_a_fill_before_a_timed_job_has_the_time_that_the_disk_needs():
    made = fio.build_job(
        fio.Options(job_file=FILL + "[rand]\nstonewall\nrw=randread\nruntime=600\n"), DISK
    )
    assert made.expected_s == pytest.approx(4 * TB / 100e6 + 600)
    assert made.timeout_s > 4 * TB / 30e6, "a disk of 30 MB/s is filled"


def test_an_extra_runtime_is_the_runtime():
    made = fio.build_job(fio.Options(extra=("runtime=7200",)), DISK)
    assert (made.expected_s, made.timeout_s) == (7202, 7202 * 3 + 1800)
    assert fio.build_job(fio.Options(extra=("timeout=2h",)), DISK).expected_s == 7202


def test_a_random_job_that_ends_with_its_size_may_be_slow():
    made = fio.build_job(fio.Options(rw="randwrite", runtime_s=0, size=10 << 30), DISK)
    assert made.timeout_s > (10 << 30) / 4096 / 80, "a disk of 80 IOPS gets through"


def test_a_timed_job_is_not_waited_for_longer():
    made = fio.build_job(fio.Options(runtime_s=60), DISK)
    assert (made.expected_s, made.timeout_s) == (62, 62 * 3 + 1800)


def test_nobody_waits_for_ever():
    unknown = Target("bl1", volume="/dev/bl1/data", size=0)
    made = fio.build_job(fio.Options(job_file=FILL), unknown)
    assert made.timeout_s == 3600 * 3 + 1800 + fio.LONGEST_S
    huge = fio.build_job(fio.Options(job_file=FILL + "loops=1000\n"), DISK)
    assert huge.timeout_s == huge.expected_s * 3 + 1800 + fio.LONGEST_S


@pytest.mark.parametrize(
    ("lines", "work"),
    [
        ("size=4g", 4 << 30),
        ("size=25%\nnumjobs=2", 500),
        ("size=4k\nloops=3", 12 << 10),
        ("size=1m\nio_size=2MiB", 2 << 20),
        ("size=17", 17),
        ("", 1000),
        ("size=1m\nfill_device=1", 1000),
        ("size=1m\nruntime=5", 0),
        ("size=1m\ntimeout=5", 0),
    ],
)
def test_the_work_of_a_job_without_a_time(lines, work):
    assert jobfile.work(jobfile.parse_job_file(f"[a]\n{lines}\n"), 1000) == work
