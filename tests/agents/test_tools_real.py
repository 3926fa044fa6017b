"""The real fio and dd on this machine, from options to metrics, as the engine would run them (without root's parts)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agents import tools
from agents.contracts import Job, Metric, Target
from agents.drivers import registry
from agents.tools import _template, dd, fio

MIB = 1 << 20
needs_fio = pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")


@pytest.fixture
def mount(tmp_path: Path) -> Target:
    (tmp_path / "mnt").mkdir()
    return Target("bl1", mount=str(tmp_path / "mnt"))


def start(job: Job, spool: Path) -> tuple[int, dict[str, bytes]]:
    spool.mkdir()
    for name, content in job.inputs.items():
        (spool / name).write_bytes(content)
    done = subprocess.run(
        job.argv, cwd=spool, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **job.env},
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    outputs = {"stdout": done.stdout, "stderr": done.stderr}
    for name in job.outputs:
        outputs[name] = (spool / name).read_bytes()
    return done.returncode, outputs


def run(kind: str, options: Any, target: Target, spool: Path) -> dict[str, Metric]:
    tool = registry.tool(kind)
    if (check := tool.build_precheck(options, target)) is not None:
        code, said = start(check, spool.with_name(spool.name + "-precheck"))
        assert code == 0, said
        assert not list(Path(target.mount).iterdir()), "the precheck touched the target"
    code, outputs = start(tool.build_job(options, target), spool)
    assert code == 0, outputs
    return {metric.name: metric for metric in tool.parse(outputs, options)}


def value(found: dict[str, Metric], name: str) -> float:
    number = found[name].value
    assert number is not None
    return number


@needs_fio
def test_fio_on_a_filesystem(mount: Target, tmp_path: Path) -> None:
    options = fio.Options(
        rw="randrw", size=MIB, numjobs=2, iodepth=4, ioengine="psync", direct=False, fdatasync=16,
        runtime_s=0, log_avg_msec=100,
    )  # fmt: skip
    found = run("fio", options, mount, tmp_path / "spool")
    assert value(found, "read.bytes") + value(found, "write.bytes") == 2 * MIB
    assert value(found, "read.ios") + value(found, "write.ios") == 512
    assert value(found, "sync.lat.p99") > 0 and value(found, "errors") == 0
    assert value(found, "iops") * 4096 == pytest.approx(value(found, "bandwidth"), rel=1e-3)
    assert not list(Path(mount.mount).iterdir()), "fio left its files"


@needs_fio
def test_fio_on_a_node_with_a_colon(tmp_path: Path) -> None:
    node = tmp_path / "pci-0000:00-part1"
    node.write_bytes(bytes(MIB))
    target = Target("bl1", volume=str(node), size=MIB)
    options = fio.Options(rw="read", size=MIB, ioengine="psync", direct=False, runtime_s=0)
    code, outputs = start(fio.build_job(options, target), tmp_path / "spool")
    assert code == 0, outputs
    assert {m.name: m.value for m in fio.parse(outputs, options)}["read.bytes"] == MIB


@needs_fio
def test_fio_makes_no_file_of_a_missing_node(tmp_path: Path) -> None:
    node = tmp_path / "gone"
    options = fio.Options(rw="write", size=MIB, ioengine="psync", direct=False, runtime_s=0)
    code, outputs = start(
        fio.build_job(options, Target("bl1", volume=str(node))), tmp_path / "spool"
    )
    assert code != 0 and not node.exists()
    with pytest.raises(fio.ParseError, match="no job moved a byte"):
        fio.parse(outputs, options)


@needs_fio
def test_fio_precheck_finds_a_wrong_value(mount: Target, tmp_path: Path) -> None:
    options = fio.Options(extra=("random_distribution=nope",))
    check = fio.build_precheck(options, mount)
    assert check is not None
    code, outputs = start(check, tmp_path / "spool")
    assert code != 0 and b"random_distribution" in outputs["stderr"] + outputs["stdout"]


@pytest.mark.parametrize("direction", ["write", "read"])
def test_dd_on_a_filesystem(direction: str, mount: Target, tmp_path: Path) -> None:
    options = dd.Options(direction=direction, block_size=64 << 10, count=17)
    found = run("dd", options, mount, tmp_path / "spool")
    assert value(found, "bytes") == 17 * (64 << 10)
    assert value(found, "records.out") == 17 and value(found, "errors") == 0
    assert not list(Path(mount.mount).iterdir()), "dd left its file"


def test_dd_as_in_article_000(mount: Target, tmp_path: Path) -> None:
    options = dd.Options(block_size=0, obs=4096, count=800, oflag=("nonblock", "noatime"))
    found = run("dd", options, mount, tmp_path / "spool")
    assert (value(found, "records.in"), value(found, "records.out")) == (800, 100)


def test_dd_reads_a_device(tmp_path: Path) -> None:
    options = dd.Options(direction="read", count=3)
    code, outputs = start(
        dd.build_job(options, Target("bl1", volume="/dev/zero")), tmp_path / "spool"
    )
    assert code == 0
    assert {m.name: m.value for m in dd.parse(outputs, options)}["bytes"] == 3 * MIB


def test_dd_makes_no_file_of_a_missing_node(tmp_path: Path) -> None:
    node = tmp_path / "gone"
    code, outputs = start(
        dd.build_job(dd.Options(count=1), Target("bl1", volume=str(node))), tmp_path / "spool"
    )
    assert code != 0 and not node.exists() and b"is no device" in outputs["stderr"]


def test_dd_whose_layout_failed_has_no_figures(mount: Target, tmp_path: Path) -> None:
    shutil.rmtree(mount.mount)
    options = dd.Options(direction="read", count=1)
    code, outputs = start(dd.build_job(options, mount), tmp_path / "spool")
    assert code != 0 and outputs["stderr"].startswith(b"layout: ")
    with pytest.raises(dd.ParseError):
        dd.parse(outputs, options)


def test_the_template_is_a_tool(mount: Target, tmp_path: Path) -> None:
    assert all(
        hasattr(_template, name) for name in registry.protocol_members(registry.CONTRACT[tools])
    )
    code, outputs = start(
        _template.build_job(_template.Options(repeats=2), mount), tmp_path / "spool"
    )
    assert code == 0, outputs
    (metric,) = _template.parse(outputs, _template.Options())
    assert metric.name == "cpu.seconds" and metric.value is not None
    with pytest.raises(_template.ParseError):
        _template.parse({"stdout": b""}, _template.Options())


def test_the_template_needs_a_file_system() -> None:
    with pytest.raises(_template.OptionsError, match="no mount point"):
        _template.build_job(_template.Options(), Target("bl1", volume="/dev/sdb"))
