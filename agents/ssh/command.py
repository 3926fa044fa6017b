# SPDX-License-Identifier: Apache-2.0
"""Commands on one channel of a connection: a single one, or one after the other, to a `sh` that stays.

A login shell may print lines of its own before (a `.bashrc` that greets). So what a command printed begins behind a
line that nothing else can know.

The second is for hosts where a channel is dear: sshd forks twice and starts a login shell for every command that has a
channel of its own: 60 ms on a slow host, where the command itself takes 10. Each command has gone, and has said its
exit code, before the next one is sent.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import signal
from typing import Any

import asyncssh

from agents.contracts import AgentError, Argument, Ran, Reason

# bytes of stdout and stderr together
OUTPUT_CAP = 256 * 1024 * 1024
CHUNK = 64 * 1024
ERR = asyncssh.EXTENDED_DATA_STDERR


class Command(asyncssh.SSHClientSession[bytes]):
    """One command on one channel; collects what it prints."""

    def __init__(self) -> None:
        self.output: dict[int | None, bytearray] = {None: bytearray(), 1: bytearray()}
        self.size = 0
        self.mark = secrets.token_hex(16)
        self.exit_code: int | None = None
        self.error: Exception | None = None
        self.over = asyncio.Event()
        self.writable = asyncio.Event()
        self.writable.set()

    @property
    def was_sent(self) -> bool:
        """True when the host may have got it: asyncssh opens the channel, then sends the line."""
        return hasattr(self, "channel")

    def behind_mark(self, line: str) -> str:
        """The line for any login shell, csh and fish too; the last command's exit code is that of all."""
        return f"echo {self.mark}; {line}"

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
                # it ended without reading all of it, which is its right
                return
            self.channel.write(stdin[start : start + CHUNK])
        self.channel.write_eof()

    def ran(self, argv: tuple[Argument, ...], seconds: float) -> Ran:
        out, err = bytes(self.output[None]), bytes(self.output[1])
        assert self.exit_code is not None
        return Ran(argv, self.exit_code, out, err, seconds)

    def raise_channel_error(self) -> None:
        """Raise the error of the channel: AgentError, or the connection's own error."""
        if isinstance(self.error, AgentError):
            raise self.error
        if self.exit_code is None:
            raise self.error or asyncssh.ConnectionLost("no exit status received")

    def cut_login_output(self) -> None:
        """Take away what the login shell printed before a line that went out `behind_mark`.

        Raises AgentError when the command was never begun: its exit code would be the login shell's.
        """
        mark, output = self.mark.encode() + b"\n", self.output[None]
        begins = output.find(mark)
        if begins < 0:
            output_text = (output + self.output[ERR]).decode(
                errors="replace"
            ).strip() or "no output"
            raise AgentError(
                f"the user's login shell ended with exit code {self.exit_code} and did not run the command; check the"
                f" shell's start-up files there (.bashrc). It printed: {output_text[:400]}",
                Reason.COMMAND_FAILED,
            )
        del output[: begins + len(mark)]


class LastingCommand(Command):
    """The channel of such a shell. Behind what a command printed stands another such line."""

    def __init__(self) -> None:
        super().__init__()
        self.begins = b"+%s\n" % self.mark.encode()
        self.ends = re.compile(rb"\n=%s ([0-9]+)\n" % self.mark.encode())
        # stream -> what one command printed there
        self.said: dict[int | None, bytes] = {}
        self.searched = dict.fromkeys(self.output, 0)
        self.code: int | None = None
        self.answered = asyncio.Event()

    def frame_line(self, text: str) -> bytes:
        begin, end = f"echo +{self.mark}", f"printf '\\n=%s %s\\n' {self.mark}"
        return f"{begin}; {begin} >&2\n{text}\n{end} $? >&2; {end} 0\n".encode()

    def data_received(self, data: bytes, datatype: int | None) -> None:
        super().data_received(data, datatype)
        output = self.output[datatype]
        match = self.ends.search(output, self.searched[datatype])
        if match is None:
            self.searched[datatype] = max(0, len(output) - len(self.mark) - 8)
            return
        self.said[datatype] = bytes(output[: match.start()].partition(self.begins)[2])
        if datatype == ERR:
            self.code = int(match[1])
        if len(self.said) == len(self.output):
            self.answered.set()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.answered.set()

    async def execute(self, text: str) -> bool:
        """Until a line of shell, or the whole shell, has ended: then `code` is None. False: it was gone before.

        Raises AgentError or asyncssh's error.
        """
        if self.over.is_set() or self.channel.is_closing():
            return False
        self.answered.clear()
        self.said, self.code, self.size = {}, None, 0
        for stream, output in self.output.items():
            output.clear()
            self.searched[stream] = 0
        self.channel.write(self.frame_line(text))
        await self.answered.wait()
        if self.code is None:
            self.raise_channel_error()
        return True

    def ran(self, argv: tuple[Argument, ...], seconds: float) -> Ran:
        """Result of the last command; without `code`, what the shell itself said at its end."""
        if self.code is None:
            return super().ran(argv, seconds)
        return Ran(argv, self.code, self.said[None], self.said[ERR], seconds)
