# SPDX-License-Identifier: Apache-2.0
"""The root image of User Mode Linux hosts, built once per recipe."""

import shutil
from pathlib import Path

from benchlab.practice.machine import Progress, kernel_version, require_tools
from benchlab.practice.recipe import PACKAGES, SUITE, guest_id
from benchlab.practice.store import Image, ensure
from benchlab.practice.tree import furnish, make_key, unpack, write_root

_ROOM_MB = 3072
_MODULES = Path("/usr/lib/uml/modules")
_OVERLAY = Path(__file__).with_name("guest-uml")
_ENABLED = {"practice-cpu.service": "sysinit.target"}


def ensure_image(progress: Progress = print) -> Image:
    """The image of the present recipe, built now if it is not there; PracticeError if it cannot."""
    require_tools(progress)
    kernel = kernel_version()

    def fill(work: Path) -> None:
        tree = work / "tree"
        progress(f"downloading and unpacking Debian {SUITE} (about half a minute)")
        unpack(tree, PACKAGES)
        shutil.copytree(_MODULES / kernel, tree / "lib/modules" / kernel, symlinks=True)
        furnish(tree, make_key(work), _OVERLAY, enabled=_ENABLED)
        progress("writing the file system")
        write_root(tree, work / "root.img")

    name = guest_id((kernel, *PACKAGES, *_ENABLED), Path(__file__), _OVERLAY)
    return Image(name, ensure(name, _ROOM_MB, fill, progress))
