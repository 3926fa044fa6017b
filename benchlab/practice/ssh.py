"""The ssh command line to a practice host; the one place here that quotes for a shell."""

import shlex
from collections.abc import Sequence
from pathlib import Path


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
