"""One command on one channel of a connection."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import asyncssh

from agents.contracts import AgentError, Argument, Ran, Reason

OUTPUT_CAP = 256 * 1024 * 1024  # bytes of stdout and stderr together
CHUNK = 64 * 1024


class Command(asyncssh.SSHClientSession[bytes]):
    """One command on one channel; collects what it prints."""

    def __init__(self) -> None:
        self.output: dict[int | None, bytearray] = {None: bytearray(), 1: bytearray()}
        self.size = 0
        self.exit_code: int | None = None
        self.error: Exception | None = None
        self.over = asyncio.Event()
        self.writable = asyncio.Event()
        self.writable.set()

    @property
    def sent(self) -> bool:
        """True when the host may have got it: asyncssh opens the channel, then sends the line."""
        return hasattr(self, "channel")

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

    def check(self) -> None:
        """Raises what went wrong with the channel: AgentError, or the connection's own error."""
        if isinstance(self.error, AgentError):
            raise self.error
        if self.exit_code is None:
            raise self.error or asyncssh.ConnectionLost("no exit status received")
