# SPDX-License-Identifier: Apache-2.0
"""Devices that the kernel itself has open: targets, DRBD, zram, external journals. Pure.

No holder, mount or open descriptor shows these, and most of them are opened in a way that keeps nobody else away.
What names a device by a path counts by the number of the device that the path leads to; a path that leads nowhere is
unknown, and then nothing on this host may be destroyed.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agents.facts import sysfs
from agents.facts.model import BlockDevice, Opener
from agents.facts.sections import EMPTY, Section, decode_text, succeeded

CONFIG = "/sys/kernel/config"
# Kernel modules whose exports configfs lists, if it is mounted.
TARGETS = {"target_core_mod": f"{CONFIG}/target", "nvmet": f"{CONFIG}/nvmet"}
# Back ends of LIO without a device: memory, and programs (which have theirs open as any program).
NO_DEVICE = ("rd_mcp", "rd_dr", "user")
NO_PATH = ("", "(null)", "none")
STEPS = {"fileio": "fileio", "iblock": "block", "pscsi": "pscsi"}


@dataclass(frozen=True, slots=True)
class Openers:
    """Kernel name -> who has the device open, and in words what could not be resolved."""

    devices: Mapping[str, tuple[Opener, ...]]
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Use:
    """An opener, and the devices that it may have open: by path, by number or by kernel name."""

    opener: Opener
    paths: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def parse_kernel_openers(
    sections: Mapping[str, Section],
    attributes: Mapping[str, Mapping[str, str]],
    contents: Mapping[str, str],
    devices: Sequence[BlockDevice],
    opened: OpenedPaths,
) -> Openers:
    """Openers of each device. `attributes` are those of devices, `contents` other files by path."""
    lines = sections.get("served", EMPTY).numbered_lines()
    served = [decode_text(line) for _, line in lines]
    by_number = {device.majmin: device.name for device in devices}
    openers: dict[str, dict[Opener, None]] = {}
    unknown = list(_unreadable(served, contents, sections))
    for use in _kernel_uses(served, attributes, contents, sections, opened):
        numbers = set(use.numbers)
        for path in use.paths:
            resolved = opened.block_numbers(path)
            if resolved is None:
                unknown.append(
                    f"which device {use.opener.use}: it was opened as {path!r}, which leads nowhere here;"
                    f" {use.opener.cure}"
                )
            numbers |= resolved or set()
        for name in {*use.names, *(by_number[n] for n in numbers if n in by_number)}:
            openers.setdefault(name, {})[use.opener] = None
    for loop, path, matches in _unresolved_loops(attributes, devices, opened):
        opener = Opener(
            f"is as large as what /dev/{loop} stands on, and the path of that ({path}) leads elsewhere here",
            f"losetup -d /dev/{loop} if it is no longer needed",
        )
        for name in matches:
            openers.setdefault(name, {})[opener] = None
    return Openers({name: tuple(listed) for name, listed in openers.items()}, tuple(unknown))


def _unreadable(
    served: Iterable[str], values: Mapping[str, str], sections: Mapping[str, Section]
) -> Iterator[str]:
    """Exports that exist and could not be read."""
    listed = {path for path in served if "[" not in path and "*" not in path}
    for module, root in TARGETS.items():
        if f"/sys/module/{module}" in listed and root not in listed:
            yield (
                f"what the kernel's {module} exports: {root} is not there; mount configfs"
                f" (mount -t configfs none {CONFIG}), or unload the module"
            )
    for path in sorted(listed):
        if path.startswith(CONFIG + "/") and path not in {*TARGETS.values(), *values}:
            yield f"what the kernel exports: {path} could not be read"
    raw_works = "raw" in sections and not sections["raw"].exit_code
    if not raw_works and any(path.startswith("/sys/class/raw/raw") for path in listed):
        yield "the disks below /dev/raw: raw -qa failed or is not installed (util-linux)"
    if "drbd" not in sections and any(
        path.startswith(sysfs.BLOCK_PATH + "drbd") for path in listed
    ):
        yield "the disks below DRBD: drbdsetup show failed or is not installed (drbd-utils)"


def _kernel_uses(
    served: Iterable[str],
    attributes: Mapping[str, Mapping[str, str]],
    contents: Mapping[str, str],
    sections: Mapping[str, Section],
    opened: OpenedPaths,
) -> Iterator[_Use]:
    for path, value in contents.items():
        place = path.split("/")
        match place[1:]:
            case ["sys", "kernel", "config", "target", "core", hba, lun, "info"]:
                yield from _lio(hba, lun, value, contents.get(f"{path[:-4]}udev_path", ""), served)
            case ["sys", "kernel", "config", "nvmet", "subsystems", nqn, *within, "device_path"]:
                yield from _nvmet(nqn, within, value, path, served, opened)
            case ["sys", "kernel", "config", "usb_gadget", gadget, _, _, _, "file"]:
                use = f"is exported by the USB gadget {gadget}"
                yield from _by_path(value, Opener(use, f"echo >{path}"))
            case ["sys", "kernel", "scst_tgt", "devices", name, "filename"]:
                use = f"is exported by the SCSI target SCST as {name}"
                yield from _by_path(value, Opener(use, f"scstadmin -close_dev {name}"))
            case ["sys", "fs", "bcachefs", uuid, *_, "dev"]:
                opener = Opener(f"is a member of the running bcachefs {uuid}", "unmount it")
                yield _Use(opener, numbers=(value.strip(),))
            case ["sys", "class", "rnbd-server", "ctl", "devices", name, *_, "dev"]:
                opener = Opener(
                    f"is exported by the RNBD server as {name}", "unmap it at the client"
                )
                yield _Use(opener, numbers=(value.strip(),))
            case ["sys", "bus", "xen-backend", "devices", name, "physical_device"]:
                opener = Opener(f"is a disk of a Xen guest ({name})", "xl block-detach")
                yield _Use(opener, numbers=_hexadecimal(value))
            case _:
                pass
    for name, values in attributes.items():
        if name.startswith("zram"):
            opener = Opener(f"is the backing device of /dev/{name}", f"zramctl --reset /dev/{name}")
            yield from _by_path(values.get("backing_dev", ""), opener)
    for path in served:
        if path.startswith("/proc/fs/jbd2/"):
            # The journal of a file system's own device has its inode behind the name: sda2-8.
            opener = Opener("is the journal of a mounted ext4 or ocfs2", "unmount that file system")
            yield _Use(opener, names=(path.rpartition("/")[2],))
    yield from _drbd_devices(sections.get("drbd", EMPTY))
    yield from _raw_devices(sections.get("raw", EMPTY))


def _by_path(value: str, opener: Opener) -> Iterator[_Use]:
    path = value.partition("\n")[0]
    if path.strip() not in NO_PATH:
        yield _Use(opener, paths=(path,))


def _lio(hba: str, lun: str, info: str, udev_path: str, served: Iterable[str]) -> Iterator[_Use]:
    """A backstore of the kernel's SCSI target: iblock and pscsi show numbers, fileio a path."""
    kind = hba.rpartition("_")[0]
    if kind in NO_DEVICE:
        return
    opener = Opener(
        f"is exported by the kernel's SCSI target as {hba}/{lun}",
        f"if nobody needs the export, targetcli /backstores/{STEPS.get(kind, kind)} delete {lun}",
    )
    number = re.search(r"Major: (\d+) Minor: (\d+)", info)
    address = re.search(r"Channel ID: (\d+) Target ID: (\d+) LUN: (\d+) Host ID: (\d+)", info)
    file = re.search(r" File: (.*)  Size: ", info)
    if number and number[1] != "0":
        yield _Use(opener, numbers=(f"{int(number[1])}:{int(number[2])}",))
    elif address:
        place = f"/sys/class/scsi_device/{address[4]}:{address[1]}:{address[2]}:{address[3]}/device/block/"
        # none of a tape or a changer
        yield _Use(opener, names=_names_below(place, served))
    else:
        yield from _by_path(file[1] if file and file[1] else udev_path, opener)


def _nvmet(
    nqn: str,
    within: list[str],
    value: str,
    path: str,
    served: Iterable[str],
    opened: OpenedPaths,
) -> Iterator[_Use]:
    """A namespace of the kernel's NVMe target, or a whole controller that it passes through."""
    place = path.removesuffix("/device_path")
    whole = within == ["passthru"]
    opener = Opener(
        f"is exported by the kernel's NVMe target as {'/'.join((nqn, *within[1:]))}",
        f"if nobody needs the export, echo 0 >{place}/enable"
        + ("" if whole else f"; rmdir {place}"),
    )
    node = value.partition("\n")[0]
    disks: tuple[str, ...] = ()
    if whole and opened.character_numbers(node):
        disks = _namespaces(node.rpartition("/")[2], served)
    if disks:
        yield _Use(opener, names=disks)
    else:
        yield from _by_path(value, opener)


def _namespaces(controller: str, served: Iterable[str]) -> tuple[str, ...]:
    """Disks of an NVMe controller; of nvme0c1n1, a path of the kernel's own multipath, the disk is nvme0n1."""
    names = _names_below(f"/sys/class/nvme/{controller}/", served)
    return tuple(re.sub(r"c\d+n", "n", name) for name in names)


def _names_below(place: str, served: Iterable[str]) -> tuple[str, ...]:
    return tuple(path.removeprefix(place) for path in served if path.startswith(place))


def _drbd_devices(section: Section) -> Iterator[_Use]:
    """`drbdsetup show`: the disk and the place of the metadata of each volume that has one."""
    resource = ""
    for _, line in section.numbered_lines():
        words = decode_text(line)
        if name := re.match(r'\s*resource\s+"?([^"\s]+)', words):
            resource = name[1]
        if disk := re.match(r'\s*(?:flexible-)?(?:meta-)?disk\s+"([^"]*)"', words):
            opener = Opener(
                f"is a disk of the DRBD resource {resource}", f"drbdadm down {resource}"
            )
            yield from _by_path(disk[1], opener)


def _raw_devices(section: Section) -> Iterator[_Use]:
    """Character devices bound by raw(8), before Linux 5.14: "/dev/raw/raw1: bound to major 8, minor 0"."""
    pattern = rb"(/dev/raw/\S+):\s+bound to major (\d+), minor (\d+).*"
    for match in section.matches(pattern, "not a line of raw -qa"):
        node, major, minor = map(decode_text, match.groups())
        opener = Opener(f"is bound to {node}", f"raw {node} 0 0 if it is no longer needed")
        yield _Use(opener, numbers=(f"{major}:{minor}",))


def _hexadecimal(value: str) -> tuple[str, ...]:
    match = re.fullmatch(r"([0-9a-f]+):([0-9a-f]+)\s*", value)
    return (f"{int(match[1], 16)}:{int(match[2], 16)}",) if match else ()


def _unresolved_loops(
    files: Mapping[str, Mapping[str, str]], devices: Iterable[BlockDevice], opened: OpenedPaths
) -> Iterator[tuple[str, str, list[str]]]:
    """Loop devices of which nobody can say what they stand on, and the devices that it can be.

    A loop device over a whole device is as large as that, less its offset; over a file it may have any size.
    """
    for loop, values in files.items():
        path = values.get("loop/backing_file", "")
        if not path or opened.loop_numbers(loop, path)[1]:
            continue
        end = 512 * _digits(values, "size") + _digits(values, "loop/offset")
        limited = _digits(values, "loop/sizelimit") > 0
        yield (
            loop,
            path,
            [
                device.name
                for device in devices
                if device.name != loop
                and device.size
                and (device.size == end or (limited and device.size > end))
            ],
        )


def _digits(values: Mapping[str, str], key: str) -> int:
    value = values.get(key, "")
    return int(value) if value.isdigit() else 0


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
        for path, node in _parse_stat(sections.get("backing", EMPTY)):
            self.nodes.setdefault(path, set()).add(node)
        self.loop_inodes = _parse_losetup(succeeded(sections, "losetup"))

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


def _parse_stat(section: Section) -> Iterable[tuple[str, Node]]:
    """Lines of `stat -c '%d %i %t %T %f %n'`; what is no such line belongs to a path with a line break: unresolved."""
    for _, line in section.numbered_lines():
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


def _parse_losetup(section: Section) -> dict[str, tuple[str, str]]:
    """Columns NAME, BACK-MAJ:MIN and BACK-INO of `losetup -l`: "loop0" -> ("0:5", "611")."""
    inodes = {}
    for _, line in section.numbered_lines():
        if match := re.fullmatch(r"/dev/(loop\d+)\s+(\d+:\d+)\s+(\d+)\s*", decode_text(line)):
            inodes[match[1]] = (match[2], match[3])
    return inodes
