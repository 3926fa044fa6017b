# SPDX-License-Identifier: Apache-2.0
"""TCP ports: is one free, who holds it, and one that stays the same from start to start."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from pathlib import Path

from benchlab.installation import command
from benchlab.up.state import State, read_json, write_json
from benchlab.up.trouble import Trouble
from benchlab.web import listening

LOOPBACK = "127.0.0.1"
# the state's number in /proc/net/tcp
LISTEN = "0A"


def why_not(host: str, port: int) -> OSError | None:
    """Error that keeps us from listening there; None if nothing does."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            # Servers do the same: a port in TIME_WAIT counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            where = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)[0][4]
            probe.bind(where)
            probe.listen(1)
    except OSError as error:
        return error
    # Of each family there is a socket.
    return why_not("0.0.0.0", port) if host == listening.ANY_ADDRESS else None  # noqa: S104


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def kept_port(state: State, name: str) -> int:
    """The port that `name` had before, or another if that is taken now; the choice is written down.

    Only for a caller about to listen there: if `name` runs already, its port is taken, and noted_port() returns it.
    """
    port = noted_port(state, name)
    if port is None or why_not(LOOPBACK, port):
        port = free_port()
        path = state.path / "ports.json"
        write_json(path, {**read_json(path), name: port})
    return port


def noted_port(state: State, name: str) -> int | None:
    """The port that `name` used last, free or not."""
    port = read_json(state.path / "ports.json").get(name)
    return port if isinstance(port, int) else None


def require_port(host: str, port: int) -> None:
    """Raise Trouble that says who listens there and what to type instead."""
    if path := listening.unix_path(host):
        try:
            listening.require_free(path)
        except OSError as in_use:
            raise Trouble(f"Cannot listen on {path}: {in_use.strerror}.") from None
        return
    error = why_not(host, port)
    if error is None:
        return
    if error.errno == errno.EADDRINUSE:
        other = next((p for p in range(port + 1, port + 100) if not why_not(host, p)), free_port())
        raise Trouble(
            f"Port {port} on {host} is busy: {holder(port)} listens there. Stop that, or take"
            f" another port:\n  {command(f'up --port {other}')}"
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        raise Trouble(
            f"User {os.geteuid()} may not listen on port {port} of {host}: {error.strerror}. Ports"
            " below 1024 are for root; take another with --port."
        )
    raise Trouble(
        f"Cannot listen on {host} port {port}: {error.strerror}. Check --host and --port."
    )


def holder(port: int) -> str:
    """Process number and name of whoever listens on the port, as far as we may see."""
    inodes = {f"socket:[{inode}]" for inode in listeners(port)}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if any(str(fd.readlink()) in inodes for fd in (entry / "fd").iterdir()):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                command = b" ".join(words).decode(errors="replace").strip()
                return f"process {entry.name} ({command[:60]})"
    return "another program (of another user, or outside this container)"


def listeners(port: int) -> list[str]:
    """Inodes of the sockets that listen on the port, from /proc/net/tcp and tcp6."""
    sockets = []
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == LISTEN and int(words[1].rpartition(":")[2], 16) == port:
                    sockets.append(words[9])
    return sockets
