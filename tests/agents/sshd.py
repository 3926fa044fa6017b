"""A real OpenSSH server on loopback, of our own: key only, any free port, ended with the test."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agents.contracts import Secret
from agents.ssh import keys, shell

CONFIG = """
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/authorized
UsePAM no
StrictModes no
PidFile none
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def sshd(folder: Path, more: str = "", bashrc: str = "") -> Iterator[shell.Address]:
    """The address of a server that runs as we do and lets us in; `more` settings, and `bashrc` as the user's.

    Skips the test without sshd.
    """
    program = shutil.which("sshd") or shutil.which("/usr/sbin/sshd")
    if program is None:
        pytest.skip("OpenSSH's sshd is not installed")
    host_private, host_public = keys.generate_key_pair("host")
    private, public = keys.generate_key_pair("user")
    (folder / "host").write_text(host_private)
    (folder / "host").chmod(0o600)
    (folder / "authorized").write_text(public + "\n")
    port = free_port()
    if bashrc:
        (folder / ".bashrc").write_text(bashrc)
        more = f"{more}SetEnv HOME={folder}\n"
    (folder / "config").write_text(CONFIG.format(port=port, folder=folder) + more)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    command = [program, "-D", "-e", "-f", str(folder / "config")]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stderr=log) as server:
        try:
            _wait(port)
            key = " ".join(host_public.split()[:2])
            yield shell.Address("127.0.0.1", port, getpass.getuser(), Secret(private), key)
        finally:
            server.terminate()


def _wait(port: int) -> None:
    limit = time.monotonic() + 10
    while time.monotonic() < limit:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise TimeoutError("sshd does not listen")
