"""OpenSSH's server on loopback, for the time of a test."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
START_S = 10.0


@dataclass
class Sshd:
    """One server of the current user. `directory` holds its keys and its configuration."""

    directory: Path
    port: int = 0
    user: str = field(default_factory=lambda: pwd.getpwuid(os.geteuid()).pw_name)
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        (self.directory / "authorized_keys").touch(mode=0o600)
        self.new_host_key()

    def new_host_key(self) -> None:
        key = self.directory / "host_key"
        key.unlink(missing_ok=True)
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True, input=b"y"
        )

    @property
    def fingerprint(self) -> str:
        """As ssh-keygen prints it, so as a person reads it on the host."""
        listed = subprocess.run(
            ["ssh-keygen", "-lf", self.directory / "host_key.pub"],
            check=True,
            capture_output=True,
            text=True,
        )
        return listed.stdout.split()[1]

    def authorize(self, public_key: str) -> None:
        (self.directory / "authorized_keys").write_text(public_key + "\n")

    def start(self) -> None:
        assert SSHD
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # its privilege separation wants it
        config = self.directory / "config"
        config.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.directory}/host_key\n"
            f"AuthorizedKeysFile {self.directory}/authorized_keys\nPidFile none\nStrictModes no\n"
            "UsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n"
        )
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen([SSHD, "-D", "-e", "-f", config], stderr=log)
        self._wait()

    def _wait(self) -> None:
        until = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except ConnectionRefusedError:
                if time.monotonic() > until:
                    raise AssertionError((self.directory / "log").read_text()) from None
                time.sleep(0.02)

    def stop(self) -> None:
        """Ends the open connections too, as a reboot does."""
        if self.process:
            for session in psutil.Process(self.process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):  # one whose client has just hung up
                    session.kill()
            self.process.terminate()
            self.process.wait()
            self.process = None
