# SPDX-License-Identifier: Apache-2.0
"""Block devices as lsblk and /sys print them."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from agents.context.lines import (
    Chapter,
    Passage,
    Table,
    binary_size,
    device_name,
    flag,
    known_text,
    parse_number,
    printed_text,
    share,
)
from agents.context.model import Fact, Value

Convert = Callable[[str], Value | None]


def _bytes_of_kib(text: str) -> float | None:
    number = parse_number(text)
    return None if number is None else number * 1024


def _scheduler(text: str) -> str | None:
    active = re.search(r"\[([\w-]+)\]", text)
    return active[1] if active else _word(text)


def _word(text: str) -> str | None:
    return text.strip() if re.fullmatch(r"[\w-]+", text.strip()) else None


def _zoned(text: str) -> str | None:
    return {"host-managed": "host-managed", "host-aware": "drive-managed"}.get(text.strip())


def _transport(text: str) -> str | None:
    return text.strip().lower() or None


# lsblk's columns -> fact and conversion; columns without a fact help to tell lsblk's tables
LSBLK: Mapping[str, tuple[str, Convert]] = {
    "SIZE": ("disk.size", binary_size),
    "ROTA": ("disk.rotational", flag),
    "TRAN": ("disk.transport", _transport),
    "MODEL": ("disk.model", printed_text),
    "VENDOR": ("disk.vendor", printed_text),
    "SERIAL": ("disk.serial", printed_text),
    "REV": ("disk.firmware", printed_text),
    "TYPE": ("disk.type", printed_text),
    "MOUNTPOINT": ("disk.mountpoint", printed_text),
    "MOUNTPOINTS": ("disk.mountpoint", lambda text: printed_text(text.partition("\\x0a")[0])),
    "PHY-SEC": ("disk.physical_block", parse_number),
    "LOG-SEC": ("disk.logical_block", parse_number),
    "SCHED": ("disk.scheduler", _word),
    "RQ-SIZE": ("disk.nr_requests", parse_number),
    "RA": ("disk.readahead", _bytes_of_kib),
    "DISC-MAX": ("disk.discard_max", binary_size),
    "START": ("disk.start", parse_number),
    "PKNAME": ("disk.parent", printed_text),
    "ZONED": ("disk.smr", _zoned),
    "MAJ:MIN": ("disk.number", printed_text),
}
OTHER_COLUMNS = re.compile(
    r"NAME|KNAME|PATH|RM|RO|FSTYPE|FSVER|LABEL|UUID|FSAVAIL|FSUSE%|FSSIZE|FSUSED|FSROOTS|PTUUID|PTTYPE|PART[A-Z]+"
    r"|STATE|OWNER|GROUP|MODE|ALIGNMENT|MIN-IO|OPT-IO|DISC-[A-Z]+|WSAME|WWN|RAND|HCTL|SUBSYSTEMS|HOTPLUG|DAX|ZONE-SZ|MQ"
    r"|ID|ID-LINK|DISK-SEQ"
)
NUMBER = r"\d+"
SIZE = r"\d+(?:[.,]\d+)?[BKMGTPE]?"
LSBLK_CHECKS = {
    "SIZE": SIZE,
    "ROTA": "[01]",
    "RO": "[01]",
    "RM": "[01]",
    "RAND": "[01]",
    "TRAN": "[a-z]{2,8}",
    "TYPE": r"[a-z]+\d*",
    "MAJ:MIN": r"\d+:\d+",
    "PHY-SEC": NUMBER,
    "LOG-SEC": NUMBER,
    "MIN-IO": NUMBER,
    "OPT-IO": NUMBER,
    "ALIGNMENT": r"-?\d+",
    "RQ-SIZE": NUMBER,
    "RA": NUMBER,
    "SCHED": r"[a-z-]+",
    "DISC-GRAN": SIZE,
    "DISC-MAX": SIZE,
    "DISC-ZERO": "[01]",
    "START": NUMBER,
    "MOUNTPOINT": r"(?:/|\[SWAP\]).*",
}
TREE = re.compile(r"^[\s│|├└`─-]*(?=\S)")


def is_lsblk(heading: str) -> bool:
    """True if every word of the heading is a column of lsblk."""
    words = heading.split()
    known = all(word in LSBLK or OTHER_COLUMNS.fullmatch(word) for word in words)
    return len(words) > 1 and known and bool(LSBLK.keys() & set(words))


def read_lsblk(passage: Passage) -> Iterator[Fact]:
    """A table of lsblk, flat or as a tree; a device's parent is the one that its branch hangs on."""
    if not is_lsblk(passage.line):
        passage.at += 1
        return
    table = Table.from_heading(passage.line, LSBLK_CHECKS)
    passage.at += 1
    # (indentation, name) of the devices above
    above: list[tuple[int, str]] = []
    for number, line in passage.rows():
        branch = TREE.match(line)
        depth = len(branch[0]) if branch else 0
        cells = table.cells(" " * depth + line[depth:])
        if cells is None or (line.split()[0].startswith(("/", "[SWAP]")) and "PATH" not in cells):
            continue
        if line.split()[0] in ("NAME", "KNAME"):
            passage.put_back()
            return
        name = device_name(cells.get("KNAME") or cells.get("NAME") or cells.get("PATH") or "")
        if not re.fullmatch(r"[\w.:+!@-]+", name):
            return
        above = [parent for parent in above if parent[0] < depth]
        if above:
            yield Fact(name, "disk.parent", above[-1][1], number, "lsblk")
        above.append((depth, name))
        yield from _lsblk_facts(name, cells, number)


def read_lsblk_output(passage: Passage) -> Iterator[Fact]:
    """Output of `lsblk -n -o ...`, or of `lsblk -o ... | grep sda`: the command names the columns."""
    command = passage.command
    passage.at += 1
    columns = command.option("-o", "-no", "-dno", "-ndo", "-do", "--output").upper().split(",")
    known = all(column in LSBLK or OTHER_COLUMNS.fullmatch(column) for column in columns)
    if not known or not {"NAME", "KNAME"} & {columns[0]} or is_lsblk(passage.line):
        return
    for number, line in passage.rows():
        if cells := _headless_cells(columns, TREE.sub("", line).split()):
            yield from _lsblk_facts(device_name(cells[columns[0]]), cells, number)


def _headless_cells(columns: Sequence[str], words: list[str]) -> dict[str, str] | None:
    """Cells of a row without a heading; a model may be of several words. None where a cell cannot hold its word."""
    more = len(words) - len(columns)
    if more < 0 or (more and "MODEL" not in columns):
        return None
    if more:
        at = columns.index("MODEL")
        words = [*words[:at], " ".join(words[at : at + more + 1]), *words[at + more + 1 :]]
    cells = dict(zip(columns, words, strict=True))
    checks = LSBLK_CHECKS.items()
    agrees = all(re.fullmatch(check, cells[name]) for name, check in checks if name in cells)
    return cells if agrees and len(words) > 1 else None


def _lsblk_facts(name: str, cells: Mapping[str, str], number: int) -> Iterator[Fact]:
    for column, (fact, convert) in LSBLK.items():
        if cells.get(column, "").strip() and (value := convert(cells[column])) is not None:
            yield Fact(name, fact, value, number, "lsblk")
    if "Amazon Elastic Block Store" in cells.get("MODEL", ""):
        kind = re.search(r"\((gp2|gp3|io1|io2|st1|sc1)\)", cells["MODEL"])
        yield Fact(name, "cloud.kind", kind[1] if kind else "EBS", number, "lsblk")
    mountpoint = cells.get("MOUNTPOINT") or cells.get("MOUNTPOINTS", "").partition("\\x0a")[0]
    if mountpoint.startswith("/") and " " not in mountpoint and cells.get("FSTYPE"):
        yield Fact(mountpoint, "mount.type", cells["FSTYPE"], number, "lsblk")
        yield Fact(mountpoint, "mount.source", name, number, "lsblk")
    if mountpoint.startswith("/") and (used := share(cells.get("FSUSE%", ""))) is not None:
        yield Fact(mountpoint, "fs.used_share", used, number, "lsblk")


def read_lsblk_pairs(passage: Passage) -> Iterator[Fact]:
    """One line of `lsblk -P`."""
    line, number = passage.line, passage.number
    passage.at += 1
    pairs = dict(re.findall(r'([A-Z][\w:%-]*)="([^"]*)"', line))
    if name := device_name(pairs.get("KNAME") or pairs.get("NAME") or ""):
        yield from _lsblk_facts(name, pairs, number)


def read_lsblk_json(passage: Passage) -> Iterator[Fact]:
    """`lsblk -J`: each device stands on the line of its name."""
    first = passage.at
    if passage.line.strip() == "{":
        passage.at += 1
    if '"blockdevices"' not in passage.line:
        passage.at = first + 1
        return
    for _ in passage.rows(blank_ends=False):
        pass
    text = "\n".join(passage.lines[first : passage.at])
    start = text.find("{")
    text = text[start:] if start >= 0 else "{" + text
    try:
        document, _ = json.JSONDecoder().raw_decode(text)
        devices = document["blockdevices"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return
    numbers = _lines_of_names(passage.lines, first, passage.at)
    yield from _json_devices(devices, "", numbers)


def _lines_of_names(lines: Iterable[str], first: int, last: int) -> Iterator[tuple[str, int]]:
    for at, line in enumerate(itertools.islice(lines, first, last), first + 1):
        for name in re.findall(r'"k?name"\s*:\s*"([^"]*)"', line):
            yield name, at


def _json_devices(
    devices: object, parent: str, numbers: Iterator[tuple[str, int]]
) -> Iterator[Fact]:
    for device in devices if isinstance(devices, list) else []:
        if not isinstance(device, dict) or not isinstance(device.get("name"), str):
            continue
        number = next((line for name, line in numbers if name == device["name"]), 0)
        if not number:
            return
        name = device_name(device["name"])
        cells = {
            key.upper(): ("1" if value else "0") if isinstance(value, bool) else str(value)
            for key, value in device.items()
            if isinstance(value, str | int | float)
        }
        if parent:
            yield Fact(name, "disk.parent", parent, number, "lsblk")
        yield from _lsblk_facts(name, cells, number)
        yield from _json_devices(device.get("children"), name, numbers)


# Files below /sys/block/DEVICE, and what their one line means.
SYSFS: Mapping[str, tuple[str, Convert]] = {
    "queue/rotational": ("disk.rotational", flag),
    "queue/write_cache": ("disk.write_cache", known_text("write back", "write through")),
    "queue/fua": ("disk.fua", flag),
    "queue/scheduler": ("disk.scheduler", _scheduler),
    "queue/read_ahead_kb": ("disk.readahead", _bytes_of_kib),
    "queue/nr_requests": ("disk.nr_requests", parse_number),
    "queue/max_sectors_kb": ("disk.max_request", _bytes_of_kib),
    "queue/discard_max_bytes": ("disk.discard_max", parse_number),
    "queue/logical_block_size": ("disk.logical_block", parse_number),
    "queue/hw_sector_size": ("disk.logical_block", parse_number),
    "queue/physical_block_size": ("disk.physical_block", parse_number),
    "queue/zoned": ("disk.smr", _zoned),
    "device/model": ("disk.model", printed_text),
    "device/vendor": ("disk.vendor", printed_text),
    "device/serial": ("disk.serial", printed_text),
    "device/rev": ("disk.firmware", printed_text),
    "device/firmware_rev": ("disk.firmware", printed_text),
    "device/queue_depth": ("disk.queue_depth", parse_number),
    "start": ("disk.start", parse_number),
    "md/stripe_cache_size": ("md.stripe_cache_size", parse_number),
    "md/sync_action": ("md.sync_action", known_text("resync", "recovery", "check", "reshape")),
    "md/level": ("md.level", printed_text),
    "md/chunk_size": ("md.chunk", parse_number),
    "bcache/cache_mode": ("cache.mode", _scheduler),
    "bcache/sequential_cutoff": ("cache.sequential_cutoff", lambda text: binary_size(text)),
    "bcache/dirty_data": ("cache.dirty", lambda text: binary_size(text)),
    "bcache/stats_total/cache_hits": ("cache.read_hits", parse_number),
    "bcache/stats_total/cache_misses": ("cache.read_misses", parse_number),
    "bcache/stats_total/cache_hit_ratio": ("cache.hit_share", share),
}
SYSFS_PATH = re.compile(
    r"/sys/(?:class/block|block|devices/\S*/block|devices/virtual/block)/(?P<device>[^/\s:]+)/(?P<file>[\w/.]+)"
)


def _above_zero(text: str) -> float | None:
    """The number; None for 0, by which ZFS means its own choice."""
    return parse_number(text) or None


ZFS_PARAMETERS: Mapping[str, tuple[str, Convert]] = {
    "zfs_arc_max": ("host.arc_max", _above_zero),
    "zfs_txg_timeout": ("host.txg_timeout", parse_number),
    "zfs_dirty_data_max": ("host.zfs_dirty_max", _above_zero),
}
PROC_FILES: Mapping[str, tuple[str, Convert]] = {
    **{f"/sys/module/zfs/parameters/{name}": pair for name, pair in ZFS_PARAMETERS.items()},
    "/proc/sys/vm/dirty_ratio": ("host.dirty_share", share),
    "/proc/sys/vm/dirty_background_ratio": ("host.dirty_background_share", share),
}


def _setting(path: str, text: str, number: int) -> Fact | None:
    """The fact that a file of /sys tells by its line; None if it is no such file, or its line cannot be right."""
    match = SYSFS_PATH.fullmatch(path)
    subject, known = "", PROC_FILES.get(path)
    if match is not None:
        subject, known = match["device"], SYSFS.get(match["file"].removeprefix("../"))
    if "governor" in path and path.startswith("/sys/devices/system/cpu/"):
        known = "host.governor", printed_text
    value = known[1](text) if known else None
    return Fact(subject, known[0], value, number, path) if known and value is not None else None


def expand_braces(path: str) -> list[str]:
    """Paths that a shell makes of one with braces: "a{b,c}" is "ab", "ac"."""
    match = re.search(r"\{([^{}]*)\}", path)
    if match is None or len(path) > 300:
        return [path]
    return [
        expanded
        for part in match[1].split(",")[:20]
        for expanded in expand_braces(path[: match.start()] + part + path[match.end() :])
    ]


def read_printed_files(passage: Passage) -> Iterator[Fact]:
    """`cat` of files of /sys, one line each in the order of the command; one that is missing has an error."""
    paths = [path for word in passage.command.operands() for path in expand_braces(word)]
    passage.at += 1
    if not paths or any(
        not path.startswith(("/sys/", "/proc/sys/")) or "*" in path for path in paths
    ):
        return
    printed: list[tuple[int, str]] = []
    for number, line in passage.rows():
        if missing := re.match(r"cat: '?([^:']+)'?:", line):
            paths = [path for path in paths if path != missing[1]]
        else:
            printed.append((number, line))
    if len(printed) >= len(paths):
        facts = [_setting(path, line, at) for path, (at, line) in zip(paths, printed, strict=False)]
        yield from (fact for fact in facts if fact is not None)


def read_named_file(passage: Passage) -> Iterator[Fact]:
    """`grep . /sys/...` and `head`: the path stands before the value, or above it in "==> <=="."""
    line, number = passage.line.strip(), passage.number
    passage.at += 1
    if titled := re.fullmatch(r"==> (\S+) <==", line):
        path, text, number = titled[1], passage.line, number + 1
        passage.at += 1
    else:
        path, _, text = line.partition(":")
    if fact := _setting(path, text, number):
        yield fact


def read_written_file(passage: Passage) -> Iterator[Fact]:
    """`echo 4096 > /sys/...`: the value from then on."""
    command = passage.command
    passage.at += 1
    written = re.search(
        r"^echo\s+(?:-n\s+)?[\"']?([\w.+-]+)[\"']?\s*(?:>|\|\s*(?:sudo\s+)?tee)\s*(/\S+)",
        command.text,
    )
    if written and (fact := _setting(written[2], written[1], command.line)):
        yield fact


def read_disk_command(passage: Passage) -> Iterator[Fact]:
    """Facts that `blockdev --setra` and `hdparm -W` set from that line on, and what `blockdev --getra` prints."""
    command = passage.command
    passage.at += 1
    ahead, cache = command.option("--setra"), re.search(r"\s-W ?([01])\b", command.text)
    if not command.device:
        return
    if command.program == "blockdev" and ahead.isdigit():
        sectors, number = ahead, command.line
    elif "--getra" in command.words and passage.line.strip().isdigit():
        sectors, number = passage.line.strip(), passage.number
    elif command.program == "hdparm" and cache:
        state = "write back" if cache[1] == "1" else "write through"
        yield Fact(command.device, "disk.write_cache", state, command.line, "hdparm")
        return
    else:
        return
    yield Fact(command.device, "disk.readahead", float(sectors) * 512, number, "blockdev")


CHAPTER = Chapter(
    headings={
        "NAME": read_lsblk,
        "KNAME": read_lsblk,
        "PATH": read_lsblk,
        '"blockdevices":': read_lsblk_json,
        "{": read_lsblk_json,
        "==>": read_named_file,
    },
    shapes=(
        (r'K?NAME="\S*', read_lsblk_pairs),
        (r"/sys/(?:class/|devices/\S*)?block/\S+:\S*", read_named_file),
        (r"/sys/module/zfs/parameters/\w+:\S*", read_named_file),
    ),
    commands={
        "lsblk": read_lsblk_output,
        "cat": read_printed_files,
        "head": read_printed_files,
        "tail": read_printed_files,
        "echo": read_written_file,
        "blockdev": read_disk_command,
        "hdparm": read_disk_command,
    },
)
