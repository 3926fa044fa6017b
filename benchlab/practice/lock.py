# SPDX-License-Identifier: Apache-2.0
"""One process at a time, by a lock on a file that may come and go."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for the lock, and hold it; its directory is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with path.open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            # Who held it may have removed the file: a lock on a removed one keeps nobody out.
            if _still_named(handle.fileno(), path):
                yield
                return


def _still_named(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
