"""A real SSH server that means harm: it lets us in and answers each command as the test wants."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import asyncssh

from agents.contracts import Secret
from agents.ssh import keys, shell

Answer = Callable[[Any], Awaitable[None]]  # of an asyncssh process


class _Anybody(asyncssh.SSHServer):
    def __init__(self, banner: str, connections: list[Any]) -> None:
        self._banner, self._connections = banner, connections

    def connection_made(self, conn: Any) -> None:
        self._connections.append(conn)
        if self._banner:
            conn.send_auth_banner(self._banner)

    def begin_auth(self, username: str) -> bool:
        return False


@contextmanager
def hostile(answer: Answer, *, version: str = "x", banner: str = "") -> Iterator[shell.Address]:
    """Address on which it listens; its key is the pinned one."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    connections: list[Any] = []
    key = asyncssh.generate_private_key("ssh-ed25519")

    async def listen() -> Any:
        return await asyncssh.create_server(
            lambda: _Anybody(banner, connections), "127.0.0.1", 0, server_host_keys=[key], server_version=version,
            process_factory=answer, encoding=None,
        )  # fmt: skip

    server = asyncio.run_coroutine_threadsafe(listen(), loop).result(10)
    private, _ = keys.generate_key_pair("us")
    public = " ".join(key.export_public_key().decode().split()[:2])
    try:
        yield shell.Address("127.0.0.1", server.get_port(), "root", Secret(private), public)
    finally:
        asyncio.run_coroutine_threadsafe(_close(server, connections), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _close(server: Any, connections: list[Any]) -> None:
    server.close()
    for connection in connections:
        connection.abort()
    await asyncio.gather(*(connection.wait_closed() for connection in connections))
    mine = asyncio.current_task()
    left = [task for task in asyncio.all_tasks() if task is not mine]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
