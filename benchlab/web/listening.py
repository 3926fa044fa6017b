# SPDX-License-Identifier: Apache-2.0
"""Sockets of the web server: of every address of this machine, or a Unix socket for a proxy beside it."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path

UNIX_PREFIX = "unix:"
ANY_ADDRESS = "::"
BACKLOG = 2048
# Its owner and its group may connect: put the proxy's user into the group of who runs BenchLab.
SOCKET_MODE = 0o660


def unix_path(host: str) -> Path | None:
    """Path of "unix:/path"; None for an address or a name."""
    return Path(host.removeprefix(UNIX_PREFIX)) if host.startswith(UNIX_PREFIX) else None


def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen; none for an address or a name, which uvicorn opens itself. Raises OSError.

    Each family has one, for a client of IPv4 would otherwise have an address of IPv6.
    """
    if path := unix_path(host):
        return [unix_socket(path)]
    if host != ANY_ADDRESS:
        return []
    own = socket.create_server((host, port), family=socket.AF_INET6, backlog=BACKLOG)
    return [own, socket.create_server(("", port), backlog=BACKLOG)]


def unix_socket(path: Path) -> socket.socket:
    """Listen there; what a server left that was killed is replaced. Raises OSError."""
    require_free(path)
    path.unlink(missing_ok=True)
    own = socket.socket(socket.AF_UNIX)
    before = os.umask(0o777 & ~SOCKET_MODE)
    try:
        own.bind(str(path))
    finally:
        os.umask(before)
    own.listen(BACKLOG)
    return own


def require_free(path: Path) -> None:
    """Raise OSError where somebody listens, or where there is something else than a socket."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError(
                errno.EEXIST, "there is a file of that name that is no socket", str(path)
            )
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(2)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return
        except TimeoutError:
            # it listens, and is busy
            pass
    raise OSError(errno.EADDRINUSE, "another server listens there", str(path))
