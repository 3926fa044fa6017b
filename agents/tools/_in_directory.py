# SPDX-License-Identifier: Apache-2.0
"""The job of a tool that works in files of its own: its script makes a directory on the mount, and removes it."""

from __future__ import annotations

from dataclasses import dataclass

from agents.contracts import Job, OptionsError, Target
from agents.tools import _marks


@dataclass(frozen=True, slots=True)
class Script:
    """`works`: why it needs a mount, after the tool's name: "makes files"."""

    tool: str
    works: str
    # of its file on the host
    name: str
    content: bytes
    directory: str


def directory_job(
    script: Script,
    target: Target,
    arguments: tuple[str, ...],
    *,
    expected_s: float,
    writes: int | None,
) -> Job:
    """`sh NAME DIRECTORY ARGUMENT...`, with its marks; it is given ten times as long as expected, and an hour.

    Raises OptionsError on a target without a mount.
    """
    if not target.mount:
        raise OptionsError(
            f"target {target.name!r} has no mount point: {script.tool} {script.works}; put a filesystem on top"
        )
    place = f"{target.mount.rstrip('/')}/{script.directory}"
    return Job(
        argv=("sh", script.name, place, *arguments),
        outputs=(_marks.MARKS,),
        inputs={script.name: script.content},
        env={"LC_ALL": "C"},
        expected_s=expected_s,
        timeout_s=expected_s * 10 + 3600,
        writes=writes,
    )
