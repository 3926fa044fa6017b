"""dd beyond its cases: this host's own dd and BusyBox's are asked for flags, and each figure names its line."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from agents.contracts import ParseError, Target
from agents.outputs import dd_output
from agents.tools import dd
from tests.agents.test_tools import CASES

MOUNT = Target("bl1", mount="/mnt/bl1")


def ask(options: dd.Options, spool: Path, path: str) -> tuple[int, str]:
    job = dd.build_precheck(options, MOUNT)
    assert job is not None
    spool.mkdir()
    for name, content in job.inputs.items():
        (spool / name).write_bytes(content)
    done = subprocess.run(
        job.argv, cwd=spool, env={"PATH": path, **job.env}, capture_output=True, timeout=30,
        text=True, check=False,
    )  # fmt: skip
    assert sorted(file.name for file in spool.iterdir()) == ["ddflags.sh"], "it left a file"
    return done.returncode, done.stderr


@pytest.fixture
def busybox(tmp_path: Path) -> str:
    """A PATH on which dd is BusyBox's."""
    if (found := shutil.which("busybox")) is None:
        pytest.skip("busybox is not installed")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "dd").symlink_to(found)
    return f"{tmp_path / 'bin'}:/usr/bin:/bin"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (dd.Options(), ""),
        (dd.Options(oflag=("sync", "nonblock", "noatime", "nocache")), ""),
        (dd.Options(iflag=("direct", "fullblock"), conv=("fdatasync", "sparse")), ""),
        (dd.Options(oflag=("sync", "fsync")), "oflag=fsync: this host's dd does not know it"),
        (dd.Options(oflag=("direct", "nocache")), "oflag=direct,nocache: this host's dd does not"),
    ],
)
def test_gnu_is_asked_for_its_flags(options: dd.Options, says: str, tmp_path: Path) -> None:
    code, said = ask(options, tmp_path / "spool", "/usr/bin:/bin")
    assert (code == 0) == (not says)
    assert said.startswith(says)


@pytest.mark.parametrize("flag", ["sync", "nonblock", "noatime", "nocache"])
def test_busybox_is_asked_for_its_flags(flag: str, busybox: str, tmp_path: Path) -> None:
    code, said = ask(dd.Options(oflag=("direct", flag)), tmp_path / "spool", busybox)
    assert code == 1
    assert f"oflag={flag}: this host's dd does not know it" in said
    assert "oflag=direct" not in said


def test_a_busybox_that_prints_no_time_is_refused(busybox: str, tmp_path: Path) -> None:
    done = subprocess.run(
        ["dd", "if=/dev/zero", "of=/dev/null", "count=1"], env={"PATH": busybox},
        executable=busybox.partition(":")[0] + "/dd", capture_output=True, check=True,
    )  # fmt: skip
    code, said = ask(dd.Options(), tmp_path / "spool", busybox)
    assert (code == 0) == (b" bytes " in done.stderr)
    assert code == 0 or "does not print how long it took" in said


def test_each_figure_names_its_line() -> None:
    raw = (CASES / "dd" / "9.1-progress.txt").read_bytes()
    found = {one.name: one.line for one in dd.parse({"stderr": raw}, dd.Options())}
    shown = raw.decode().split("\n")
    assert shown[found["bandwidth"] - 1].startswith("163840000 bytes")
    assert shown[found["records.in"] - 1] == "40000+0 records in"
    assert shown[found["records.out"] - 1] == "40000+0 records out"


@pytest.mark.parametrize(
    "line",
    [
        "524288000 bytes (524 MB) copied, 6.95128 s, 75.4 GB/s",
        "524288000 bytes (524 MB) copied, 6.35128 s, 75.4 MB/s",
        "524288000 bytes transferred in 6.951280 secs (85423231 bytes/sec)",
        "524288000 bytes (500.0MB) copied, 6.951280 seconds, 75.4MB/s",  # MiB are meant
        "524288000 bytes copied, 1,234.5 s, 75.4 MB/s",
        "524288000 bytes copied, nan s, 75.4 MB/s",
        "524288000 bytes copied, 6.95128 s, 75.4 MiB/s",
    ],
)
def test_what_does_not_add_up_is_refused(line: str) -> None:
    with pytest.raises(ParseError):
        dd_output.parse_run(["128000+0 records in", "128000+0 records out", line])
