# SPDX-License-Identifier: Apache-2.0
"""Opening a connection to a host whose key is pinned, and what its failures mean."""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

import asyncssh

from agents.contracts import AgentError, Reason, Secret
from agents.ssh import reach
from agents.ssh.keys import check_private_key, public

# Until its name is looked up and it takes the connection: a lost packet is sent again after one second and three.
REACH_S = 5.0
# From then on, each at the latest. asyncssh's limits (connect_timeout, login_timeout) are one for all three.
BANNER_S, EXCHANGE_S, LOGIN_S = 5.0, 8.0, 15.0
# for a key that is only looked at
OFFER_S = REACH_S + EXCHANGE_S
# a silent peer counts as lost after 45 s
KEEPALIVE_S, KEEPALIVE_TRIES = 15, 3
RSA_SIGNATURES = ["rsa-sha2-512", "rsa-sha2-256"]
HOST_KEY_KINDS = [
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    *RSA_SIGNATURES,
]
# Before the others, as asyncssh writes it: two calls a packet where chacha20 takes six, and less work for hosts whose
# CPU knows AES: it is their CPU that is measured.
CIPHERS = "^aes128-gcm@openssh.com"
UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN)


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a host: the way to reach it, the user, and the key that it must show."""

    host: str
    port: int
    user: str
    # OpenSSH PEM
    private_key: Secret
    # "ssh-ed25519 AAAA…"; empty: nothing is trusted yet
    host_key: str
    # networks that are not connected to
    forbidden: tuple[str, ...] = reach.NEVER
    # the team, which has a share of all look-ups of names
    group: int | None = None

    def __str__(self) -> str:
        return f"{self.user}@{self.host} port {self.port}"


@dataclass(frozen=True, slots=True)
class HostKey:
    type: str
    # "ssh-ed25519 AAAA…"
    public_key: str
    # "SHA256:…"
    fingerprint: str


class _Client(asyncssh.SSHClient):
    """Remembers the key that a host shows when it is not the pinned one, and how far the connection is."""

    offered_key: Any = None
    connection: Any = None

    def connection_made(self, conn: Any) -> None:
        self.connection = conn

    def knows(self, fact: str) -> bool:
        """The connection has this of its get_extra_info."""
        return self.connection is not None and self.connection.get_extra_info(fact) is not None

    def validate_host_public_key(self, host: str, addr: str, port: int, key: Any) -> bool:
        self.offered_key = key
        return False


async def dial(address: Address) -> Any:
    if not address.host_key:
        raise AgentError(
            f"{address}: its host key is not known yet; compare the fingerprint it offers with "
            "the host's own (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub) and confirm it",
            Reason.HOST_KEY_UNKNOWN,
        )
    check_private_key(address.private_key.value)
    pinned, client = public(address.host_key), _Client()
    kind = pinned.get_algorithm()
    try:
        async with asyncio.timeout(REACH_S):
            sock = await reach.connected(
                address.host, address.port, address.forbidden, address.group
            )
        connecting = asyncssh.connect(
            address.host,
            address.port,
            sock=sock,
            username=address.user,
            client_factory=lambda: client,
            client_keys=[asyncssh.import_private_key(address.private_key.value)],
            known_hosts=([pinned], [], []),
            server_host_key_algs=RSA_SIGNATURES if kind == "ssh-rsa" else [kind],
            encryption_algs=CIPHERS,
            config=None,
            agent_path=None,
            preferred_auth="publickey",
            keepalive_interval=KEEPALIVE_S,
            keepalive_count_max=KEEPALIVE_TRIES,
        )
        return await _let_in(address, client, connecting)
    except asyncssh.HostKeyNotVerifiable:
        raise _key_changed_error(address, pinned, client.offered_key.get_fingerprint()) from None
    except (asyncssh.Error, OSError) as error:
        refusal = _connection_error(error, str(address))
        if refusal.reason is Reason.CONNECTION_LOST:
            await _check_kind(address, pinned)
        raise refusal from None


async def _let_in(address: Address, client: _Client, connecting: Awaitable[Any]) -> Any:
    """The connection. Raises AgentError TIMED_OUT once the host is too slow with one of what it has to do."""
    task, began = asyncio.ensure_future(connecting), time.monotonic()
    try:
        for limit_s, fact, missing in (
            (BANNER_S, "server_version", "sent no SSH banner"),
            (EXCHANGE_S, "recv_cipher", "did not end the key exchange"),
            (LOGIN_S, "username", "did not end the login"),
        ):
            await asyncio.wait({task}, timeout=began + limit_s - time.monotonic())
            if task.done():
                break
            if not client.knows(fact):
                raise AgentError(
                    f"{address}: it took the connection, but {missing} within {limit_s:g} s; check that this is an "
                    "SSH server, that the machine is not overloaded, and what its sshd logs",
                    Reason.TIMED_OUT,
                )
        return await task
    finally:
        task.cancel()


async def _check_kind(address: Address, pinned: Any) -> None:
    """No common kind of host key ends the handshake in several ways; so ask what the host has."""
    try:
        presented_key = await offered_host_key(
            address.host, address.port, OFFER_S, address.forbidden, address.group
        )
    except AgentError:
        # then it was not the key
        return
    if presented_key.type != pinned.get_algorithm():
        raise _key_changed_error(address, pinned, presented_key.fingerprint)


def _key_changed_error(address: Address, pinned: Any, presented: str) -> AgentError:
    return AgentError(
        f"{address} presents host key {presented}, not the pinned {pinned.get_fingerprint()}. "
        "This may be a man in the middle, or the host was reinstalled: find out which, and only "
        "then pin the new key",
        Reason.HOST_KEY_CHANGED,
    )


async def offered_host_key(
    host: str,
    port: int,
    timeout_s: float,
    forbidden: tuple[str, ...],
    group: int | None,
) -> HostKey:
    try:
        async with asyncio.timeout(timeout_s):
            key = await asyncssh.get_server_host_key(
                host,
                port,
                sock=await reach.connected(host, port, forbidden, group),
                config=None,
                server_host_key_algs=HOST_KEY_KINDS,
            )
    except (asyncssh.Error, OSError) as error:
        raise _connection_error(error, f"{host} port {port}") from None
    if key is None:
        raise AgentError(f"{host} port {port}: no host key received", Reason.CONNECTION_LOST)
    public = " ".join(key.export_public_key().decode().split()[:2])
    return HostKey(key.get_algorithm(), public, key.get_fingerprint())


def why(error: Exception) -> str:
    """ " (the error's own words)"; "" for one that has none, as a timeout's."""
    text = str(error).strip()
    return f" ({text})" if text else ""


def _connection_error(error: Exception, where: str) -> AgentError:
    """AgentError for a failed connection, with its meaning and a remedy."""
    if isinstance(error, socket.gaierror):
        reason, message = (
            Reason.NAME_NOT_FOUND,
            "no address is known for that name; check the spelling",
        )
    elif isinstance(error, ConnectionRefusedError):
        reason, message = (
            Reason.CONNECTION_REFUSED,
            "refused: the machine is up, but nothing listens on that port; check the port and sshd",
        )
    elif isinstance(error, asyncssh.PermissionDenied):
        reason, message = (
            Reason.AUTHENTICATION_FAILED,
            "it rejected this key; add the public key to that user's ~/.ssh/authorized_keys "
            "and check that sshd lets this user in",
        )
    elif isinstance(error, TimeoutError) or getattr(error, "errno", None) in UNREACHABLE:
        reason, message = (
            Reason.TIMED_OUT,
            f"no answer{why(error)}; check the address, that the machine is up, and "
            "firewalls in between",
        )
    else:
        reason, message = (
            Reason.CONNECTION_LOST,
            f"the connection broke before login{why(error)}; check that this is an SSH server and "
            "not overloaded (MaxStartups)",
        )
    return AgentError(f"{where}: {message}", reason)
