# SPDX-License-Identifier: Apache-2.0
"""Layers between file systems and disks: LVM, device-mapper, LUKS, bcache; and volumes that several hosts hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from agents.context.lines import (
    Chapter,
    Columns,
    Command,
    Passage,
    binary_size,
    device_name,
    parse_number,
    printed_text,
    share,
)
from agents.context.model import Fact, Value

SECTOR = 512.0


def _plain_name(text: str) -> str | None:
    return text.strip("[] ") or None


# columns of lvs -> fact and conversion
LVS: Mapping[str, tuple[str, Callable[[str], Value | None]]] = {
    "#Str": ("lv.stripes", parse_number),
    "Stripe": ("lv.stripe_size", binary_size),
    "LSize": ("lv.size", binary_size),
    "Origin": ("lv.origin", _plain_name),
    "Pool": ("lv.pool", _plain_name),
    "Data%": ("lv.data_share", share),
    "Snap%": ("lv.data_share", share),
    "CacheMode": ("cache.mode", printed_text),
    "CacheReadHits": ("cache.read_hits", parse_number),
    "CacheReadMisses": ("cache.read_misses", parse_number),
    "CacheWriteHits": ("cache.write_hits", parse_number),
    "CacheWriteMisses": ("cache.write_misses", parse_number),
    "CachePromotions": ("cache.promotions", parse_number),
}
# First letter of an LV's attributes. "-" is linear or striped; "o" an origin of whatever type.
LV_KINDS = {
    "C": "cache",
    "V": "thin",
    "t": "thin-pool",
    "s": "snapshot",
    "S": "snapshot",
    "r": "raid",
    "m": "mirror",
}
ATTRIBUTES = r"[-CmMoOrRsSpvViIlcdtTeV][-a-zA-Z]{5,9}"
PERCENT = r"\d{1,3}(?:[.,]\d+)?"
LV_SIZE = r"<?\d+(?:[.,]\d+)?[a-zA-Z]?"
LV_NAME = r"\[?(?![\d.,]+\]?$)[\w.+-]+\]?"
CACHE_COUNTS = (
    *("CacheTotalBlocks", "CacheUsedBlocks", "CacheDirtyBlocks", "CachePromotions"),
    *("CacheDemotions", "CacheReadHits", "CacheReadMisses", "CacheWriteHits", "CacheWriteMisses"),
)
# lvs's columns -> what a cell may hold; lvs aligns numbers to the right below headings on the left
LVS_CHECKS = {
    "LV": r"\[?[\w.+/-]+\]?",
    "VG": r"[\w.+-]+",
    "Attr": ATTRIBUTES,
    "Type": r"[a-z][\w-]*",
    "LSize": LV_SIZE,
    "Pool": LV_NAME,
    "Origin": LV_NAME,
    "Data%": PERCENT,
    "Snap%": PERCENT,
    "Meta%": PERCENT,
    "Cpy%Sync": PERCENT,
    "Copy%": PERCENT,
    "#Str": r"\d+",
    "Stripe": LV_SIZE,
    "Chunk": LV_SIZE,
    "Region": LV_SIZE,
    "Devices": r"\S+\(\d+\)\S*|\S+:\d+-\d+\S*",
    "Path": r"/dev/\S+",
    "Move": LV_NAME,
    "Log": LV_NAME,
    "Convert": LV_NAME,
    "CacheMode": "writethrough|writeback|passthrough",
    "CachePolicy": r"[a-z][\w-]*",
    "Policy": r"[a-z][\w-]*",
    **dict.fromkeys(CACHE_COUNTS, r"\d+"),
}
# fields of `lvs -o` -> the heading that lvs gives them
FIELDS = {
    "name": "LV",
    "full_name": "LV",
    "size": "LSize",
    "segtype": "Type",
    "stripes": "#Str",
    "stripesize": "Stripe",
    "stripe_size": "Stripe",
    "pool_lv": "Pool",
    "data_percent": "Data%",
    "snap_percent": "Snap%",
    "metadata_percent": "Meta%",
    "copy_percent": "Cpy%Sync",
    "sync_percent": "Cpy%Sync",
    "chunksize": "Chunk",
    "chunk_size": "Chunk",
    "vg_name": "VG",
    "attr": "Attr",
    "origin": "Origin",
    "devices": "Devices",
    "path": "Path",
    # "CacheReadHits" is the heading of "cache_read_hits"
    **{re.sub(r"\B(?=[A-Z])", "_", name).lower(): name for name in CACHE_COUNTS},
    "cache_mode": "CacheMode",
    "cache_policy": "CachePolicy",
    "cachemode": "CacheMode",
}
DEFAULT_HEADING = "LV VG Attr LSize Pool Origin Data% Meta% Move Log Cpy%Sync Convert"
# LVM's options whose next word is their value
VALUE_OPTION = re.compile(
    r"-[oOSnLliIcVmr]|--(?:options|sort|select|units|separator|name|size|extents|stripes|stripesize|chunksize"
    r"|virtualsize|type|cachemode|cachepool|cachevol|cachedevice|mirrors|readahead|thinpool|poolmetadata"
    r"|cachepolicy|cachesettings)"
)


def read_lvs(passage: Passage) -> Iterator[Fact]:
    """A table of lvs, hidden volumes with it."""
    columns = Columns.from_heading(passage.line, LVS_CHECKS)
    passage.at += 1
    if _is_lvs(columns.names) and ({"VG", "Attr"} & set(columns.names) or _is_command(passage)):
        yield from _volumes(passage, columns)


def read_lvs_command(passage: Passage) -> Iterator[Fact]:
    """Output of an lvs command that does not begin with its heading "LV": other columns first, or no heading."""
    command = passage.command
    passage.at += 1
    first = passage.line.split()
    if command.program != "lvs" or not first or first[0] in ("LV", "VG"):
        return
    if all(word in LVS_CHECKS for word in first):
        columns = Columns.from_heading(passage.line, LVS_CHECKS)
        passage.at += 1
    else:
        columns = Columns(tuple(_columns_of(command)), (), LVS_CHECKS)
    if columns.names:
        yield from _volumes(passage, columns)


def _is_command(passage: Passage) -> bool:
    return passage.command.program == "lvs"


def _is_lvs(names: Sequence[str]) -> bool:
    """True for headings of volumes: vgs and pvs have none of "LV"."""
    return "LV" in names and any(name in LVS_CHECKS for name in names if name not in ("LV", "VG"))


def _columns_of(command: Command) -> list[str]:
    """Headings that lvs would print; [] where a field is not known."""
    fields = command.option("-o", "--options")
    names = [] if fields and not fields.startswith("+") else DEFAULT_HEADING.split()
    for field in fields.lstrip("+").split(",") if fields else ():
        name = field.removeprefix("lv_")
        if name not in FIELDS:
            return []
        names.append(FIELDS[name])
    return names


def _named_volumes(command: Command) -> list[str]:
    """Operands of a command of LVM: "vg0", "vg0/data"."""
    words = iter(command.words[1:])
    operands = []
    for word in words:
        if VALUE_OPTION.fullmatch(word):
            next(words, "")
        elif not word.startswith("-"):
            name = word.removeprefix("/dev/")
            operands.append(volume_name(name[7:]) if name.startswith("mapper/") else name)
    return operands


def _volumes(passage: Passage, columns: Columns) -> Iterator[Fact]:
    operands = _named_volumes(passage.command) if _is_command(passage) else []
    groups = {operand.partition("/")[0] for operand in operands}
    sizes: dict[str, tuple[float, int]] = {}
    pools: list[tuple[str, str]] = []
    for number, line in passage.rows():
        words = line.split()
        cells = columns.cells(line, _never_filled)
        if words[0] in ("LV", "VG") or (cells is None and columns.spans):
            passage.put_back()
            break
        # without a heading, a message ("No volume groups found") is no row
        if cells is None or not (columns.spans or any(word[0].isdigit() for word in words[1:])):
            continue
        group = cells.get("VG") or (next(iter(groups)) if len(groups) == 1 else "")
        name = cells.get("LV", "").strip("[]")
        if not name and len(operands) == 1 and "/" in operands[0]:
            name = operands[0]
        if not name:
            break
        name = name if "/" in name or not group else f"{group}/{name}"
        yield from _volume_facts(name, cells, number)
        if (size := binary_size(cells.get("LSize", ""))) is not None:
            sizes.setdefault(name, (size, number))
        if _volume_type(cells) == "cache" and (pool := _plain_name(cells.get("Pool", ""))):
            pools.append((name, f"{group}/{pool}" if group else pool))
    for name, pool in pools:
        if pool in sizes:
            yield Fact(name, "cache.size", *sizes[pool], "lvs")


def _volume_facts(name: str, cells: Mapping[str, str], number: int) -> Iterator[Fact]:
    kind = _volume_type(cells)
    if kind:
        yield Fact(name, "lv.type", kind, number, "lvs")
    for column, (fact, convert) in LVS.items():
        if cells.get(column, "").strip() and (value := convert(cells[column])) is not None:
            yield Fact(name, fact, value, number, "lvs")
    used, total = (parse_number(cells.get(f"Cache{part}Blocks", "")) for part in ("Used", "Total"))
    if used is not None and total:
        yield Fact(name, "cache.used_share", used / total, number, "lvs")
    elif kind == "cache" and (used := share(cells.get("Data%", ""))) is not None:
        yield Fact(name, "cache.used_share", used, number, "lvs")
    block = binary_size(cells.get("Chunk", "")) if total is not None else None
    if block and total:
        yield Fact(name, "cache.size", total * block, number, "lvs")


def _volume_type(cells: Mapping[str, str]) -> str:
    """Type of a volume; the segment type of a snapshot is "linear", so its attributes and origin count first."""
    kind, letter = cells.get("Type", ""), cells.get("Attr", "-")[:1]
    is_copy = kind in ("linear", "striped") and cells.get("Origin") and not cells.get("Pool")
    if cells.get("Snap%") or LV_KINDS.get(letter) == "snapshot" or is_copy:
        return "snapshot"
    return kind or LV_KINDS.get(letter, "")


# Columns that a volume of this kind leaves empty: they decide where a paste lost the alignment.
EMPTY_COLUMNS = {
    "-": ("Pool", "Origin", "Data%", "Meta%"),
    "o": ("Data%", "Meta%"),
    "s": ("Pool", "Meta%", "Cpy%Sync"),
    "t": ("Pool", "Origin"),
    "r": ("Pool", "Data%", "Meta%"),
}


def _never_filled(words: Sequence[str]) -> Sequence[str]:
    """Columns that are empty in a row with these words."""
    attributes = next((word for word in words[1:] if re.fullmatch(ATTRIBUTES, word)), "")
    # a plain word may look like attributes: they have a dash and ten letters, six in old versions
    is_attributes = "-" in attributes and len(attributes) >= 6
    return EMPTY_COLUMNS.get(attributes[:1], ()) if is_attributes else ()


def read_lvcreate(passage: Passage) -> Iterator[Fact]:
    """Facts of a volume that `lvcreate`, `lvconvert` or `lvchange` makes or changes, from that line on."""
    command, number = passage.command, passage.command.line
    passage.at += 1
    words = " ".join(command.words).replace(" -sn ", " -s -n ").split()
    command = Command(tuple(words), number, command.text)
    # the volume group, or the volume that it is about; disks may follow
    first = next(iter(_named_volumes(command)), "")
    group, _, origin = first.partition("/")
    named = command.option("-n", "--name").rpartition("/")[2]
    name = f"{group}/{named}" if named else first
    if "/" in name:
        yield from _made_volume(name, origin, command)


def _made_volume(name: str, origin: str, command: Command) -> Iterator[Fact]:
    number, source = command.line, command.program
    kind, stripes = command.option("--type"), command.option("-i", "--stripes")
    if mode := command.option("--cachemode"):
        yield Fact(name, "cache.mode", mode, number, source)
    if kind in ("cache", "writecache") and source != "lvchange":
        yield Fact(name, "lv.type", "cache", number, source)
    if source != "lvcreate":
        return
    if {"-s", "--snapshot"} & set(command.words) and origin:
        # without a size of its own it is a snapshot of a thin volume
        has_size = any(re.match(r"-[lL]|--size|--extents", word) for word in command.words)
        yield Fact(name, "lv.type", "snapshot" if has_size else "thin", number, source)
        yield Fact(name, "lv.origin", origin, number, source)
    elif command.option("-V", "--virtualsize"):
        yield Fact(name, "lv.type", "thin", number, source)
    elif stripes.isdigit() and int(stripes) > 1:
        if kind in ("", "striped"):
            yield Fact(name, "lv.type", "striped", number, source)
        yield Fact(name, "lv.stripes", float(stripes), number, source)
        size = command.option("-I", "--stripesize")
        if size and (value := binary_size(size)):
            factor = 1024.0 if size.isdigit() else 1.0
            yield Fact(name, "lv.stripe_size", value * factor, number, source)


TARGET = re.compile(
    r"(?:(?P<name>[\w.+-]+): )?\d+ \d+ (?P<target>linear|striped|crypt|thin|thin-pool|snapshot|cache|writecache)"
    r"(?: (?P<rest>.*))?"
)


def volume_name(mapper: str) -> str:
    """ "vg/lv" of device-mapper's "vg-lv", whose own hyphens are doubled; a name that is no volume's stays."""
    parts = re.split(r"(?<!-)-(?!-)", mapper)
    return "/".join(part.replace("--", "-") for part in parts) if len(parts) == 2 else mapper


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
        "LV": read_lvs,
        "VG": read_lvs,
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
    },
    commands={
        "cryptsetup": read_crypt_command,
        "lvs": read_lvs_command,
        **dict.fromkeys(("lvcreate", "lvconvert", "lvchange"), read_lvcreate),
    },
)
