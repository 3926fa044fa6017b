"""A `sh` that stays on one channel and runs one command after the other, for hosts where a channel is dear.

sshd forks twice and starts a login shell for every command that has a channel of its own: 60 ms on a slow host, where
the command itself takes 10. Each command has gone, and has said its exit code, before the next one is sent.
"""

from __future__ import annotations

import asyncio
import re
import secrets

import asyncssh

from agents.contracts import Argument, Ran
from agents.ssh.command import Command

ERR = asyncssh.EXTENDED_DATA_STDERR


class Lasting(Command):
    """The channel of such a shell. Behind what a command printed stands a line that nothing else can know."""

    def __init__(self) -> None:
        super().__init__()
        self.mark = secrets.token_hex(16)
        self.ends = re.compile(rb"\n=%s ([0-9]+)\n" % self.mark.encode())
        self.said: dict[int | None, bytes] = {}  # stream -> what one command printed there
        self.searched = dict.fromkeys(self.output, 0)
        self.code: int | None = None
        self.answered = asyncio.Event()

    def line(self, text: str) -> bytes:
        end = f"printf '\\n=%s %s\\n' {self.mark}"
        return f"{text}\n{end} $? >&2; {end} 0\n".encode()

    def data_received(self, data: bytes, datatype: int | None) -> None:
        super().data_received(data, datatype)
        output = self.output[datatype]
        found = self.ends.search(output, self.searched[datatype])
        if found is None:
            self.searched[datatype] = max(0, len(output) - len(self.mark) - 8)
            return
        self.said[datatype] = bytes(output[: found.start()])
        if datatype == ERR:
            self.code = int(found[1])
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
        self.channel.write(self.line(text))
        await self.answered.wait()
        if self.code is None:
            self.check()
        return True

    def ran(self, argv: tuple[Argument, ...], seconds: float) -> Ran:
        """Result of the last command; without `code`, what the shell itself said at its end."""
        if self.code is None:
            return super().ran(argv, seconds)
        return Ran(argv, self.code, self.said[None], self.said[ERR], seconds)
