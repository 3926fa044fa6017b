# SPDX-License-Identifier: Apache-2.0
"""An SSH server of our own on loopback, so that this machine is a host like any other.

Key-only, one user (the one who runs it), commands only: no terminal, no forwarding, no SFTP. Commands
run as under OpenSSH: `/bin/sh -c`, a fresh environment, a process group of their own; what they leave
in the background outlives the command and the connection.

Run as `python -m benchlab.up.sshd STATE_DIRECTORY PORT`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import signal
import sys
from pathlib import Path
from typing import Any

import asyncssh

from benchlab.up.ports import LOOPBACK
from benchlab.up.state import MARKER, State, load_secrets

CHUNK = 1 << 16
# After a command's end: output of it may still be in the pipe, but a background process that holds
# the pipe open must not hold the channel. So many seconds of silence end it.
LINGER_S = 0.3
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def host_key_path(state: State) -> Path:
    return state.ssh / "host_key"


def authorized_keys_path(state: State) -> Path:
    return state.ssh / "authorized_keys"


def ensure_host_key(state: State) -> asyncssh.SSHKey:
    """The server's key, made once and kept, so that the pinned key stays valid."""
    path = host_key_path(state)
    if not path.exists():
        key = asyncssh.generate_private_key("ssh-ed25519", comment="BenchLab, this machine")
        new = path.with_suffix(".new")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(key.export_private_key())
        new.replace(path)
    return asyncssh.read_private_key(path)


def host_public_key(state: State) -> str:
    """Type and key, as in known_hosts without the names; no comment, which a server never shows."""
    words = ensure_host_key(state).export_public_key().decode().split()
    return f"{words[0]} {words[1]}"


def authorize(state: State, public_key: str) -> None:
    """Let the holder of that key in, and nobody else."""
    path = authorized_keys_path(state)
    new = path.with_suffix(".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(public_key.strip() + "\n")
    new.replace(path)


def authorized(state: State) -> list[asyncssh.SSHKey]:
    """The keys that may log in now; none while nobody is authorized."""
    path = authorized_keys_path(state)
    return list(asyncssh.read_public_key_list(path)) if path.exists() else []


class KeyOnly(asyncssh.SSHServer):
    """Admits the user who runs us, by an authorized key."""

    def __init__(self, state: State, user: str) -> None:
        self.state, self.user = state, user

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return username == self.user and key in authorized(self.state)


def environment(state: State) -> dict[str, str]:
    """Environment of a login, without any variable of ours, above all without secrets."""
    me = pwd.getpwuid(os.geteuid())
    return {
        "HOME": me.pw_dir,
        "USER": me.pw_name,
        "LOGNAME": me.pw_name,
        "SHELL": me.pw_shell or "/bin/sh",
        "PATH": PATH,
        MARKER: load_secrets(state)[MARKER],
    }


class Pipes:
    """The three pipes of a command. We close them ourselves: asyncio's would kill the command."""

    def __init__(self) -> None:
        self.their_stdin, self.stdin = os.pipe()
        self.stdout, self.their_stdout = os.pipe()
        self.stderr, self.their_stderr = os.pipe()

    def close_theirs(self) -> None:
        for fd in (self.their_stdin, self.their_stdout, self.their_stderr):
            os.close(fd)


async def reader_of(fd: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=CHUNK)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", 0)
    )
    return reader, transport


async def writer_of(fd: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(loop), os.fdopen(fd, "wb", 0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)


async def copy_out(reader: asyncio.StreamReader, channel: Any, ended: asyncio.Event) -> None:
    """Copy the pipe to the client until the pipe ends, or the command has ended and the pipe is silent."""
    while True:
        read = asyncio.ensure_future(reader.read(CHUNK))
        over = asyncio.ensure_future(ended.wait())
        await asyncio.wait({read, over}, return_when=asyncio.FIRST_COMPLETED)
        over.cancel()
        if not read.done():
            await asyncio.wait({read}, timeout=LINGER_S)
        if not read.done():
            read.cancel()
            return
        data = read.result()
        if not data:
            return
        channel.write(data)
        await channel.drain()


async def copy_in(channel: Any, writer: asyncio.StreamWriter, group: int) -> None:
    """Copy the client's input to the command, and deliver its signals.

    The end of the input or of the connection closes the command's input.
    """
    try:
        while True:
            try:
                data = await channel.read(CHUNK)
            except asyncssh.SignalReceived as received:
                deliver(group, received.signal)
                continue
            except asyncssh.BreakReceived:
                deliver(group, "INT")
                continue
            if not data:
                break
            writer.write(data)
            await writer.drain()
    except (ConnectionError, asyncssh.Error):
        # The command stopped reading or the client is gone: both end the copying.
        pass
    finally:
        writer.close()


def deliver(group: int, name: str) -> None:
    """Send the signal of an SSH name (TERM, KILL, ...) to the command's process group."""
    number = getattr(signal, f"SIG{name}", None)
    if number is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)


async def serve_command(process: Any, state: State) -> None:
    """Serve a channel: run its command, copy its streams, report its exit code."""
    if process.command is None:
        process.stderr.write(
            b"BenchLab's SSH server runs commands only; it has no shell to offer.\n"
        )
        process.exit(1)
        return
    pipes = Pipes()
    try:
        child = await start(process.command, pipes, state)
    finally:
        pipes.close_theirs()
    code = await carry(process, child, pipes)
    if code < 0:
        process.exit_with_signal(signal.Signals(-code).name.removeprefix("SIG"))
    else:
        process.exit(code)


async def start(command: str, pipes: Pipes, state: State) -> asyncio.subprocess.Process:
    env = environment(state)
    return await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        command,
        stdin=pipes.their_stdin,
        stdout=pipes.their_stdout,
        stderr=pipes.their_stderr,
        env=env,
        cwd=env["HOME"] if os.access(env["HOME"], os.X_OK) else "/",
        start_new_session=True,
    )


async def carry(process: Any, child: asyncio.subprocess.Process, pipes: Pipes) -> int:
    """Copy both ways until the command has ended and its output is sent; return its exit code."""
    ended = asyncio.Event()
    stdin = await writer_of(pipes.stdin)
    stdout, out = await reader_of(pipes.stdout)
    stderr, err = await reader_of(pipes.stderr)
    incoming = asyncio.create_task(copy_in(process.stdin, stdin, child.pid))
    outgoing = asyncio.gather(
        copy_out(stdout, process.stdout, ended),
        copy_out(stderr, process.stderr, ended),
        # The client is gone: the command goes on, its output is lost.
        return_exceptions=True,
    )
    outgoing.add_done_callback(lambda _: out.close())
    outgoing.add_done_callback(lambda _: err.close())
    try:
        code = await child.wait()
        ended.set()
        await outgoing
        return code
    finally:
        incoming.cancel()


async def serve(state: State, port: int) -> None:
    """Listen until SIGTERM or SIGINT."""
    user = pwd.getpwuid(os.geteuid()).pw_name
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)

    async def command(process: Any) -> None:
        with contextlib.suppress(asyncssh.Error, ConnectionError):
            await serve_command(process, state)

    server = await asyncssh.create_server(
        lambda: KeyOnly(state, user),
        LOOPBACK,
        port,
        server_host_keys=[ensure_host_key(state)],
        process_factory=command,
        encoding=None,
        allow_pty=False,
        agent_forwarding=False,
        x11_forwarding=False,
        keepalive_interval=30,
    )
    async with server:
        await stop.wait()


def main() -> None:
    # Do not wait for processes that clients of this server left behind.
    asyncio.run(serve(State(Path(sys.argv[1])), int(sys.argv[2])))


if __name__ == "__main__":
    main()
