# SPDX-License-Identifier: Apache-2.0
"""bcache devices, backing and cache, from /sys and their superblocks. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from agents.facts.model import Bcache
from agents.facts.sections import Section, decode_text

UUID_BYTES, LABEL_BYTES = 16, 32


def parse_bcache_devices(
    attributes: Mapping[str, Mapping[str, str]],
    registered: set[str],
    sections: Mapping[str, Section],
) -> dict[str, Bcache]:
    """Kernel name -> what it is, of every device that the kernel has registered or that has a superblock.

    Raises AgentError BAD_FACTS naming a section that cannot be read.
    """
    superblocks = {name: _superblock(section) for name, section in _superblocks(sections)}
    devices = {}
    for name in sorted(registered | superblocks.keys()):
        uuid, label = superblocks.get(name, ("", ""))
        values = {
            key.removeprefix("bcache/"): value
            for key, value in attributes.get(name, {}).items()
            if key.startswith("bcache/")
        }
        label = values.pop("label", "") or label
        devices[name] = Bcache(uuid, label, name in registered, values)
    return devices


def _superblocks(sections: Mapping[str, Section]) -> Iterator[tuple[str, Section]]:
    for name, section in sections.items():
        if name.startswith("bcache ") and section.exit_code == 0:
            yield name.removeprefix("bcache "), section


def _superblock(section: Section) -> tuple[str, str]:
    """The set's UUID and the label, from 48 bytes of `od -tx1`."""
    digits = "".join(decode_text(section.stdout).split())
    if not re.fullmatch(r"[0-9a-f]*", digits) or len(digits) != 2 * (UUID_BYTES + LABEL_BYTES):
        raise section.error_at(1, section.stdout[:200], "not 48 bytes of a bcache superblock")
    u = digits[: 2 * UUID_BYTES]
    label = bytes.fromhex(digits[2 * UUID_BYTES :]).split(b"\0")[0].decode("ascii", "replace")
    return f"{u[:8]}-{u[8:12]}-{u[12:16]}-{u[16:20]}-{u[20:]}", label


def parse_sysfs_size(size_text: str) -> tuple[float, float]:
    """Bytes that sysfs shows as "4.0M", and by how much that may be wrong. (-1, 0): it cannot be read.

    >>> bytes_of("4.0M")
    (4194304.0, 104857.6)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kMGTP]?)", size_text.strip())
    if match is None:
        return -1.0, 0.0
    unit = float(1 << 10 * (" kMGTP".index(match[2]) if match[2] else 0))
    return float(match[1]) * unit, unit / 10 if "." in match[1] else 0.0
