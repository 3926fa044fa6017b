"""This machine as a host, over our own SSH server: what `up` starts, in a process of its own."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchlab.hosts import registration
from benchlab.hosts.models import Host
from benchlab.team.models import Team
from benchlab.up import sshd
from benchlab.up.ports import free_port
from benchlab.up.state import State


@contextmanager
def served(directory: Path) -> Iterator[tuple[State, int]]:
    """The server runs inside the block; its state directory and port."""
    state, port = State(directory), free_port()
    state.create()
    process = subprocess.Popen(
        [sys.executable, "-m", "benchlab.up.sshd", str(directory), str(port)]
    )
    try:
        _wait(port, process)
        yield state, port
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:  # a test that failed left a command running there
            process.kill()
            process.wait()


def register(team: Team, state: State, port: int) -> Host:
    credential = registration.make_credential(team, "this machine")
    sshd.authorize(state, credential.public_key)
    user = pwd.getpwuid(os.geteuid()).pw_name
    host = registration.add_host(
        team, "here", "127.0.0.1", credential, port=port, user=user, is_local=True
    )
    return registration.change_host(host, host_key=sshd.host_public_key(state))


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"no SSH server on port {port}: exit code {process.poll()}")
