# SPDX-License-Identifier: Apache-2.0
"""Device numbers behind the paths that the kernel opened, from `stat -L` and `losetup -l`. Pure parsers."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agents.facts.sections import Section, decode_text

# Prefix of a path as another process's root and mounts show it.
ROOT_OF = re.compile(r"^/proc/\d+/root(?=/)")
STAT = re.compile(rb"(\d+) (\d+) ([0-9a-f]+) ([0-9a-f]+) ([0-9a-f]+) (/.*)")


@dataclass(frozen=True, slots=True)
class Node:
    """A file that a path leads to, in one of the host's mount namespaces."""

    # stat.S_IFBLK, …
    kind: int
    # "8:16" of a block or character device
    number: str
    # number of its file system's device, "0:5", and inode
    inode: tuple[str, str]


class OpenedPaths:
    """Nodes that paths lead to, in any namespace, and the inode that the kernel has open for each loop device."""

    def __init__(self, sections: Mapping[str, Section]) -> None:
        self.nodes: dict[str, set[Node]] = {}
        for path, node in _parse_stat(sections.get("backing")):
            self.nodes.setdefault(path, set()).add(node)
        self.loop_inodes = _parse_losetup(sections.get("losetup"))

    def block_numbers(self, path: str) -> set[str] | None:
        """Numbers of all block devices it may be; none for a regular file; None when it leads nowhere for certain."""
        nodes = self.nodes.get(path, set())
        blocks = {node.number for node in nodes if node.kind == stat.S_IFBLK}
        if blocks or any(node.kind == stat.S_IFREG for node in nodes):
            return blocks
        return None

    def character_numbers(self, path: str) -> set[str]:
        """Numbers of the character devices it may be."""
        return {n.number for n in self.nodes.get(path, ()) if n.kind == stat.S_IFCHR}

    def loop_numbers(self, loop: str, path: str) -> tuple[set[str], bool]:
        """Numbers of the block devices that a loop device may stand on, and whether that is certain.

        It is where the path leads to the very inode that the kernel has open: a path of a container, or of a file
        system that was unmounted lazily, may lead elsewhere here, or nowhere.
        """
        nodes = self.nodes.get(path, set())
        opened = self.loop_inodes.get(loop)
        exact = {node for node in nodes if node.inode == opened}
        blocks = {node for node in nodes if node.kind == stat.S_IFBLK}
        numbers = {node.number for node in blocks & exact or blocks}
        proven = bool(exact) and all(n.kind in (stat.S_IFBLK, stat.S_IFREG) for n in exact)
        return numbers, proven


def _parse_stat(section: Section | None) -> Iterable[tuple[str, Node]]:
    """Lines of `stat -c '%d %i %t %T %f %n'`; what is no such line belongs to a path with a line break: unresolved."""
    for _, line in section.numbered_lines() if section is not None else ():
        if (match := STAT.fullmatch(line)) is None:
            continue
        kind = stat.S_IFMT(int(match[5], 16))
        number = f"{int(match[3], 16)}:{int(match[4], 16)}"
        node = Node(kind, number, (_device_number(int(match[1])), decode_text(match[2])))
        yield ROOT_OF.sub("", decode_text(match[6])), node


def _device_number(device: int) -> str:
    """MAJOR:MINOR of st_dev as the C library packs it."""
    major = (device >> 8 & 0xFFF) | (device >> 32 & ~0xFFF)
    return f"{major}:{(device & 0xFF) | (device >> 12 & ~0xFF)}"


def _parse_losetup(section: Section | None) -> dict[str, tuple[str, str]]:
    """Columns NAME, BACK-MAJ:MIN and BACK-INO of `losetup -l`: "loop0" -> ("0:5", "611")."""
    inodes = {}
    for _, line in (
        section.numbered_lines() if section is not None and section.exit_code == 0 else ()
    ):
        match = re.fullmatch(r"/dev/(loop\d+)\s+(\d+:\d+)\s+(\d+)\s*", decode_text(line))
        if match is not None:
            inodes[match[1]] = (match[2], match[3])
    return inodes
