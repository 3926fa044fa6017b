# SPDX-License-Identifier: Apache-2.0
"""Connections that have not logged in yet: few of each address, and none that says nothing.

The newest connection is let in at the cost of the oldest of the same address, so idle ones cannot keep dynamos out.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections import Counter
from typing import Any

from agents.dynamo.tunnel import Halt
from agents.dynamo.wire import DynamoError

# dynamo sends its login as soon as it is connected
FIRST_BYTE_S = 5.0
MAX_PER_ADDRESS = 8
MAX_WAITING = 32


class WaitingConnections:
    """Connections before their login, oldest first. Safe to use from several threads."""

    def __init__(self, per_address: int = MAX_PER_ADDRESS, most: int = MAX_WAITING) -> None:
        self._per_address, self._most = per_address, most
        self._lock = threading.Lock()
        self._addresses: dict[socket.socket, str] = {}

    def add_connection(self, stream: socket.socket, address: str) -> None:
        """Let a connection wait; the oldest one is ended if its address, or all together, have too many."""
        with self._lock:
            counts = Counter(self._addresses.values())
            crowded = ""
            if counts[address] >= self._per_address:
                crowded = address
            elif counts.total() >= self._most:
                crowded = counts.most_common(1)[0][0]
            oldest = next(
                (waiting for waiting, where in self._addresses.items() if where == crowded), None
            )
            if oldest is not None:
                del self._addresses[oldest]
                # Its thread sees the end of the stream, and closes it.
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            self._addresses[stream] = address

    def remove_connection(self, stream: socket.socket) -> None:
        with self._lock:
            self._addresses.pop(stream, None)


def await_first_byte(stream: socket.socket, halt: Halt, seconds: float = FIRST_BYTE_S) -> None:
    """Raises DynamoError if nothing comes."""
    watched: list[Any] = [stream, halt]
    if stream not in select.select(watched, [], [], seconds)[0]:
        raise DynamoError("timeout", f"the connection sent no login within {seconds:.0f} s")
