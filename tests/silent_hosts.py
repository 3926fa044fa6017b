"""Hosts that take a connection and then keep whoever came waiting, on loopback: each has a port of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import asyncssh

HOW = ("silent", "drip", "handshake", "login", "command")
DRIP_S = 1.0


@dataclass(eq=False)
class Silent:
    """`how`: nothing at all, a banner byte by byte, no answer to the key exchange, to the login, or to a command."""

    how: str
    ports: list[int] = field(default_factory=list)
    host_key: str = ""
    came: int = 0  # connections until now
    open: list[Any] = field(default_factory=list)  # what ends with the block

    async def serve(self, count: int) -> None:
        key = asyncssh.generate_private_key("ssh-ed25519")
        self.host_key = " ".join(key.export_public_key().decode().split()[:2])
        for _ in range(count):
            self.ports.append(await self._listen(key))

    async def _listen(self, key: Any) -> int:
        if self.how in ("login", "command"):
            made = await asyncssh.listen(
                "127.0.0.1",
                0,
                server_factory=partial(_Login if self.how == "command" else _NoLogin, self),
                server_host_keys=[key],
                process_factory=_say_nothing,
                encoding=None,
            )
            self.open.append(made)
            return int(made.get_port())
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.open.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        for one in self.open:
            one.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0.01)  # until their sockets are closed

    async def _connected(self, reader: Any, writer: asyncio.StreamWriter) -> None:
        self.came += 1
        self.open.append(writer)
        if self.how == "handshake":
            writer.write(b"SSH-2.0-silent\r\n")
        try:
            while self.how == "drip":
                writer.write(b"S")
                await writer.drain()
                await asyncio.sleep(DRIP_S)
            while await reader.read(4096):
                pass
        except (OSError, asyncio.CancelledError):
            return
        finally:
            writer.close()


class _Login(asyncssh.SSHServer):
    """Lets everybody in."""

    def __init__(self, silent: Silent) -> None:
        silent.came += 1

    def begin_auth(self, username: str) -> bool:
        return False


class _NoLogin(_Login):
    async def begin_auth(self, username: str) -> bool:  # type: ignore[override]
        await asyncio.Event().wait()
        return True


async def _say_nothing(process: Any) -> None:
    await asyncio.Event().wait()


@contextmanager
def silent_hosts(count: int, how: str) -> Iterator[Silent]:
    """They listen while the block lasts."""
    made, loop = Silent(how), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="silent", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(made.serve(count), loop).result(60)
        yield made
    finally:
        asyncio.run_coroutine_threadsafe(made.close(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
