# SPDX-License-Identifier: Apache-2.0
"""dynamo's files, laid out by us: it finds them ready and never makes one itself. Runs on the host.

On xfs its own preparation is wrong and says that all is well: it appends 16 direct writes at once, the place of each is
taken before the ones before it have ended, and 16 land on one: a sixteenth of the file is there. Ours write one after
another, so that a file is never longer than what was written of it.
"""

import contextlib
import errno
import fcntl
import mmap
import os
from pathlib import Path
from typing import Callable, Sequence

from agents.dynamo.areas import Area
from agents.dynamo.wire import DynamoError

# bytes of a write: a slow disk's second, so that nobody waits long who stops us
PIECE = 4 << 20
# bytes that are there, and all that are to be; raises DynamoError to end it
Watch = Callable[[int, int], None]


def lay_out(unready: Sequence[Area], pattern: int, watch: Watch) -> None:
    """Makes directories and files. Raises DynamoError; what is half made then is the caller's to remove."""
    total, finished = sum(area.size for area in unready), 0
    for area in unready:
        before = finished

        def seen(written: int, before: int = before) -> None:
            watch(before + written, total)

        try:
            Path(area.path).mkdir(mode=0o700, exist_ok=True)
            if area.file.exists():
                area.file.unlink()
            _write_file(area, pattern, seen)
        except OSError as error:
            raise DynamoError(
                "host",
                f"{area.file}: {error.strerror}, at {area.file_bytes()} of {area.size} bytes",
            ) from None
        finished += area.size


def _write_file(area: Area, pattern: int, report: Callable[[int], None]) -> None:
    handle = _create_file(area.file)
    # a page of its own is aligned as direct I/O needs it
    with contextlib.closing(mmap.mmap(-1, PIECE)) as buffer:
        try:
            written = 0
            while written < area.size:
                report(written)
                count = min(PIECE, area.size - written)
                buffer[:count] = pattern_bytes(pattern, count)
                with memoryview(buffer) as whole, whole[:count] as piece:
                    written += _write_piece(handle, piece)
            os.fsync(handle)
            # where nothing was direct
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)
    report(written)


def _create_file(path: Path) -> int:
    """Past the page cache, where the file system can."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        return os.open(str(path), flags | os.O_DIRECT, 0o600)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    # some say no only when it is there
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    return os.open(str(path), flags, 0o600)


def _write_piece(handle: int, piece: memoryview) -> int:
    """Bytes written."""
    try:
        written = os.write(handle, piece)
    except OSError as error:
        flags = fcntl.fcntl(handle, fcntl.F_GETFL)
        if error.errno != errno.EINVAL or not flags & os.O_DIRECT:
            raise
        # the end of a file that is no whole block, or what follows a write cut short
        fcntl.fcntl(handle, fcntl.F_SETFL, flags & ~os.O_DIRECT)
        written = os.write(handle, piece)
    if not fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_DIRECT:
        # else memory fills, and who stops us waits until it is empty again
        os.fdatasync(handle)
    return written


def pattern_bytes(pattern: int, count: int) -> bytes:
    """Bytes as in specs.PATTERNS, so that a layer that compresses or deduplicates treats them the same way."""
    return os.urandom(count) if pattern else os.urandom(1) * count
