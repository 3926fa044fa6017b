# SPDX-License-Identifier: Apache-2.0
"""Embedded Valkey (the BSD fork of Redis 7.2, same protocol): 127.0.0.1, password, append-only file."""

from __future__ import annotations

import socket
from pathlib import Path

from benchlab.up.ports import LOOPBACK


def url(port: int, password: str) -> str:
    return f"redis://:{password}@{LOOPBACK}:{port}/0"


def config(directory: Path, port: int, password: str) -> str:
    """The configuration, for standard input: anybody could read a password on the command line."""
    return f"""bind {LOOPBACK}
port {port}
requirepass {password}
dir "{directory}"
save ""
appendonly yes
maxmemory-policy noeviction
"""


def ready(port: int) -> bool:
    """True if it answers. Any reply to PING, even "NOAUTH", means that it is up; "LOADING" does not."""
    try:
        with socket.create_connection((LOOPBACK, port), 0.5) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith((b"+PONG", b"-NOAUTH"))
    except OSError:
        return False
