# SPDX-License-Identifier: Apache-2.0
"""ZFS: pools, their devices, and properties of datasets."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agents.context.lines import (
    Chapter,
    Command,
    Passage,
    Table,
    binary_size,
    device_name,
    parse_number,
    printed_text,
    share,
)
from agents.context.model import Fact, Value

Convert = Callable[[str], Value | None]
SIZE = r"\d+(?:[.,]\d+)?[BKMGTPE]?|-"


def _ratio(text: str) -> float | None:
    return parse_number(text.strip().rstrip("x"))


POOL_PROPERTIES: Mapping[str, tuple[str, Convert]] = {
    "size": ("pool.size", binary_size),
    "free": ("pool.free", binary_size),
    "capacity": ("pool.capacity", share),
    "fragmentation": ("pool.fragmentation", share),
    "health": ("pool.health", printed_text),
    "ashift": ("pool.ashift", parse_number),
    "dedupratio": ("pool.dedup_ratio", _ratio),
    "autotrim": ("pool.autotrim", printed_text),
}
DATASET_PROPERTIES: Mapping[str, tuple[str, Convert]] = {
    "recordsize": ("zfs.recordsize", binary_size),
    "volblocksize": ("zfs.volblocksize", binary_size),
    "volsize": ("zfs.volsize", binary_size),
    "compression": ("zfs.compression", str.strip),
    "compressratio": ("zfs.compressratio", _ratio),
    "sync": ("zfs.sync", str.strip),
    "logbias": ("zfs.logbias", str.strip),
    "primarycache": ("zfs.primarycache", str.strip),
    "secondarycache": ("zfs.secondarycache", str.strip),
    "atime": ("zfs.atime", str.strip),
    "dedup": ("zfs.dedup", str.strip),
    "encryption": ("zfs.encryption", str.strip),
    "direct": ("zfs.direct", str.strip),
    "special_small_blocks": ("zfs.special_small_blocks", binary_size),
}
# zfs list's and zpool list's headings of properties
HEADINGS = {
    "RECSIZE": "recordsize",
    "VOLBLOCK": "volblocksize",
    "VOLSIZE": "volsize",
    "COMPRESS": "compression",
    "RATIO": "compressratio",
    "SYNC": "sync",
    "LOGBIAS": "logbias",
    "PRIMARYCACHE": "primarycache",
    "ATIME": "atime",
    "DEDUP": "dedup",
    "ENCRYPTION": "encryption",
}
POOL_HEADINGS = {
    "SIZE": "size",
    "FREE": "free",
    "CAP": "capacity",
    "FRAG": "fragmentation",
    "HEALTH": "health",
    "DEDUP": "dedupratio",
    "ASHIFT": "ashift",
}
POOL_CHECKS = {
    "SIZE": SIZE,
    "ALLOC": SIZE,
    "FREE": SIZE,
    "CKPOINT": SIZE,
    "EXPANDSZ": SIZE,
    "FRAG": r"\d+%|-",
    "CAP": r"\d+%|-",
    "DEDUP": r"[\d.]+x|-",
    "HEALTH": r"[A-Z]+|-",
}


def read_table(passage: Passage) -> Iterator[Fact]:
    """A table of ZFS by its heading: properties, pools, datasets, or a pool's devices without `zpool status` above."""
    columns = passage.line.split()
    if {"PROPERTY", "VALUE"} <= set(columns):
        yield from _properties(passage)
    elif columns[1:3] == ["STATE", "READ"]:
        yield from _devices(passage, "")
    elif {"ALLOC", "FREE"} <= set(columns) or (
        passage.command.starts("zpool", "list") and POOL_HEADINGS.keys() & set(columns)
    ):
        yield from _pools(passage)
    elif {"AVAIL", "REFER"} & set(columns) or HEADINGS.keys() & set(columns):
        yield from _datasets(passage)
    else:
        passage.at += 1


def _properties(passage: Passage) -> Iterator[Fact]:
    """`zfs get` and `zpool get`. Without a column NAME the dataset is the command's operand."""
    table = Table.from_heading(passage.line, {"PROPERTY": r"[\w:@.-]+"})
    subject = _single_name(passage.command)
    passage.at += 1
    for number, line in passage.rows():
        cells = table.cells(line)
        if cells is None or "PROPERTY" in line.split():
            passage.put_back()
            return
        if name := cells.get("NAME", subject):
            yield from _property(name, cells["PROPERTY"], cells.get("VALUE", ""), number)


def _single_name(command: Command) -> str:
    """The one dataset or pool whose properties a command gets; "" where it names several or none."""
    is_get = command.starts("zfs", "get") or command.starts("zpool", "get")
    if not is_get or "-r" in command.words:
        return ""
    values = {command.option(option) for option in ("-o", "-Ho", "-t", "-s", "-d")}
    operands = [word for word in command.operands() if word not in values and word != "get"]
    return operands[1] if len(operands) == 2 else ""


def _property(subject: str, name: str, text: str, number: int) -> Iterator[Fact]:
    known = DATASET_PROPERTIES.get(name)
    if name in POOL_PROPERTIES and "/" not in subject:
        known = known or POOL_PROPERTIES[name]
    if known and text.strip() not in ("", "-") and (value := known[1](text)) is not None:
        yield Fact(subject, known[0], value, number, "zfs get")


def _pools(passage: Passage) -> Iterator[Fact]:
    """`zpool list`, and with -v the pools' own rows: those of devices are indented."""
    table = Table.from_heading(passage.line, POOL_CHECKS)
    passage.at += 1
    for number, line in passage.rows():
        if line.startswith("NAME"):
            passage.put_back()
            return
        cells = table.cells(line)
        if cells is None:
            return
        if line[0].isspace() or (cells.get("HEALTH", "-") == "-" and "HEALTH" in cells):
            continue
        for heading, name in POOL_HEADINGS.items():
            if (text := cells.get(heading, "-")) != "-":
                fact, convert = POOL_PROPERTIES[name]
                if (value := convert(text)) is not None:
                    yield Fact(cells["NAME"], fact, value, number, "zpool list")


# headings of `zpool list` by the names of -o
POOL_DEFAULT = "name,size,allocated,free,checkpoint,expandsize,fragmentation,capacity,dedupratio,health,altroot"
POOL_SHORT = {"cap": "capacity", "frag": "fragmentation", "dedup": "dedupratio"}


def _headless_pools(passage: Passage) -> Iterator[Fact]:
    """`zpool list -H`, or a pool's row that grep or tail left."""
    columns = (passage.command.option("-o", "-Ho") or POOL_DEFAULT).split(",")
    for number, line in passage.rows():
        words = line.split()
        if len(words) != len(columns) or columns[0] != "name":
            continue
        for column, text in zip(columns[1:], words[1:], strict=True):
            name = POOL_SHORT.get(column, column)
            fact, convert = POOL_PROPERTIES.get(name, ("", parse_number))
            if fact and text != "-" and (value := convert(text)) is not None:
                yield Fact(words[0], fact, value, number, "zpool list")


def _datasets(passage: Passage) -> Iterator[Fact]:
    """`zfs list`: the properties that are its columns, and where each dataset is mounted."""
    checks = {"USED": SIZE, "AVAIL": SIZE, "REFER": SIZE, "MOUNTPOINT": r"/.*|none|legacy|-"}
    table = Table.from_heading(passage.line, checks)
    passage.at += 1
    for number, line in passage.rows():
        cells = table.cells(line)
        if cells is None or line.startswith("NAME"):
            passage.put_back()
            return
        for heading, name in HEADINGS.items():
            yield from _property(cells["NAME"], name, cells.get(heading, ""), number)
        mountpoint = cells.get("MOUNTPOINT", "")
        if mountpoint.startswith("/"):
            yield Fact(mountpoint, "mount.type", "zfs", number, "zfs list")
            yield Fact(mountpoint, "mount.source", cells["NAME"], number, "zfs list")


def read_headless(passage: Passage) -> Iterator[Fact]:
    """`zfs get -H` or through grep, with its columns chosen by -o; part of `zpool status`; and what `zfs set`, `create`
    and `zpool create` or `add` do."""
    command = passage.command
    passage.at += 1
    yield from _typed(command)
    first = passage.line.split()
    if "get" in command.words[:2] and first and not {"PROPERTY", "VALUE"} & set(first):
        yield from _headless_properties(passage)
    elif command.starts("zpool", "list") and first and first[0] != "NAME":
        yield from _headless_pools(passage)
    elif command.starts("zpool", "status") and first[:1] not in ([], ["pool:"], ["NAME"]):
        yield from _status_part(passage)


def _headless_properties(passage: Passage) -> Iterator[Fact]:
    command = passage.command
    columns = (command.option("-o", "-Ho") or "name,property,value,source").split(",")
    subject, asked = _single_name(command), _asked_properties(command)
    for number, line in passage.rows():
        words = line.split("\t") if "\t" in line else line.split(None, len(columns) - 1)
        cells = dict(zip(columns, (word.strip() for word in words), strict=False))
        name = cells.get("property", asked[0] if len(asked) == 1 else "")
        if cells.get("name", subject) and "value" in cells:
            value = cells["value"].split(None, 1)[0] if cells["value"] else ""
            yield from _property(cells.get("name", subject), name, value, number)


def _asked_properties(command: Command) -> list[str]:
    operands = [
        word for word in command.operands() if word not in ("get", command.option("-o", "-Ho"))
    ]
    return operands[0].split(",") if operands else []


# stands for the name in facts and commands
UNNAMED_POOL = "POOL"


def _status_part(passage: Passage) -> Iterator[Fact]:
    """Lines of `zpool status` that grep or tail left of one pool: its state, its scan, its devices' states."""
    names = [word for word in passage.command.operands() if word != "status"]
    pool = names[0] if len(names) == 1 else UNNAMED_POOL
    scanning = False
    for number, line in passage.rows():
        if re.match(r"\s*(pool:|NAME\s)", line):
            passage.put_back()
            return
        # of a pool without a name only a scan under way tells something: it disturbs whatever is measured
        if (pool != UNNAMED_POOL or not line.strip().startswith("state:")) and len(names) < 2:
            scanning = yield from _status_line(pool, line, number, scanning)
        row = DEVICE_ROW.fullmatch(line)
        if row and row["errors"]:
            yield from _device_state(row, number)


def _typed(command: Command) -> Iterator[Fact]:
    words, number = list(command.words), command.line
    if words[1:2] == ["set"] and len(words) > 3:
        for pair in words[2:-1]:
            name, _, text = pair.partition("=")
            yield from _property(words[-1], name, text, number)
    if words[1:2] not in (["create"], ["add"]):
        return
    operands, pairs = _without_options(words[2:])
    if words[0] == "zfs" and operands:
        for name, text in pairs:
            yield from _property(operands[0], name, text, number)
    if words[0] == "zpool" and len(operands) > 1:
        for name, text in pairs:
            yield from _property(operands[0], name, text, number)
        yield from _layout_facts(operands[0], _typed_devices(operands[1:]), number)


def _without_options(words: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Operands, and pairs given by -o and -O."""
    operands, pairs = [], []
    rest = iter(words)
    for word in rest:
        if word in ("-o", "-O", "-b", "-V", "-m", "-R"):
            text = next(rest, "")
            name, equals, value = text.partition("=")
            if equals:
                pairs.append((name, value))
            elif word == "-b":
                pairs.append(("volblocksize", text))
        elif not word.startswith("-"):
            operands.append(word)
    return operands, pairs


@dataclass(frozen=True, slots=True)
class _Device:
    """A row of a pool's devices. `use`: "data", "logs", "cache", "special", "spares", "dedup"."""

    name: str
    parent: str
    use: str
    number: int
    is_group: bool


USES = {"logs", "log", "cache", "special", "spares", "spare", "dedup"}
GROUP = re.compile(r"(mirror|raidz\d?|draid[\w:]*|spare|replacing)(-\d+)?")


def _typed_devices(words: Sequence[str]) -> list[_Device]:
    devices: list[_Device] = []
    use, group, count = "data", "", 0
    for word in words:
        if word in USES:
            use, group = word, ""
        elif GROUP.fullmatch(word):
            group, count = f"{word}-{count}", count + 1
            devices.append(_Device(group, "", use, 0, True))
        else:
            devices.append(_Device(device_name(word), group, use, 0, False))
    return devices


def _layout_facts(pool: str, devices: Sequence[_Device], number: int) -> Iterator[Fact]:
    """Kinds of the data vdevs, and log and cache devices."""
    data = [d for d in devices if d.use == "data" and not d.parent]
    kinds = [(found[1] if (found := GROUP.fullmatch(d.name)) else "disk") for d in data]
    # raidz is raidz1, and zpool prints it so
    kinds = ["raidz1" if kind == "raidz" else kind for kind in kinds]
    if kinds:
        yield Fact(pool, "pool.vdevs", " ".join(kinds), data[0].number or number, "zpool")
    for fact, uses in (("log", ("logs", "log")), ("cache", ("cache",)), ("special", ("special",))):
        names = [d for d in devices if d.use in uses and not d.is_group]
        if names:
            line = names[0].number or number
            yield Fact(pool, f"pool.{fact}", " ".join(d.name for d in names), line, "zpool")
    for device in devices:
        yield Fact(
            device.name, "vdev.parent", device.parent or pool, device.number or number, "zpool"
        )


def read_status(passage: Passage) -> Iterator[Fact]:
    """One pool of `zpool status`."""
    pool = passage.line.partition("pool:")[2].strip()
    passage.at += 1
    if not re.fullmatch(r"[A-Za-z][\w.:-]*", pool):
        return
    scanning = False
    for number, line in passage.rows(blank_ends=False):
        key = line.strip().partition(":")[0]
        if key == "pool":
            passage.put_back()
            return
        if key == "errors":
            return
        scanning = yield from _status_line(pool, line, number, scanning)
        if line.split()[:3] == ["NAME", "STATE", "READ"]:
            passage.put_back()
            yield from _devices(passage, pool)
            return


def _status_line(pool: str, line: str, number: int, scanning: bool) -> Generator[Fact, None, bool]:
    """Facts of a line above the devices. Returns True below a scan that is under way."""
    key, _, text = line.strip().partition(":")
    if key == "state" and text.strip() in STATES:
        yield Fact(pool, "pool.health", text.strip(), number, "zpool status")
    elif key in ("scan", "scrub"):
        under_way = re.match(r"\s*(scrub|resilver) in progress", text)
        if under_way:
            yield Fact(pool, "pool.scan", under_way[1], number, "zpool status")
        return under_way is not None
    elif scanning and key != "config":
        yield from _scan(pool, line, number)
    return scanning


def _scan(pool: str, line: str, number: int) -> Iterator[Fact]:
    speeds = re.findall(r"at (\d+(?:\.\d+)?[KMGT]?)B?/s", line)
    if speeds and (speed := binary_size(speeds[-1])) is not None:
        yield Fact(pool, "pool.scan_speed", speed, number, "zpool status")
    if done := re.search(r"(\d+(?:\.\d+)?)% done", line):
        yield Fact(pool, "pool.scan_share", float(done[1]) / 100, number, "zpool status")


STATES = ("ONLINE", "DEGRADED", "FAULTED", "OFFLINE", "UNAVAIL", "REMOVED", "SUSPENDED")
DEVICE_ROW = re.compile(
    r"(?P<indent>[\s]*)(?P<name>\S+)(?:\s+(?P<state>ONLINE|DEGRADED|FAULTED|OFFLINE|UNAVAIL|REMOVED|AVAIL|INUSE)\b"
    r"(?:\s+(?P<errors>[\d.]+[KM]?\s+[\d.]+[KM]?\s+[\d.]+[KM]?))?(?P<note>.*))?"
)


def _devices(passage: Passage, pool: str) -> Iterator[Fact]:
    """The table of `zpool status`; without a pool above, its first row names one."""
    passage.at += 1
    rows: list[tuple[int, str, int]] = []
    for number, line in passage.rows():
        row = DEVICE_ROW.fullmatch(line)
        if row is None or row["name"] in ("errors:", "pool:", "NAME"):
            passage.put_back()
            break
        rows.append((len(row["indent"].expandtabs(8)), row["name"], number))
        yield from _device_state(row, number)
    if rows:
        yield from _layout_facts(pool or rows[0][1], _device_tree(rows), rows[0][2])


def _device_state(row: re.Match[str], number: int) -> Iterator[Fact]:
    if not row["state"]:
        return
    yield Fact(row["name"], "vdev.state", row["state"], number, "zpool status")
    if row["errors"]:
        counts = [binary_size(count) or 0.0 for count in row["errors"].split()]
        yield Fact(row["name"], "vdev.errors", sum(counts), number, "zpool status")
    if sizes := re.search(r"block size: (\d+)B configured, (\d+)B native", row["note"]):
        yield Fact(row["name"], "vdev.block_configured", float(sizes[1]), number, "zpool status")
        yield Fact(row["name"], "vdev.block_native", float(sizes[2]), number, "zpool status")


def _device_tree(rows: Sequence[tuple[int, str, int]]) -> list[_Device]:
    """Devices below their vdevs: by indentation, or by names where a forum took it away."""
    indented = len({indent for indent, _, _ in rows}) > 1
    devices: list[_Device] = []
    use, group = "data", ""
    # depth of a vdev below its pool or heading
    vdev_indent = min((indent for indent, _, _ in rows[1:] if indent > rows[0][0]), default=0)
    for indent, name, number in rows:
        if (indent == rows[0][0] and indented) or name in USES:
            use, group = (name if name in USES else "data"), ""
        elif (indented and indent == vdev_indent) or (not indented and GROUP.fullmatch(name)):
            is_group = GROUP.fullmatch(name) is not None
            group = name if is_group else ""
            devices.append(_Device(name, "", use, number, is_group))
        elif indented or name != rows[0][1]:
            is_group = GROUP.fullmatch(name) is not None
            devices.append(_Device(name, group, use, number, is_group))
    return devices


def read_pool_watch(passage: Passage) -> Iterator[Fact]:
    """`zpool iostat -v`: the tree of its devices, and how full the pool is. Without -v only the latter."""
    if passage.line.split()[:3] not in (["pool", "alloc", "free"], ["pool", "used", "avail"]):
        passage.at += 1
        return
    passage.at += 1
    rows: list[tuple[int, str, int]] = []
    for number, line in passage.rows():
        words = line.split()
        if set(words[0]) <= {"-"}:
            if rows:
                break
            continue
        if len(words) < 7:
            passage.put_back()
            break
        rows.append((len(line) - len(line.lstrip()), words[0], number))
        if len(rows) == 1:
            used, free = binary_size(words[1]), binary_size(words[2])
            if used is not None and free is not None and used + free:
                yield Fact(
                    words[0],
                    "pool.capacity",
                    round(used / (used + free), 2),
                    number,
                    "zpool iostat",
                )
                yield Fact(words[0], "pool.free", free, number, "zpool iostat")
    if len(rows) > 1 and rows[1][0] > rows[0][0]:
        yield from _layout_facts(rows[0][1], _device_tree(rows), rows[0][2])


CHAPTER = Chapter(
    headings={
        "NAME": read_table,
        "pool:": read_status,
        "pool": read_pool_watch,
        "PROPERTY": read_table,
    },
    commands={"zfs": read_headless, "zpool": read_headless},
)
