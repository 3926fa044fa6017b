# SPDX-License-Identifier: Apache-2.0
"""Commands on a host over SSH, for callers in threads: pooled connections behind plain functions.

A command is sent at most once: a dead pooled connection is replaced before the command went out,
never after. Also TCP streams to programs that listen to nobody but their own host.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import socket
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import asyncssh

from agents.contracts import AgentError, Argument, Ran, Reason
from agents.quote import command_line, format_command
from agents.ssh import loop
from agents.ssh.dial import OFFER_S, Address, HostKey, dial, why
from agents.ssh.dial import offered_host_key as offered
from agents.ssh.keys import fingerprint
from agents.ssh.reach import NEVER

__all__ = [
    "Address",
    "HostKey",
    "SshShell",
    "Tunnel",
    "connect_shell",
    "fingerprint",
    "offered_host_key",
]

# Root's own PATH may name a directory that somebody else may write to, or the one that a command happens to run in: a
# program put there would be root's next command. /run/current-system is NixOS's.
ROOTS_PATH = (
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin"
)
# by its path: it is what sets PATH
ENV_PROGRAM = "/usr/bin/env"
SUDO_SAYS_NO = (b"sudo:", b"is not in the sudoers", b"is not allowed to", b"may not run sudo")


def offered_host_key(
    host: str,
    port: int,
    timeout_s: float = OFFER_S,
    forbidden: tuple[str, ...] = NEVER,
    group: int | None = None,
) -> HostKey:
    """The key a host shows, before anything is trusted. Raises AgentError like `connect`."""
    return loop.run_coroutine(offered(host, port, timeout_s, forbidden, group))


def connect_shell(address: Address) -> SshShell:
    """A shell on the host; the connection is made (or found in the pool) now, so errors come now."""
    loop.run_coroutine(loop.pool.wait_ready(address))
    return SshShell(address)


def try_again(address: Address) -> None:
    """The next connection is tried even if the last one failed a moment ago: a person wants to know now."""
    loop.run_coroutine(loop.pool.forgive(address))


@dataclass(frozen=True, slots=True)
class SshShell:
    """Implements `agents.contracts.Shell`. Cheap, shareable between threads, nothing to close."""

    address: Address

    def run(
        self,
        argv: Sequence[Argument],
        *,
        stdin: bytes = b"",
        root: bool = False,
        timeout_s: float = 60.0,
    ) -> Ran:
        loop.check.get()()
        return loop.run_coroutine(self._ran(argv, stdin, root, timeout_s))

    def submit(
        self, argv: Sequence[Argument], *, root: bool = False, timeout_s: float = 60.0
    ) -> Future[Ran]:
        """Start a command as `run` does, without waiting for it or for a connection."""
        loop.check.get()()
        return loop.submit(self._ran(argv, b"", root, timeout_s))

    async def _ran(
        self, argv: Sequence[Argument], stdin: bytes, root: bool, timeout_s: float
    ) -> Ran:
        sudo = root and self.address.user != "root"
        prefix = (
            roots_prefix(self.address) if root or self.address.user == "root" else (ENV_PROGRAM,)
        )
        line = command_line((*prefix, "LC_ALL=C", *argv))
        began = time.monotonic()
        # a whole script would hide the message
        description = format_command(argv)[:160]
        command = await loop.pool.run_command(self.address, line, stdin, timeout_s, description)
        ran = command.ran(tuple(argv), time.monotonic() - began)
        if sudo:
            check_sudo(ran, self.address)
        return ran


def roots_prefix(address: Address) -> tuple[str, ...]:
    """Words in front of a command that root is to run; variables may follow.

    env, not a shell assignment: sudo's env_reset and csh or fish as login shell both allow it.
    """
    sudo = ("sudo", "-n", "--") if address.user != "root" else ()
    return (*sudo, ENV_PROGRAM, ROOTS_PATH)


def check_sudo(ran: Ran, address: Address) -> None:
    """Raise NO_SUDO if sudo itself refused."""
    missing = ran.exit_code == 127 and b"sudo" in ran.stderr and b"not found" in ran.stderr
    refused = ran.exit_code == 1 and any(pattern in ran.stderr for pattern in SUDO_SAYS_NO)
    if missing or refused:
        error_text = ran.stderr.decode(errors="replace").strip()
        raise AgentError(
            f"{address}: no root without a password ({error_text}). Log in as root, or install sudo and "
            f"add the line '{address.user} ALL=(ALL) NOPASSWD: ALL' to a file in /etc/sudoers.d",
            Reason.NO_SUDO,
        )


# on the host
LOOPBACK = "127.0.0.1"
PIECE = 1 << 18
OPENING_S = 15.0


class Tunnel:
    """A connection of its own (the pool closes idle ones), and a port on the host's loopback that leads to us.

    Raises AgentError when the host cannot be reached or its sshd forbids forwarding. For callers in threads.
    """

    def __init__(self, address: Address) -> None:
        self._came: queue.SimpleQueue[socket.socket] = queue.SimpleQueue()
        self._pumps: set[asyncio.Task[None]] = set()
        self._connection = loop.run_coroutine(loop.pool.breaker.tried(address, dial))
        try:
            listener = loop.run_coroutine(self._listen())
        # It is no asyncssh.Error: a server that refuses to listen for us.
        except (asyncssh.ChannelListenError, asyncssh.Error, OSError) as error:
            self.close_tunnel()
            raise AgentError(
                f"{address}: its SSH server refused to forward a port for dynamo{why(error)}: allow"
                " AllowTcpForwarding in its sshd_config (our own server for this machine forbids it), or install"
                " Python 3.6 or later on the host",
                Reason.COMMAND_FAILED,
            ) from None
        self.port: int = listener.get_port()

    async def _listen(self) -> Any:
        def handler(host: str, port: int) -> Any:
            return self._accept_stream

        return await self._connection.start_server(handler, LOOPBACK, 0, encoding=None)

    async def _accept_stream(self, reader: Any, writer: Any) -> None:
        self._came.put(await self._bridge(reader, writer))

    def accept_stream(self, timeout_s: float) -> socket.socket | None:
        """The next stream that something on the host opened to `port`."""
        try:
            return self._came.get(timeout=timeout_s) if timeout_s else self._came.get_nowait()
        except queue.Empty:
            return None

    def connect_port(self, port: int) -> socket.socket:
        """Connect to a port on the host's loopback. Raises OSError if nothing listens or the connection is lost."""
        try:
            return loop.run_coroutine(self._open(port))
        except (asyncssh.Error, TimeoutError) as error:
            raise ConnectionRefusedError(str(error)) from None

    async def _open(self, port: int) -> socket.socket:
        async with asyncio.timeout(OPENING_S):
            reader, writer = await self._connection.open_connection(LOOPBACK, port, encoding=None)
        return await self._bridge(reader, writer)

    async def _bridge(self, reader: Any, writer: Any) -> socket.socket:
        """A plain socket for who reads it with select, kept in step with an SSH channel."""
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        local_reader, local_writer = await asyncio.open_connection(sock=theirs)
        for source, sink in ((reader, local_writer), (local_reader, writer)):
            pump = asyncio.ensure_future(_pump(source, sink))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)
        return ours

    @property
    def lost(self) -> bool:
        return bool(self._connection.is_closed())

    def close_tunnel(self) -> None:
        """Ends every stream too: what is on the host sees its connection closed."""
        with contextlib.suppress(Exception):
            loop.run_coroutine(self._end_loop())
        while (stray := self.accept_stream(0.0)) is not None:
            stray.close()

    async def _end_loop(self) -> None:
        for pump in list(self._pumps):
            pump.cancel()
        self._connection.abort()


async def _pump(source: Any, sink: Any) -> None:
    """Until either side ends; then the other is ended too, as dynamo reads both as one."""
    try:
        while data := await source.read(PIECE):
            sink.write(data)
            await sink.drain()
    except (asyncssh.Error, OSError):
        pass
    finally:
        with contextlib.suppress(Exception):
            sink.close()
