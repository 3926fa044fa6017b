# SPDX-License-Identifier: Apache-2.0
"""A process that outlives a killed test run and clears away its leftovers. The run starts it in its own session.

It waits for its standard input to end: the kernel closes the other side, however the run ends.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchlab.practice.paths import cache_root
from benchlab.testing import leftovers

DONE = b"done\n"
# they die with their parent, PostgreSQL after a flush
STORES_END_S = 3.0


def said_file() -> Path:
    """File that lists what guardians cleared, for the next run to report."""
    return cache_root() / "cleared-after-tests"


@contextmanager
def watching(env: dict[str, str]) -> Iterator[None]:
    """Have a guardian wait for our end within the block; it ends silently when the block is left."""
    argv = [sys.executable, "-m", "benchlab.testing.guardian"]
    own = {key: value for key, value in env.items() if key != leftovers.RUN}
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, env=own, start_new_session=True)
    try:
        yield
    finally:
        with suppress(BrokenPipeError):
            process.communicate(DONE)


def take_said() -> list[str]:
    """Lines on what was cleared since the last call."""
    try:
        lines = said_file().read_text().splitlines()
        said_file().unlink()
    except OSError:
        return []
    return lines


def main() -> None:
    if sys.stdin.buffer.read() == DONE:
        return
    time.sleep(STORES_END_S)
    if leftover_names := leftovers.clear():
        said_file().parent.mkdir(parents=True, exist_ok=True)
        with said_file().open("a") as file:
            file.writelines(f"{line}\n" for line in leftover_names)


if __name__ == "__main__":
    main()
