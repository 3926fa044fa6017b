"""Root's PATH on a host names a directory that others write to: none of their programs runs as root's command."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from agents.contracts import Ran, Shell
from agents.facts import reading
from agents.jobs import job, spool
from agents.ssh import shell
from agents.ssh.lasting_shell import lasting
from tests.agents.conftest import work
from tests.agents.sshd import sshd

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="it is about what root runs")
FAKE = '#!/bin/sh\necho {name} >>{mark}\nexec {real} "$@"\n'
PROGRAMS = "env sh ls lvs lsblk cat id mkdir sed dd tar setsid sleep stat blkid"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[SimpleNamespace]:
    """One whose root looks first where a user put a program of each name, and then where a command runs."""
    theirs, mark = tmp_path / "theirs", tmp_path / "mark"
    theirs.mkdir()
    theirs.chmod(0o777)
    for name in PROGRAMS.split():
        fake = theirs / name
        fake.write_text(FAKE.format(name=name, mark=mark, real=f"/usr/bin/{name}"))
        fake.chmod(0o755)
    # And no HOME whose .bashrc runs programs of its own.
    path = f"SetEnv HOME={tmp_path} PATH={theirs}::/usr/bin:/bin:/usr/sbin:/sbin\n"
    with sshd(tmp_path, path) as address:
        yield SimpleNamespace(
            shell=shell.connect_shell(address), mark=mark, theirs=theirs, base=tmp_path
        )


def ran_as_root(host: SimpleNamespace) -> str:
    return host.mark.read_text() if host.mark.exists() else ""


def look(one: Shell) -> Ran:
    return one.run(("sh", "-c", "ls / >/dev/null; command -v lvs; echo $PATH", "sh"), root=True)


def test_a_command_of_roots_is_not_theirs(host):
    for _ in range(2):
        said = look(host.shell).stdout.decode()
        assert str(host.theirs) not in said and "::" not in said and said.count("\n") <= 2
    with lasting(host.shell) as quick:
        assert str(host.theirs) not in look(quick).stdout.decode()
        assert quick.run(("cat", "/etc/passwd"), root=True).exit_code == 0
    assert ran_as_root(host) == ""


def test_a_job_of_roots_is_not_theirs(host, monkeypatch):
    """Runner, sampler and tool."""
    monkeypatch.setattr(spool, "GRACE_S", 1)
    made = spool.Spool("attempt-1", root=True, base=str(host.base))
    tool = work("sh", "-c", "ls / >/dev/null; echo $PATH")
    job.start_job(host.shell, made, tool, ("/proc/diskstats",), interval_s=0.1)
    assert job.poll(host.shell, made, 10).exit_code == 0
    said = job.fetch(host.shell, made).files["stdout"].decode()
    job.remove_spool(host.shell, made)
    assert str(host.theirs) not in said and ran_as_root(host) == ""


def test_what_describes_a_host_is_not_theirs(host):
    assert reading.read_facts(host.shell).root
    assert ran_as_root(host) == ""
