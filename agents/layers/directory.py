# SPDX-License-Identifier: Apache-2.0
"""A scratch directory on a file system that is there already. No disk is touched, no root needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from agents.contracts import Need, OptionsError, Plan, Step, Target, Use
from agents.facts.model import HostFacts, Mount
from agents.options import option
from agents.steps import scripts

LABEL = "Scratch directory"
NEEDS: tuple[Need, ...] = ()
USES: dict[str, Use] = {}
PROVIDES = "mount"
REQUIRES = "nothing"
MARKER = ".benchlab"
NOT_HERE = ("/dev", "/proc", "/sys", "/boot", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64")


@dataclass(frozen=True, slots=True)
class Options:
    path: str = option(
        "/var/tmp/benchlab",  # noqa: S108  # a person chooses it; tools make their files in it
        "An absolute path; the layout creates its own directory in it",
    )

    def __post_init__(self) -> None:
        path = PurePosixPath(self.path)
        if not path.is_absolute() or ".." in path.parts or str(path) != self.path:
            raise OptionsError(f"path: {self.path!r} is not a plain absolute path")
        if self.path == "/" or any(path.is_relative_to(root) for root in NOT_HERE):
            raise OptionsError(f"path: {self.path} is not allowed for scratch files")
        if not self.path.isprintable():
            raise OptionsError("path: has a control character")


def required_programs(options: Options) -> tuple[Need, ...]:
    return NEEDS


def plan(options: Options, target: Target, facts: HostFacts) -> Plan:
    """mkdir without -p for the last part: an existing directory is somebody's, and stays."""
    own = _directory_path(options, target)
    steps = (
        Step(("mkdir", "-p", options.path), f"Make {options.path}", root=False),
        Step(
            ("mkdir", own),
            f"Make the layout's own directory {own}",
            root=False,
            undo=(Step(("rmdir", own), f"Remove {own}", root=False),),
        ),
        Step(
            ("touch", f"{own}/{MARKER}"),
            "Mark it as created by BenchLab",
            root=False,
            undo=(Step(("rm", "-f", f"{own}/{MARKER}"), "Remove the mark", root=False),),
        ),
    )
    notes = (*target.notes, *_lies_on(own, facts))
    return Plan(steps, replace(target, mount=own, notes=notes))


def teardown(options: Options, target: Target, facts: HostFacts) -> list[Step]:
    """Remove the directory only if it has our mark, and nothing that is mounted inside (one file system)."""
    own = _directory_path(options, target)
    return [
        Step(
            ("sh", "-c", scripts.REMOVE_MARKED, "remove", own, MARKER),
            f"Remove {own} if BenchLab created it",
            root=False,
        )
    ]


def verify(options: Options, target: Target, facts: HostFacts) -> list[str]:
    """Check that nothing is mounted over it. Facts do not list directories, so mkdir's success must do."""
    own = _directory_path(options, target)
    return [f"{m.source} is mounted over {own}" for m in facts.mounts if m.target == own]


def _directory_path(options: Options, target: Target) -> str:
    return f"{options.path}/{target.name}"


def _lies_on(path: str, facts: HostFacts) -> tuple[str, ...]:
    holding: list[Mount] = [m for m in facts.mounts if PurePosixPath(path).is_relative_to(m.target)]
    if not holding:
        return ()
    mount_below = max(holding, key=lambda mount: len(mount.target))
    return (
        f"scratch directory on {mount_below.fstype} ({mount_below.source} at {mount_below.target})",
    )
