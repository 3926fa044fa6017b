# SPDX-License-Identifier: Apache-2.0
"""IOmeter's console for dynamos that log in by themselves, as they would to IOmeter: `manage.py dynamo_listener`.

The protocol has no passwords and no encryption: whoever reaches the port is believed, and whoever reaches dynamo's own
port commands it. So only addresses that were allowed are spoken to, in both directions. Each dynamo has a thread, in
which its session is (session.py).

Few connections of each address may wait for their login. The newest is let in at the cost of the oldest of the same
address, so idle ones cannot keep dynamos out.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import select
import socket
import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any

from django.db import connection

from agents.dynamo.link import set_socket_options
from agents.dynamo.tunnel import Halt
from agents.dynamo.wire import DynamoError
from benchlab.dynamo.reported_hosts import Claims
from benchlab.dynamo.session import DynamoSession, Process
from benchlab.team.models import Team

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


log = logging.getLogger(__name__)

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
MAX_DYNAMOS = 64


class SettingsError(Exception):
    """The environment does not say where to listen, or whom to; the text says what is missing."""


def parse_listen_address(listen: str) -> tuple[str, int]:
    """Split "address:port". Raises SettingsError."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 <= int(port) < 65536:
        raise SettingsError(
            f"BENCHLAB_DYNAMO_LISTEN: {listen!r} is not address:port, such as 0.0.0.0:1066"
        )
    return host.strip("[]"), int(port)


def parse_networks(allowed: Iterable[str]) -> tuple[Network, ...]:
    """Raises Settings: nobody at all may log in without a list."""
    try:
        parsed = tuple(ipaddress.ip_network(word) for word in allowed)
    except ValueError as error:
        raise SettingsError(f"BENCHLAB_DYNAMO_ALLOW: {error}") from None
    if not parsed:
        raise SettingsError(
            "BENCHLAB_DYNAMO_ALLOW is empty: name the addresses of the machines with dynamo"
        )
    if any(network.prefixlen == 0 for network in parsed):
        raise SettingsError(
            "BENCHLAB_DYNAMO_ALLOW: everybody is not a list; the protocol has no passwords"
        )
    return parsed


def find_team(name: str) -> Team:
    """Team whose hosts the dynamos become. Raises Settings."""
    rows = Team.objects.filter(library=False).order_by("pk")
    team = rows.filter(name=name).first() if name else rows.first()
    if team is None:
        raise SettingsError(
            f"BENCHLAB_DYNAMO_TEAM: there is no team named {name!r}"
            if name
            else "there is no team yet"
        )
    return team


class Listener:
    """Accepts dynamos until `stop`. Raises Settings or OSError when made."""

    def __init__(self, listen: str, allowed: Iterable[str], team: str) -> None:
        self._allowed = parse_networks(allowed)
        self._team = find_team(team)
        host, port = parse_listen_address(listen)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=16)
        self.port: int = self._socket.getsockname()[1]
        self.halt = Halt()
        self.slots: Counter[Process] = Counter()
        self.claims = Claims()
        self._waiting = WaitingConnections()
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._logged_in: set[socket.socket] = set()

    def is_allowed(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        mapped = getattr(parsed, "ipv4_mapped", None)
        return any((mapped or parsed) in network for network in self._allowed)

    def serve_dynamos(self) -> None:
        while not self.halt.stopped:
            watched: list[Any] = [self._socket, self.halt]
            ready = select.select(watched, [], [], 1.0)[0]
            if self._socket in ready:
                self._accept_connection(*self._socket.accept())
        self._socket.close()
        for thread in list(self._threads):
            thread.join(10.0)
        if not any(thread.is_alive() for thread in self._threads):
            self.halt.close()

    def request_stop(self) -> None:
        self.halt.request_stop()

    def admit(self, stream: socket.socket) -> None:
        """Count a connection as a dynamo that logged in. Raises DynamoError if there are too many."""
        self._waiting.remove_connection(stream)
        with self._lock:
            if len(self._logged_in) >= MAX_DYNAMOS:
                raise DynamoError(
                    "host", f"{MAX_DYNAMOS} dynamos are connected, and no more may be"
                )
            self._logged_in.add(stream)

    def _accept_connection(self, stream: socket.socket, peer: Any) -> None:
        self._threads = {thread for thread in self._threads if thread.is_alive()}
        if not self.is_allowed(peer[0]):
            log.warning(
                "a connection from %s is refused: BENCHLAB_DYNAMO_ALLOW does not have it", peer[0]
            )
            stream.close()
            return
        self._waiting.add_connection(stream, peer[0])
        thread = threading.Thread(
            target=self._serve_connection,
            args=(stream, peer[0]),
            daemon=True,
            name=f"dynamo {peer[0]}",
        )
        self._threads.add(thread)
        thread.start()

    def _serve_connection(self, stream: socket.socket, peer: str) -> None:
        try:
            await_first_byte(stream, self.halt)
            DynamoSession(self, self._team, peer).run_session(set_socket_options(stream))
        except DynamoError as error:
            log.warning("dynamo at %s: %s", peer, error)
        except Exception:
            log.exception("dynamo at %s", peer)
        finally:
            self._waiting.remove_connection(stream)
            with self._lock:
                self._logged_in.discard(stream)
            stream.close()
            connection.close()
