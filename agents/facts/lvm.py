"""What LVM's layers need beside the devices: drivers by major number, and how far a mirror is. Pure."""

from __future__ import annotations

import re

from agents.facts.sections import Section, text


def drivers(devices: str) -> dict[str, str]:
    """/proc/devices: major number -> name of the block driver, "98" -> "ubd"."""
    blocks = devices.partition("Block devices:")[2]
    return dict(re.findall(r"^\s*(\d+) (\S+)\s*$", blocks, re.M))


def status(section: Section | None) -> tuple[str, ...]:
    """Lines "NAME: start length raid …" of `dmsetup status --target raid`."""
    if section is None or section.exit_code != 0:
        return ()
    return tuple(text(line) for _, line in section.lines() if b": " in line)
