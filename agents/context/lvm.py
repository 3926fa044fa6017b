# SPDX-License-Identifier: Apache-2.0
"""LVM: tables of lvs with any columns, and what lvcreate, lvconvert and lvchange make of a volume."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from agents.context.lines import (
    Chapter,
    Columns,
    Command,
    Passage,
    binary_size,
    parse_number,
    printed_text,
    share,
)
from agents.context.model import Fact, Value


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
    attached = next((word[2:] for word in command.words if re.match(r"-o[\w+]", word)), "")
    fields = command.option("-o", "--options") or attached
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


def read_lvdisplay(passage: Passage) -> Iterator[Fact]:
    """`lvdisplay`, whole or through grep: each volume begins with its path."""
    named = _named_volumes(passage.command)
    name = named[0] if len(named) == 1 and "/" in named[0] else ""
    passage.at += 1
    for number, line in passage.rows(blank_ends=False):
        if path := re.fullmatch(r"\s*LV Path\s+/dev/(\S+/\S+)", line):
            name = path[1]
        elif name:
            yield from _displayed(name, line.strip(), number)


def _displayed(name: str, line: str, number: int) -> Iterator[Fact]:
    if re.fullmatch(r"LV snapshot status\s+active destination for .+", line):
        yield Fact(name, "lv.type", "snapshot", number, "lvdisplay")
        yield Fact(name, "lv.origin", line.split()[-1], number, "lvdisplay")
    elif part := re.fullmatch(r"Allocated to snapshot\s+([\d.,]+)%", line):
        yield Fact(name, "lv.data_share", share(part[1]) or 0.0, number, "lvdisplay")
    elif count := re.fullmatch(r"Stripes\s+(\d+)", line):
        yield Fact(name, "lv.stripes", float(count[1]), number, "lvdisplay")
    elif size := re.fullmatch(r"Stripe size\s+([\d.,]+) ([KM])iB", line):
        value = binary_size(size[1] + size[2])
        if value:
            yield Fact(name, "lv.stripe_size", value, number, "lvdisplay")
    elif kind := re.fullmatch(r"Type\s+(linear|striped|cache|raid\d+|thin|thin-pool)", line):
        yield Fact(name, "lv.type", kind[1], number, "lvdisplay")


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


def volume_name(mapper: str) -> str:
    """ "vg/lv" of device-mapper's "vg-lv", whose own hyphens are doubled; a name that is no volume's stays."""
    parts = re.split(r"(?<!-)-(?!-)", mapper)
    return "/".join(part.replace("--", "-") for part in parts) if len(parts) == 2 else mapper


CHAPTER = Chapter(
    headings={"LV": read_lvs, "VG": read_lvs},
    commands={
        "lvs": read_lvs_command,
        "lvdisplay": read_lvdisplay,
        **dict.fromkeys(("lvcreate", "lvconvert", "lvchange"), read_lvcreate),
    },
)
