# SPDX-License-Identifier: Apache-2.0
"""Connections by address, shared by all commands of this process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import asyncssh

from agents.contracts import AgentError, Reason
from agents.ssh.command import Command, LastingCommand
from agents.ssh.dial import Address, dial, why

# an unused connection is closed after this
IDLE_S = 60.0
# and a lasting shell that nobody uses after this: runs that follow each other find it again
REST_S = 2.0
# per connection; sshd's MaxSessions is 10 by default
SESSIONS = 8
# What a host refuses within this time costs nobody anything, and is tried again at once.
SLOW_S = 1.0
# The first pause; each one is twice as long as the last. So a host is found again within the time that it was silent.
FIRST_S, MOST_S = 5.0, 60.0

T = TypeVar("T")


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


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed connection; nobody tries again before `until` (time.monotonic)."""

    error: AgentError
    pause_s: float
    until: float


@dataclass
class Breaker:
    """Hosts that kept a caller waiting and did not let it in: others leave them alone for a while, longer each time.

    A caller that waits for a host holds a thread that all hosts share. Failures are counted by address: those of one
    key or team do not concern others. Lives on the loop thread.
    """

    failures: dict[Address, Failure] = field(default_factory=dict)

    async def tried(self, address: Address, connect: Callable[[Address], Awaitable[T]]) -> T:
        """Result of `connect(address)`. Raises AgentError: its own, or the last one until the pause is over."""
        last = self.failures.get(address)
        began = time.monotonic()
        if last and began < last.until:
            raise AgentError(str(last.error), last.error.reason)
        try:
            connection = await connect(address)
        except AgentError as error:
            now = time.monotonic()
            if now - began < SLOW_S:
                raise
            raise self._count_failure(address, error, now) from None
        self.forget_failures(address)
        return connection

    def _count_failure(self, address: Address, error: AgentError, now: float) -> AgentError:
        recent = {
            address: failure
            for address, failure in self.failures.items()
            if now < failure.until + MOST_S
        }
        last = recent.get(address)
        pause_s = min(MOST_S, 2 * last.pause_s) if last else FIRST_S
        then = datetime.now(UTC) + timedelta(seconds=pause_s)
        agent_error = AgentError(
            f"{error}. It is not tried again before {then:%H:%M:%S} UTC, except by a person who has its facts read",
            error.reason,
        )
        self.failures = {**recent, address: Failure(agent_error, pause_s, now + pause_s)}
        return agent_error

    def forget_failures(self, address: Address) -> None:
        """Whoever comes next tries it."""
        self.failures.pop(address, None)


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
