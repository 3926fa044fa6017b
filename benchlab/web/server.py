# SPDX-License-Identifier: Apache-2.0
"""Start the web server: `manage.py web`, or `python -m benchlab.web.server`; `--host` takes an address or unix:PATH.

`manage.py up`, the container image and the tests start it in this way, so that what protects it stands in one place.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import socket
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import uvicorn

from benchlab import compatibility, env
from benchlab.web import listening
from benchlab.web.connections import LimitedProtocol, Limits, limited_protocol
from benchlab.workers.process_counters import counters

APPLICATION = "benchlab.asgi:application"
# After SIGTERM, requests that have begun may take so long; docker-compose.yml and `up` wait a little longer.
GRACE_SECONDS = 25
# Exit code where it could not listen
NOT_STARTED = 3
# Open files that are no client's connection: the database's, static files, uploads.
OTHER_FILES = 500


class Server(uvicorn.Server):
    """uvicorn's, which at its stop ends the streams of live pages at once: by themselves they never would.

    It also removes its Unix socket, at which a proxy would wait for an answer.
    """

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        protocol: type[LimitedProtocol] = self.config.http_protocol_class  # type: ignore[assignment]
        protocol.open_connections.ended.set()
        for listener in sockets or []:
            if listener.family == socket.AF_UNIX:
                Path(listener.getsockname()).unlink(missing_ok=True)
        await super().shutdown(sockets)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal comes. Words: those after the program's name; None: the process's own."""
    parser = argparse.ArgumentParser(prog="benchlab web")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--grace", type=int, default=GRACE_SECONDS, help="seconds")
    options = parser.parse_args(arguments)
    if listening.unix_path(options.host) and not proxy_count():
        parser.error("a Unix socket tells no client's address: set BENCHLAB_PROXIES=1")
    protocol = limited_protocol(connection_limits())
    # benchlab/asgi.py begins to hand over: settings must not be loaded before it.
    counters.role = "web"
    counters.gauges["connections"] = lambda: protocol.open_connections.count
    counters.gauges["streams"] = lambda: protocol.open_connections.open_streams
    # The settings see by it that they are a web server's.
    import_module(APPLICATION.partition(":")[0])
    if problem := compatibility.unfit():
        raise SystemExit(problem)
    try:
        sockets = listening.listening_sockets(options.host, options.port)
    except OSError as error:
        parser.error(f"cannot listen on {options.host}: {error.strerror}")
    config = uvicorn.Config(
        APPLICATION,
        host=options.host,
        port=options.port,
        # X-Forwarded-For of whoever connects from this machine would become the client's address, in log-in limits and
        # in the audit log. Django's side reads it, and only behind as many proxies as BENCHLAB_PROXIES says.
        proxy_headers=False,
        loop="uvloop",
        http=protocol,
        ws="none",
        lifespan="off",
        access_log=False,
        # the settings have it
        log_config=None,
        timeout_graceful_shutdown=options.grace,
    )
    server = Server(config)
    # uvicorn sends itself the signal again once it has stopped.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _exit_process)
    server.run(sockets or None)
    return 0 if server.started else NOT_STARTED


def _exit_process(*_: object) -> None:
    """Not by sys.exit, which would wait for the threads of requests that were cut."""
    counters.end()
    os._exit(0)


def proxy_count() -> int:
    """Number of proxies in front, each of which tells whom it speaks for."""
    return env.number("BENCHLAB_PROXIES", 1 if env.flag("BENCHLAB_HTTPS") else 0)


def connection_limits() -> Limits:
    """Limits from the environment. Behind proxies all connections are theirs: limits by address are theirs, too."""
    usual = Limits()
    files = _allow_open_files() - OTHER_FILES
    total = env.number("BENCHLAB_CONNECTIONS", max(50, min(usual.total, files)), 1)
    behind_proxies = proxy_count() > 0
    per_address = env.number("BENCHLAB_CONNECTIONS_PER_ADDRESS", usual.per_address, 1)
    return Limits(
        header_bytes=env.number("BENCHLAB_HEADER_BYTES", usual.header_bytes, 1),
        header_seconds=env.number("BENCHLAB_HEADER_SECONDS", int(usual.header_seconds), 1),
        body_bytes=env.number("BENCHLAB_BODY_BYTES", usual.body_bytes, 1),
        body_seconds=env.number("BENCHLAB_BODY_SECONDS", int(usual.body_seconds), 1),
        bodies_per_address=8 * usual.bodies_per_address
        if behind_proxies
        else usual.bodies_per_address,
        write_seconds=env.number("BENCHLAB_WRITE_SECONDS", int(usual.write_seconds), 1),
        per_address=total if behind_proxies else min(per_address, total),
        total=total,
    )


def _allow_open_files() -> int:
    """Raise the soft limit on open files to the hard one, at most 65,536, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return most if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


if __name__ == "__main__":
    sys.exit(main())
