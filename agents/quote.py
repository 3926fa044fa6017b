# SPDX-License-Identifier: Apache-2.0
"""The one place where argv becomes shell text."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from agents.contracts import AgentError, Argument, Secret


def plain_text(argument: Argument) -> str:
    """The argument as the host must see it. Raises AgentError on a NUL byte: no argv can hold it."""
    text = argument.value if isinstance(argument, Secret) else argument
    if "\0" in text:
        raise AgentError(f"an argument holds a NUL byte: {str(argument)[:80]!r}")
    return text


def command_line(argv: Iterable[Argument]) -> str:
    """One line for a POSIX shell, secrets in full. Never log it: `format_command` is for people."""
    return " ".join(shlex.quote(plain_text(argument)) for argument in argv)


def format_command(argv: Iterable[Argument]) -> str:
    """The line as people read it in logs, plans and errors: a secret is ***."""
    return " ".join(shlex.quote(a) if isinstance(a, str) else str(a) for a in argv)


def exports(env: Mapping[str, str]) -> str:
    """`export NAME='value'` lines. Raises AgentError on a name that no shell takes."""
    for name in env:
        if not (name.isascii() and name.isidentifier()):
            raise AgentError(f"{name!r} is not a valid name of an environment variable")
    return "".join(
        f"export {name}={shlex.quote(plain_text(value))}\n" for name, value in env.items()
    )
