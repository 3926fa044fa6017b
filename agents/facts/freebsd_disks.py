# SPDX-License-Identifier: Apache-2.0
"""FreeBSD's block devices from GEOM: what they are, who uses them, what is written on them. Pure."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agents.facts import magic
from agents.facts.geom import Consumer, Mesh, Provider
from agents.facts.identifiers import collect_identifiers, meaningful_serial
from agents.facts.model import BlockDevice, Mount, Signature
from agents.facts.sections import Section, decode_text
from agents.facts.zfs import missing_device_message

TYPES = {"DISK": "disk", "PART": "part", "MD": "loop", "MULTIPATH": "mpath", "ZFS::ZVOL": "zvol"}
SCHEMES = {
    "GPT": "gpt",
    "MBR": "dos",
    "EBR": "dos",
    "BSD": "bsd",
    "BSD64": "bsd",
    "APM": "mac",
    "VTOC8": "sun",
    "LDM": "ldm",
}
FSTYP = {"cd9660": "iso9660", "ext2fs": "ext4", "msdosfs": "vfat", "zfs": "zfs_member"}
# a stripe that is larger belongs to an array
LARGEST_SECTOR = 16384


@dataclass(slots=True)
class DeviceUsers:
    """Users of the devices, by device name."""

    # as in HostFacts
    members: dict[str, str] = field(default_factory=dict)
    mounts: dict[str, list[str]] = field(default_factory=dict)
    swap: set[str] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)


def device_users(
    mesh: Mesh, mounts: Sequence[Mount], swaps: Sequence[str], pools: Sequence[tuple[str, str]]
) -> DeviceUsers:
    """Users that the tools report, and those in the kernel's own list of consumers."""
    users = DeviceUsers()
    for mount in mounts:
        if (name := mesh.names.get(mount.source.removeprefix("/dev/"))) is not None:
            users.mounts.setdefault(name, []).append(mount.target)
    for path in swaps:
        name = mesh.names.get(path.removeprefix("/dev/"))
        if name is None:
            users.unknown.append(f"swap on {path}, which is not a device of this host")
        else:
            users.swap.add(name)
    for path, pool in pools:
        if (name := mesh.names.get(path)) is None:
            users.unknown.append(missing_device_message(pool, path))
        else:
            users.members[name] = f"zpool {pool}"
    for consumer in mesh.consumers:
        _add_consumer(consumer, users)
    return users


def _add_consumer(consumer: Consumer, users: DeviceUsers) -> None:
    name = consumer.provider
    match consumer.kind:
        case "PART":
            # its partitions stand on it
            pass
        case "DEV":
            # a program has the node open; reading does no harm
            if consumer.is_writer:
                users.members.setdefault(name, "a program that has it open for writing")
        case "SWAP":
            users.swap.add(name)
        case "VFS":
            # "ffs.ada0p2"
            users.mounts.setdefault(name, [f"by the kernel as {consumer.geom}"])
        case "ZFS::VDEV":
            if not users.members.get(name, "").startswith("zpool "):
                users.unknown.append(f"ZFS uses {name}, which is not in any pool of zpool status")
        case kind:
            users.members[name] = f"{kind.lower()} {consumer.geom}"


def block_devices(mesh: Mesh, members: Mapping[str, str]) -> list[BlockDevice]:
    """Every provider with a size, without mounts, swap and signatures."""
    providers = {name: p for name, p in mesh.providers.items() if p.size > 0}
    below = {name: _lower_devices(p, members) for name, p in providers.items()}
    links: dict[str, set[str]] = {}
    for name, real in mesh.names.items():
        if name != real:
            links.setdefault(real, set()).add("/dev/" + name)
    devices = []
    for name, provider in sorted(providers.items()):
        holders = tuple(sorted(other for other, under in below.items() if name in under))
        devices.append(_block_device(provider, below[name], holders, links.get(name, set())))
    return devices


def _lower_devices(provider: Provider, members: Mapping[str, str]) -> tuple[str, ...]:
    if provider.kind != "ZFS::ZVOL":
        return tuple(sorted(provider.below))
    pool = provider.name.removeprefix("zvol/").partition("/")[0]
    return tuple(sorted(name for name, owner in members.items() if owner == f"zpool {pool}"))


def _block_device(
    provider: Provider, below: tuple[str, ...], holders: tuple[str, ...], links: set[str]
) -> BlockDevice:
    config, whole = provider.config, provider.kind == "DISK"
    turns = config.get("rotationrate", "")
    wwn = config.get("lunid", "")
    # Its serial number is the controller's, which has other namespaces too.
    namespace = wwn and provider.name.startswith(("nda", "nvd"))
    names = (wwn, config.get("lunname", ""), "" if namespace else config.get("ident", ""))
    optical = whole and re.fullmatch(r"a?cd\d+", provider.name) is not None
    return BlockDevice(
        name=provider.name,
        path="/dev/" + provider.name,
        type="rom" if optical else TYPES.get(provider.kind, provider.kind.lower()),
        size=provider.size,
        majmin="",
        model=config.get("descr", "") if whole else "",
        serial=meaningful_serial(config.get("ident", "")) if whole else "",
        wwn=f"0x{wwn.lower()}" if whole and re.fullmatch("(?!0+$)[0-9a-fA-F]{16,32}", wwn) else "",
        identifiers=collect_identifiers({}, {}, *names) if whole else (),
        rotational=int(turns) > 0 if turns.isdigit() else None,
        read_only=config.get("access") == "read-only",
        logical_sector=provider.sector,
        physical_sector=max(
            provider.sector, provider.stripe if provider.stripe <= LARGEST_SECTOR else 0
        ),
        parents=below,
        holders=holders,
        links=tuple(sorted(links)),
        label=config.get("label", "") if provider.kind == "PART" else "",
        start=_parse_integer(config.get("offset", "")) if provider.kind == "PART" else 0,
    )


def _parse_integer(digits: str) -> int:
    return int(digits) if digits.isdigit() and len(digits) < 20 else 0


def device_signatures(
    mesh: Mesh, sections: Mapping[str, Section]
) -> dict[str, tuple[Signature, ...]]:
    """Name -> what is on it; a device that cannot be called known is absent."""
    by_name = {}
    for name, provider in mesh.providers.items():
        head, tail = (_unpack_bytes(sections.get(f"{end} {name}")) for end in ("head", "tail"))
        end_size = min(provider.size, magic.END_BYTES)
        if head is None or tail is None or not len(head) == len(tail) == end_size:
            continue
        copies = [sections.get(f"{copy} {name}") for copy in magic.BTRFS_COPIES]
        if any(copy is not None and copy.exit_code for copy in copies):
            continue
        listed = {s.type: s for s in magic.find_signatures(head, tail, provider.size)}
        for copy, at in zip(copies, magic.BTRFS_COPIES.values(), strict=True):
            if copy is not None and (btrfs := magic.btrfs_copy(at, copy.stdout)):
                listed.setdefault("btrfs", btrfs)
        if scheme := mesh.schemes.get(name):
            kind = SCHEMES.get(scheme, scheme.lower())
            if not (kind == "dos" and "PMBR" in listed):
                listed.setdefault(kind, Signature(kind))
        if not scheme:
            every = range(provider.size)
            for hidden in magic.hidden_partitions(head, tail, provider.size, every):
                listed[hidden.type] = hidden
        # Bytes that this table does not know may be something all the same: then fstyp has to look too.
        if (head.strip(b"\0") or tail.strip(b"\0")) and not _add_fstyp_signature(
            sections, name, listed
        ):
            continue
        by_name[name] = tuple(listed.values())
    return by_name


def _add_fstyp_signature(
    sections: Mapping[str, Section], name: str, listed: dict[str, Signature]
) -> bool:
    """Adds what fstyp finds: exit code 0 and a type, 1 and nothing. False: it could not look."""
    section = sections.get(f"fstyp {name}")
    if section is None or section.exit_code not in (0, 1):
        return False
    file_system = decode_text(section.stdout).strip()
    if section.exit_code == 1:
        return not file_system and "not recognized" in section.stderr
    kind = FSTYP.get(file_system, file_system)
    listed.setdefault(kind, Signature(kind))
    return bool(file_system)


def _unpack_bytes(section: Section | None) -> bytes | None:
    if section is None or section.exit_code:
        return None
    try:
        # No more than was asked for, however much the host packed into it.
        packed = zlib.decompressobj(wbits=31)
        content = packed.decompress(section.stdout, magic.END_BYTES + 1)
    except zlib.error:
        return None
    return content if packed.eof else None
