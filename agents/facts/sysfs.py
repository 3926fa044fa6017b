# SPDX-License-Identifier: Apache-2.0
"""Parsers of /sys and udev's database: attributes, holders and slaves, other names of a device."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from agents.facts.sections import Section, decode_hex_escapes, decode_text

BLOCK_PATH = "/sys/class/block/"
# An attribute of the device itself, or one that its bus keeps further up, by a way that leads there.
ATTRIBUTE = re.compile(
    rb"/sys/class/block/([^/]+)/([a-z_/]+|device/[A-Za-z0-9_./:-]+/[a-z_]+):(.*)", re.S
)
# Vital product data of a SCSI device: binary, and cut by grep wherever a byte is a newline.
PAGE = re.compile(rb"/sys/class/block/([^/]+)/device/(vpd_pg8[03]):(.*)", re.S)
# What names a device that the kernel serves; the names of targets and of PCI functions hold colons.
SERVED_FILE = re.compile(
    rb"(/sys/(?:kernel/config|kernel/scst_tgt|fs/bcachefs|class/rnbd-server|bus/xen-backend)/.+?"
    rb"/(?:info|udev_path|device_path|file|filename|dev|physical_device)):(.*)",
    re.S,
)


@dataclass(slots=True)
class Tree:
    """Edges between kernel names."""

    parents: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    holders: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    # backing and cache devices, registered
    bcache: set[str] = field(default_factory=set)
    # uuid -> members
    btrfs: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    # kernel name -> "HOST:CHANNEL:TARGET:LUN"
    scsi: dict[str, str] = field(default_factory=dict)


def parse_attributes(files: Section) -> dict[str, dict[str, str]]:
    """Kernel name -> {"size": …, "queue/rotational": …}; the rest of the files under ""."""
    by_name: dict[str, dict[str, str]] = defaultdict(dict)
    for number, line in files.numbered_lines():
        if PAGE.match(line) is not None:
            continue
        if (match := ATTRIBUTE.match(line)) is not None:
            by_name[decode_text(match[1])].setdefault(
                decode_text(match[2]), decode_text(match[3].strip(b" \t\r\n\0"))
            )
        elif (
            match := SERVED_FILE.match(line)
            or re.match(
                rb"(/(?:etc|proc|sys/module|sys/devices/system/cpu)/[^:]+):(.*)", line, re.S
            )
        ) is not None:
            path, value = decode_text(match[1]), decode_text(match[2])
            by_name[""][path] = "\n".join(filter(None, (by_name[""].get(path), value)))
        elif not line.startswith(b"grep: "):
            raise files.error_at(number, line, "neither a device's attribute nor a file")
    return dict(by_name)


def parse_vpd_pages(files: Section) -> dict[str, dict[str, bytes]]:
    """Kernel name -> {"vpd_pg80": page with its header, "vpd_pg83": …}, of SCSI devices that have such pages."""
    by_name: dict[str, dict[str, bytes]] = defaultdict(dict)
    for _, line in files.numbered_lines():
        if (match := PAGE.match(line)) is not None:
            page, before = decode_text(match[2]), by_name[decode_text(match[1])]
            before[page] = before[page] + b"\n" + match[3] if page in before else match[3]
    return dict(by_name)


def parse_tree(section: Section) -> Tree:
    edges = Tree()
    for number, line in section.numbered_lines():
        if b"*" in line:
            # a pattern that nothing matched
            continue
        parts = decode_text(line).split("/")
        match parts[2:]:
            case ["class", "block", name, "holders", holder]:
                _add_edge(edges, name, holder)
            case ["class", "block", name, "slaves", parent]:
                _add_edge(edges, parent, name)
            case ["block", disk, part, "partition"]:
                _add_edge(edges, disk, part, held=False)
            case ["class", "block", name, "bcache"] if not name.startswith("bcache"):
                edges.bcache.add(name)
            case ["class", "block", _, "bcache"]:
                pass
            case ["class", "block", name, "device", "scsi_device", address]:
                edges.scsi[name] = address
            case ["fs", "btrfs", uuid, "devices", name]:
                edges.btrfs[uuid].add(name)
            case _:
                raise section.error_at(number, line, "unknown path")
    return edges


def _add_edge(edges: Tree, below: str, above: str, held: bool = True) -> None:
    edges.parents[above].add(below)
    if held:
        edges.holders[below].add(above)


def parse_udev_links(picked: Section, names: Mapping[str, str]) -> dict[str, set[str]]:
    """Kernel name -> paths that udev made for it. `names`: "8:16" -> "sdb"."""
    paths_by_name: dict[str, set[str]] = defaultdict(set)
    for number, line in picked.numbered_lines():
        if line.startswith(b"/proc/"):
            continue
        match = re.match(rb"/run/udev/data/b(\d+:\d+):(S:|E:MD_DEVNAME=)(.*)", line, re.S)
        if match is None:
            raise picked.error_at(number, line, "not a line of udev's database")
        name = names.get(decode_text(match[1]))
        if name is None:
            # a device that has gone
            continue
        prefix = "/dev/" if match[2] == b"S:" else "/dev/md/"
        # udev's own \x20 is part of the link's name in /dev, so it stays.
        paths_by_name[name].add(prefix + decode_text(match[3]))
    return dict(paths_by_name)


def parse_lsblk(section: Section) -> Iterator[dict[str, str]]:
    r"""Lines of `lsblk -P`: KEY="value" with \xHH. Keys as MAJ_MIN, LOG_SEC (2.37 writes them so)."""
    for number, line in section.numbered_lines():
        row, end = {}, 0
        for match in re.finditer(rb'([A-Z0-9:_%-]+)="((?:[^"\\]|\\.)*)"(?: |$)', line):
            if match.start() != end:
                break
            row[re.sub("[:-]", "_", decode_text(match[1]))] = decode_hex_escapes(match[2]).strip(
                " \t\n"
            )
            end = match.end()
        if end != len(line) or not {"KNAME", "TYPE", "MAJ_MIN"} <= row.keys():
            raise section.error_at(
                number, line, 'not KEY="value" pairs with KNAME, TYPE and MAJ:MIN'
            )
        yield row
