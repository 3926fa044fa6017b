# SPDX-License-Identifier: Apache-2.0
"""Users of a device: everything that is on it, mounts it or has it as a member. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agents.facts.graph import Graph, has_layout_name
from agents.facts.magic import BTRFS_COPIES, CLEARED_BY_HAND, F2FS_COPY, HIDDEN
from agents.facts.model import BlockDevice, Mount, Signature
from agents.facts.stacks import device_paths
from agents.uuids import is_uuid_of

# a layout mounts at MOUNT_ROOT/bl17 and nowhere else
MOUNT_ROOT = "/mnt/benchlab"
SYSTEM_MOUNTS = ("/", "/boot", "/usr", "/var", "/etc", "/home", "/opt", "/srv", "/root")
DISKLESS_FILE_SYSTEMS = {
    "overlay",
    "tmpfs",
    "ramfs",
    "rootfs",
    "nfs",
    "nfs4",
    "9p",
    "virtiofs",
    "hostfs",
    "squashfs",
    "fuse",
}
# What a layout of any installation names: "bl", the installation's three letters, a number; alone or in a path.
LAYOUT = re.compile(
    rf"(?:{MOUNT_ROOT}/|/dev/(?:mapper|md|zvol|bcache/by-label)/|/dev/)?(?P<layout>bl[a-z]{{3}}\d+)(?![\w.])"
)
WIPEABLE = {
    "ext2",
    "ext3",
    "ext4",
    "xfs",
    "btrfs",
    "vfat",
    "exfat",
    "ntfs",
    "f2fs",
    "jfs",
    "reiserfs",
    "reiser4",
    "nilfs2",
    "hfs",
    "hfsplus",
    "ufs",
    "minix",
    "udf",
    "iso9660",
    "gpt",
    "dos",
    "PMBR",
    "mac",
    "bsd",
    "sun",
    "sgi",
    "atari",
}


# What writes which signature: of a member of ours only its owner's own is excused.
OWNER_SIGNATURES = {
    "lvm": "LVM2_member",
    "md": "linux_raid_member",
    "zpool": "zfs_member",
    "bcache": "bcache",
}


def reasons_in_use(disk: BlockDevice, name: str, graph: Graph, layout: str) -> Iterator[str]:
    """Reasons on one device of the stack that stands on a disk; the first is the disk itself."""
    where = disk.path if name == disk.name else f"{disk.path} (by {name} on it)"
    device = graph.devices.get(name)
    if device is None:
        yield f"{where}: is in use by a device that is not in the facts: read them again"
        return
    ours = graph.is_ours(name, layout)
    if name != disk.name and device.type != "part" and not ours:
        advice = _removal_advice(
            ", not made by this layout: take that down first", device.path, *device.links
        )
        yield f"{where}: carries {device.path}{advice}"
    if device.type == "part" and not graph.below[name] <= {disk.name, *graph.stack_on(disk.name)}:
        yield f"{where}: belongs to another disk too"
    if name in system_devices(graph):
        yield f"{where}: the running system is on it"
    for target in device.mounts:
        if target != f"{MOUNT_ROOT}/{layout}":
            unmount = "" if _is_system(target) else ": unmount it if it is no longer needed"
            yield f"{where}: is mounted at {target}{_removal_advice(unmount, target)}"
    if device.swap:
        yield f"{where}: is swap in use: run swapoff if it is no longer needed"
    # ours are no excuse: no layout exports its volumes, and none has such a journal
    for opener in device.openers:
        yield f"{where}: {opener.use}: {opener.cure}"
    yield from _membership_reasons(where, device, graph, layout)


def _removal_advice(otherwise: str, *names: str) -> str:
    """Advise how to remove something with one of these names; `otherwise` if no layout of BenchLab named it.

    Commands are suggested for what belongs to nobody: a layout may be running, and its campaign takes it down.
    """
    matches = [match for name in names if (match := LAYOUT.match(name))]
    if not matches:
        return otherwise
    layout = matches[0]["layout"]
    return f" of layout {layout} of BenchLab: take it down in its campaign, or on the host's page if it was left behind"


def _membership_reasons(
    where: str, device: BlockDevice, graph: Graph, layout: str
) -> Iterator[str]:
    facts = graph.facts
    owner = facts.members.get(device.name, "")
    own_bcache = graph.is_our_bcache(device.name, layout)
    own_member = has_layout_name(owner.partition(" ")[2], layout) or (
        own_bcache and owner.partition(" ")[0] in ("", "bcache")
    )
    # in no group, by its UUID one that a layout made
    if owner == "lvm":
        own_member = any(
            s.type == "LVM2_member" and is_uuid_of(s.uuid, layout) for s in device.signatures
        )
    if owner and not own_member:
        remove = f": remove it from there first{_removal_commands(owner, device)}"
        yield f"{where}: belongs to {owner}{_removal_advice(remove, owner.partition(' ')[2])}"
    own_type = OWNER_SIGNATURES.get(owner.partition(" ")[0] or "bcache", "") if own_member else ""
    lists = {"lvm": facts.lvm_pvs, "md": facts.md_members, "zpool": facts.zpool_members}
    for kind, paths in lists.items():
        excused = own_member and owner.partition(" ")[0] == kind
        if not excused and any(device.name in graph.owners.get(path, [path]) for path in paths):
            yield f"{where}: is a member of a volume group, array or pool"
    for path in facts.swaps:
        if device.name in graph.owners.get(path, ()):
            yield f"{where}: is swap in use"
    for table, words in facts.mappings():
        if _table_uses_device(words, device, graph) and not _own_table(table, graph, layout):
            yield f"{where}: is used by device-mapper {table}{_removal_advice(': remove that first', table)}"
    # Our own volume is open while our tool runs on it, and an array's members while mdadm reshapes it; the kernel
    # keeps everybody else from what it holds for us. Nothing of ours runs on a disk itself when a Step is to claim it.
    held = own_member or (device.type != "part" and graph.is_ours(device.name, layout))
    if device.writers and not held:
        programs = ", ".join(device.writers)
        yield (
            f"{where}: is in use by a program that has it open for writing: {programs}; stop it if it is no longer"
            " needed"
        )
    if not device.signatures_known:
        yield f"{where}: its signatures could not be read, so its contents are unknown"
    yield from _multi_device_reasons(where, device, graph, layout)
    for signature in device.signatures:
        if signature.type == HIDDEN:
            # A tool may have written what it likes into a volume of ours.
            if not graph.is_ours(device.name, layout):
                yield from _hidden_partition_reasons(where, device, signature, layout)
            continue
        excused = signature.type in WIPEABLE or (signature.type == own_type and not signature.label)
        if not excused and not _own_label(signature, layout):
            clear = f"; if nothing needs it, clear it yourself ({_clearing_commands(signature, device)})"
            advice = _removal_advice(clear, signature.label.rpartition(":")[2])
            label = f" ({signature.label})" if signature.label else ""
            yield f"{where}: has a {signature.type} signature{label}{advice}"


def _hidden_partition_reasons(
    where: str, device: BlockDevice, signature: Signature, layout: str
) -> Iterator[str]:
    """A reason where a table that the kernel does not go by lists partitions that are not this layout's."""
    names = signature.label.split("\n")
    if not all(has_layout_name(name, layout) for name in names):
        yield (
            f"{where}: has a GPT that lists {len(names)} partition{'s' if len(names) > 1 else ''} which the kernel does"
            f" not show (its first sectors may be lost), so what is in them is unknown; if nothing needs them, clear it"
            f" yourself (wipefs -a {device.path})"
        )


def _multi_device_reasons(
    where: str, device: BlockDevice, graph: Graph, layout: str
) -> Iterator[str]:
    """Reasons where a file system has other devices: on this host, or by its superblock."""
    for signature in device.signatures:
        commands = _clearing_commands(signature, device)
        cure = f"if it is no longer needed, clear it yourself ({commands})"
        if is_uuid_of(signature.uuid, layout):
            continue
        btrfs = signature.type == "btrfs"
        if btrfs and (others := _other_btrfs_devices(signature, device, graph)):
            yield f"{where}: is one device of a btrfs, the other is {', '.join(others)}; {cure}"
        elif signature.devices > 1:
            yield (
                f"{where}: is one device of a {signature.type} file system that needs"
                f" {signature.devices} devices; {cure}"
            )
        elif btrfs and not signature.devices:
            yield f"{where}: has a btrfs, and how many devices that has could not be read; {cure}"


def _clearing_commands(signature: Signature, device: BlockDevice) -> str:
    """Commands that clear a signature: copies of a superblock too, and what not every wipefs knows."""
    copies = {"btrfs": [*BTRFS_COPIES.values()], "f2fs": [F2FS_COPY]}.get(signature.type, [])
    if signature.type in CLEARED_BY_HAND:
        copies = [signature.offset]
    zero = f"dd if=/dev/zero of={device.path} bs=4096 count=1 seek="
    parts = [f"{zero}{at // 4096}" for at in copies if at < device.size]
    return "; ".join([f"wipefs -a {device.path}", *parts])


def _other_btrfs_devices(signature: Signature, device: BlockDevice, graph: Graph) -> list[str]:
    """Paths of other devices that have the same UUID, of whatever type they are.

    What stands on this device, or what it stands on, shows the same bytes. So does another leg of a mirror: there is a
    device that stands on both, and that one is a use of its own.
    """
    above = set(graph.stack_on(device.name))
    stack = above | set(graph.stack_under(device.name))
    return [
        other.path
        for other in graph.facts.devices
        if other.name not in stack
        and above.isdisjoint(graph.stack_on(other.name))
        and any(s.type == signature.type and s.uuid == signature.uuid for s in other.signatures)
    ]


def _removal_commands(owner: str, device: BlockDevice) -> str:
    """The commands that a person may run, who knows that nobody needs it."""
    kind, _, name = owner.partition(" ")
    node = device.path
    commands = {
        "lvm": f"vgremove {name}, or vgreduce {name} {node}; pvremove {node}"
        if name
        else f"pvremove {node}",
        "md": f"mdadm --stop /dev/md/{name}; mdadm --zero-superblock {node}",
        "zpool": f"zpool destroy {name}, or zpool remove {name}; zpool labelclear {node}",
        "bcache": f"umount what is on it; echo 1 >/sys/block/{device.name}/bcache/stop, a cache"
        f" by its set's stop in /sys/fs/bcache; wipefs -a {node}",
    }.get(kind, "")
    return f" ({commands})" if commands else ""


def _table_uses_device(words: list[str], device: BlockDevice, graph: Graph) -> bool:
    """A table refers to a device by its number, as the kernel's own targets do, or by a path."""
    owned = (graph.owners.get(word, ()) for word in words if word.startswith("/"))
    return device.majmin in words or any(device.name in names for names in owned)


def _own_table(table: str, graph: Graph, layout: str) -> bool:
    device = graph.find_device(f"/dev/mapper/{table}")
    return device is not None and graph.is_ours(device.name, layout)


def _own_label(signature: Signature, layout: str) -> bool:
    """md writes "host:bl17", zfs and bcache "bl17"; others, such as LUKS, have a UUID that only this layout gives."""
    if is_uuid_of(signature.uuid, layout):
        return True
    return signature.type in ("linux_raid_member", "zfs_member", "bcache") and has_layout_name(
        signature.label.rpartition(":")[2], layout
    )


def system_devices(graph: Graph) -> set[str]:
    """Kernel names of all that the running system stands on."""
    by_number = {d.majmin: d.name for d in graph.facts.devices if d.majmin}
    names: set[str] = set()
    for mount in graph.facts.mounts:
        if _is_system(mount.target):
            under = {by_number.get(mount.majmin), *graph.owners.get(mount.source, ())} - {None}
            for name in under | _pool_members(mount, graph):
                names |= set(graph.stack_under(str(name)))
    for device in graph.facts.devices:
        if any(map(_is_system, device.mounts)):
            names |= set(graph.stack_under(device.name))
    return names


def _pool_members(mount: Mount, graph: Graph) -> set[str | None]:
    """Devices of the pool that a ZFS is in; its mount names only the dataset."""
    if mount.fstype != "zfs":
        return set()
    owner = "zpool " + mount.source.partition("/")[0]
    return {name for name, member_of in graph.facts.members.items() if member_of == owner}


def _is_system(target: str) -> bool:
    return target == "/" or any(
        target == root or target.startswith(root + "/") for root in SYSTEM_MOUNTS[1:]
    )


def unknown_system_reasons(graph: Graph) -> list[str]:
    """Reasons if the device of / is unknown; then nothing may be destroyed."""
    mounts = graph.facts.mounts
    root = [mount for mount in mounts if mount.target == "/"]
    if not root:
        return ["the facts do not say what / is mounted from: read them again"]
    numbers = {device.majmin for device in graph.facts.devices} - {""}
    last = root[-1]
    reasons = [
        f"{mount.target} is on {mount.source} (zfs), which is not a pool in the facts"
        for mount in mounts
        if mount.fstype == "zfs" and _is_system(mount.target) and not _pool_members(mount, graph)
    ]
    is_known = last.majmin in numbers or any(path in graph.paths for path in device_paths(last))
    if not is_known and last.fstype not in {*DISKLESS_FILE_SYSTEMS, "zfs"}:
        reasons.append(f"/ is on {last.source} ({last.fstype}), which is not a device in the facts")
    return reasons
