"""Our SSH server behaves towards commands as OpenSSH does, and lets in one user with one key."""

from __future__ import annotations

import asyncio
import os
import pwd
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from benchlab.up import sshd
from benchlab.up.ports import free_port
from benchlab.up.procs import start_time
from benchlab.up.state import MARKER, State, load_secrets

ME = pwd.getpwuid(os.geteuid()).pw_name
Talk = Callable[[Any], Awaitable[None]]


class Server:
    """A server in this process's loop, and how to reach it."""

    def __init__(self, place: Path) -> None:
        self.state, self.port = State(place), free_port()
        self.state.ssh.mkdir(parents=True)
        self.key = asyncssh.generate_private_key("ssh-ed25519")
        sshd.authorize(self.state, self.key.export_public_key().decode())

    def connect(self, **changed: Any) -> Any:
        line = f"[127.0.0.1]:{self.port} {sshd.host_public_key(self.state)}\n"
        known = asyncssh.import_known_hosts(line)
        options = {"username": ME, "client_keys": [self.key], "known_hosts": known} | changed
        return asyncssh.connect("127.0.0.1", self.port, config=None, **options)

    def run(self, talk: Callable[[Server], Awaitable[None]]) -> None:
        async def both() -> None:
            serving = asyncio.create_task(sshd.serve(self.state, self.port))
            await self.listening()
            try:
                await talk(self)
                # A loop that is closed before it heard of its child's end leaves a process that nobody waited for.
                await asyncio.wait_for(asyncio.gather(*(one.wait() for one in started)), 30)
            finally:
                serving.cancel()
                await asyncio.gather(serving, return_exceptions=True)

        started, start = [], sshd.start

        async def noted(*given: Any) -> asyncio.subprocess.Process:
            started.append(await start(*given))
            return started[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sshd, "start", noted)
            asyncio.run(both())

    async def listening(self) -> None:
        for _ in range(500):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                await asyncio.sleep(0.01)
            else:
                writer.close()
                return
        pytest.fail("the server does not listen")


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


def on(talk: Talk) -> Callable[[Server], Awaitable[None]]:
    async def connected(server: Server) -> None:
        async with server.connect() as connection:
            await talk(connection)

    return connected


def test_streams_and_exit_code(server):
    async def talk(connection):
        done = await connection.run("cat; echo err >&2; exit 7", input="in\n")
        assert (done.stdout, done.stderr, done.exit_status) == ("in\n", "err\n", 7)

    server.run(on(talk))


def test_a_command_that_a_signal_ended(server):
    async def talk(connection):
        done = await connection.run("kill -KILL $$")
        assert done.exit_signal[0] == "KILL"

    server.run(on(talk))


def test_the_client_may_signal_the_command(server):
    async def talk(connection):
        async with connection.create_process("sleep 60") as process:
            process.terminate()
            await process.wait()
            assert process.exit_signal[0] == "TERM"

    server.run(on(talk))


def test_much_output_and_input(server):
    async def talk(connection):
        done = await connection.run("head -c 20000000 /dev/zero", encoding=None)
        assert len(done.stdout) == 20_000_000
        done = await connection.run("wc -c", input=b"x" * 20_000_000, encoding=None)
        assert int(done.stdout) == 20_000_000

    server.run(on(talk))


@pytest.mark.parametrize("redirected", ["</dev/null >/dev/null 2>&1", ""])
def test_what_is_left_in_the_background_neither_hangs_nor_dies(server, redirected):
    found = []

    async def talk(connection):
        begun = time.monotonic()
        done = await connection.run(f"setsid sleep 60 {redirected} & echo $!")
        assert time.monotonic() - begun < 10
        found.append(int(done.stdout))

    try:
        server.run(on(talk))
        assert start_time(found[0])
    finally:
        os.kill(found[0], 9)


def test_a_lost_connection_does_not_kill_the_command(server, tmp_path):
    mark = tmp_path / "went-on"

    async def talk(server):
        async with server.connect() as connection:
            process = await connection.create_process(f"echo; sleep 0.3; touch {mark}")
            await process.stdout.readline()
            connection.abort()
        for _ in range(500):
            if mark.exists():
                return
            await asyncio.sleep(0.01)

    server.run(talk)
    assert mark.exists()


def test_commands_get_a_fresh_environment(server, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "not for you")

    async def talk(connection):
        done = await connection.run("env")
        env = dict(line.split("=", 1) for line in done.stdout.splitlines())
        assert "SECRET_KEY" not in env
        assert (env["USER"], env[MARKER]) == (ME, load_secrets(server.state)[MARKER])

    server.run(on(talk))


def test_only_the_one_user_and_key(server):
    async def talk(server):
        other = asyncssh.generate_private_key("ssh-ed25519")
        for wrong in ({"username": "somebody"}, {"client_keys": [other]}, {"client_keys": None}):
            with pytest.raises(asyncssh.PermissionDenied):
                await server.connect(**wrong)
        sshd.authorize(server.state, other.export_public_key().decode())
        async with server.connect(client_keys=[other]):
            pass
        with pytest.raises(asyncssh.PermissionDenied):
            await server.connect()

    server.run(talk)


def test_no_shell_no_terminal_no_forwarding(server):
    async def talk(connection):
        assert (await connection.run()).exit_status == 1
        with pytest.raises(asyncssh.ChannelOpenError):
            await connection.run("true", term_type="xterm")
        with pytest.raises(asyncssh.ChannelListenError):
            await connection.forward_remote_port("127.0.0.1", 0, "127.0.0.1", 1)
        with pytest.raises(asyncssh.ChannelOpenError):
            await connection.open_connection("127.0.0.1", server.port)

    server.run(on(talk))


def test_the_host_key_stays(server):
    assert sshd.host_public_key(server.state) == sshd.host_public_key(State(server.state.path))
    assert (server.state.ssh / "host_key").stat().st_mode & 0o077 == 0
