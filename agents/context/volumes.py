# SPDX-License-Identifier: Apache-2.0
"""Layers between file systems and disks: device-mapper, LUKS, bcache; and volumes that several hosts hold."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agents.context.lines import Chapter, Passage, device_name, printed_text
from agents.context.lvm import volume_name
from agents.context.model import Fact

SECTOR = 512.0


TARGET = re.compile(
    r"(?:(?P<name>[\w.+-]+): )?\d+ \d+ (?P<target>linear|striped|crypt|thin|thin-pool|snapshot|cache|writecache)"
    r"(?: (?P<rest>.*))?"
)


def read_dm(passage: Passage) -> Iterator[Fact]:
    """One line of `dmsetup table` or `dmsetup status`."""
    match = TARGET.fullmatch(passage.line.strip())
    number, command = passage.number, passage.command
    passage.at += 1
    if match is None:
        return
    name = match["name"] or (device_name(command.words[-1]) if command.program == "dmsetup" else "")
    words = (match["rest"] or "").split()
    if not name or (not words and command.words[1:2] != ("status",)):
        return
    if match["target"] == "crypt" and len(words) >= 5:
        yield from _crypt_target(name, words, number)
    elif match["target"] == "striped" and len(words) >= 4:
        yield Fact(volume_name(name), "lv.type", "striped", number, "dmsetup")
        yield Fact(volume_name(name), "lv.stripes", float(words[0]), number, "dmsetup")
        yield Fact(volume_name(name), "lv.stripe_size", float(words[1]) * SECTOR, number, "dmsetup")
    elif match["target"] == "cache" and len(words) > 10 and "/" in words[1]:
        yield from _cache_status(volume_name(name), words, number)
    elif match["target"] in ("thin", "thin-pool", "snapshot", "linear"):
        yield Fact(volume_name(name), "lv.type", match["target"], number, "dmsetup")


def _crypt_target(name: str, words: list[str], number: int) -> Iterator[Fact]:
    options = words[6:]
    flags = [word for word in options if not re.match(r"sector_size:|integrity:", word)]
    sizes = [word.partition(":")[2] for word in options if word.startswith("sector_size:")]
    yield Fact(name, "crypt.cipher", words[0], number, "dmsetup")
    yield Fact(name, "crypt.flags", " ".join(flags), number, "dmsetup")
    yield Fact(name, "crypt.sector", float(sizes[0]) if sizes else SECTOR, number, "dmsetup")


def _cache_status(name: str, words: list[str], number: int) -> Iterator[Fact]:
    """Kernel's Documentation/admin-guide/device-mapper/cache.rst: metadata, block size, use, hits and misses."""
    block = float(words[2]) * SECTOR
    used, total = (float(count) for count in words[3].split("/"))
    yield Fact(name, "lv.type", "cache", number, "dmsetup")
    yield Fact(name, "cache.size", total * block, number, "dmsetup")
    if total:
        yield Fact(name, "cache.used_share", used / total, number, "dmsetup")
    names = ("read_hits", "read_misses", "write_hits", "write_misses", None, "promotions")
    for fact, count in zip(names, words[4:10], strict=True):
        if fact:
            yield Fact(name, f"cache.{fact}", float(count), number, "dmsetup")
    yield Fact(name, "cache.dirty", float(words[10]) * block, number, "dmsetup")
    for mode in ("writeback", "writethrough", "passthrough"):
        if mode in words[11:]:
            yield Fact(name, "cache.mode", mode, number, "dmsetup")


CIPHER_ROW = re.compile(
    r"\s*(?P<cipher>[a-z0-9]+-[a-z0-9]+)\s+(?P<bits>\d+b)\s+(?P<encrypt>[\d.]+) MiB/s\s+(?P<decrypt>[\d.]+) MiB/s\s*"
)
MIB = 1024.0**2


def read_cipher_row(passage: Passage) -> Iterator[Fact]:
    """A row of `cryptsetup benchmark`."""
    row, number = CIPHER_ROW.fullmatch(passage.line), passage.number
    passage.at += 1
    if row:
        subject = f"{row['cipher']} {row['bits']}"
        for way in ("encrypt", "decrypt"):
            rate = float(row[way]) * MIB
            yield Fact(subject, f"crypt.benchmark_{way}", rate, number, "cryptsetup benchmark")


def read_crypt_status(passage: Passage) -> Iterator[Fact]:
    """`cryptsetup status` and `luksDump`, whole or through grep. A status without a line of flags has none."""
    command, subject = passage.command, ""
    is_status = command.starts("cryptsetup", "status")
    if is_status or command.starts("cryptsetup", "luksDump"):
        operands = [word for word in command.operands() if word not in ("status", "luksDump")]
        subject = device_name(operands[0]) if operands else ""
    elif not passage.line.strip().startswith("/dev/mapper/"):
        passage.at += 1
        return
    last, has_flags, first_cipher = 0, False, 0
    for number, line in passage.rows(blank_ends=is_status):
        if active := re.match(r"\s*(/dev/mapper/\S+) is active", line):
            subject, is_status = device_name(active[1]), True
        key, colon, text = (part.strip() for part in line.partition(":"))
        if not colon or len(key) > 30:
            continue
        if key == "cipher" and printed_text(text):
            yield Fact(subject, "crypt.cipher", text, number, "cryptsetup")
            first_cipher = number
        elif key in ("sector size", "sector") and (size := re.match(r"(\d+)", text)):
            yield Fact(subject, "crypt.sector", float(size[1]), number, "cryptsetup")
        elif key.lower() == "flags":
            has_flags = True
            flags = "" if text == "(no flags)" else text.replace("-", "_")
            yield Fact(subject, "crypt.flags", flags, number, "cryptsetup")
        elif key == "device" and is_status and text.startswith("/dev/"):
            yield Fact(subject, "disk.parent", device_name(text), number, "cryptsetup")
        last = number
    if is_status and first_cipher and not has_flags and _shows_flags(command.text):
        yield Fact(subject, "crypt.flags", "", last, "cryptsetup")


def _shows_flags(command: str) -> bool:
    return "flags" in command or not re.search(r"\|", command)


def read_bcache(passage: Passage) -> Iterator[Fact]:
    """One line of `bcache-super-show` or bcache-status that tells the mode."""
    line, number = passage.line.strip(), passage.number
    passage.at += 1
    if mode := re.fullmatch(r"dev\.data\.cache_mode\s+\d \[(\w+)\]|Cache Mode\s+\(?(\w+)\)?", line):
        yield Fact(passage.command.device, "cache.mode", mode[1] or mode[2], number, "bcache")


def read_replicas(passage: Passage) -> Iterator[Fact]:
    """One line that says who replicates a volume, or how often."""
    line, number = passage.line.strip(), passage.number
    passage.at += 1
    if re.search(r"driver\.longhorn\.io|/dev/longhorn/|storageClassName: *\"?longhorn\b", line):
        yield Fact("", "replicated.kind", "longhorn", number, "kubectl")
    if copies := re.search(r"numberOfReplicas\"?:? *\"?(\d)\b", line):
        yield Fact("", "replicated.kind", "longhorn", number, "kubectl")
        yield Fact("", "replicated.copies", float(copies[1]), number, "kubectl")
    if image := re.match(r"rbd image '([^']+)':", line):
        yield Fact(image[1], "replicated.kind", "rbd", number, "rbd info")
    if pool := re.match(r"pool \d+ '([^']+)' replicated size (\d+) ", line):
        yield Fact(pool[1], "replicated.kind", "ceph", number, "ceph osd pool")
        yield Fact(pool[1], "replicated.copies", float(pool[2]), number, "ceph osd pool")
    if bricks := re.fullmatch(
        r"Number of Bricks: \d+ x (\d+) = \d+|Number of Bricks: 1 x (\d+) = \d+", line
    ):
        yield Fact("", "replicated.kind", "gluster", number, "gluster volume info")
        yield Fact(
            "", "replicated.copies", float(bricks[1] or bricks[2]), number, "gluster volume info"
        )


def read_drbd(passage: Passage) -> Iterator[Fact]:
    """`drbdadm status`: a resource, its own disk, then its peers."""
    head = re.fullmatch(r"(\S+) role:(?:Primary|Secondary)", passage.line.strip())
    number = passage.number
    passage.at += 1
    if head is None or passage.line[:1] != " ":
        return
    copies = 1
    for _, line in passage.rows():
        if not line.startswith(" "):
            passage.put_back()
            break
        copies += bool(re.match(r"\s+\S+ role:", line))
    yield Fact(head[1], "replicated.kind", "drbd", number, "drbdadm status")
    yield Fact(head[1], "replicated.copies", float(copies), number, "drbdadm status")


def read_proc_drbd(passage: Passage) -> Iterator[Fact]:
    """/proc/drbd, as DRBD 8 has it: `0: cs:Connected ro:Primary/Secondary`."""
    line, number = passage.line, passage.number
    passage.at += 1
    if match := re.match(r"\s*(\d+): cs:\w+ ro:\w+/\w+ ", line):
        name = f"drbd{match[1]}"
        yield Fact(name, "replicated.kind", "drbd", number, "/proc/drbd")
        yield Fact(name, "replicated.copies", 2.0, number, "/proc/drbd")


def read_crypt_command(passage: Passage) -> Iterator[Fact]:
    """A cryptsetup command: its output, and the flags that it sets."""
    command = passage.command
    passage.at += 1
    flags = [word.removeprefix("--perf-") for word in command.words if word.startswith("--perf-")]
    names = [word for word in command.operands() if word not in ("refresh", "open", "luksOpen")]
    if flags and names:
        name = device_name(names[-1])
        yield Fact(name, "crypt.flags", " ".join(flags), command.line, "cryptsetup")
    if passage.line.strip() and not passage.is_command(passage.line):
        yield from read_crypt_status(passage)


CHAPTER = Chapter(
    headings={
        "0": read_dm,
        "cipher:": read_crypt_status,
        "Cache": read_bcache,
    },
    shapes=(
        (r"(?:aes|serpent|twofish|camellia|aria)-\w+", read_cipher_row),
        (r"/dev/mapper/\S+", read_crypt_status),
        (r"dev\.data\.cache_mode", read_bcache),
    ),
    parts={
        ": 0 ": read_dm,
        "longhorn": read_replicas,
        "numberofreplicas": read_replicas,
        "rbd image": read_replicas,
        "replicated size": read_replicas,
        "number of bricks": read_replicas,
        " role:": read_drbd,
        ": cs:": read_proc_drbd,
    },
    commands={
        "cryptsetup": read_crypt_command,
    },
)
