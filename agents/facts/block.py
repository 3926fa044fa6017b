# SPDX-License-Identifier: Apache-2.0
"""Block devices, put together from /sys, `lsblk -P`, udev and `wipefs -p`, and from what their both ends hold. Pure.

`wipefs` names what its version of libblkid knows: 2.23 knows neither bcache nor Ceph, and no version knows Windows'
dynamic disks. So the first 12 KiB and the last 32 KiB of each device are read too, and agents/facts/magic.py looks at
them.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from agents.facts import identifiers, magic, sysfs
from agents.facts.identifiers import meaningful_serial
from agents.facts.kernel_openers import OpenedPaths
from agents.facts.model import BlockDevice, Signature
from agents.facts.sections import EMPTY, Section, bad_facts, decode_hex_escapes, decode_text

QUEUE_ATTRIBUTES = {f"queue/{name}" for name in sysfs.QUEUE}


@dataclass(frozen=True, slots=True)
class BlockReading:
    """Devices without mounts and swap, and what else was learnt on the way."""

    devices: tuple[BlockDevice, ...]
    tree: sysfs.Tree
    # kernel name -> label of its bcache superblock
    labels: Mapping[str, str]


def parse_block_devices(
    sections: Mapping[str, Section],
    attributes: Mapping[str, Mapping[str, str]],
    opened: OpenedPaths,
) -> BlockReading:
    """Every device with a node and a size. Raises AgentError BAD_FACTS naming section and line."""
    tree = sysfs.parse_tree(sections["tree"])
    rows = {row["KNAME"]: row for row in sysfs.parse_lsblk(sections.get("lsblk", EMPTY))}
    _link_loop_devices(attributes, tree, opened)
    names = {values.get("dev", ""): name for name, values in attributes.items()}
    links = sysfs.parse_udev_links(sections["picked"], names)
    pages = sysfs.parse_vpd_pages(sections["files"])
    devices_found = []
    for name, values in sorted(attributes.items()):
        size = _integer_attribute(name, "size", values, 0) * 512
        if "dev" not in values:
            # a hidden path of NVMe's own multipath (nvme0c0n1): the head nvme0n1 is the disk
            continue
        if size == 0 and not tree.parents.get(name):
            # an empty card reader, an idle loop or nbd; but an array not started holds disks
            continue
        device = _block_device(name, size, values, rows.get(name, {}), tree, links.get(name, set()))
        devices_found.append(_with_identifiers(device, values, pages.get(name, {})))
    devices_found = identifiers.without_shared_serials(devices_found, tree.scsi)
    looked = _signatures_by_name(sections, [device.name for device in devices_found])
    looked = {
        name: _with_device_counts(name, listed, sections)
        for name, listed in looked.items()
        if not _has_unread_copies(name, sections)
    }
    if "heads" in sections:
        beginnings = parse_device_ends(sections["heads"], devices_found)
        # The script looks at no RAM disk: Linux makes sixteen, and reading one takes memory for it.
        nodes = {d.name for d in devices_found if d.size and not d.name.startswith("ram")}
        unread = nodes - beginnings.keys()
        endings: dict[str, bytes] = {}
        if "tails" in sections:
            endings = parse_device_ends(sections["tails"], devices_found, TAIL)
            # A disc's last sectors may not be readable at all.
            unread |= {n for n in nodes if not n.startswith("sr")} - endings.keys()
        sizes = {d.name: d.size for d in devices_found}
        looked = with_unlisted_traces(looked, beginnings, endings, sizes, unread)
        split = {parent for d in devices_found if d.type == "part" for parent in d.parents}
        for name in looked.keys() & endings.keys() - split:
            tables = {s.offset for s in looked[name] if s.type == "gpt"}
            ends = beginnings.get(name, b""), endings[name]
            looked[name] += (*magic.hidden_partitions(*ends, sizes[name], tables),)
    devices = tuple(
        replace(
            d, signatures=looked.get(d.name, ()), signatures_known=d.name in looked or not d.size
        )
        for d in devices_found
    )
    labels = {name: values.get("bcache/label", "") for name, values in attributes.items()}
    return BlockReading(devices, tree, labels)


def _link_loop_devices(
    attributes: Mapping[str, Mapping[str, str]], tree: sysfs.Tree, opened: OpenedPaths
) -> None:
    """A loop over a device, whatever its node: the kernel names a path, and neither as holder of the other."""
    by_number = {values.get("dev", ""): name for name, values in attributes.items()}
    for loop, values in attributes.items():
        path = values.get("loop/backing_file", "")
        if not path:
            continue
        numbers, proven = opened.loop_numbers(loop, path)
        below = {by_number[number] for number in numbers if number in by_number}
        if not proven and path.startswith("/dev/"):
            below |= {path[5:].replace("/", "!")} & attributes.keys()
        for name in below - {loop}:
            tree.parents[loop].add(name)
            tree.holders[name].add(loop)


def _block_device(
    name: str,
    size: int,
    sys: Mapping[str, str],
    row: Mapping[str, str],
    tree: sysfs.Tree,
    links: set[str],
) -> BlockDevice:
    plain = "/dev/" + name.replace("!", "/")
    mapper = sys.get("dm/name") or (row.get("NAME", "") if name.startswith("dm-") else "")
    path = f"/dev/mapper/{mapper}" if mapper else plain
    # A partition has its disk's WWN in udev; only the whole disk is that identity.
    whole = "partition" not in sys and not tree.parents.get(name)
    serial = row.get("SERIAL") or sys.get("serial") or sys.get("device/serial", "")
    rotational = sys.get("queue/rotational") or row.get("ROTA")
    scheduler = re.search(r"\[([^\]]+)\]", sys.get("queue/scheduler", ""))
    return BlockDevice(
        name=name,
        path=path,
        type=row.get("TYPE") or ("part" if "partition" in sys else "unknown"),
        size=size,
        majmin=sys.get("dev", "") or row.get("MAJ_MIN", ""),
        model=row.get("MODEL") or sys.get("device/model", ""),
        vendor=row.get("VENDOR") or sys.get("device/vendor", ""),
        firmware=sys.get("device/firmware_rev") or sys.get("device/rev", ""),
        serial=meaningful_serial(serial) if whole else "",
        wwn=_wwn(row.get("WWN") or sys.get("wwid") or sys.get("device/wwid", "")) if whole else "",
        transport=row.get("TRAN", ""),
        link_bandwidth=sysfs.link_bandwidth(sys),
        rotational={"0": False, "1": True}.get(rotational or ""),
        read_only=sys.get("ro", row.get("RO", "0")) != "0",
        removable=sys.get("removable", row.get("RM", "0")) == "1",
        logical_sector=_integer_attribute(name, "queue/logical_block_size", sys, 512),
        physical_sector=_integer_attribute(name, "queue/physical_block_size", sys, 512),
        scheduler=scheduler[1] if scheduler else row.get("SCHED", ""),
        queue={key[6:]: value for key, value in sys.items() if key in QUEUE_ATTRIBUTES},
        parents=tuple(sorted(tree.parents.get(name, ()))),
        holders=tuple(sorted(tree.holders.get(name, ()))),
        links=tuple(sorted((links | {plain}) - {path})),
    )


def _with_identifiers(
    device: BlockDevice, sys: Mapping[str, str], pages: Mapping[str, bytes]
) -> BlockDevice:
    """The device with all its identifiers. A partition has none, nor has what stands on other devices."""
    if "partition" in sys or device.parents:
        return device
    # An NVMe controller's serial number is that of all its namespaces, which are different disks.
    serial = "" if device.wwn and device.name.startswith("nvme") else device.serial
    values = identifiers.collect_identifiers(sys, pages, device.wwn, serial)
    return replace(device, identifiers=values)


def _wwn(identifier: str) -> str:
    """The WWN in one spelling, whether from udev ("0x5000…") or the kernel ("naa.5000…").

    "t10.…" is vendor, model and serial in one; udev makes no WWN of it, and neither do we.
    """
    if identifier.startswith("naa."):
        return "0x" + identifier.removeprefix("naa.")
    return "" if identifier.startswith("t10.") else identifier


def _integer_attribute(name: str, attribute: str, sys: Mapping[str, str], otherwise: int) -> int:
    value = sys.get(attribute, "")
    if value and not value.isdigit():
        raise bad_facts(f"files: {attribute} of {name} is {value[:80]!r}, not a number")
    return int(value) if value else otherwise


def _signatures_by_name(
    sections: Mapping[str, Section], names: Iterable[str]
) -> dict[str, tuple[Signature, ...]]:
    """Kernel name -> signatures; a device that could not be read is absent."""
    together = sections.get("signatures")
    if together is None:
        alone = {name: sections.get(f"wipefs {name}") for name in names}
        return {
            name: tuple(signature for _, signature in parse_wipefs(section))
            for name, section in alone.items()
            if section is not None and section.exit_code == 0
        }
    # it would not end there
    names = [name for name in names if f"wipefs {name}" not in sections]
    # wipefs prints the last part of the node's path: c0d0 for cciss!c0d0.
    by_node: dict[str, list[str]] = {}
    for name in names:
        by_node.setdefault(name.rpartition("!")[2], []).append(name)
    by_name: dict[str, list[Signature]] = {name: [] for name in names}
    for node, signature in parse_wipefs(together):
        # two of that name: both are held to have it
        for name in by_node.get(node, ()):
            by_name[name].append(signature)
        if node not in by_node:
            raise bad_facts(f"signatures: {node!r} is no device of /sys")
    return {name: tuple(listed) for name, listed in by_name.items()}


def _with_device_counts(
    name: str, listed: tuple[Signature, ...], sections: Mapping[str, Section]
) -> tuple[Signature, ...]:
    """The signatures of a device, a btrfs with its number of devices; without one, by a copy of its superblock."""
    if not any(signature.type == "btrfs" for signature in listed):
        return (*listed, *_btrfs_copies(name, sections))
    devices = magic.btrfs_devices(_parse_octets(sections.get(f"btrfs {name}", EMPTY)))
    return tuple(replace(s, devices=devices) if s.type == "btrfs" else s for s in listed)


def _btrfs_copies(name: str, sections: Mapping[str, Section]) -> Iterator[Signature]:
    for section, at in magic.BTRFS_COPIES.items():
        copy = magic.btrfs_copy(at, sections.get(f"{section} {name}", EMPTY).stdout)
        if copy is not None:
            yield copy
            return


def _has_unread_copies(name: str, sections: Mapping[str, Section]) -> bool:
    places = (f"{section} {name}" for section in magic.BTRFS_COPIES)
    return any(sections[place].exit_code for place in places if place in sections)


def _parse_octets(section: Section) -> bytes:
    """Bytes that `od -tx1` printed; none where it failed or printed something else."""
    digits = b"".join(section.stdout.split())
    if section.exit_code or len(digits) % 2 or not re.fullmatch(rb"[0-9a-f]*", digits):
        return b""
    return bytes.fromhex(digits.decode("ascii"))


def parse_wipefs(section: Section) -> list[tuple[str, Signature]]:
    """Lines of `wipefs -p`: [device,]offset,uuid,label,type. 2.38 leaves a comma in a label alone."""
    rows = []
    for number, line in section.numbered_lines():
        if line.startswith(b"#"):
            # the heading of old versions
            continue
        match = re.fullmatch(
            rb"(?:([^,]+),)?0x([0-9a-f]+),([^,]*),(.*),([^,]+)", line.strip(), re.S
        )
        if match is None or bool(match[1]) != (section.name == "signatures"):
            raise section.error_at(number, line, "not offset,uuid,label,type")
        signature = Signature(
            decode_hex_escapes(match[5]),
            int(match[2], 16),
            decode_hex_escapes(match[4]),
            decode_hex_escapes(match[3]),
        )
        rows.append((decode_text(match[1] or b""), signature))
    return rows


# bytes of each device, as hostside/facts.sh asks for; 32 entries of a GPT with sectors of 4 KiB
HEAD = 12288
# bytes of each device's end: the copy of a GPT in sectors of 4 KiB takes 20 KiB
TAIL = 32768
HEADING = re.compile(rb"\n?==> (/dev/[^\n]{1,255}) <==\n")


def parse_device_ends(
    section: Section, devices: Iterable[BlockDevice], most: int = HEAD
) -> dict[str, bytes]:
    """Kernel name -> the first or last `most` bytes of the device, of each of which that was read whole."""
    nodes = {"/dev/" + d.name.replace("!", "/"): d for d in devices}
    printed = _decompress(section.stdout, len(nodes) * (most + 512))
    ends_by_name: dict[str, bytes] = {}
    heading = HEADING.match(printed)
    while heading is not None:
        device = nodes.get(decode_text(heading[1]))
        length = min(most, device.size) if device else 0
        data = printed[heading.end() :][:length]
        following = HEADING.match(printed, heading.end() + length)
        ends = heading.end() + length == len(printed)
        if device is not None and len(data) == length and (following or ends):
            ends_by_name[device.name] = data
        elif not ends:
            # it could not be read, or not all of it: its neighbour is next
            following = HEADING.search(printed, heading.end())
        heading = following
    return ends_by_name


def _decompress(printed: bytes, limit: int) -> bytes:
    """Return at most `limit` bytes, decompressed if the host packed them with gzip; b"" if the archive is damaged."""
    if not printed.startswith(b"\x1f\x8b"):
        return printed[:limit]
    try:
        return zlib.decompressobj(wbits=31).decompress(printed, limit)
    except zlib.error:
        return b""


def with_unlisted_traces(
    listed: Mapping[str, tuple[Signature, ...]],
    heads: Mapping[str, bytes],
    tails: Mapping[str, bytes],
    sizes: Mapping[str, int],
    unread: Collection[str],
) -> dict[str, tuple[Signature, ...]]:
    """Signatures by kernel name, with traces that `wipefs` did not list; without the devices that were not read."""
    return {
        name: _with_traces(signatures, heads.get(name, b""), tails.get(name, b""), sizes[name])
        for name, signatures in listed.items()
        if name not in unread
    }


def _with_traces(
    signatures: tuple[Signature, ...], head: bytes, tail: bytes, size: int
) -> tuple[Signature, ...]:
    types = {signature.type for signature in signatures}
    counted = tuple(
        replace(s, devices=magic.count_devices(s.type, head) or s.devices) for s in signatures
    )
    traces = magic.membership_traces(head, tail, size)
    return (*counted, *(trace for trace in traces if trace.type not in types))
