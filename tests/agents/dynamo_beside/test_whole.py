"""Whole tests: figures, live lines, files that are made, used again and removed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.dynamo import account, transcript
from tests.agents.dynamo_beside.beside import (
    MIB,
    asked,
    config,
    console,
    figures,
    result,
)


def test_a_whole_test(work: Path) -> None:
    config(work, duration=1.0, poll=0.25, ramp=0.1)
    ran = console(work)
    assert (ran.returncode, ran.stderr) == (0, "")
    found = figures(work)
    assert found["iops"] == pytest.approx(1000, rel=0.03)
    assert found["read.iops"] + found["write.iops"] == found["iops"]
    assert found["bandwidth"] == pytest.approx(8192e3, rel=0.03)
    assert found["lat.mean"] == pytest.approx(0.004, rel=0.03)
    assert 0.5 < found["runtime"] < 3  # a busy machine is late to begin or to end
    assert (found["lat.p99.low"], found["lat.p99.high"]) == pytest.approx((0.002, 0.004), rel=0.03)
    assert found["tick_rate.reported"] == 1e9
    (test,) = account.reconstruct_tests(
        transcript.parse_transcript((work / "messages.bin").read_bytes())
    )
    assert found["tick_rate.measured"] == pytest.approx(1e9, rel=test.rate.doubt + 2e-3)
    assert found["cpu.busy"] == 0.25
    names = asked(work)
    assert names.index("STOP") < names.index("EXIT")
    assert "REPORT_TARGETS" not in names  # it would touch every disk of the host
    assert 1 <= names.count("REPORT_UPDATE") <= 4  # what is late or takes long is left out
    assert (work.parent / "mnt" / "iometer1" / "iobw.tst").stat().st_size == MIB


def test_live_lines_come_each_poll(work: Path) -> None:
    config(work, duration=2.0, poll=0.5)
    assert console(work).returncode == 0
    lines = [json.loads(line) for line in (work / "live.jsonl").read_text().splitlines()]
    rates = [line["iops"] for line in lines if "iops" in line]
    assert 1 <= len(rates) <= 4
    assert rates == pytest.approx([1000] * len(rates), rel=0.1)
    phases = [line["phase"] for line in lines]
    assert [p for n, p in enumerate(phases) if p not in phases[:n]] == [
        "prepare", "set up", "start", "ramp", "record", "stop", "results", "exit",
    ]  # fmt: skip


def test_ready_files_are_used_again_and_short_ones_made_anew(work: Path) -> None:
    config(work)
    assert console(work).returncode == 0
    file = work.parent / "mnt" / "iometer1" / "iobw.tst"
    before = file.stat().st_mtime_ns
    assert console(work).returncode == 0
    assert file.stat().st_mtime_ns == before
    config(work, size=2 * MIB)
    assert console(work).returncode == 0
    assert file.stat().st_size == 2 * MIB  # appended to, it would have 3


@pytest.mark.parametrize("kind", ["xfs", "ext4"])
def test_files_are_whole_whatever_dynamo_would_make_of_them(work: Path, kind: str) -> None:
    """On xfs its own preparation leaves a sixteenth, and says that all is well."""
    config(work, workers=2, own=True)
    ran = console(work, f"fs={kind}")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "PREP_DISKS" not in asked(work)
    files = sorted((work.parent / "mnt").glob("*/iobw.tst"))
    assert [file.stat().st_size for file in files] == [MIB, MIB]


def test_files_are_removed_where_they_are_not_to_be_kept(work: Path) -> None:
    config(work, keep=False)
    assert console(work).returncode == 0
    assert list((work.parent / "mnt").iterdir()) == []


def test_several_workers_and_targets(work: Path) -> None:
    config(work, workers=2, targets=2, outstanding=3)
    assert console(work).returncode == 0
    rows = result(work)["metrics"]
    assert [r[1] for r in rows if r[0] == "iops"] == pytest.approx(
        [4000, 2000, 1000, 1000, 2000, 1000, 1000], rel=0.02
    )
    labels = [r[3] for r in rows if r[0] == "iops"]
    assert labels[1:3] == [{"worker": "1"}, {"worker": "1", "target": "1"}]
    (test,) = account.reconstruct_tests(
        transcript.parse_transcript((work / "messages.bin").read_bytes())
    )
    seeds = [target.random for worker in test.workers for target in worker.targets]
    assert len(set(seeds)) == 4
    assert asked(work).count("SET_TARGETS") == 2


def test_workers_with_files_of_their_own(work: Path) -> None:
    config(work, workers=2, own=True)
    assert console(work).returncode == 0
    assert sorted(path.name for path in (work.parent / "mnt").iterdir()) == ["iometer1", "iometer2"]


@pytest.fixture
def loop(work: Path) -> Iterator[str]:
    """A block device of 64 MiB that is nobody's."""
    image = work.parent / "disk"
    with image.open("wb") as file:
        file.truncate(64 * MIB)
    made = subprocess.run(
        ["losetup", "-f", "--show", str(image)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no loop device here: {made.stderr.strip()}")
    yield made.stdout.strip()
    subprocess.run(["losetup", "-d", made.stdout.strip()], check=True)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("losetup"), reason="needs root")
def test_a_raw_volume_is_used_as_it_is(work: Path, loop: str) -> None:
    config(work, mount="", volume=loop, size=0, workers=2, own=True)
    ran = console(work)
    assert ran.returncode == 0, ran.stderr
    (test,) = account.reconstruct_tests(
        transcript.parse_transcript((work / "messages.bin").read_bytes())
    )
    targets = [target for worker in test.workers for target in worker.targets]
    assert [target.name for target in targets] == [loop, loop]  # without a suffix
    assert [target.type for target in targets] == [0xCC000000] * 2
    assert [t.details.maximum_size * t.details.sector_size for t in targets] == [32 * MIB] * 2  # type: ignore[union-attr]
    assert [t.details.starting_sector for t in targets] == [0, 65536]  # type: ignore[union-attr]
    assert "PREP_DISKS" not in asked(work)
    assert "kernel.read.bytes" in figures(work)


def test_check_tells_what_would_run(work: Path) -> None:
    config(work)
    said = json.loads(console(work, verb="check").stdout)
    assert said["binary"] == str(work / "dynamo")
    assert len(said["sha256"]) == 64
    assert list((work.parent / "mnt").iterdir()) == []
