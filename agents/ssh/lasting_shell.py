# SPDX-License-Identifier: Apache-2.0
"""Many commands, one after the other, on one channel of a connection: what applying a plan needs."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from agents.contracts import AgentError, Argument, Ran, Reason, Shell
from agents.quote import command_line, format_command
from agents.ssh import loop
from agents.ssh.command import LastingCommand
from agents.ssh.pool import Link, limited, release_link
from agents.ssh.shell import SshShell, check_sudo, roots_prefix

# what every sh can name; more disks than that are not held
FDS = range(3, 10)
FREE = "exec " + " ".join(f"{fd}<&-" for fd in FDS)
# `command`: where a node cannot be opened, `exec` alone would end the shell.
HOLD = (
    "if [ -r {node} ] && command -v flock; then command exec {fd}<{node} && flock -x -w 5 {fd}; fi"
)
# that a command may take beyond its time where disks are held before it
HOLD_S = 60.0
# libblkid, in wipefs, mkfs and LVM, reads a MiB of each disk into fresh memory; what is kept is paged in once. glibc's.
ENV = ("LC_ALL=C", "MALLOC_MMAP_THRESHOLD_=67108864", "MALLOC_TRIM_THRESHOLD_=67108864")
ENDED = "its shell ended with exit code {}: it is unknown whether the command ran"


@contextmanager
def lasting(shell: Shell) -> Iterator[Shell]:
    """The same host's shell, quicker while the block lasts. What is no SshShell (in tests) stays as it is."""
    if not isinstance(shell, SshShell):
        yield shell
        return
    quick = LastingShell(shell)
    try:
        yield quick
    finally:
        quick.rest()


class LastingShell:
    """Implements `agents.contracts.Shell`: root's commands without stdin go to a `sh` that stays, others as ever.

    Where root has logged in, every command is root's.

    For one thread. A command is sent at most once; after an error the next one gets a new `sh`.
    """

    def __init__(self, shell: SshShell) -> None:
        self.shell = shell
        self._held: tuple[Link, LastingCommand] | None = None
        # nodes that udev is kept from, in the order of FDS
        self._quiet: tuple[str, ...] = ()
        # what the next command's line begins with
        self._first: tuple[str, ...] = ()

    def run(
        self,
        argv: Sequence[Argument],
        *,
        stdin: bytes = b"",
        root: bool = False,
        timeout_s: float = 60.0,
    ) -> Ran:
        if stdin or not (root or self.shell.address.user == "root"):
            if self._first:
                self.run(("true",), root=True)
            return self.shell.run(argv, stdin=stdin, root=root, timeout_s=timeout_s)
        began = time.monotonic()
        # A subshell, or `exit` and `cd` would be the shell's own; what runs on for ever holds no disk.
        free = f"{FREE}; " if self._quiet else ""
        text = f"({free}{_shell_line(argv)} </dev/null)"
        if self._first:
            text = f"{{ {'; '.join(self._first)}; }} </dev/null >/dev/null 2>&1; {text}"
            timeout_s += HOLD_S
        command = self._complete(text, format_command(argv)[:160], timeout_s)
        self._first = ()
        ran = command.ran(tuple(argv), time.monotonic() - began)
        if command.code is None:
            self.close_shell()
            check_sudo(ran, self.shell.address)
            description = f"{self.shell.address}: {format_command(argv)[:160]!r}: {ENDED.format(ran.exit_code)}"
            raise AgentError(description, Reason.CONNECTION_LOST)
        return ran

    def hold(self, nodes: Collection[str]) -> None:
        """Keep udev from reading these disks too, from the next command on, until `free`.

        It reads a disk anew after every program that wrote to it: with five disks that takes half of an apply. It
        leaves out what somebody has locked (systemd's "Locking Block Device Access"). Where that cannot be, and on
        FreeBSD, it is only slower.
        """
        new = sorted(set(nodes) - set(self._quiet))
        holds = [
            HOLD.format(fd=fd, node=command_line((node,)))
            for fd, node in zip(FDS[len(self._quiet) :], new, strict=False)
        ]
        self._first += tuple(holds)
        self._quiet += tuple(new)

    def free(self) -> None:
        """Before the next command, let udev read what was held."""
        if self._quiet:
            self._first, self._quiet = (FREE,), ()

    def _complete(self, line: str, description: str, timeout_s: float) -> LastingCommand:
        self._held = self._held or loop.run_coroutine(loop.pool.rested(self.shell.address))
        for fresh in (self._held is None, True):
            self._held = self._held or self._open(timeout_s)
            command = self._held[1]
            try:
                loop.check.get()()
                completed = loop.run_coroutine(
                    self._execute(command, line, timeout_s, description, fresh)
                )
            except BaseException:
                self.close_shell()
                raise
            # one that is gone at once has said why: it is sudo that says no
            if completed or fresh:
                break
            # it was known to be gone, and the command was not sent
            self.close_shell()
        return command

    async def _execute(
        self, command: LastingCommand, line: str, timeout_s: float, description: str, fresh: bool
    ) -> bool:
        async with limited(self.shell.address, command, timeout_s, description):
            completed = await command.execute(line)
            if fresh and not completed:
                command.raise_channel_error()
            return completed

    def _open(self, timeout_s: float) -> tuple[Link, LastingCommand]:
        address = self.shell.address
        line = command_line((*roots_prefix(address), *ENV, "sh"))
        command = LastingCommand()
        return loop.run_coroutine(loop.pool.open(address, line, command, timeout_s, "sh")), command

    def rest(self) -> None:
        """The next block's, if it comes soon; one that keeps udev from disks ends, and that with it."""
        if self._held is None or self._quiet or self._first:
            self.close_shell()
            return
        held, self._held = self._held, None
        loop.run_coroutine(loop.pool.rest(self.shell.address, *held))

    def close_shell(self) -> None:
        """End the `sh`. It may be used again, and then gets another."""
        held, self._held, self._quiet, self._first = self._held, None, (), ()
        if held is not None:
            loop.run_coroutine(_release_command(*held))


def _shell_line(argv: Sequence[Argument]) -> str:
    """The command for a `sh` that is there; a script for `sh -c` is run by that one itself, for starting another takes
    6 ms on a slow host. Not one that asks for its name or process, which would be another's.
    """
    match tuple(argv):
        case ("sh", "-c", str(script), _, *arguments) if not re.search(r"[$]\{?[0$]", script):
            return f"{{ {command_line(('set', '--', *arguments))}; {command_line(('eval', script))}; }}"
    return command_line(argv)


async def _release_command(link: Link, command: LastingCommand) -> None:
    release_link(link, command)
