# SPDX-License-Identifier: Apache-2.0
"""Commands on a host over SSH, for callers in threads: pooled connections behind plain functions.

A command is sent at most once: a dead pooled connection is replaced before the command went out,
never after.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from agents.contracts import AgentError, Argument, Ran, Reason
from agents.quote import command_line, format_command
from agents.ssh import loop
from agents.ssh.dial import OFFER_S, Address, HostKey
from agents.ssh.dial import offered_host_key as offered
from agents.ssh.keys import fingerprint
from agents.ssh.reach import NEVER
from agents.ssh.tunnel import Tunnel

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
