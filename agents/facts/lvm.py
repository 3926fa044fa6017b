"""What LVM's layers need beside the devices: drivers by major number, and how far a mirror is. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agents.facts.model import BlockDevice
from agents.facts.sections import Section, text

GROUP = re.compile(r"/dev/mapper/((?:[^-]|--)+)-(?!-)")  # a dash in a name is doubled


def drivers(devices: str) -> dict[str, str]:
    """/proc/devices: major number -> name of the block driver, "98" -> "ubd"."""
    blocks = devices.partition("Block devices:")[2]
    return dict(re.findall(r"^\s*(\d+) (\S+)\s*$", blocks, re.M))


def status(section: Section | None) -> tuple[str, ...]:
    """Lines "NAME: start length raid …" of `dmsetup status --target raid`."""
    if section is None or section.exit_code != 0:
        return ()
    return tuple(text(line) for _, line in section.lines() if b": " in line)


def grouped(devices: Iterable[BlockDevice]) -> list[tuple[str, str]]:
    """Path and group of each physical volume that has an active volume on it, by that one's name."""
    known = {device.name: device for device in devices}
    found = []
    for device in known.values():
        volumes = [known[name] for name in device.holders if name in known]
        groups = {
            match[1].replace("--", "-")
            for volume in volumes
            if volume.type == "lvm" and (match := GROUP.match(volume.path))
        }
        if len(groups) == 1 and any(s.type == "LVM2_member" for s in device.signatures):
            found.append((device.path, groups.pop()))
    return found
