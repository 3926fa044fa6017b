# SPDX-License-Identifier: Apache-2.0
"""The one error of this package, and the one way it runs a command on this machine."""

import os
import subprocess
from collections.abc import Mapping, Sequence

_ADMIN_PATH = ":/usr/sbin:/sbin:/usr/bin:/bin"
"""mkfs.ext4 and chroot live there, and a root shell made by `su` may not look there."""


class PracticeError(Exception):
    """A practice host cannot be built, started or reached; the message says what to do."""


def run_command(
    argv: Sequence[str], *, timeout: float = 60, env: Mapping[str, str] | None = None
) -> str:
    """Standard output of a command; PracticeError with its last words when it fails."""
    try:
        completed = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**(env or os.environ), "PATH": os.environ.get("PATH", "") + _ADMIN_PATH},
            check=False,
        )
    except FileNotFoundError as error:
        raise PracticeError(f"{argv[0]} is not installed on this machine") from error
    except subprocess.TimeoutExpired as error:
        raise PracticeError(f"{' '.join(argv)} took longer than {timeout:.0f} s") from error
    if completed.returncode:
        last_lines = (completed.stderr or completed.stdout).strip().splitlines()[-5:]
        raise PracticeError(
            f"{' '.join(argv)} ended with {completed.returncode}: " + " / ".join(last_lines)
        )
    return completed.stdout
