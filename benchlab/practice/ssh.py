# SPDX-License-Identifier: Apache-2.0
"""The ssh command line to a practice host; the one place here that quotes for a shell."""

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

# bytes of a socket's path: the kernel takes 107, ssh appends 17 while it makes one
_LONGEST = 80


def shared_ssh_argv(
    directory: Path, port: int, key: Path, user: str, argv: Sequence[str]
) -> list[str]:
    """`ssh_argv` over one connection for all commands of a user; a new one takes such a host a second.

    The connection ends a minute after its last command, by `hang_up`, or with the host.
    """
    plain = ssh_argv(port, key, user, argv)
    path = str(directory / f"ssh-{user}")
    if len(path.encode()) > _LONGEST:
        return plain
    options = {"ControlMaster": "auto", "ControlPath": path, "ControlPersist": "60"}
    flags = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
    return [plain[0], *flags, *plain[1:]]


def hang_up(directory: Path) -> None:
    """End the shared connections: the host they lead to is off, which they would not notice."""
    for path in directory.glob("ssh-*"):
        argv = ("ssh", "-F", "none", "-o", f"ControlPath={path}", "-O", "exit", "any")
        subprocess.run(argv, capture_output=True, check=False, timeout=10)
        path.unlink(missing_ok=True)


def ssh_argv(port: int, key: Path, user: str, argv: Sequence[str]) -> list[str]:
    """OpenSSH's client for one command; practice hosts come and go, so no host key is kept."""
    options = {
        "BatchMode": "yes",
        "ConnectTimeout": "10",
        "IdentitiesOnly": "yes",
        "LogLevel": "ERROR",
        "StrictHostKeyChecking": "no",
        "UserKnownHostsFile": "/dev/null",
    }
    flags = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
    # sshd hands the command to the login shell as one string.
    target = [f"{user}@127.0.0.1", "--", shlex.join(argv)] if argv else [f"{user}@127.0.0.1"]
    return ["ssh", "-F", "none", "-p", str(port), "-i", str(key), *flags, *target]
