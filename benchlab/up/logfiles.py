# SPDX-License-Identifier: Apache-2.0
"""Log files of what `up` runs: one process writes them all, and begins a new file before one grows too large.

Each of our programs writes into a pipe of its own. The writer reads them until nobody writes any more, so it also gets
the last output of programs that end after a crash of `up`; a pipe keeps its content while a killed writer is replaced.
"""

from __future__ import annotations

import fcntl
import os
import selectors
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from logging import LogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path

from benchlab.up.bootstrap import ROOT

# bytes of one file
MOST = 10 * 2**20
# older files beside it; NAME.log.1 is the newest of them
OLDER = 2
# bytes; the largest pipe that a user may request
PIPE = 2**20
# bytes of an unfinished line that are held back
LONGEST = 2**20
PATIENCE_S = 5.0


class Logs:
    """The supervisor's side: a pipe for each name, and the process that reads them."""

    def __init__(self, directory: Path, names: Iterable[str]) -> None:
        self.directory = directory
        self._pipes = {name: os.pipe() for name in names}
        for _, end in self._pipes.values():
            # A smaller pipe will do.
            with suppress(OSError):
                fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, PIPE)
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.settimeout(PATIENCE_S)
        self._writer: subprocess.Popen[bytes] | None = None

    def path(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def output(self, name: str) -> int:
        """File descriptor that the named program is to write into."""
        return self._pipes[name][1]

    def revive(self) -> None:
        """Start the writer, or start it again. Only the end of its pipes ends it: signals blocked here stay blocked."""
        if self._writer and self._writer.poll() is None:
            return
        fds = [self._theirs.fileno(), *(end for end, _ in self._pipes.values())]
        words = [f"{name}:{end}" for name, (end, _) in self._pipes.items()]
        self._writer = subprocess.Popen(
            [sys.executable, "-m", __name__, self.directory, str(fds[0]), *words],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=fds,
            start_new_session=True,
        )

    def catch_up(self, name: str) -> Path:
        """Path of the named program's log, once it holds everything that the dead program wrote."""
        self.revive()
        with suppress(OSError):
            self._ours.send(name.encode())
            # Another name is a late answer to an earlier request.
            while self._ours.recv(100) != name.encode():
                pass
        return self.path(name)

    def close(self) -> None:
        """Close our ends of the pipes, and wait until the writer has written everything."""
        for pair in self._pipes.values():
            for end in pair:
                os.close(end)
        self._theirs.close()
        self._ours.close()
        if self._writer:
            try:
                self._writer.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                # A program that left its process group still has the pipe.
                self._writer.kill()
                self._writer.wait()


class File:
    """One pipe's file: whole lines, as they come."""

    def __init__(self, path: Path, end: int, most: int = MOST) -> None:
        self.end, self._rest = end, b""
        os.set_blocking(end, False)
        self._handler = RotatingFileHandler(
            path, "a", most, OLDER, encoding="utf-8", delay=True, errors="surrogateescape"
        )

    def take(self) -> bool:
        """Write what the pipe holds; False once nobody can write into it any more."""
        try:
            came = os.read(self.end, PIPE)
        except BlockingIOError:
            return True
        *lines, self._rest = (self._rest + came).split(b"\n")
        for line in lines:
            self._write(line)
        if not came or len(self._rest) > LONGEST:
            self.finish()
        if not came:
            self._handler.close()
        return bool(came)

    def finish(self) -> None:
        """Write a last line that has no end."""
        if self._rest:
            self._write(self._rest)
        self._rest = b""

    def _write(self, line: bytes) -> None:
        text = line.decode("utf-8", "surrogateescape")
        self._handler.emit(LogRecord("", 0, "", 0, text, None, None))


def write(files: dict[str, File], control: socket.socket) -> None:
    """Write until every pipe has ended. A request with a program's name is answered when its pipe is empty."""
    selector = selectors.DefaultSelector()
    selector.register(control, selectors.EVENT_READ)
    for name, file in files.items():
        selector.register(file.end, selectors.EVENT_READ, name)
    while files:
        for key, _ in selector.select():
            if key.data is None:
                _answer(files, control, selector)
            elif key.data in files and not files[key.data].take():
                selector.unregister(files.pop(key.data).end)


def _answer(
    files: dict[str, File], control: socket.socket, selector: selectors.BaseSelector
) -> None:
    name = control.recv(100)
    # `up` is gone
    if not name:
        selector.unregister(control)
    elif file := files.get(name.decode()):
        # A pipe holds no more than one of these reads.
        file.take()
        file.finish()
    with suppress(OSError):
        control.send(name)


def main(argv: Sequence[str]) -> None:
    """Words: the directory, the socket's file descriptor, and name:descriptor of each pipe."""
    directory, control, *pipes = argv
    pairs = [word.rpartition(":")[::2] for word in pipes]
    files = {name: File(Path(directory) / f"{name}.log", int(end)) for name, end in pairs}
    write(files, socket.socket(fileno=int(control)))


if __name__ == "__main__":
    main(sys.argv[1:])
