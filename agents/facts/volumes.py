# SPDX-License-Identifier: Apache-2.0
"""md arrays (/proc/mdstat, on every kernel since 2.6), bcache devices, pools and datasets of ZFS. Pure parsers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from agents.facts.model import Bcache, BlockDevice, Dataset, MdArray, MdMember, Vdev, Zpool
from agents.facts.sections import Section, decode_text

STATES = ("active", "inactive", "broken")
COPIES = {"near": "n", "far": "f", "offset": "o"}


def parse_mdstat(section: Section) -> tuple[MdArray, ...]:
    """Every array; a line that is none of mdstat's raises AgentError BAD_FACTS naming it."""
    arrays: list[MdArray] = []
    for number, line in section.numbered_lines():
        words = decode_text(line).split()
        if line[:1].isspace():
            if not arrays:
                raise section.error_at(number, line, "belongs to no array")
            arrays[-1] = _add_detail(arrays[-1], decode_text(line))
        elif len(words) > 2 and words[1] == ":" and words[2] in STATES:
            arrays.append(_parse_array(words))
        elif not words or words[0] not in ("Personalities", "unused", "read_ahead"):
            raise section.error_at(number, line, "not a line of /proc/mdstat")
    return tuple(arrays)


def _parse_array(words: list[str]) -> MdArray:
    """md127 : active (auto-read-only) raid5 ubde[4](S) ubdd[3] ubdc[1]"""
    matched = [re.fullmatch(r"(.+?)\[(\d+)\]((?:\([A-Z]\))*)", word) for word in words[3:]]
    members = tuple(
        MdMember(m[1], int(m[2]), "".join(re.findall(r"[A-Z]", m[3]))) for m in matched if m
    )
    level = next((w for w in words[3:] if re.fullmatch(r"raid\d+|linear|multipath|faulty", w)), "")
    return MdArray(words[0], words[2], level, members)


def _add_detail(array: MdArray, line: str) -> MdArray:
    """One of the indented lines: geometry, progress or bitmap."""
    if (chunk := re.search(r"(\d+)[kK] chunks?\b", line)) and "bitmap:" not in line:
        array = replace(array, chunk=int(chunk[1]) << 10)
    if copies := re.search(r"(\d+) (near|far|offset)-copies", line):
        array = replace(array, layout=COPIES[copies[2]] + copies[1])
    if slots := re.search(r"\[(\d+)/(\d+)\] \[[U_]+\]", line):
        array = replace(array, slots=int(slots[1]), up=int(slots[2]))
    if "bitmap:" in line:
        array = replace(array, bitmap=True)
    action = re.search(r"\b(resync|recovery|reshape|check|repair)\s*=\s*(\S+)", line)
    if action is None:
        return array
    percent, finish = re.fullmatch(r"([\d.]+)%", action[2]), re.search(r"finish=([\d.]+)min", line)
    return replace(
        array,
        action=action[1],
        done=min(round(float(percent[1]) / 100, 4), 1.0) if percent else 0.0,
        finish_s=float(finish[1]) * 60 if finish else None,
    )


def with_settings(
    arrays: Iterable[MdArray], attributes: Mapping[str, Mapping[str, str]]
) -> tuple[MdArray, ...]:
    """The arrays with what the kernel has in /sys/class/block/X/md. `attributes`: as of agents.facts.sysfs."""
    return tuple(
        replace(array, settings=_values_below("md/", attributes.get(array.name, {})))
        for array in arrays
    )


def _values_below(folder: str, values: Mapping[str, str]) -> dict[str, str]:
    """The attributes in a folder of /sys/class/block/X, by their names in it."""
    return {
        path.removeprefix(folder): value
        for path, value in values.items()
        if path.startswith(folder)
    }


def array_members(
    arrays: Iterable[MdArray], devices: Mapping[str, BlockDevice], names: Mapping[str, str]
) -> dict[str, str]:
    """Member's kernel name -> "md NAME": the array's name in /dev/md, else what all its superblocks say.

    udev makes no link for an array that could not start, and takes that of a broken one away; its kernel name proves
    nothing. A member that is no device any more says nothing: it was unplugged.
    """
    owned: dict[str, str] = {}
    for array in arrays:
        links = [path for path, name in names.items() if name == array.name and "/dev/md/" in path]
        present = [devices[m.device] for m in array.members if m.device in devices]
        labels = {_array_label(device) for device in present}
        label = labels.pop() if len(labels) == 1 else ""
        owner = links[0].removeprefix("/dev/md/") if links else label or array.name
        owned |= {member.device: f"md {owner}" for member in array.members}
    return owned


def _array_label(device: BlockDevice) -> str:
    """bl17 of a superblock's "host:bl17"."""
    labels = (s.label for s in device.signatures if s.type == "linux_raid_member")
    return next(labels, "").rpartition(":")[2]


UUID_BYTES, LABEL_BYTES = 16, 32


def parse_bcache_devices(
    attributes: Mapping[str, Mapping[str, str]],
    registered: set[str],
    sections: Mapping[str, Section],
) -> dict[str, Bcache]:
    """Kernel name -> what it is, of every device that the kernel has registered or that has a superblock.

    Raises AgentError BAD_FACTS naming a section that cannot be read.
    """
    superblocks = {
        name.removeprefix("bcache "): _superblock(section)
        for name, section in sections.items()
        if name.startswith("bcache ") and section.exit_code == 0
    }
    devices = {}
    for name in sorted(registered | superblocks.keys()):
        uuid, label = superblocks.get(name, ("", ""))
        values = _values_below("bcache/", attributes.get(name, {}))
        label = values.pop("label", "") or label
        devices[name] = Bcache(uuid, label, name in registered, values)
    return devices


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


HEADINGS = {
    "logs": "log",
    "cache": "cache",
    "spares": "spare",
    "special": "special",
    "dedup": "dedup",
}
GROUP = re.compile(r"(mirror|raidz\d?|draid[\w:]*|spare|replacing|indirect|hole|root)(-\d+)?")
# A device in one of these states is not open: its path may be another disk's by now, or nobody's.
NOT_OPEN = {"UNAVAIL", "REMOVED", "FAULTED", "OFFLINE"}


def parse_status(section: Section) -> list[Zpool]:
    """Every pool with its devices, without properties."""
    pools: list[Zpool] = []
    use, group, inside = "", "", False
    for _, line in section.numbered_lines():
        line_text = decode_text(line)
        words = line_text.split()
        # a control character alone: a line, and no word
        if not words:
            continue
        if words[0] == "pool:":
            pools.append(Zpool(line_text.partition("pool: ")[2]))
            inside = False
        elif words[0] == "state:" and pools and not inside:
            pools[-1] = replace(pools[-1], state=words[1] if words[1:] else "")
        elif words[0] in ("config:", "errors:"):
            inside, use, group = words[0] == "config:", "data", ""
        elif inside and pools and words[0] != "NAME":
            # a tab, then two spaces for each level
            depth = (len(line_text) - len(line_text.lstrip())) // 2
            if depth == 0:
                use, group = HEADINGS.get(words[0], "data"), ""
            elif vdev := _parse_vdev(words, use, group if depth > 1 else ""):
                pools[-1] = replace(pools[-1], vdevs=(*pools[-1].vdevs, vdev))
            else:
                group = words[0]
    return pools


def _parse_vdev(words: Sequence[str], use: str, group: str) -> Vdev | None:
    """A line that is a device: a path (FreeBSD: a name), or the number of one that is missing and "was" a path."""
    if GROUP.fullmatch(words[0]):
        return None
    was = words[words.index("was") + 1] if "was" in words[:-1] else words[0]
    return Vdev(was, use, group, words[1] if words[1:] else "")


def pool_members(
    pools: Iterable[Zpool], names: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Kernel name -> "zpool POOL", and open devices whose paths nobody knows."""
    owners, lost = {}, []
    for pool in pools:
        for vdev in pool.vdevs:
            if (name := names.get(vdev.path)) is not None:
                owners[name] = f"zpool {pool.name}"
            elif vdev.path.startswith("/dev/") and vdev.state not in NOT_OPEN:
                lost.append(missing_device_message(pool.name, vdev.path))
    return owners, lost


def missing_device_message(pool: str, path: str) -> str:
    """Message for a device that is not here. OpenZFS may consider a pulled disk open until its next I/O."""
    return f"zpool {pool} has {path}, which is not a device of this host (if it was pulled: zpool reopen {pool})"


def with_properties(pools: Iterable[Zpool], section: Section) -> tuple[Zpool, ...]:
    """The pools with what `zpool get -Hp all` says of them; a pool that it does not name has none."""
    properties = _parse_properties(section)
    return tuple(
        replace(p, properties={k: v for k, (v, _) in properties.get(p.name, {}).items()})
        for p in pools
    )


def parse_datasets(section: Section) -> tuple[Dataset, ...]:
    """Datasets by `zfs get -Hp all`: values, and which of them were set on the dataset itself."""
    return tuple(
        Dataset(
            name,
            {key: value for key, (value, _) in properties.items()},
            tuple(key for key, (_, source) in properties.items() if source == "local"),
        )
        for name, properties in _parse_properties(section).items()
    )


def settable_properties(section: Section) -> dict[str, dict[str, str]]:
    """Name of pool or dataset -> properties that have a source, by `get -Hp all`: the others are statistics."""
    return {
        name: {key: value for key, (value, source) in properties.items() if source != "-"}
        for name, properties in _parse_properties(section).items()
    }


def _parse_properties(section: Section) -> dict[str, dict[str, tuple[str, str]]]:
    """Lines name, property, value, source between tabs; features and users' own properties are left out."""
    by_name: dict[str, dict[str, tuple[str, str]]] = {}
    for number, line in section.numbered_lines():
        parts = decode_text(line).split("\t")
        if len(parts) != 4:
            raise section.error_at(number, line, "not name, property, value and source")
        name, key, value, source = parts
        if not re.search("[@:]", key):
            by_name.setdefault(name, {})[key] = (value, source)
    return by_name


def place_zvols(
    devices: Iterable[BlockDevice], members: Mapping[str, str]
) -> tuple[list[BlockDevice], list[str]]:
    """The devices with every zvol standing on its pool's members, and zvols that stand on nothing known.

    lsblk calls a zvol a disk, and sysfs does not say what is below it: only udev's link names the pool.
    """
    placed, lost = [], []
    for device in devices:
        if re.fullmatch(r"zd\d+", device.name):
            owners = {
                "zpool " + path.split("/")[3]
                for path in device.links
                if path.startswith("/dev/zvol/")
            }
            below = tuple(sorted(name for name, owner in members.items() if owner in owners))
            if not below:
                lost.append(f"{device.path} is a zvol of a pool that the facts do not know")
            device = replace(device, type="zvol", parents=below)
        placed.append(device)
    return placed, lost
