# SPDX-License-Identifier: Apache-2.0
"""`wheelhouse DIR`: every wheel that this BenchLab needs on a machine like this one, for machines without a network.

The versions are the ones installed here; in a checkout each must have a hash in requirements.lock.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import tomllib
from collections import defaultdict
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchlab.installation import INSTALLED, ROOT, command
from benchlab.up.bootstrap import UV, Argv, call, works
from benchlab.up.trouble import Trouble


def wheelhouse(rest: list[str]) -> int:
    parser = argparse.ArgumentParser(
        command("wheelhouse"), description="Download all wheels for machines like this one."
    )
    parser.add_argument("directory", type=Path)
    place: Path = parser.parse_args(rest).directory.absolute()
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Trouble(f"Cannot make {place}: {error.strerror}.") from None
    with tempfile.TemporaryDirectory() as scratch:
        fill(place, Path(scratch))
    print(f"{len(list(place.glob('*.whl')))} wheels are in {place}.")
    if INSTALLED:
        print("Put the wheel of BenchLab, from which this one was installed, beside them.")
    return 0


def fill(place: Path, scratch: Path) -> None:
    """Download the wheels; in a checkout also build BenchLab's own. Raises Trouble."""
    pip = (*find_pip(scratch), "--python", sys.executable)
    download: Argv = (*pip, "download", "-q", "--no-deps", "--only-binary=:all:", "-d", place)
    lock = {} if INSTALLED else locked((ROOT / "requirements.lock").read_text())
    requirements = scratch / "wanted.txt"
    lines = [
        lock.get(pinned, "{}=={}".format(*pinned)) for pinned in sorted(needed(direct()).items())
    ]
    requirements.write_text("\n".join(lines) + "\n")
    hashes = [] if INSTALLED else ["--require-hashes"]
    call([*download, *hashes, "-r", requirements], scratch)
    call([*download, UV], scratch)
    if not INSTALLED:
        call([*pip, "wheel", "-q", "--no-deps", "-w", place, ROOT], scratch)


def find_pip(scratch: Path) -> Argv:
    """A working pip: from this environment, from the bootstrap, or installed by uv. Raises Trouble."""
    for python in (Path(sys.executable), ROOT / ".bootstrap" / "bin" / "python"):
        if works([python, "-m", "pip", "--version"]):
            return (python, "-m", "pip")
    uv, venv = shutil.which("uv"), scratch / "venv"
    if uv and works([uv, "venv", "-q", "--seed", "--python", sys.executable, venv]):
        return (venv / "bin" / "python", "-m", "pip")
    raise Trouble(
        f"Downloading wheels needs pip: `{sys.executable} -m ensurepip` makes it, or have uv on PATH."
    )


def direct() -> list[str]:
    """Requirements of BenchLab itself."""
    if INSTALLED:
        return metadata.requires("benchlab") or []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return list(project["dependencies"])


def needed(requirements: list[str]) -> dict[str, str]:
    """Name and installed version of all dependencies on this machine. Raises Trouble if one is missing."""
    versions: dict[str, str] = {}
    extras: defaultdict[str, set[str]] = defaultdict(set)
    queue = [Requirement(line) for line in requirements if applies(Requirement(line), {""})]
    while queue:
        name_next = queue.pop()
        name = canonicalize_name(name_next.name)
        new = {"", *name_next.extras} - extras[name]
        extras[name] |= new
        if not new:
            continue
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            raise Trouble(f"{name} is not installed here: install BenchLab anew.") from None
        versions[name] = distribution.version
        further = map(Requirement, distribution.requires or [])
        queue += [requirement for requirement in further if applies(requirement, new)]
    return versions


def applies(requirement: Requirement, extras: set[str]) -> bool:
    """True if the requirement applies to this machine with one of these extras."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)


def locked(lock: str) -> dict[tuple[str, str], str]:
    """Lines of the lock, hashes and all, by name and version."""
    blocks = re.findall(r"^(\S+)==([^\s;\\]+)(.*(?:\n[ \t].*)*)", lock, re.MULTILINE)
    return {(name, version): f"{name}=={version}{rest}" for name, version, rest in blocks}
