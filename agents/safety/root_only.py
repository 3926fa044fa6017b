# SPDX-License-Identifier: Apache-2.0
"""A program that a person named and root will run: only root may be able to change it, or to put another in its place.

Else whoever owns the file, or may write to any directory on the way to it, is root on that host as soon as it is run.
That includes who owns a symbolic link: what is checked is not what it names the next time. So the path is resolved
once, and what is run is the path without links that was checked. Nobody but root can change what that one names.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from agents.contracts import AgentError, Reason, Shell
from agents.drivers import registry

# `only_root PATH` for scripts that run programs as root; see there.
FUNCTIONS = files("agents.hostside").joinpath("root_only.sh").read_text()
# sh -c SCRIPT sh PATH: prints "real=PATH", or what anybody but root could change. $1 may be a bare name, for PATH.
SCRIPT = (
    FUNCTIONS
    + r"""
path=$1
case $path in /*) ;; *) path=$(command -v -- "$path") || { echo absent=yes && exit 0; } ;; esac
if only_root "$path"; then printf 'real=%s\n' "$real"; else printf 'doubt=%s\n' "$doubt"; fi
"""
)


def resolved(shell: Shell, program: str) -> str:
    """Path without symbolic links of a program that only root can change, to be run instead of `program`.

    `program`: an absolute path, or a name that root's PATH is searched for; "" where that has no such program. Raises
    AgentError, BAD_OPTIONS, when others can change it, with a cure.
    """
    # By root: a program below /root is one that others do not even see.
    ran = shell.run(("sh", "-c", SCRIPT, "sh", program), root=True, timeout_s=20)
    text = ran.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")
    what, _, value = text.partition("=")
    if ran.exit_code == 0 and what == "real" and value.startswith("/"):
        return value
    if ran.exit_code == 0 and text == "absent=yes":
        return ""
    stderr = ran.stderr.decode("utf-8", "replace").strip()
    why = value if what == "doubt" else f"it could not be checked ({stderr or 'no answer'})"
    raise AgentError(
        f"{program} would be run as root, but {why}. It, every directory above it and every symbolic link on the way"
        " must belong to root and be writable by root only: copy it to a directory such as /usr/local/bin.",
        Reason.BAD_OPTIONS,
    )


def trusted(shell: Shell, kind: str, built: Any) -> Any:
    """A tool's options with the program that a person named in them as `resolved` gives it. Raises AgentError."""
    for program in registry.named_programs(kind, built):
        built = registry.with_program(kind, built, resolved(shell, program))
    return built
