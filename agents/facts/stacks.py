"""Who uses a device: mounts, swap, LVM, md, zpool, bcache, dm. Pure parsers, each of one section."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agents.facts.model import Mount
from agents.facts.sections import Section, text, unoctal


def mounts(section: Section) -> list[Mount]:
    """/proc/PID/mountinfo: id parent major:minor root target options [tags] - fstype source options."""
    found = []
    for number, line in section.lines():
        before, dash, after = line.partition(b" - ")
        head, tail = before.split(b" "), after.split(b" ")
        if not dash or len(head) < 6 or len(tail) < 2 or b":" not in head[2]:
            raise section.bad(number, line, "not a line of mountinfo")
        options = ",".join(filter(None, (text(head[5]), unoctal(b" ".join(tail[2:])))))
        found.append(
            Mount(unoctal(tail[1]), unoctal(head[4]), text(tail[0]), options, text(head[2]))
        )
    return found


def swaps(section: Section) -> list[str]:
    """/proc/swaps: a heading, then path, type, size, used, priority."""
    found = []
    for number, line in section.lines():
        if line.startswith(b"Filename"):
            continue
        match = re.match(rb"(\S+)\s+(file|partition)\s", line)
        if match is None:
            raise section.bad(number, line, "not a line of /proc/swaps")
        path = unoctal(match[1])
        if match[2] == b"partition" or path.startswith("/dev/"):
            found.append(path)  # a swap file lies on a mounted file system: that one is refused
    return found


def pvs(section: Section) -> list[tuple[str, str]]:
    """Path and volume group ("" for none) of each physical volume; missing ones ("[unknown]") left out."""
    found = []
    for number, line in section.lines():
        path, bar, group = text(line.strip()).partition("|")
        if not bar or not path.startswith(("/", "[")):
            raise section.bad(number, line, "not PV|VG")
        if path.startswith("/"):
            found.append((path, group))
    return found


def dm_tables(section: Section) -> list[str]:
    """Lines "NAME: start length type …"."""
    found = []
    for number, line in section.lines():
        if line.strip() == b"No devices found":
            continue
        if not re.match(rb"\S+:(?: \d+ |\s*$)", line):  # a name may hold colons, and no space
            raise section.bad(number, line, "not NAME: table")
        found.append(text(line))
    return found


def devices_of(mount: Mount) -> Iterator[str]:
    """Paths below /dev that a mount uses: its source, and log or journal devices in its options."""
    if mount.source.startswith("/dev/"):
        yield mount.source
        if mount.fstype == "bcachefs":  # all its disks, with colons between
            yield from mount.source.split(":")
    yield from re.findall(r"=(/dev/[^,]+)", mount.options)
