# SPDX-License-Identifier: Apache-2.0
"""Facts that a disk reports itself: smartctl, nvme, hdparm, and the kernel's log when it finds a disk or resets one.

Most of these outputs name no device: the command above does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from agents.context.lines import (
    Chapter,
    Passage,
    device_name,
    flag,
    grouped_integer,
    parse_number,
    printed_text,
)
from agents.context.model import Fact, Value

Convert = Callable[[str], Value | None]
KELVIN = 273.0
MINUTE = 60.0


def _bytes(text: str) -> float | None:
    match = re.match(r"([\d,.\s’']+?)\s*(?:bytes\b|\[)", text)
    return grouped_integer(match[1]) if match else None


def _health(text: str) -> str | None:
    word = text.strip().rstrip("!").upper()
    if word.startswith(("PASSED", "OK")):
        return "passed"
    return "failed" if word.startswith("FAIL") else None


def _rpm(text: str) -> float | None:
    match = re.match(r"(\d{4,5})(?: rpm)?\s*$", text.strip())
    return float(match[1]) if match else None


def _degrees(text: str) -> float | None:
    match = re.match(r"\s*(\d{1,3})\s*(?:Celsius|C\b|°C)", text)
    return float(match[1]) if match else None


def _percent(text: str) -> float | None:
    match = re.match(r"\s*(\d{1,3})\s*%", text)
    return float(match[1]) / 100 if match else None


def _cache_state(text: str) -> str | None:
    enabled = flag(text.split()[0]) if text.split() else None
    return None if enabled is None else "write back" if enabled else "write through"


def _count(text: str) -> float | None:
    return grouped_integer(text)


def _minutes(text: str) -> float | None:
    number = grouped_integer(text)
    return None if number is None else number * MINUTE


def _zones(text: str) -> str | None:
    if text.strip().lower().startswith("device managed"):
        return "drive-managed"
    return "host-managed" if text.strip().lower().startswith("host") else None


def _sata_rate(text: str) -> float | None:
    """B/s of "6.0 Gb/s": eight of ten bits are data."""
    match = re.search(r"(\d+(?:\.\d+)?) Gb(?:/s|ps)", text)
    return float(match[1]) * 1e9 * 0.8 / 8 if match else None


def _current_rate(text: str) -> float | None:
    match = re.search(r"current: (\d+(?:\.\d+)? Gb/s)", text)
    return _sata_rate(match[1]) if match else None


def _transport(text: str) -> str | None:
    word = text.strip().split()[0].lower() if text.strip() else ""
    return word if word in ("sas", "fcp", "iscsi") else None


# smartctl's keys
SMART: Mapping[str, tuple[tuple[str, Convert], ...]] = {
    "Device Model": (("disk.model", printed_text),),
    "Model Number": (("disk.model", printed_text),),
    "Product": (("disk.model", printed_text),),
    "Vendor": (("disk.vendor", printed_text),),
    "Serial Number": (("disk.serial", printed_text),),
    "Serial number": (("disk.serial", printed_text),),
    "Firmware Version": (("disk.firmware", printed_text),),
    "Firmware Revision": (("disk.firmware", printed_text),),
    "Revision": (("disk.firmware", printed_text),),
    "User Capacity": (("disk.size", _bytes),),
    "Total NVM Capacity": (("disk.size", _bytes),),
    "Namespace 1 Size/Capacity": (("disk.size", _bytes),),
    "Rotation Rate": (("disk.rpm", _rpm),),
    "Nominal Media Rotation Rate": (("disk.rpm", _rpm),),
    "Transport protocol": (("disk.transport", _transport),),
    "SATA Version is": (("disk.link_max", _sata_rate), ("disk.link_speed", _current_rate)),
    "SMART overall-health self-assessment test result": (("disk.health", _health),),
    "SMART Health Status": (("disk.health", _health),),
    "Zoned Device": (("disk.smr", _zones),),
    "Write cache is": (("disk.write_cache", _cache_state),),
    "Writeback Cache is": (("disk.write_cache", _cache_state),),
    "Temperature": (("disk.temperature", _degrees),),
    "Current Drive Temperature": (("disk.temperature", _degrees),),
    "Warning Comp. Temp. Threshold": (("disk.temperature_warning", _degrees),),
    "Warning  Comp. Temperature Time": (("disk.throttled", _minutes),),
    "Warning Comp. Temperature Time": (("disk.throttled", _minutes),),
    "Percentage Used": (("disk.percentage_used", _percent),),
    "Media and Data Integrity Errors": (("disk.media_errors", _count),),
    "Elements in grown defect list": (("disk.reallocated", _count),),
    # nvme smart-log
    "temperature": (("disk.temperature", _degrees),),
    "percentage_used": (("disk.percentage_used", _percent),),
    "media_errors": (("disk.media_errors", _count),),
    "Warning Temperature Time": (("disk.throttled", _minutes),),
    "Thermal Management T1 Total Time": (("disk.throttled", _count),),
    "Thermal Temp. 1 Total Time": (("disk.throttled", _count),),
}
# SMART attribute -> fact; the raw value's first number counts
ATTRIBUTES = {
    "5": "disk.reallocated",
    "197": "disk.pending",
    "199": "disk.crc_errors",
    "194": "disk.temperature",
    "190": "disk.temperature",
}
ATTRIBUTE = re.compile(
    r"\s*(?P<id>\d{1,3}) [A-Za-z][\w/-]+\s+(?:0x[0-9a-f]{4}\s+|[-A-Z+]{6,7}\s+)\d{3}\s+\d{3}\s+(?:\d{3}|---)\s+.*?"
    r"(?:-|In_the_past|FAILING_NOW|NOW|Past)\s+(?P<raw>\d+)\b.*"
)
# attributes that only flash has, as smartctl's drivedb names them
FLASH_ATTRIBUTE = re.compile(
    r" (?:Wear_Leveling_Count|Media_Wearout_Indicator|SSD_Life_Left|Percent_Lifetime\w*|\w*NAND\w*|Wear_Range_Delta"
    r"|Used_Rsvd_Blk_Cnt_Tot|Ave_Block-Erase_Count|\w*Flash\w*|Perc_Rated_Life_Used|Program_Fail\w*|Erase_Fail\w*) "
)
SECTORS = re.compile(r"Sector Sizes?:\s+(\d+) bytes logical(?:, (\d+) bytes physical|/physical)")
ROTATING = re.compile(
    r"(?:Nominal Media )?Rotation(?: Rate)?:\s+(Solid State Device|\d{4,5}(?: rpm)?)"
)


def read_smart(passage: Passage) -> Iterator[Fact]:
    """smartctl, from its heading to the next command or the next disk's."""
    subject = passage.command.device if passage.command.program in ("smartctl", "nvme") else ""
    heading = passage.line
    if named := re.search(r"NVME? device:\s*(\w+)", heading):
        subject = re.sub(r"^(nvme\d+)$", r"\1n1", named[1])
    passage.at += 1
    for number, line in passage.rows(blank_ends=False):
        if re.match(r"smartctl \d|Smart Log for", line):
            passage.put_back()
            return
        yield from _smart_line(subject, line, number)


def _smart_line(subject: str, line: str, number: int) -> Iterator[Fact]:
    key, colon, text = line.strip().partition(":")
    for fact, convert in SMART.get(key.strip(), ()) if colon else ():
        if (value := convert(text)) is not None:
            yield Fact(subject, fact, value, number, "smartctl")
    if sizes := SECTORS.match(line.strip()):
        yield Fact(subject, "disk.logical_block", float(sizes[1]), number, "smartctl")
        yield Fact(subject, "disk.physical_block", float(sizes[2] or sizes[1]), number, "smartctl")
    elif rotating := ROTATING.match(line.strip()):
        yield Fact(subject, "disk.rotational", rotating[1][0].isdigit(), number, "smartctl")
    elif (row := ATTRIBUTE.fullmatch(line)) and row["id"] in ATTRIBUTES:
        value = float(row["raw"])
        # vendors pack more than degrees into the raw value; what is beyond no disk survives
        if "temperature" not in ATTRIBUTES[row["id"]] or value < 120:
            yield Fact(subject, ATTRIBUTES[row["id"]], value, number, "smartctl")
    elif row and FLASH_ATTRIBUTE.search(line):
        yield Fact(subject, "disk.rotational", False, number, "smartctl")


def read_smart_output(passage: Passage) -> Iterator[Fact]:
    """Output of a smartctl or nvme command, whole or through grep."""
    command = passage.command
    subject = re.sub(r"^(nvme\d+)$", r"\1n1", command.device)
    passage.at += 1
    for number, line in passage.rows(blank_ends="|" in command.text):
        yield from _smart_line(subject, line, number)


NVME_LIST = re.compile(
    r"(?P<node>/dev/nvme\d+n\d+)\s+(?:/dev/ng\S+\s+)?(?P<serial>\S+)\s+(?P<model>\S.*?)\s+(?:0x)?\d+\s+[\d.]+\s+[kMGTP]?B\s*/"
    r"\s*(?P<size>[\d.]+)\s+(?P<unit>[kMGTP]?)B\s+(?P<block>\d+)\s+(?P<k>K?i?)B\s*\+\s*\d+ B\s+(?P<firmware>\S+)\s*"
)
POWERS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


def read_nvme_list(passage: Passage) -> Iterator[Fact]:
    """A row of `nvme list`."""
    row, number = NVME_LIST.fullmatch(passage.line), passage.number
    passage.at += 1
    if row is None:
        return
    name = device_name(row["node"])
    block = float(row["block"]) * (1024 if row["k"] else 1)
    yield Fact(name, "disk.model", row["model"], number, "nvme list")
    yield Fact(name, "disk.serial", row["serial"], number, "nvme list")
    yield Fact(name, "disk.firmware", row["firmware"], number, "nvme list")
    yield Fact(name, "disk.logical_block", block, number, "nvme list")
    yield Fact(name, "disk.size", float(row["size"]) * POWERS[row["unit"]], number, "nvme list")


def read_nvme_key(passage: Passage) -> Iterator[Fact]:
    """One line of `nvme id-ctrl`: its volatile write cache, its model, its temperature limit in kelvins."""
    key, _, text = (part.strip() for part in passage.line.partition(":"))
    number, command = passage.number, passage.command
    passage.at += 1
    subject = re.sub(r"^(nvme\d+)$", r"\1n1", command.device)
    if key == "vwc" and re.fullmatch(r"(0x)?[0-9a-f]", text):
        state = "write back" if int(text, 16) & 1 else "write through"
        yield Fact(subject, "disk.write_cache", state, number, "nvme id-ctrl")
    elif key == "mn" and command.program == "nvme" and (model := printed_text(text)):
        yield Fact(subject, "disk.model", model, number, "nvme id-ctrl")
    elif key == "wctemp" and (kelvins := parse_number(text.split(" ")[0])):
        yield Fact(subject, "disk.temperature_warning", kelvins - KELVIN, number, "nvme id-ctrl")


HDPARM: tuple[tuple[re.Pattern[str], str, Convert], ...] = tuple(
    (re.compile(pattern), fact, convert)
    for pattern, fact, convert in (
        (r"write-caching\s+=\s+([01]) \((?:on|off)\)", "disk.write_cache", _cache_state),
        (r"readahead\s+=\s+(\d+) \((?:on|off)\)", "disk.readahead", lambda text: float(text) * 512),
        (r"Model Number:\s+(.+)", "disk.model", printed_text),
        (r"Serial Number:\s+(.+)", "disk.serial", printed_text),
        (r"Firmware Revision:\s+(.+)", "disk.firmware", printed_text),
        (r"Logical\s+Sector size:\s+(\d+) bytes.*", "disk.logical_block", parse_number),
        (r"Physical Sector size:\s+(\d+) bytes.*", "disk.physical_block", parse_number),
        (r"Nominal Media Rotation Rate: (\d+)", "disk.rpm", _rpm),
        # hdparm -I marks what is enabled with a star
        (
            r"(\*)?\s*Write cache",
            "disk.write_cache",
            lambda text: "write back" if text else "write through",
        ),
        (r"Model=([^,]+),.*", "disk.model", printed_text),
        (r".*\bWriteCache=(enabled|disabled)\b.*", "disk.write_cache", _cache_state),
    )
)


def read_hdparm(passage: Passage) -> Iterator[Fact]:
    """hdparm's lines below "/dev/sda:"."""
    subject = device_name(passage.line)
    passage.at += 1
    yield from _hdparm_lines(subject, passage)


def read_hdparm_output(passage: Passage) -> Iterator[Fact]:
    """Output of an hdparm command whose line "/dev/sda:" was filtered away: the command names the disk."""
    passage.at += 1
    if subject := passage.command.single_device:
        yield from _hdparm_lines(subject, passage)


def _hdparm_lines(subject: str, passage: Passage) -> Iterator[Fact]:
    for number, line in passage.rows():
        if re.fullmatch(r"/dev/\S+:", line.strip()):
            passage.put_back()
            return
        for pattern, fact, convert in HDPARM:
            match = pattern.fullmatch(line.strip())
            if match and (value := convert(match[1] or "")) is not None:
                yield Fact(subject, fact, value, number, "hdparm")


SCSI_DISK = re.compile(r"sd [\d:]+: \[(?P<disk>\w+)\] (?P<rest>.*)")


def read_kernel_log(passage: Passage) -> Iterator[Fact]:
    """One line of the kernel's log: a disk's cache and sectors, an error, a reset."""
    line, number = passage.line, passage.number
    passage.at += 1
    if found := SCSI_DISK.search(line):
        disk, rest = found["disk"], found["rest"]
        if cache := re.match(r"Write cache: (enabled|disabled)", rest):
            state = "write back" if cache[1] == "enabled" else "write through"
            yield Fact(disk, "disk.write_cache", state, number, "kernel log")
            if "FUA" in rest:
                yield Fact(disk, "disk.fua", "supports DPO and FUA" in rest, number, "kernel log")
        elif sizes := re.match(r"(\d+) (\d+)-byte logical blocks", rest):
            size = float(sizes[1]) * float(sizes[2])
            yield Fact(disk, "disk.size", size, number, "kernel log")
            yield Fact(disk, "disk.logical_block", float(sizes[2]), number, "kernel log")
        elif physical := re.match(r"(\d+)-byte physical blocks", rest):
            yield Fact(disk, "disk.physical_block", float(physical[1]), number, "kernel log")
    if reset := re.search(r"\b(ata\d+)(?:\.\d+)?: (?:hard|soft) resetting link", line):
        yield Fact(reset[1], "disk.resets", True, number, "kernel log")
    elif reset := re.search(r"\bnvme (nvme\d+): I/O \d+ .*timeout", line):
        yield Fact(f"{reset[1]}n1", "disk.resets", True, number, "kernel log")
    elif error := re.search(r"\bI/O error, dev (\w+), sector", line):
        yield Fact(error[1], "disk.io_errors", True, number, "kernel log")


CHAPTER = Chapter(
    headings={
        "smartctl": read_smart,
        "===": read_smart,
        "Smart": read_smart,
        "vwc": read_nvme_key,
        "mn": read_nvme_key,
        "wctemp": read_nvme_key,
    },
    shapes=((r"/dev/nvme\d+n\d+", read_nvme_list), (r"/dev/(?:sd|hd|nvme|vd)\w+:", read_hdparm)),
    parts={
        "write cache: ": read_kernel_log,
        "logical blocks": read_kernel_log,
        "physical blocks": read_kernel_log,
        "resetting link": read_kernel_log,
        "i/o error, dev": read_kernel_log,
        ": i/o ": read_kernel_log,
    },
    commands={
        "smartctl": read_smart_output,
        "nvme": read_smart_output,
        "hdparm": read_hdparm_output,
    },
)
