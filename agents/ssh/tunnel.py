# SPDX-License-Identifier: Apache-2.0
"""TCP streams to and from programs on a host that listen to nobody but itself: through SSH, no port is opened here."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import socket
from typing import Any

import asyncssh

from agents.contracts import AgentError, Reason
from agents.ssh import loop
from agents.ssh.dial import Address, dial, why

# on the host
LOOPBACK = "127.0.0.1"
PIECE = 1 << 18
OPENING_S = 15.0


class Tunnel:
    """A connection of its own (the pool closes idle ones), and a port on the host's loopback that leads to us.

    Raises AgentError when the host cannot be reached or its sshd forbids forwarding. For callers in threads.
    """

    def __init__(self, address: Address) -> None:
        self._came: queue.SimpleQueue[socket.socket] = queue.SimpleQueue()
        self._pumps: set[asyncio.Task[None]] = set()
        self._connection = loop.run_coroutine(loop.pool.breaker.tried(address, dial))
        try:
            listener = loop.run_coroutine(self._listen())
        # It is no asyncssh.Error: a server that refuses to listen for us.
        except (asyncssh.ChannelListenError, asyncssh.Error, OSError) as error:
            self.close_tunnel()
            raise AgentError(
                f"{address}: its SSH server refused to forward a port for dynamo{why(error)}: allow"
                " AllowTcpForwarding in its sshd_config (our own server for this machine forbids it), or install"
                " Python 3.6 or later on the host",
                Reason.COMMAND_FAILED,
            ) from None
        self.port: int = listener.get_port()

    async def _listen(self) -> Any:
        def handler(host: str, port: int) -> Any:
            return self._accept_stream

        return await self._connection.start_server(handler, LOOPBACK, 0, encoding=None)

    async def _accept_stream(self, reader: Any, writer: Any) -> None:
        self._came.put(await self._bridge(reader, writer))

    def accept_stream(self, timeout_s: float) -> socket.socket | None:
        """The next stream that something on the host opened to `port`."""
        try:
            return self._came.get(timeout=timeout_s) if timeout_s else self._came.get_nowait()
        except queue.Empty:
            return None

    def connect_port(self, port: int) -> socket.socket:
        """Connect to a port on the host's loopback. Raises OSError if nothing listens or the connection is lost."""
        try:
            return loop.run_coroutine(self._open(port))
        except (asyncssh.Error, TimeoutError) as error:
            raise ConnectionRefusedError(str(error)) from None

    async def _open(self, port: int) -> socket.socket:
        async with asyncio.timeout(OPENING_S):
            reader, writer = await self._connection.open_connection(LOOPBACK, port, encoding=None)
        return await self._bridge(reader, writer)

    async def _bridge(self, reader: Any, writer: Any) -> socket.socket:
        """A plain socket for who reads it with select, kept in step with an SSH channel."""
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        local_reader, local_writer = await asyncio.open_connection(sock=theirs)
        for source, sink in ((reader, local_writer), (local_reader, writer)):
            pump = asyncio.ensure_future(_pump(source, sink))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)
        return ours

    @property
    def lost(self) -> bool:
        return bool(self._connection.is_closed())

    def close_tunnel(self) -> None:
        """Ends every stream too: what is on the host sees its connection closed."""
        with contextlib.suppress(Exception):
            loop.run_coroutine(self._end_loop())
        while (stray := self.accept_stream(0.0)) is not None:
            stray.close()

    async def _end_loop(self) -> None:
        for pump in list(self._pumps):
            pump.cancel()
        self._connection.abort()


async def _pump(source: Any, sink: Any) -> None:
    """Until either side ends; then the other is ended too, as dynamo reads both as one."""
    try:
        while data := await source.read(PIECE):
            sink.write(data)
            await sink.drain()
    except (asyncssh.Error, OSError):
        pass
    finally:
        with contextlib.suppress(Exception):
            sink.close()
