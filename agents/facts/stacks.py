# SPDX-License-Identifier: Apache-2.0
"""Uses of devices: mounts, swap, LVM, dm, programs that have one open. Pure parsers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from agents.facts.model import BlockDevice, Mount
from agents.facts.sections import EMPTY, Section, decode_octal_escapes, decode_text

# A dash in a name is doubled.
GROUP = re.compile(r"/dev/mapper/((?:[^-]|--)+)-(?!-)")
# Options by which file systems name further devices of theirs, as the kernel prints them.
LOG_OPTIONS = {
    "xfs": ("logdev", "rtdev"),
    "jfs": ("jdev",),
    "reiserfs": ("jdev",),
    "erofs": ("device",),
}
# and above: ls itself did not run; 1 and 2 are of programs that have gone
FIRST_EXIT_CODE_NOT_RUN = 126


def parse_mountinfo(section: Section) -> list[Mount]:
    """/proc/PID/mountinfo: id parent major:minor root target options [tags] - fstype source options."""
    mounts = []
    for number, line in section.numbered_lines():
        before, dash, after = line.partition(b" - ")
        head, tail = before.split(b" "), after.split(b" ")
        if not dash or len(head) < 6 or len(tail) < 2 or b":" not in head[2]:
            raise section.error_at(number, line, "not a line of mountinfo")
        options = ",".join(
            filter(None, (decode_text(head[5]), decode_octal_escapes(b" ".join(tail[2:]))))
        )
        mounts.append(
            Mount(
                decode_octal_escapes(tail[1]),
                decode_octal_escapes(head[4]),
                decode_text(tail[0]),
                options,
                decode_text(head[2]),
            )
        )
    return mounts


def parse_proc_swaps(section: Section) -> list[str]:
    """/proc/swaps: a heading, then path, type, size, used, priority."""
    paths = []
    pattern = rb"(\S+)\s+(file|partition)\s.*"
    for match in section.matches(pattern, "not a line of /proc/swaps", (b"Filename",)):
        path = decode_octal_escapes(match[1])
        if match[2] == b"partition" or path.startswith("/dev/"):
            # a swap file lies on a mounted file system: that one is refused
            paths.append(path)
    return paths


def parse_pvs(section: Section) -> list[tuple[str, str]]:
    """Path and volume group ("" for none) of each physical volume; missing ones ("[unknown]") left out."""
    volumes = []
    for number, line in section.numbered_lines():
        path, bar, group = decode_text(line.strip()).partition("|")
        if not bar or not path.startswith(("/", "[")):
            raise section.error_at(number, line, "not PV|VG")
        if path.startswith("/"):
            volumes.append((path, group))
    return volumes


def parse_dm_tables(section: Section) -> list[str]:
    """Lines "NAME: start length type …"."""
    tables = []
    for number, line in section.numbered_lines():
        if line.strip() == b"No devices found":
            continue
        # a name may hold colons, and no space
        if not re.match(rb"\S+:(?: \d+ |\s*$)", line):
            raise section.error_at(number, line, "not NAME: table")
        tables.append(decode_text(line))
    return tables


def device_paths(mount: Mount) -> Iterator[str]:
    """Paths below /dev that a mount uses: its source, and log or journal devices in its options."""
    if mount.source.startswith("/dev/"):
        yield mount.source
        # all its disks, with colons between
        if mount.fstype == "bcachefs":
            yield from mount.source.split(":")
    yield from re.findall(r"=(/dev/[^,]+)", mount.options)


def unresolved_table_paths(
    tables: Iterable[str], devices: Iterable[BlockDevice], paths: Collection[str]
) -> list[str]:
    """Paths in device-mapper's tables that lead to no device here, where the kernel names none below the mapping."""
    placed = {device.path for device in devices if device.parents}
    rows = [(name.removesuffix(":"), words) for name, *words in map(str.split, tables)]
    return [
        f"device-mapper {name} uses {word}, which is not a device of this host"
        for name, words in rows
        if f"/dev/mapper/{name}" not in placed
        for word in words
        if word.startswith("/") and word not in paths
    ]


def log_device_paths(mount: Mount) -> Iterator[str]:
    """Paths of the devices that its options name beside its own: an xfs's log and realtime device, and the like."""
    for option in mount.options.split(","):
        key, _, path = option.partition("=")
        if path and key in LOG_OPTIONS.get(mount.fstype, ()):
            yield path


def parse_block_drivers(devices: str) -> dict[str, str]:
    """/proc/devices: major number -> name of the block driver, "98" -> "ubd"."""
    blocks = devices.partition("Block devices:")[2]
    return dict(re.findall(r"^\s*(\d+) (\S+)\s*$", blocks, re.M))


def parse_mirror_status(section: Section) -> tuple[str, ...]:
    """Lines "NAME: start length raid …" of `dmsetup status --target raid`."""
    return tuple(decode_text(line) for _, line in section.numbered_lines() if b": " in line)


def lvm_groups(devices: Iterable[BlockDevice]) -> list[tuple[str, str]]:
    """Path and group of each physical volume that has an active volume on it, by that one's name."""
    by_name = {device.name: device for device in devices}
    path_groups = []
    for device in by_name.values():
        volumes = [by_name[name] for name in device.holders if name in by_name]
        groups = {
            match[1].replace("--", "-")
            for volume in volumes
            if volume.type == "lvm" and (match := GROUP.match(volume.path))
        }
        if len(groups) == 1 and any(s.type == "LVM2_member" for s in device.signatures):
            path_groups.append((device.path, groups.pop()))
    return path_groups


def parse_openers(sections: Mapping[str, Section]) -> dict[str, tuple[str, ...]]:
    """Programs that have a block device open for writing, and not for themselves alone: the kernel refuses nobody then.

    Number of a device ("8:16") -> its programs ("qemu-system-x86[4711]"). Raises AgentError BAD_FACTS."""
    if "openers" not in sections or "opened" not in sections:
        return {}
    names = _program_names(sections["openers"])
    programs_by_device: dict[str, dict[str, None]] = {}
    pattern = rb"b\S+ .* (\d+), *(\d+) .* (/proc/(\d+)/fd/\d+)"
    for match in sections["opened"].matches(pattern, "not a block device of ls -lnL"):
        device = f"{int(match[1])}:{int(match[2])}"
        program = f"{names.get(decode_text(match[3]), '?')}[{decode_text(match[4])}]"
        programs_by_device.setdefault(device, {})[program] = None
    return {device: tuple(programs) for device, programs in programs_by_device.items()}


def _program_names(section: Section) -> dict[str, str]:
    """The descriptor's path in /proc -> the program's name."""
    names = {}
    for number, line in section.numbered_lines():
        match = re.fullmatch(rb"(/proc/\d+/fd/\d+) ?(.*)", line, re.S)
        if match is None:
            raise section.error_at(number, line, "not /proc/PID/fd/NUMBER NAME")
        names[decode_text(match[1])] = decode_text(match[2])
    return names


def openers_failure(sections: Mapping[str, Section]) -> list[str]:
    """Set when there are such programs and nobody can say what they have open."""
    opened = sections.get("opened", EMPTY)
    return [opened.failure] if opened.exit_code >= FIRST_EXIT_CODE_NOT_RUN else []
