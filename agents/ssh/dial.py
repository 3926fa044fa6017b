"""Opening a connection to a host whose key is pinned, and what its failures mean."""

from __future__ import annotations

import asyncio
import errno
import socket
from dataclasses import dataclass
from typing import Any

import asyncssh

from agents.contracts import AgentError, Reason, Secret
from agents.ssh import reach
from agents.ssh.keys import check_private_key, public

CONNECT_S = 15.0
KEEPALIVE_S, KEEPALIVE_TRIES = 15, 3  # a silent peer counts as lost after 45 s
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
    private_key: Secret  # OpenSSH PEM
    host_key: str  # "ssh-ed25519 AAAA…"; empty: nothing is trusted yet
    forbidden: tuple[str, ...] = reach.NEVER  # networks that are not connected to

    def __str__(self) -> str:
        return f"{self.user}@{self.host} port {self.port}"


@dataclass(frozen=True, slots=True)
class HostKey:
    type: str
    public_key: str  # "ssh-ed25519 AAAA…"
    fingerprint: str  # "SHA256:…"


class _Client(asyncssh.SSHClient):
    """Remembers the key that a host shows when it is not the pinned one."""

    shown: Any = None

    def validate_host_public_key(self, host: str, addr: str, port: int, key: Any) -> bool:
        self.shown = key
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
        async with asyncio.timeout(CONNECT_S):
            return await asyncssh.connect(
                address.host,
                address.port,
                sock=await reach.connected(address.host, address.port, address.forbidden),
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
    except asyncssh.HostKeyNotVerifiable:
        raise _changed(address, pinned, client.shown.get_fingerprint()) from None
    except (asyncssh.Error, OSError) as error:
        said = _said(error, str(address))
        if said.reason is Reason.CONNECTION_LOST:
            await _check_kind(address, pinned)
        raise said from None


async def _check_kind(address: Address, pinned: Any) -> None:
    """No common kind of host key ends the handshake in several ways; so ask what the host has."""
    try:
        shown = await offered(address.host, address.port, CONNECT_S, address.forbidden)
    except AgentError:
        return  # then it was not the key
    if shown.type != pinned.get_algorithm():
        raise _changed(address, pinned, shown.fingerprint)


def _changed(address: Address, pinned: Any, offered: str) -> AgentError:
    return AgentError(
        f"{address} presents host key {offered}, not the pinned {pinned.get_fingerprint()}. "
        "This may be a man in the middle, or the host was reinstalled: find out which, and only "
        "then pin the new key",
        Reason.HOST_KEY_CHANGED,
    )


async def offered(
    host: str, port: int, timeout_s: float, forbidden: tuple[str, ...] = reach.NEVER
) -> HostKey:
    try:
        async with asyncio.timeout(timeout_s):
            key = await asyncssh.get_server_host_key(
                host,
                port,
                sock=await reach.connected(host, port, forbidden),
                config=None,
                server_host_key_algs=HOST_KEY_KINDS,
            )
    except (asyncssh.Error, OSError) as error:
        raise _said(error, f"{host} port {port}") from None
    if key is None:
        raise AgentError(f"{host} port {port}: no host key received", Reason.CONNECTION_LOST)
    public = " ".join(key.export_public_key().decode().split()[:2])
    return HostKey(key.get_algorithm(), public, key.get_fingerprint())


def why(error: Exception) -> str:
    """ " (the error's own words)"; "" for one that has none, as a timeout's."""
    said = str(error).strip()
    return f" ({said})" if said else ""


def _said(error: Exception, where: str) -> AgentError:
    """AgentError for a failed connection, with its meaning and a remedy."""
    if isinstance(error, socket.gaierror):
        reason, says = (
            Reason.NAME_NOT_FOUND,
            "no address is known for that name; check the spelling",
        )
    elif isinstance(error, ConnectionRefusedError):
        reason, says = (
            Reason.CONNECTION_REFUSED,
            "refused: the machine is up, but nothing listens on that port; check the port and sshd",
        )
    elif isinstance(error, asyncssh.PermissionDenied):
        reason, says = (
            Reason.AUTHENTICATION_FAILED,
            "it rejected this key; add the public key to that user's ~/.ssh/authorized_keys "
            "and check that sshd lets this user in",
        )
    elif isinstance(error, TimeoutError) or getattr(error, "errno", None) in UNREACHABLE:
        reason, says = (
            Reason.TIMED_OUT,
            f"no answer{why(error)}; check the address, that the machine is up, and "
            "firewalls in between",
        )
    else:
        reason, says = (
            Reason.CONNECTION_LOST,
            f"the connection broke before login{why(error)}; check that this is an SSH server and "
            "not overloaded (MaxStartups)",
        )
    return AgentError(f"{where}: {says}", reason)
