# SPDX-License-Identifier: Apache-2.0
"""Block devices that the words of a command name: the guard's second check. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agents.facts.graph import Graph

HARMLESS = {"null", "zero", "full", "random", "urandom", "stdin", "stdout", "stderr", "tty"}
# Of all arrays, and the directory of all its caches
SYSCTLS = r"raid/speed_limit_m(?:in|ax)|flashcache"
_ENDS = r"(?=[\s,:;='\"\\)]|$)"
_SEPARATORS = re.compile(r"[\s,;='\"()\[\]]+")


class Mentions:
    """Finds devices of one reading in texts."""

    def __init__(self, graph: Graph, groups: bool = True) -> None:
        """`groups`: whether the name of a volume group, array or pool names its members."""
        self.graph = graph
        # what the kernel calls a device, in words and numbers
        self.bare: dict[str, set[str]] = {}
        # what people called it, or its group, array or pool
        self.given: dict[str, set[str]] = {}
        for device in graph.facts.devices:
            # FreeBSD gives no numbers
            for word in filter(None, (device.name, device.majmin)):
                self.bare.setdefault(word, set()).add(device.name)
            self.given.setdefault(device.path.removeprefix("/dev/mapper/"), set()).add(device.name)
        for name, owner in graph.facts.members.items() if groups else ():
            if group := owner.partition(" ")[2]:
                self.given.setdefault(group, set()).add(name)
        owned_paths = sorted(graph.owners, key=len, reverse=True)
        self._path = re.compile(f"(?:{'|'.join(map(re.escape, owned_paths)) or '(?!)'}){_ENDS}")

    def find_devices(self, text: str, names: str | None = None) -> tuple[set[str], list[str]]:
        """Kernel names that the text names, and /dev words that lead to no device known here, or to one of several.

        `names`: the part of the text in which a name that a person gave can stand (name_places.py); None: all of it.
        """
        mentioned: set[str] = set()
        foreign: list[str] = []
        for match in re.finditer(r"/sys/(?:class/|dev/)?block/([^/\s]+)", text):
            mentioned |= self.bare.get(match[1], {match[1]})
        for path, start in _device_paths(text):
            owned_match = self._path.match(path)
            if owned_match is not None and owned_match[0] in self.graph.paths:
                mentioned.add(self.graph.paths[owned_match[0]])
            elif owned_match is not None:
                foreign.append(owned_match[0])
            elif not _harmless(path, start):
                foreign.append(re.split(_ENDS, path, maxsplit=1)[0])
        for part in _split_words(text):
            mentioned |= self.bare.get(part, set())
        for part in _split_words(text if names is None else names):
            mentioned |= self.given.get(part, set())
        foreign += re.findall(r"\b(?:PART)?(?:UUID|LABEL)=\S*", text)
        return mentioned, foreign


def _split_words(text: str) -> Iterator[str]:
    for word in _SEPARATORS.split(text):
        yield from {word, word.partition("/")[0], *word.split(":")}


def _device_paths(text: str) -> Iterator[tuple[str, str]]:
    """The text from each /dev/ to its end (a link may hold colons), and what stood before it."""
    # //dev/./sdb
    plain = re.sub(r"/(?:\.?/)+", "/", text)
    for match in re.finditer(r"/dev/", plain):
        yield plain[match.start() :], plain[: match.start()]
    for match in re.finditer(r"\.\./+(?:\S*/)?dev/+", plain):
        yield "/dev/../" + plain[match.end() :], ""


def _harmless(path: str, before: str) -> bool:
    if before.endswith("/sys") and path.startswith("/dev/block/"):
        # /sys/dev/block/8:16 has its own rule
        return True
    if before.endswith("/proc/sys") and re.match(rf"/dev/(?:{SYSCTLS}){_ENDS}", path):
        return True
    return re.match(rf"/dev/(?:{'|'.join(HARMLESS)}){_ENDS}", path) is not None
