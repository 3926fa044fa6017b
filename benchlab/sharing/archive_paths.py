# SPDX-License-Identifier: Apache-2.0
"""Paths of files in an archive that somebody unpacks somewhere: they stay in their folder, on every system.

What a host or an upload calls a file may be anything: `../../etc/passwd`, `C:\\x`, two names that differ in case alone.
"""

from __future__ import annotations

import re
import unicodedata

# which Windows takes in no name
ODD = set('<>:"|?*')
# of Windows
DEVICES = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)
# bytes of a part; file systems take 255
LONGEST = 200


class ArchivePaths:
    """Each path once. Those of a folder are asked for one after the other: only the last folder's are remembered."""

    def __init__(self) -> None:
        self._folder = ""
        self._files: set[str] = set()
        self._folders: set[str] = set()

    def unique_path(self, folder: str, name: str) -> str:
        """A path below `folder`, which is ours, for a file that is called `name`."""
        if folder != self._folder:
            self._folder, self._files, self._folders = folder, set(), set()
        path_wanted = safe_path(name)
        path, number = path_wanted, 1
        while self._is_used(path):
            number += 1
            path = f"{number}-{path_wanted}"
        key = _compare_key(path)
        self._files.add(key)
        self._folders.update(_above(key))
        return f"{folder}/{path}"

    def _is_used(self, path: str) -> bool:
        """Also where a file would have to be a folder."""
        key = _compare_key(path)
        return key in self._files | self._folders or not self._files.isdisjoint(_above(key))


def safe_path(name: str) -> str:
    """A relative path without ".." and without what no file system takes; "output" where nothing is left."""
    parts = (_safe_part(part) for part in name.replace("\\", "/").split("/"))
    return "/".join(part for part in parts if part) or "output"


def _safe_part(part: str) -> str:
    safe = "".join(
        " " if character.isspace() else "_" if _is_odd(character) else character
        for character in part
    )
    safe = safe.encode()[:LONGEST].decode(errors="ignore").strip().rstrip(". ")
    return f"_{safe}" if DEVICES.fullmatch(safe) else safe


def _is_odd(character: str) -> bool:
    """Also what is not seen, or turns around what follows."""
    return character in ODD or unicodedata.category(character)[0] == "C"


def _compare_key(path: str) -> str:
    """The same for what a file system may take for the same."""
    return unicodedata.normalize("NFKC", path.casefold()).casefold()


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
