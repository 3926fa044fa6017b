# SPDX-License-Identifier: Apache-2.0
"""Arrays of disks: md as /proc/mdstat and mdadm print it, and controllers with a cache of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from agents.context.lines import (
    Chapter,
    Passage,
    binary_size,
    device_name,
    parse_number,
    printed_text,
)
from agents.context.model import Fact, Value

KIB = 1024.0
MEMBER = re.compile(r"([\w!.-]+)\[(\d+)\]((?:\([A-Z]\))*)")
MDSTAT_HEAD = re.compile(
    r"\s*(?P<name>md[\w/.-]*) : (?P<state>active|inactive)(?: \([\w-]+\))?(?: (?P<level>raid\d+|linear|multipath))?"
    r"(?P<members>(?: [\w!.-]+\[\d+\](?:\([A-Z]\))*)*)\s*"
)
PROGRESS = re.compile(
    r"(?P<action>resync|recovery|check|reshape|repair)\s*=\s*(?P<share>\d+(?:[.,]\d+)?)%"
    r"(?:.*?finish=(?P<minutes>\d+(?:\.\d+)?)min)?(?:.*?speed=(?P<speed>\d+)K/sec)?"
)


def read_mdstat(passage: Passage) -> Iterator[Fact]:
    """One array of /proc/mdstat. An array whose entry ends without a bitmap has none."""
    head = MDSTAT_HEAD.fullmatch(passage.line)
    if head is None:
        passage.at += 1
        return
    name, first = head["name"], passage.number
    passage.at += 1
    yield from _mdstat_members(name, head, first)
    state, bitmap, size_line = "clean", "none", 0
    for number, line in passage.rows():
        if MDSTAT_HEAD.fullmatch(line) or line.startswith("unused devices"):
            passage.put_back()
            break
        if blocks := re.match(r"\s*(\d+) blocks\b", line):
            size_line = number
            yield Fact(name, "disk.size", float(blocks[1]) * KIB, number, "/proc/mdstat")
            if chunk := re.search(r"(\d+)[kK] chunks?\b", line):
                yield Fact(name, "md.chunk", float(chunk[1]) * KIB, number, "/proc/mdstat")
            if missing := re.search(r"\[([U_]+)\]", line):
                yield Fact(name, "md.degraded", "_" in missing[1], number, "/proc/mdstat")
                state = "degraded" if "_" in missing[1] else state
        elif found := re.match(r"\s*bitmap: .*?(?:(\d+)KB chunk)?(, file: \S+)?\s*$", line):
            bitmap = "external" if found[2] else "internal"
            yield Fact(name, "md.bitmap", bitmap, number, "/proc/mdstat")
            if found[1]:
                yield Fact(name, "md.bitmap_chunk", float(found[1]) * KIB, number, "/proc/mdstat")
        elif progress := PROGRESS.search(line):
            state = "resyncing"
            yield from _progress(name, progress, number)
        elif not line.startswith((" ", "\t")):
            passage.put_back()
            break
    if size_line and head["level"] and head["level"] != "raid0":
        yield Fact(name, "md.state", state, first, "/proc/mdstat")
        if bitmap == "none" and not passage.line.strip():
            yield Fact(name, "md.bitmap", bitmap, first, "/proc/mdstat")


def _mdstat_members(name: str, head: re.Match[str], number: int) -> Iterator[Fact]:
    members = sorted(MEMBER.findall(head["members"]), key=lambda member: int(member[1]))
    if head["level"]:
        yield Fact(name, "md.level", head["level"], number, "/proc/mdstat")
    if head["state"] == "inactive":
        yield Fact(name, "md.state", "inactive", number, "/proc/mdstat")
    active = [member for member, _, marks in members if "(S)" not in marks and "(J)" not in marks]
    if active:
        yield Fact(name, "md.members", " ".join(active), number, "/proc/mdstat")
    names = {"(F)": "faulty", "(S)": "spare", "(W)": "write-mostly", "(J)": "journal"}
    for member, _, marks in members:
        if marks in names:
            yield Fact(member, "disk.state", names[marks], number, "/proc/mdstat")


def _progress(name: str, progress: re.Match[str], number: int) -> Iterator[Fact]:
    share = parse_number(progress["share"]) or 0.0
    yield Fact(name, "md.sync_action", progress["action"], number, "/proc/mdstat")
    yield Fact(name, "md.sync_share", share / 100, number, "/proc/mdstat")
    if progress["speed"]:
        yield Fact(name, "md.sync_speed", float(progress["speed"]) * KIB, number, "/proc/mdstat")
    if progress["minutes"]:
        yield Fact(name, "md.sync_left", float(progress["minutes"]) * 60, number, "/proc/mdstat")


def _kib(text: str) -> float | None:
    match = re.match(r"(\d+)\b", text)
    return float(match[1]) * KIB if match else None


def _bitmap(text: str) -> str | None:
    word = text.strip().lower()
    return {"internal": "internal", "none": "none"}.get(word, "external" if "/" in word else None)


def _md_state(text: str) -> str | None:
    for word in ("degraded", "resyncing", "recovering", "reshaping", "checking"):
        if word in text:
            return "degraded" if word == "degraded" else "resyncing"
    return "clean" if re.search(r"clean|active", text) else None


def _percent_complete(text: str) -> float | None:
    match = re.match(r"(\d+)% complete", text)
    return float(match[1]) / 100 if match else None


# Keys of `mdadm -D` and `mdadm -E`
MDADM: Mapping[str, tuple[str, Callable[[str], Value | None]]] = {
    "Raid Level": ("md.level", printed_text),
    "Array Size": ("disk.size", _kib),
    "Chunk Size": ("md.chunk", binary_size),
    "Intent Bitmap": ("md.bitmap", _bitmap),
    "State": ("md.state", _md_state),
    "Resync Status": ("md.sync_share", _percent_complete),
    "Rebuild Status": ("md.sync_share", _percent_complete),
    "Check Status": ("md.sync_share", _percent_complete),
    "Reshape Status": ("md.sync_share", _percent_complete),
}
SYNC_ACTIONS = {"Resync": "resync", "Rebuild": "recovery", "Check": "check", "Reshape": "reshape"}


def read_mdadm(passage: Passage) -> Iterator[Fact]:
    """`mdadm -D /dev/md0`, or `-E` of a member: keys and values, then the table of devices."""
    name = device_name(passage.line)
    passage.at += 1
    if not re.match(r"\s*(Version|Magic|Container) : ", passage.line):
        return
    yield from _details(name, passage)


def _details(name: str, passage: Passage) -> Iterator[Fact]:
    """Keys and values of `mdadm -D` or `-E`, whole or filtered."""
    first, members = passage.number, []
    for number, line in passage.rows(blank_ends="|" in passage.command.text):
        if re.fullmatch(r"/dev/\S+:", line.strip()):
            passage.put_back()
            break
        key, colon, text = (part.strip() for part in line.partition(" : "))
        if colon and key in MDADM and (value := MDADM[key][1](text)) is not None:
            yield Fact(name, MDADM[key][0], value, number, "mdadm")
        if colon and (action := SYNC_ACTIONS.get(key.removesuffix(" Status"))):
            yield Fact(name, "md.sync_action", action, number, "mdadm")
        if colon and key == "State":
            yield Fact(name, "md.degraded", "degraded" in text, number, "mdadm")
        if row := re.fullmatch(r"\s*\d+\s+\d+\s+\d+\s+\d+\s+(.*?)\s+(/dev/\S+)", line):
            members.append(device_name(row[2]))
            if not row[1].startswith("active sync"):
                yield Fact(members[-1], "disk.state", row[1], number, "mdadm")
    if members:
        yield Fact(name, "md.members", " ".join(members), first, "mdadm")


def read_mdadm_command(passage: Passage) -> Iterator[Fact]:
    """Facts that `mdadm --create` and `--grow` set, from that line on; and `mdadm -D` through grep."""
    command, number = passage.command, passage.command.line
    passage.at += 1
    arrays = [word for word in command.words if re.fullmatch(r"/dev/md[\w/.-]+", word)]
    if {"-D", "--detail"} & set(command.words) and len(arrays) == 1:
        if not passage.line.startswith("/dev/"):
            yield from _details(device_name(arrays[0]), passage)
        return
    if not arrays or not {"--create", "-C", "--grow", "-G"} & set(command.words):
        return
    name = device_name(arrays[0])
    if level := command.option("--level", "-l"):
        level = level if not level.isdigit() else f"raid{level}"
        yield Fact(name, "md.level", level, number, "mdadm")
    if (chunk := command.option("--chunk", "-c")) and (size := binary_size(chunk)):
        yield Fact(name, "md.chunk", size * (KIB if chunk.isdigit() else 1), number, "mdadm")
    if (bitmap := command.option("--bitmap", "-b")) and (value := _bitmap(bitmap)):
        yield Fact(name, "md.bitmap", value, number, "mdadm")
    if (chunk := command.option("--bitmap-chunk")) and (size := binary_size(chunk)):
        size *= KIB if chunk.isdigit() else 1
        yield Fact(name, "md.bitmap_chunk", size, number, "mdadm")
    members = [device_name(w) for w in command.words if w.startswith("/dev/") and w != arrays[0]]
    if members and {"--create", "-C"} & set(command.words):
        yield Fact(name, "md.members", " ".join(members), number, "mdadm")


# Batteries and capacitors as controllers' programs name their states
BATTERY = (
    ("learning", r"learn(ing| cycle active)|relearn|charging|recharging"),
    ("failed", r"fail(ed|ure)?|degraded|dgd|replace|bad|low"),
    ("absent", r"absent|msng|not (present|installed|available|found)|missing|none"),
    ("optimal", r"optimal|ok|operational|good|ready|charged"),
)


def _battery(text: str) -> str | None:
    word = text.partition("(")[0].strip().lower()
    return next((state for state, pattern in BATTERY if re.fullmatch(pattern, word)), None)


# Keys of storcli, perccli, MegaCli, omreport, ssacli and arcconf. "Drive Write Cache" is of the disks, not of the card.
CACHE_MODE = re.compile(
    r"(?i)(?:current cache policy|current write policy|write policy|write-cache (?:mode|status)|write cache policy)"
    r"\s*[:=]\s*.*?\b(?:force )?(write[ -]?(?:back|through))"
)
CACHE_SIZE = re.compile(
    r"(?i)(?:on ?board memory size|memory size|total cache size|cache memory size|installed memory|cache size)"
    r"\s*(?:\((?P<title>[kmg]i?b)\))?\s*[:=]\s*(?P<size>\d+(?:\.\d+)?)\s*(?P<unit>[kmg]i?b)?"
)
CONTROLLER_MODEL = re.compile(
    r"(?:Product Name|Controller Model|Model|Name)\s*[:=]\s*(.*(?:RAID|PERC|SAS|Smart).*)"
    r"|(Smart (?:HBA|Array) \w[\w-]*)(?: Controller)? in Slot .*"
)
CARD = re.compile(
    r"PERC|MegaRAID|Smart Array|ServeRAID|Adaptec|storcli|perccli|MegaCli|omreport|ssacli|arcconf",
    re.I,
)


def read_controller(passage: Passage) -> Iterator[Fact]:
    """One line of storcli, MegaCli, perccli, ssacli or omreport: its cache, its battery, or its name."""
    line, number = passage.line.strip(), passage.number
    at, passage.at = passage.at, passage.at + 1
    if policy := CACHE_MODE.match(line):
        mode = "write back" if policy[1].lower().endswith("back") else "write through"
        yield Fact("", "controller.cache_mode", mode, number, "controller")
    elif size := CACHE_SIZE.fullmatch(line):
        # others have a "cache size" too: a card or its program is named nearby
        near = [passage.command.text, *passage.lines[max(at - 40, 0) : at]]
        if any(CARD.search(text) for text in near):
            yield from _controller_memory(size, number)
    elif re.fullmatch(r"(?i)cache status\s*:\s*(?:permanently|temporarily) disabled.*", line):
        yield Fact("", "controller.cache_mode", "write through", number, "controller")
    elif re.fullmatch(r"(?i)battery replacement required\s*:\s*yes", line):
        yield Fact("", "controller.battery", "failed", number, "controller")
    elif learning := re.fullmatch(r"(?i)learn cycle active\s*[:=]?\s*(yes|no)", line):
        if learning[1].lower() == "yes":
            yield Fact("", "controller.battery", "learning", number, "controller")
    elif battery := re.fullmatch(
        r"(?i)(?:battery(?:/capacitor)?(?: state| status)?|bbu status|cachevault(?: status)?|status)\s*[:=]\s*(.+)",
        line,
    ):
        if state := _battery(battery[1]):
            yield Fact("", "controller.battery", state, number, "controller")
    elif model := CONTROLLER_MODEL.fullmatch(line):
        name = printed_text(model[1] or model[2]) or ""
        yield Fact("", "controller.model", name, number, "controller")


def _controller_memory(size: re.Match[str], number: int) -> Iterator[Fact]:
    """ssacli counts GiB without a unit ("Total Cache Size: 2.0"), all others name it."""
    unit = (size["unit"] or size["title"] or ("GB" if float(size["size"]) < 32 else "MB"))[0]
    if value := binary_size(f"{size['size']}{unit}"):
        yield Fact("", "controller.cache_size", value, number, "controller")


def read_virtual_drive(passage: Passage) -> Iterator[Fact]:
    """A row of storcli's virtual drives: "0/0  RAID5 Optl RW Yes RAWBD - ON 10.9 TB"."""
    line, number = passage.line, passage.number
    passage.at += 1
    row = re.match(
        r"\s*\d+/\d+\s+(RAID\d+)\s+(\w+)\s+(?:RW|RO)\s+\w+\s+(?:N?R[A-Z]?A?|NR)?(A?WB|WT)[DC]\s",
        line,
    )
    if row:
        mode = "write through" if row[3] == "WT" else "write back"
        yield Fact("", "controller.cache_mode", mode, number, "storcli")


def read_battery_row(passage: Passage) -> Iterator[Fact]:
    """storcli's row of a battery or capacitor: "CVPM02 Optimal 28C -"."""
    line, number = passage.line, passage.number
    passage.at += 1
    if (
        row := re.match(
            r"\s*(?:CVPM\w*|BBU\w*|iBBU\w*)\s+(\w+)(?: \([^)]*\))?\s+(?:\S+ hour\S*\s+)?\d+C\b",
            line,
        )
    ) and (state := _battery(row[1])):
        yield Fact("", "controller.battery", state, number, "storcli")


PHYSICAL_DRIVE = re.compile(
    r"\s*(?P<slot>\d+:\d+)\s+\d+\s+(?P<state>\w+)\s+(?:\d+|-|F)\s+(?P<size>[\d.]+ [KMGTP]B)\s+(?P<bus>SAS|SATA|NVMe)\s+"
    r"(?P<kind>HDD|SSD)\s+[YN-]\s+[YN-]\s+(?P<block>512B|4 ?KB)\s+(?P<model>\S.*?)\s+[UD]\s.*"
)


def read_physical_drive(passage: Passage) -> Iterator[Fact]:
    """A row of storcli's drives: "32:0  1 Onln 0 558.375 GB SAS HDD N N 512B ST600MM0006 U -"."""
    row, number = PHYSICAL_DRIVE.fullmatch(passage.line), passage.number
    passage.at += 1
    if row is None:
        return
    yield Fact(row["slot"], "disk.model", row["model"], number, "storcli")
    yield Fact(row["slot"], "disk.transport", row["bus"].lower(), number, "storcli")
    yield Fact(row["slot"], "disk.rotational", row["kind"] == "HDD", number, "storcli")
    if row["state"] not in ("Onln", "UGood", "DHS", "GHS", "JBOD"):
        yield Fact(row["slot"], "disk.state", row["state"], number, "storcli")


CHAPTER = Chapter(
    shapes=(
        (r"md[\w/.-]+", read_mdstat),
        (r"/dev/md[\w/.-]+:|/dev/[\w/-]+\d:", read_mdadm),
        (r"\d+/\d+", read_virtual_drive),
        (r"\d+:\d+", read_physical_drive),
        (r"CVPM\w*|i?BBU\w*", read_battery_row),
    ),
    parts={
        "cache policy": read_controller,
        "cache status": read_controller,
        "battery": read_controller,
        "bbu status": read_controller,
        "learn cycle active": read_controller,
        "product name": read_controller,
        "write policy": read_controller,
        "write-cache ": read_controller,
        "memory size": read_controller,
        "cache size": read_controller,
        "installed memory": read_controller,
        "in slot": read_controller,
    },
    commands={"mdadm": read_mdadm_command},
)
