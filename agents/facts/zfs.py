# SPDX-License-Identifier: Apache-2.0
"""Pools and datasets of a host: `zpool status -P`, `zpool get`, `zfs get`. Pure parsers, each of one section."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from agents.facts.model import BlockDevice, Dataset, Vdev, Zpool
from agents.facts.sections import Section, decode_text

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


def with_properties(pools: Iterable[Zpool], section: Section | None) -> tuple[Zpool, ...]:
    """The pools with what `zpool get -Hp all` says of them; a pool that it does not name has none."""
    properties = _parse_properties(section)
    return tuple(
        replace(p, properties={k: v for k, (v, _) in properties.get(p.name, {}).items()})
        for p in pools
    )


def parse_datasets(section: Section | None) -> tuple[Dataset, ...]:
    """Datasets by `zfs get -Hp all`: values, and which of them were set on the dataset itself."""
    return tuple(
        Dataset(
            name,
            {key: value for key, (value, _) in properties.items()},
            tuple(key for key, (_, source) in properties.items() if source == "local"),
        )
        for name, properties in _parse_properties(section).items()
    )


def settable_properties(section: Section | None) -> dict[str, dict[str, str]]:
    """Name of pool or dataset -> properties that have a source, by `get -Hp all`: the others are statistics."""
    return {
        name: {key: value for key, (value, source) in properties.items() if source != "-"}
        for name, properties in _parse_properties(section).items()
    }


def _parse_properties(section: Section | None) -> dict[str, dict[str, tuple[str, str]]]:
    """Lines name, property, value, source between tabs; features and users' own properties are left out."""
    by_name: dict[str, dict[str, tuple[str, str]]] = {}
    if section is None or section.exit_code:
        return by_name
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
