# SPDX-License-Identifier: Apache-2.0
"""Connections by address, shared by all commands of this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import asyncssh

from agents.contracts import AgentError, Reason
from agents.ssh.breaker import Breaker
from agents.ssh.command import Command, LastingCommand
from agents.ssh.dial import Address, dial, why

# an unused connection is closed after this
IDLE_S = 60.0
# and a lasting shell that nobody uses after this: runs that follow each other find it again
REST_S = 2.0
# per connection; sshd's MaxSessions is 10 by default
SESSIONS = 8


@dataclass(eq=False)
class Link:
    """One connection and how many commands use it."""

    connection: Any
    sessions: int = 0
    idle: asyncio.TimerHandle | None = None

    def usable(self) -> bool:
        return not self.connection.is_closed() and self.sessions < SESSIONS

    def take_link(self) -> Link:
        self.sessions += 1
        if self.idle:
            self.idle.cancel()
        return self

    def give(self) -> None:
        self.sessions -= 1
        if not self.sessions:
            self.idle = asyncio.get_running_loop().call_later(IDLE_S, self.connection.close)


@dataclass(frozen=True, slots=True)
class Resting:
    """A channel that waits for its next user, and what ends it when none comes."""

    link: Link
    command: LastingCommand
    end: asyncio.TimerHandle


@dataclass
class Pool:
    """Connections by address. Lives on the loop thread; nothing here is called from outside it."""

    links: dict[Address, list[Link]] = field(default_factory=dict)
    locks: dict[Address, asyncio.Lock] = field(default_factory=dict)
    # one each is enough
    resting: dict[Address, Resting] = field(default_factory=dict)
    breaker: Breaker = field(default_factory=Breaker)

    async def wait_ready(self, address: Address) -> None:
        (await self._take_link(address)).give()

    async def forgive(self, address: Address) -> None:
        self.breaker.forget_failures(address)

    async def _take_link(self, address: Address, fresh: bool = False) -> Link:
        async with self.locks.setdefault(address, asyncio.Lock()):
            links = [
                link for link in self.links.get(address, []) if not link.connection.is_closed()
            ]
            usable = [link for link in links if link.usable() and not fresh]
            free = usable[0] if usable else None
            if free is None:
                free = Link(await self.breaker.tried(address, dial))
                links.append(free)
            self.links[address] = links
            return free.take_link()

    async def run_command(
        self, address: Address, line: str, stdin: bytes, timeout_s: float, description: str
    ) -> Command:
        command = Command()
        link = await self.open(address, command.behind_mark(line), command, timeout_s, description)
        try:
            async with limited(address, command, timeout_s, description):
                await command.feed(stdin)
                await command.over.wait()
                command.raise_channel_error()
                command.cut_login_output()
        finally:
            release_link(link, command)
        return command

    async def open(
        self, address: Address, line: str, command: Command, timeout_s: float, description: str
    ) -> Link:
        """A channel for `command`, on which `line` runs. Who has it releases it."""
        for last_try in (False, True):
            link = await self._take_link(address, fresh=last_try)
            try:
                async with limited(address, command, timeout_s, description):
                    await link.connection.create_session(lambda: command, line, encoding=None)
                return link
            except BaseException as error:
                release_link(link, command)
                lost = isinstance(error, AgentError) and error.reason is Reason.CONNECTION_LOST
                if last_try or command.was_sent or not lost:
                    raise
                link.connection.abort()
        raise AssertionError("unreachable")

    async def rest(self, address: Address, link: Link, command: LastingCommand) -> None:
        """Keep a lasting shell whose user is through with it; the next one within REST_S need not open another."""
        if address in self.resting:
            release_link(link, command)
            return
        end = asyncio.get_running_loop().call_later(REST_S, self._end_link, address)
        self.resting[address] = Resting(link, command, end)

    def _end_link(self, address: Address) -> None:
        rested = self.resting.pop(address)
        release_link(rested.link, rested.command)

    async def rested(self, address: Address) -> tuple[Link, LastingCommand] | None:
        """The one that rests; whether it is still there its next user finds out."""
        rested = self.resting.pop(address, None)
        if rested is None:
            return None
        rested.end.cancel()
        return rested.link, rested.command


def release_link(link: Link, command: Command) -> None:
    if command.was_sent:
        command.channel.close()
    link.give()


@asynccontextmanager
async def limited(
    address: Address, command: Command, timeout_s: float, description: str
) -> AsyncIterator[None]:
    """Limit of a block to `timeout_s`; what goes wrong in it becomes an AgentError that tells of the command."""
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except TimeoutError:
        raise AgentError(
            f"{address}: {description!r} did not end within {timeout_s:g} s; its channel is "
            "closed, but it may still run there",
            Reason.TIMED_OUT,
        ) from None
    except AgentError as error:
        raise AgentError(f"{address}: {description!r}: {error}", error.reason) from None
    except (asyncssh.Error, OSError) as error:
        raise _lost(address, description, command.was_sent, error) from None


def _lost(address: Address, description: str, was_sent: bool, error: Exception) -> AgentError:
    reason = (
        "it is unknown whether the command ran or is still running"
        if was_sent
        else "the command was not sent: try again"
    )
    return AgentError(
        f"{address}: the connection was lost{why(error)} with {description!r}: {reason}",
        Reason.CONNECTION_LOST,
    )
