# SPDX-License-Identifier: Apache-2.0
"""Hosts that kept a caller waiting and did not let it in: others leave them alone for a while, longer each time.

A caller that waits for a host holds a thread that all hosts share. What was refused at once cost nobody anything, and
is tried again at once.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from agents.contracts import AgentError
from agents.ssh.dial import Address

T = TypeVar("T")

SLOW_S = 1.0
# The first pause; each one is twice as long as the last. So a host is found again within the time that it was silent.
FIRST_S, MOST_S = 5.0, 60.0


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed connection; nobody tries again before `until` (time.monotonic)."""

    error: AgentError
    pause_s: float
    until: float


@dataclass
class Breaker:
    """Counts failures by address: those of one key or team do not concern others. Lives on the loop thread."""

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
