"""Fixtures for what runs on a host: each POSIX shell that hosts have, and a base for spools."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from agents.contracts import Job
from agents.jobs import job, spool
from tests import limits, seeding
from tests.agents.local_shell import LocalShell
from tests.programs import ssh_keygen

__all__ = ["ssh_keygen"]

SHELLS = ("dash", "busybox", "bash")
# What runs in the foreground is checked under more; mksh counts in 32 bits and cannot do it.
MORE_SHELLS = (*SHELLS, "ksh93", "posh", "yash", "zsh")


def pytest_configure(config: pytest.Config) -> None:
    """For this folder alone; in a run of all tests tests/conftest.py was first."""
    seeding.register(config)
    limits.register(config)


@pytest.fixture
def base(monkeypatch):
    """A base of spools that any user may reach (pytest's own folders are closed); short graces."""
    monkeypatch.setattr(spool, "GRACE_S", 1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o1777)
        yield folder


def shell_as(name: str, folder: Path, uid: int | None = None) -> LocalShell:
    """A LocalShell whose every `sh` is that program."""
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed here")
    folder.mkdir()
    (folder / "sh").symlink_to(program)
    return LocalShell({"PATH": f"{folder}:{os.environ['PATH']}"}, uid)


@pytest.fixture(params=SHELLS)
def shell(request, tmp_path):
    return shell_as(request.param, tmp_path / "bin")


@pytest.fixture
def here(base, shell):
    """The spool of one job; whatever a test left running is stopped."""
    made = job.Spool("attempt-1", root=os.geteuid() == 0, base=str(base))
    yield made
    job.stop_job(shell, made)


def work(*argv: str, **more) -> Job:
    """A job that leaves the machine's page cache alone."""
    return Job(argv, drop_caches=False, root=os.geteuid() == 0, **more)


def sh(script: str, **more) -> Job:
    return work("sh", "-c", script, **more)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--accept", action="store_true", help="write anew what is not as expected, and fail: read the diff"
    )  # fmt: skip


@pytest.fixture
def accepted(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Fails unless the file has this text. With --accept it is written first."""

    def check(path: Path, text: str) -> None:
        old = path.read_text() if path.exists() else ""
        if old == text:
            return
        if not request.config.getoption("accept", default=False):
            assert old == text, f"{path.name}: see what differs; --accept writes it anew"
        path.write_text(text)
        pytest.fail(f"{path.name} was written anew: read its diff, then run again")

    return check
