# SPDX-License-Identifier: Apache-2.0
"""A FreeBSD host's facts: one script (hostside/facts_freebsd.sh) and one pure parser of its output."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files

from agents.contracts import Need
from agents.facts import geom, magic, volumes
from agents.facts.geom import Consumer, Mesh, Provider
from agents.facts.identifiers import collect_identifiers, meaningful_serial
from agents.facts.model import BlockDevice, HostFacts, Mount, Signature, Zpool
from agents.facts.sections import (
    Section,
    bad_facts,
    decode_octal_escapes,
    decode_text,
    parse_tool_versions,
    split_sections,
    succeeded,
    version_commands,
)
from agents.facts.volumes import missing_device_message

HOSTSIDE = files("agents.hostside")
SCRIPT = "".join(
    HOSTSIDE.joinpath(name).read_text()
    for name in ("root_only.sh", "sections.sh", "facts_freebsd.sh")
)
REQUIRED_SECTIONS = ("uid", "sysctl", "boot_id", "booted", "mounts", "swaps", "geom")
NO_ROOT = "signatures, and who uses which disk: they need root (passwordless sudo)"


def facts_command(programs: Iterable[Need], nonce: str) -> tuple[str, ...]:
    """The command that reads the facts. It changes nothing on the host."""
    return ("sh", "-c", SCRIPT, "facts", nonce, *version_commands(programs))


def parse_freebsd_facts(output: bytes) -> HostFacts:
    """Facts from what the script printed. Raises AgentError BAD_FACTS naming section and line."""
    sections = split_sections(output)
    for name in REQUIRED_SECTIONS:
        if name not in sections:
            raise bad_facts(f"the reading has no section {name!r}")
    mesh = geom.parse_geom(sections["geom"])
    machine = _parse_machine(sections)
    mounted, swapped = parse_mounts(sections["mounts"]), parse_swaps(sections["swaps"])
    pools = volumes.parse_status(succeeded(sections, "zpool"))
    users = device_users(mesh, mounted, swapped, pools)
    devices = block_devices(mesh, users.members)
    looked = device_signatures(mesh, sections)
    # what could not be read and matters to the guard
    failures = [
        sections[name].failure
        for name in ("mounts", "swaps", "zpool")
        if name in sections and sections[name].exit_code
    ]
    unknown = [*users.unknown, *failures, *([] if machine.root else [NO_ROOT])]
    return replace(
        machine,
        devices=tuple(
            replace(
                device,
                mounts=tuple(users.mounts.get(device.name, ())),
                swap=device.name in users.swap,
                signatures=looked.get(device.name, ()),
                signatures_known=device.name in looked,
            )
            for device in devices
        ),
        mounts=tuple(mounted),
        swaps=tuple(swapped),
        zpool_members=tuple(sorted(n for n, o in users.members.items() if o.startswith("zpool "))),
        zpools=volumes.with_properties(pools, succeeded(sections, "zpool_get")),
        datasets=volumes.parse_datasets(succeeded(sections, "zfs_get")),
        members=users.members,
        tools=parse_tool_versions(sections),
        unknown=tuple(unknown),
    )


def _parse_machine(sections: Mapping[str, Section]) -> HostFacts:
    """The facts that say which host it is, and what commands may do there."""
    root = sections["uid"].text == "0"
    sysctls = dict(re.findall(r"^([a-z_.]+): (.*)$", decode_text(sections["sysctl"].stdout), re.M))
    if "kern.osrelease" not in sysctls:
        raise bad_facts(f"sysctl: no kern.osrelease: {sections['sysctl'].failure}")
    numbers = {
        key: int(sysctls[key]) if sysctls.get(key, "").isdigit() else 0
        for key in ("hw.ncpu", "hw.physmem")
    }
    return HostFacts(
        hostname=sysctls.get("kern.hostname", ""),
        os_family="freebsd",
        os_name=f"FreeBSD {sysctls['kern.osrelease']}",
        kernel=sysctls["kern.osrelease"],
        arch=sysctls.get("hw.machine", ""),
        boot_id=_boot_id(sections, sysctls),
        cpu_model=sysctls.get("hw.model", "").strip(),
        cpus=numbers["hw.ncpu"],
        memory=numbers["hw.physmem"],
        root=root,
        sudo=root,
    )


def _boot_id(sections: Mapping[str, Section], sysctls: Mapping[str, str]) -> str:
    """Text that changes at a boot and only then; hostside/freebsd.sh says the same.

    kern.boot_id is random, from FreeBSD 13 on. Before that the time at which rc wrote dmesg.boot. kern.boottime is the
    last resort, for it moves when somebody sets the clock: then a boot is seen that was none, never the reverse.
    """
    if (
        match := re.search(r"0x([0-9a-f]{32})", decode_text(sections["boot_id"].stdout))
    ) is not None:
        return match[1]
    booted = sections["booted"].text
    if booted.isdigit():
        return f"dmesg-{booted}"
    since = re.search(r"sec = (\d+)", sysctls.get("kern.boottime", ""))
    if since is None:
        raise bad_facts("neither kern.boot_id, dmesg.boot nor kern.boottime can be read")
    return f"boottime-{since[1]}"


def parse_mounts(section: Section) -> list[Mount]:
    r"""`mount -p`: source, target, type, options, two numbers. White space in names comes as \040, or (older) raw."""
    mounts = []
    pattern = rb"(\S+)\s+(/.*?)\s+([\w.-]+)\s+(\S+)\s+\d+\s+\d+"
    for match in section.matches(pattern, "not a line of mount -p"):
        source, target, kind, options = match.groups()
        mounts.append(
            Mount(
                decode_octal_escapes(source),
                decode_octal_escapes(target),
                decode_text(kind),
                decode_text(options),
            )
        )
    return mounts


def parse_swaps(section: Section) -> list[str]:
    """`swapinfo -k`: a heading, then path, three numbers, percent."""
    pattern = rb"(/dev/.+?)\s+\d+\s+\d+\s+\d+\s+\d+%"
    matches = section.matches(pattern, "not a line of swapinfo", (b"Device ", b"Total "))
    return [decode_text(match[1]) for match in matches]


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
    mesh: Mesh, mounts: Sequence[Mount], swaps: Sequence[str], pools: Sequence[Zpool]
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
    for pool in pools:
        for vdev in pool.vdevs:
            path = vdev.path.removeprefix("/dev/")
            if (name := mesh.names.get(path)) is not None:
                users.members[name] = f"zpool {pool.name}"
            elif not path.startswith("/"):
                # else a file
                users.unknown.append(missing_device_message(pool.name, path))
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
    offset = config.get("offset", "") if provider.kind == "PART" else ""
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
        start=int(offset) if offset.isdigit() and len(offset) < 20 else 0,
    )


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
