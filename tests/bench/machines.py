"""Many made-up machines behind one SSH server of ours, on loopback: each has a port of its own.

Run as `python -m tests.bench.machines DIRECTORY COUNT LATENCY_S`: `host_key` (made here) and `authorized` are in the
directory, and `ports`, one a line, once all listen.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import asyncssh
import psutil
import uvloop

from agents.quote import command_line
from agents.ssh.lasting_shell import ENV
from agents.ssh.shell import ENV_PROGRAM, ROOTS_PATH
from tests.bench.machine import Answer, Machine

LASTING = command_line((ENV_PROGRAM, ROOTS_PATH, *ENV, "sh"))  # what opens a shell that stays
# What agents.ssh.command writes to a shell that stays: two marks, a line, then two marks, the first with its exit code.
MARKED = re.compile(
    rb"\Aecho [^\n]* >&2\n(.*?)\nprintf '\\n=%s %s\\n' ([0-9a-f]{32}) \$\? >&2; printf [^\n]* 0\n",
    re.DOTALL,
)
SUBSHELL = re.compile(r"\((?:exec [^;]*; )?(.*) </dev/null\)\Z", re.DOTALL)
STARTS_S = 60.0


class Channel(asyncssh.SSHServerSession[bytes]):
    """One command, or a shell that stays and takes one line after the other."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.line = ""
        self.given = bytearray()
        self.stays = False
        self.task: asyncio.Task[None] | None = None

    def connection_made(self, chan: Any) -> None:
        self.chan = chan

    def exec_requested(self, command: str) -> bool:
        self.line, self.stays = command, command == LASTING
        return True

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self.given += data
        if self.stays and self.task is None:
            self._next()

    def eof_received(self) -> bool:
        if not self.stays:
            self.task = asyncio.ensure_future(self._answer())
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        if self.task:
            self.task.cancel()

    async def _answer(self) -> None:
        echo, _, line = self.line.partition("; ")
        answer = await self.machine.run(line, bytes(self.given))
        self._say(echo.removeprefix("echo ").encode() + b"\n" + answer.stdout, answer.stderr)
        self.chan.exit(answer.exit_code)

    def _say(self, stdout: bytes, stderr: bytes) -> None:
        self.chan.write(stdout)
        self.chan.write_stderr(stderr)

    def _next(self) -> None:
        found = MARKED.match(bytes(self.given))
        if found:
            del self.given[: found.end()]
            self.task = asyncio.ensure_future(self._line(found[1].decode(), found[2]))

    async def _line(self, text: str, mark: bytes) -> None:
        command = SUBSHELL.match(text)
        answer = await self.machine.run(command[1]) if command else Answer()  # flock: nothing
        self._say(
            b"+%b\n%b\n=%b 0\n" % (mark, answer.stdout, mark),
            b"+%b\n%b\n=%b %d\n" % (mark, answer.stderr, mark, answer.exit_code),
        )
        self.task = None
        self._next()


class Server(asyncssh.SSHServer):
    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def session_requested(self) -> Channel:
        return Channel(self.machine)


async def serve(directory: Path, count: int, latency_s: float) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    (directory / "host_key").write_bytes(key.export_public_key())
    listening = [
        await asyncssh.listen(
            "127.0.0.1", 0,
            server_factory=partial(Server, Machine(number, latency_s)),
            server_host_keys=[key], authorized_client_keys=str(directory / "authorized"),
            encoding=None, allow_pty=False,
        )
        for number in range(count)
    ]  # fmt: skip
    ports = "".join(f"{one.get_port()}\n" for one in listening)
    (directory / "ports.new").write_text(ports)
    (directory / "ports.new").replace(directory / "ports")
    await asyncio.Event().wait()


@dataclass(frozen=True)
class Farm:
    ports: list[int]
    host_key: str
    process: psutil.Process


@contextmanager
def farm(directory: Path, count: int, public_key: str, latency_s: float = 0.0) -> Iterator[Farm]:
    """That many machines, which let in who has that key, in a process that ends with the block."""
    (directory / "authorized").write_text(public_key + "\n")
    argv = [sys.executable, "-m", __name__, str(directory), str(count), str(latency_s)]
    with (directory / "machines.log").open("ab") as log:
        started = subprocess.Popen(argv, stderr=log)
    try:
        _wait(directory, started)
        key = " ".join((directory / "host_key").read_text().split()[:2])
        ports = [int(port) for port in (directory / "ports").read_text().split()]
        yield Farm(ports, key, psutil.Process(started.pid))
    finally:
        started.kill()
        started.wait()


def _wait(directory: Path, started: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + STARTS_S
    while not (directory / "ports").exists():
        alive = started.poll() is None and time.monotonic() < until
        assert alive, (directory / "machines.log").read_text()
        time.sleep(0.05)


if __name__ == "__main__":
    uvloop.run(serve(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
