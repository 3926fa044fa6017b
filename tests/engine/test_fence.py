"""A worker whose lease was lost with its connection to PostgreSQL sends no further command to a host."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from django.db import OperationalError, connection, connections

from agents.ssh.lasting_shell import lasting
from agents.ssh.shell import SshShell
from benchlab.hosts import ssh_access
from benchlab.hosts.models import Host
from benchlab.up.bootstrap import ROOT
from benchlab.workers.lease import lease
from tests import stack
from tests.runs import local_host

pytestmark = pytest.mark.django_db(transaction=True)

WORKER = """
import sys, django
django.setup()
from django.db import OperationalError
from benchlab.hosts import ssh_access
from benchlab.hosts.models import Host
from benchlab.workers.lease import lease

host, path = sys.argv[1:]
with lease(int(host)) as held:
    shell = ssh_access.connect_to_host(Host.objects.get(pk=host))
    for line in sys.stdin:
        shell.run(("touch", path + line.strip()))
        print("sent", flush=True)
"""


@pytest.fixture
def here(team, tmp_path) -> Iterator[Host]:
    with local_host.served(tmp_path / "state") as (state, port):
        yield local_host.register(team, state, port)


def cut_off(session: int) -> None:
    """What a restart of PostgreSQL does, or a network that is cut for long enough."""
    other = connections.create_connection("default")
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [session])
            assert cursor.fetchone()[0]
    finally:
        other.close()


def holder(key: int) -> int:
    """Number of the session that holds a lease."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = %s", [key])
        [(pid,)] = cursor.fetchall()
    return int(pid)


@pytest.mark.parametrize("way", ["run", "submit", "lasting"])
def test_without_its_lease_a_thread_sends_nothing(here, tmp_path, way):
    def send(name: str) -> None:
        argv, shell = ("touch", str(tmp_path / name)), ssh_access.connect_to_host(here)
        assert isinstance(shell, SshShell)
        if way == "submit":
            shell.submit(argv).result(30)
        elif way == "run":
            shell.run(argv)
        else:
            with lasting(shell) as quick:
                quick.run(argv, root=True)

    try:
        with pytest.raises(OperationalError), lease(here.pk) as held:
            assert held
            send("before")
            cut_off(holder(here.pk))
            with pytest.raises(OperationalError):
                send("after")
    finally:
        connection.close()
    send("free")
    assert [(tmp_path / name).exists() for name in ("before", "after", "free")] == [
        True,
        False,
        True,
    ]


def test_a_worker_that_was_stopped_sends_nothing_when_it_goes_on(here, tmp_path):
    """While it is stopped nobody else gets its lease, until its connection is cut."""
    env = stack.environment(stack.redis_url(15))
    argv, pipe = [sys.executable, "-c", WORKER, str(here.pk), f"{tmp_path}/"], subprocess.PIPE
    with subprocess.Popen(
        argv, env=env, cwd=ROOT, text=True, stdin=pipe, stdout=pipe, stderr=pipe
    ) as worker:
        try:
            _tell(worker, "before\n")
            assert worker.stdout and worker.stdout.readline() == "sent\n"
            session = holder(here.pk)
            os.kill(worker.pid, signal.SIGSTOP)
            with lease(here.pk) as held:
                assert not held
            cut_off(session)
            with lease(here.pk) as held:
                assert held
                _tell(worker, "after\n")
                os.kill(worker.pid, signal.SIGCONT)
                said = worker.communicate(timeout=60)
        finally:
            worker.kill()
    assert said[0] == "" and "OperationalError" in said[1]
    assert (tmp_path / "before").exists() and not (tmp_path / "after").exists()


def _tell(worker: subprocess.Popen[str], line: str) -> None:
    assert worker.stdin is not None
    worker.stdin.write(line)
    worker.stdin.flush()
