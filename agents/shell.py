"""Commands on a host over SSH, for callers in threads: one event loop thread, pooled connections.

The only importer of asyncssh here. A command is sent at most once: a dead pooled connection is
replaced before the command went out, never after.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import threading
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import asyncssh

from agents.contracts import AgentError, Argument, Ran, Reason, Secret
from agents.quote import command_line, shown

T = TypeVar("T")

CONNECT_S = 15.0
IDLE_S = 60.0  # an unused connection is closed after this
SESSIONS = 8  # per connection; sshd's MaxSessions is 10 by default
KEEPALIVE_S, KEEPALIVE_TRIES = 15, 3  # a silent peer counts as lost after 45 s
OUTPUT_CAP = 256 * 1024 * 1024  # bytes of stdout and stderr together
CHUNK = 64 * 1024
RSA_SIGNATURES = ["rsa-sha2-512", "rsa-sha2-256"]
HOST_KEY_KINDS = [
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    *RSA_SIGNATURES,
]
UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN)
SUDO_SAYS_NO = (b"sudo:", b"is not in the sudoers", b"is not allowed to", b"may not run sudo")


@dataclass(frozen=True, slots=True)
class Address:
    """How to reach a host, as whom, and which key it must show."""

    host: str
    port: int
    user: str
    private_key: Secret  # OpenSSH PEM
    host_key: str  # "ssh-ed25519 AAAA…"; empty: nothing is trusted yet

    def __str__(self) -> str:
        return f"{self.user}@{self.host} port {self.port}"


@dataclass(frozen=True, slots=True)
class HostKey:
    type: str
    public_key: str  # "ssh-ed25519 AAAA…"
    fingerprint: str  # "SHA256:…"


def generate_key_pair(comment: str) -> tuple[str, str]:
    """A new ed25519 pair: private key (OpenSSH PEM) and the line for authorized_keys."""
    key = asyncssh.generate_private_key("ssh-ed25519", comment=comment)
    return key.export_private_key().decode(), key.export_public_key().decode().strip()


def check_private_key(text: str) -> str:
    """The public line of a private key. Raises AgentError when it cannot be used here."""
    try:
        key = asyncssh.import_private_key(text)
    except asyncssh.KeyImportError as error:
        if "passphrase" in str(error).lower():
            what = "has a passphrase; upload one without (ssh-keygen -p removes it from a copy)"
        else:
            what = f"cannot be read ({error}); paste a whole OpenSSH or PEM private key"
        raise AgentError(f"the private key {what}", Reason.AUTHENTICATION_FAILED) from None
    return key.export_public_key().decode().strip()


def fingerprint(public_key: str) -> str:
    """ "SHA256:…" of a public key line, as ssh-keygen -l prints it."""
    return _public(public_key).get_fingerprint()  # type: ignore[no-any-return]


def offered_host_key(host: str, port: int, timeout_s: float = CONNECT_S) -> HostKey:
    """The key a host shows, before anything is trusted. Raises AgentError like `connect`."""
    return _run(_offered(host, port, timeout_s))


def connect(address: Address) -> SshShell:
    """A shell on the host; the connection is made (or found in the pool) now, so errors come now."""
    _run(_pool.ready(address))
    return SshShell(address)


@dataclass(frozen=True, slots=True)
class SshShell:
    """Implements `agents.contracts.Shell`. Cheap, shareable between threads, nothing to close."""

    address: Address

    def run(
        self,
        argv: Sequence[Argument],
        *,
        stdin: bytes = b"",
        root: bool = False,
        timeout_s: float = 60.0,
    ) -> Ran:
        sudo = root and self.address.user != "root"
        # env, not a shell assignment: sudo's env_reset and csh or fish as login shell both allow it.
        prefix = ("sudo", "-n", "--") if sudo else ()
        line = command_line((*prefix, "env", "LC_ALL=C", *argv))
        began = time.monotonic()
        command = _run(_pool.run(self.address, line, stdin, timeout_s, shown(argv)))
        ran = command.ran(tuple(argv), time.monotonic() - began)
        if sudo:
            _check_sudo(ran, self.address)
        return ran


def _check_sudo(ran: Ran, address: Address) -> None:
    missing = ran.exit_code == 127 and b"sudo" in ran.stderr and b"not found" in ran.stderr
    refused = ran.exit_code == 1 and any(says in ran.stderr for says in SUDO_SAYS_NO)
    if missing or refused:
        said = ran.stderr.decode(errors="replace").strip()
        raise AgentError(
            f"{address}: no root without a password ({said}). Log in as root, or install sudo and "
            f"add the line '{address.user} ALL=(ALL) NOPASSWD: ALL' to a file in /etc/sudoers.d",
            Reason.NO_SUDO,
        )


class _Command(asyncssh.SSHClientSession):  # type: ignore[misc]
    """One command on one channel; collects what it prints."""

    def __init__(self) -> None:
        self.output: dict[int | None, bytearray] = {None: bytearray(), 1: bytearray()}
        self.size = 0
        self.exit_code: int | None = None
        self.error: Exception | None = None
        self.over = asyncio.Event()
        self.writable = asyncio.Event()
        self.writable.set()

    def connection_made(self, chan: Any) -> None:
        self.channel = chan

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self.output[datatype] += data
        self.size += len(data)
        if self.size > OUTPUT_CAP:
            self.error = AgentError(
                f"it printed more than {OUTPUT_CAP >> 20} MiB", Reason.COMMAND_FAILED
            )
            self.channel.abort()

    def exit_status_received(self, status: int) -> None:
        self.exit_code = status

    def exit_signal_received(self, name: str, core: bool, msg: str, lang: str) -> None:
        self.exit_code = 128 + getattr(signal, f"SIG{name}", 0)

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = self.error or exc
        self.writable.set()
        self.over.set()

    async def feed(self, stdin: bytes) -> None:
        for start in range(0, len(stdin), CHUNK):
            await self.writable.wait()
            if self.channel.is_closing():
                return  # it ended without reading all of it, which is its right
            self.channel.write(stdin[start : start + CHUNK])
        self.channel.write_eof()

    def ran(self, argv: tuple[Argument, ...], seconds: float) -> Ran:
        out, err = bytes(self.output[None]), bytes(self.output[1])
        assert self.exit_code is not None
        return Ran(argv, self.exit_code, out, err, seconds)


@dataclass(eq=False)
class _Link:
    """One connection and how many commands use it."""

    connection: Any
    sessions: int = 0
    idle: asyncio.TimerHandle | None = None

    def usable(self) -> bool:
        return not self.connection.is_closed() and self.sessions < SESSIONS

    def take(self) -> _Link:
        self.sessions += 1
        if self.idle:
            self.idle.cancel()
        return self

    def give(self) -> None:
        self.sessions -= 1
        if not self.sessions:
            self.idle = asyncio.get_running_loop().call_later(IDLE_S, self.connection.close)


@dataclass
class _Pool:
    """Connections by address. Lives on the loop thread; nothing here is called from outside it."""

    links: dict[Address, list[_Link]] = field(default_factory=dict)
    locks: dict[Address, asyncio.Lock] = field(default_factory=dict)

    async def ready(self, address: Address) -> None:
        (await self._take(address)).give()

    async def _take(self, address: Address) -> _Link:
        async with self.locks.setdefault(address, asyncio.Lock()):
            links = [
                link for link in self.links.get(address, []) if not link.connection.is_closed()
            ]
            free = next((link for link in links if link.usable()), None)
            if free is None:
                free = _Link(await _open(address))
                links.append(free)
            self.links[address] = links
            return free.take()

    async def run(
        self, address: Address, line: str, stdin: bytes, timeout_s: float, says: str
    ) -> _Command:
        for last_try in (False, True):
            link = await self._take(address)
            command = _Command()
            try:
                async with asyncio.timeout(timeout_s):
                    return await _execute(link.connection, command, line, stdin)
            except TimeoutError:
                raise AgentError(
                    f"{address}: {says!r} did not end within {timeout_s:g} s; its channel is "
                    "closed, but it may still run there",
                    Reason.TIMED_OUT,
                ) from None
            except AgentError as error:
                raise AgentError(f"{address}: {says!r}: {error}", error.reason) from None
            except (asyncssh.Error, OSError) as error:
                sent = hasattr(command, "channel")  # asyncssh opens the channel, then sends it
                if not sent and not last_try:
                    link.connection.abort()
                    continue
                raise _lost(address, says, sent, error) from None
            finally:
                if hasattr(command, "channel"):
                    command.channel.close()
                link.give()
        raise AssertionError("unreachable")


def _lost(address: Address, says: str, sent: bool, error: Exception) -> AgentError:
    known = (
        "nobody knows whether it ran or still runs"
        if sent
        else "the command was not sent: try again"
    )
    return AgentError(
        f"{address}: the connection was lost ({error}) with {says!r}: {known}",
        Reason.CONNECTION_LOST,
    )


async def _execute(connection: Any, command: _Command, line: str, stdin: bytes) -> _Command:
    await connection.create_session(lambda: command, line, encoding=None)
    await command.feed(stdin)
    await command.over.wait()
    if isinstance(command.error, AgentError):
        raise command.error
    if command.exit_code is None:
        raise command.error or asyncssh.ConnectionLost("no exit status came")
    return command


class _Client(asyncssh.SSHClient):  # type: ignore[misc]
    """Remembers the key that a host shows when it is not the pinned one."""

    shown: Any = None

    def validate_host_public_key(self, host: str, addr: str, port: int, key: Any) -> bool:
        self.shown = key
        return False


def _public(text: str) -> Any:
    try:
        return asyncssh.import_public_key(text)
    except asyncssh.KeyImportError as error:
        raise AgentError(f"not a public key: {text[:60]!r} ({error})") from None


async def _open(address: Address) -> Any:
    if not address.host_key:
        raise AgentError(
            f"{address}: its host key is not known yet; compare the fingerprint it offers with "
            "the host's own (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub) and confirm it",
            Reason.HOST_KEY_UNKNOWN,
        )
    check_private_key(address.private_key.value)
    pinned, client = _public(address.host_key), _Client()
    kind = pinned.get_algorithm()
    try:
        async with asyncio.timeout(CONNECT_S):
            return await asyncssh.connect(
                address.host,
                address.port,
                username=address.user,
                client_factory=lambda: client,
                client_keys=[asyncssh.import_private_key(address.private_key.value)],
                known_hosts=([pinned], [], []),
                server_host_key_algs=RSA_SIGNATURES if kind == "ssh-rsa" else [kind],
                config=None,
                agent_path=None,
                preferred_auth="publickey",
                keepalive_interval=KEEPALIVE_S,
                keepalive_count_max=KEEPALIVE_TRIES,
            )
    except asyncssh.HostKeyNotVerifiable:
        raise _changed(address, pinned, client.shown.get_fingerprint()) from None
    except asyncssh.KeyExchangeFailed as error:
        offered = await _offered(address.host, address.port, CONNECT_S)
        if offered.type == kind:
            raise _said(error, str(address)) from None
        raise _changed(address, pinned, offered.fingerprint) from None
    except (asyncssh.Error, OSError) as error:
        raise _said(error, str(address)) from None


def _changed(address: Address, pinned: Any, offered: str) -> AgentError:
    return AgentError(
        f"{address} shows another host key, {offered}, than the pinned {pinned.get_fingerprint()}. "
        "Somebody may be in between, or the host was installed anew: find out which, and only "
        "then pin the new key",
        Reason.HOST_KEY_CHANGED,
    )


async def _offered(host: str, port: int, timeout_s: float) -> HostKey:
    try:
        async with asyncio.timeout(timeout_s):
            key = await asyncssh.get_server_host_key(
                host, port, config=None, server_host_key_algs=HOST_KEY_KINDS
            )
    except (asyncssh.Error, OSError) as error:
        raise _said(error, f"{host} port {port}") from None
    if key is None:
        raise AgentError(f"{host} port {port}: it showed no host key", Reason.CONNECTION_LOST)
    public = " ".join(key.export_public_key().decode().split()[:2])
    return HostKey(key.get_algorithm(), public, key.get_fingerprint())


def _said(error: Exception, where: str) -> AgentError:
    """What a failed connection means, and what to do."""
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
            "it does not take this key; put the public key into that user's ~/.ssh/authorized_keys "
            "and check that sshd lets this user in",
        )
    elif isinstance(error, TimeoutError) or getattr(error, "errno", None) in UNREACHABLE:
        reason, says = (
            Reason.TIMED_OUT,
            f"no answer ({error or 'timed out'}); check the address, that the machine is up, and "
            "firewalls in between",
        )
    else:
        reason, says = (
            Reason.CONNECTION_LOST,
            f"the connection broke before login ({error}); check that this is an SSH server and "
            "not overloaded (MaxStartups)",
        )
    return AgentError(f"{where}: {says}", reason)


class _Loop:
    """The event loop thread of this process; made at first use, and anew after a fork."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="ssh", daemon=True)
        self.thread.start()


_pool = _Pool()
_loop: _Loop | None = None
_starting = threading.Lock()


def _forget() -> None:
    """After a fork the thread is gone and the sockets are the parent's: begin anew."""
    global _loop, _pool, _starting
    _loop, _pool, _starting = None, _Pool(), threading.Lock()


os.register_at_fork(after_in_child=_forget)


def _run(work: Coroutine[Any, Any, T]) -> T:
    global _loop
    with _starting:
        _loop = _loop or _Loop()
    future = asyncio.run_coroutine_threadsafe(work, _loop.loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()  # the waiting thread was interrupted: nobody wants the answer any more
        raise
