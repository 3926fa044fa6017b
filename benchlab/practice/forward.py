# SPDX-License-Identifier: Apache-2.0
"""Forward 127.0.0.1:PORT into a network namespace. Runs as a script and needs only its own file.

`python forward.py LISTENER NAMESPACE ADDRESS PORT`: LISTENER is an inherited listening socket. A
socket stays in the namespace in which it was created, so the listener keeps answering on the machine's
loopback after the process itself has moved into the host's namespace, where it connects.
"""

import asyncio
import contextlib
import ctypes
import os
import socket
import sys

_CLONE_NEWNET = 0x40000000
_CHUNK = 65536
_TRY_S = 0.5
_PAUSE_S = 0.1


def enter_namespace(path: str) -> None:
    """Move this process into the network namespace mounted at `path`; needs root."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # os.setns came with Python 3.12; we run on 3.11.
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
    finally:
        os.close(descriptor)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while chunk := await source.read(_CHUNK):
            sink.write(chunk)
            await sink.drain()
        sink.write_eof()
    except OSError:
        sink.transport.abort()


async def _dial(
    client: asyncio.StreamReader, address: str, port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    """A connection to the guest; tries for as long as the client waits, like a silent network."""
    while not client.at_eof():
        try:
            return await asyncio.wait_for(asyncio.open_connection(address, port), _TRY_S)
        except ConnectionRefusedError:
            return None
        except OSError:
            # a time-out is one too
            await asyncio.sleep(_PAUSE_S)
    return None


async def _forward_connections(listener: socket.socket, address: str, port: int) -> None:
    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            guest = await _dial(reader, address, port)
            if guest is None:
                return
            with contextlib.closing(guest[1]):
                await asyncio.gather(_pump(reader, guest[1]), _pump(guest[0], writer))

    server = await asyncio.start_server(carry, sock=listener)
    await server.serve_forever()


def main() -> None:
    """Serve until killed."""
    number, namespace, address, port = sys.argv[1:]
    listener = socket.socket(fileno=int(number))
    enter_namespace(namespace)
    asyncio.run(_forward_connections(listener, address, int(port)))


if __name__ == "__main__":
    main()
