# SPDX-License-Identifier: Apache-2.0
"""dynamo's files, laid out by us: it finds them ready and never makes one itself. Runs on the host.

On xfs dynamo's own preparation fails silently: it appends 16 direct writes at once, each gets its offset before the
earlier ones have ended, and all 16 land on the same place, so that only a sixteenth of the file exists. We write one
after another, so that a file is never longer than what was written to it.
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

# bytes of a write: a second of a slow disk, so that a stop takes effect soon
PIECE = 4 << 20
# called with the bytes written and the total; raises DynamoError to stop
Watch = Callable[[int, int], None]


def lay_out(unready: Sequence[Area], pattern: int, watch: Watch) -> None:
    """Make directories and files. Raises DynamoError; the caller then removes what is incomplete."""
    total, finished = sum(area.size for area in unready), 0
    for area in unready:
        before = finished

        def report_written(written: int, before: int = before) -> None:
            watch(before + written, total)

        try:
            Path(area.path).mkdir(mode=0o700, exist_ok=True)
            if area.file.exists():
                area.file.unlink()
            _write_file(area, pattern, report_written)
        except OSError as error:
            raise DynamoError(
                "host",
                f"{area.file}: {error.strerror}, at {area.file_bytes()} of {area.size} bytes",
            ) from None
        finished += area.size


def _write_file(area: Area, pattern: int, report: Callable[[int], None]) -> None:
    handle = _create_file(area.file)
    # A page of its own has the alignment that direct I/O needs.
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
            # in case the writes were not direct
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)
    report(written)


def _create_file(path: Path) -> int:
    """Open the file past the page cache, if the file system supports that."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        return os.open(str(path), flags | os.O_DIRECT, 0o600)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    # Some file systems refuse only once the file exists.
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    return os.open(str(path), flags, 0o600)


def _write_piece(handle: int, piece: memoryview) -> int:
    """Write a piece; return the number of bytes written."""
    try:
        written = os.write(handle, piece)
    except OSError as error:
        flags = fcntl.fcntl(handle, fcntl.F_GETFL)
        if error.errno != errno.EINVAL or not flags & os.O_DIRECT:
            raise
        # The end of a file is no whole block, or a short write came before.
        fcntl.fcntl(handle, fcntl.F_SETFL, flags & ~os.O_DIRECT)
        written = os.write(handle, piece)
    if not fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_DIRECT:
        # Otherwise memory fills, and a stop has to wait until it is written out.
        os.fdatasync(handle)
    return written


def pattern_bytes(pattern: int, count: int) -> bytes:
    """Bytes as in specs.PATTERNS, so that a layer that compresses or deduplicates treats them the same way."""
    return os.urandom(count) if pattern else os.urandom(1) * count
