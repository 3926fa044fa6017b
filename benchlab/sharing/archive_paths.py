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
    """Unique paths. Callers finish one folder before the next: only the last folder's paths are remembered."""

    def __init__(self) -> None:
        self._folder = ""
        self._files: set[str] = set()
        self._folders: set[str] = set()

    def unique_path(self, folder: str, name: str) -> str:
        """Return a path below `folder`, whose name is ours, for a file named `name`."""
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
        """True if the path is used, or if one of its folders is a file."""
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
    """True for a character that no path should have, including invisible ones and those that reverse the text."""
    return character in ODD or unicodedata.category(character)[0] == "C"


def _compare_key(path: str) -> str:
    """Return a key that is equal for paths that a file system may take for equal."""
    return unicodedata.normalize("NFKC", path.casefold()).casefold()


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
