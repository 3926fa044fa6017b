# SPDX-License-Identifier: Apache-2.0
"""Partitions and file systems: where they begin, are mounted, how full they are, their stripes and their holes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agents.context.lines import (
    Chapter,
    Passage,
    Table,
    binary_size,
    device_name,
    partition_name,
    printed_text,
    share,
)
from agents.context.model import Fact

TYPES = (
    "ext2|ext3|ext4|xfs|btrfs|zfs|f2fs|bcachefs|nfs|nfs4|cifs|smb3|tmpfs|overlay|fuse[.\\w-]*|glusterfs|ceph|ocfs2|gfs2"
    "|vfat|exfat|ntfs3?|apfs|hfs|ufs|reiserfs|jfs|9p|virtiofs"
)
MOUNT = re.compile(
    rf"(?P<source>\S+) on (?P<target>/.*?) type (?P<type>{TYPES}) \((?P<options>[^()]+)\)"
)
BSD_MOUNT = re.compile(
    rf"(?P<source>\S+) on (?P<target>/.*?) \((?P<type>{TYPES})(?:, (?P<options>[^()]+))?\)"
)
FSTAB = re.compile(
    rf"(?P<source>\S+)\s+(?P<target>/\S*)\s+(?P<type>{TYPES})\s+(?P<options>\S+)\s+\d\s+\d"
)


def read_mount(passage: Passage) -> Iterator[Fact]:
    """One line of mount, /proc/mounts or fstab."""
    line, number = passage.line.strip(), passage.number
    passage.at += 1
    match = MOUNT.fullmatch(line) or BSD_MOUNT.fullmatch(line) or FSTAB.fullmatch(line)
    if match is not None:
        options = (match["options"] or "").replace(", ", ",")
        yield from _mount_facts(match["target"], match["source"], match["type"], options, number)


def _mount_facts(target: str, source: str, kind: str, options: str, number: int) -> Iterator[Fact]:
    yield Fact(target, "mount.type", kind, number, "mount")
    yield Fact(
        target,
        "mount.source",
        device_name(source) if source.startswith("/dev/") else source,
        number,
        "mount",
    )
    if options:
        yield Fact(target, "mount.options", options, number, "mount")


def read_mount_command(passage: Passage) -> Iterator[Fact]:
    """`mount -t nfs -o sync nas:/tank /mnt`: what is mounted from that line on."""
    command = passage.command
    passage.at += 1
    kind, options = command.option("-t"), command.option("-o")
    operands = [word for word in command.operands() if word not in (kind, options)]
    if len(operands) == 2 and operands[1].startswith("/") and re.fullmatch(TYPES, kind):
        yield from _mount_facts(operands[1], operands[0], kind, options, command.line)
    elif len(operands) == 1 and operands[0].startswith("/") and "remount" in options:
        yield Fact(operands[0], "mount.options", options, command.line, "mount")


def read_findmnt(passage: Passage) -> Iterator[Fact]:
    """A table of findmnt."""
    columns = passage.line.split()
    table = Table.from_heading(passage.line, {"FSTYPE": TYPES, "OPTIONS": r"\S+"})
    passage.at += 1
    if not {"SOURCE", "FSTYPE"} <= set(columns):
        return
    for number, line in passage.rows():
        plain = re.sub(r"^[\s│|├└`─-]+(?=/)", "", line)
        cells = table.cells(" " * 0 + plain) or table.cells(line)
        if cells is None or not cells["TARGET"].startswith("/"):
            continue
        options = cells.get("OPTIONS", "")
        yield from _mount_facts(cells["TARGET"], cells["SOURCE"], cells["FSTYPE"], options, number)


def read_export(passage: Passage) -> Iterator[Fact]:
    """A line of /etc/exports or `exportfs -v`."""
    line, number = passage.line.strip(), passage.number
    passage.at += 1
    if match := re.match(r"(/\S*)\s+\S*?\(((?:r[wo]|sync|async)[\w,=.:-]*)\)", line):
        yield Fact(match[1], "export.options", match[2], number, "exports")


def read_nfsstat(passage: Passage) -> Iterator[Fact]:
    """`nfsstat -m`: a mount's line, then its flags."""
    line, number = passage.line.strip(), passage.number
    passage.at += 1
    head = re.fullmatch(r"(/\S*) from (\S+:/\S*)", line)
    if head and (flags := re.fullmatch(r"\s*Flags:\s*(\S+)", passage.line)):
        passage.at += 1
        yield from _mount_facts(head[1], head[2], "nfs", flags[1], number)


def read_fstrim(passage: Passage) -> Iterator[Fact]:
    """`fstrim -v`: what the disk was told that it may forget."""
    line, number = passage.line.strip(), passage.number
    passage.at += 1
    if trimmed := re.fullmatch(r"(/\S*): .*?\((\d+) bytes\) (?:were )?trimmed.*", line):
        yield Fact(trimmed[1], "fs.trimmed", float(trimmed[2]), number, "fstrim")


DF_ROW = re.compile(
    rf"(?P<source>\S+)\s+(?:(?P<type>{TYPES})\s+)?[\d.,]+[KMGTPE]?\s+[\d.,]+[KMGTPE]?\s+[\d.,]+[KMGTPE]?\s+"
    r"(?P<used>\d{1,3})%\s+(?P<target>/.*)"
)


def read_df(passage: Passage) -> Iterator[Fact]:
    """A table of df."""
    # df -i counts inodes
    is_space = re.search(r"%\s+\S+", passage.line) and not re.search(
        r"(?i)inodes|iuse", passage.line
    )
    passage.at += 1
    if is_space:
        yield from _df_rows(passage)


def read_df_output(passage: Passage) -> Iterator[Fact]:
    """Output of a df command without its heading."""
    is_space = not re.search(r"\s-\w*i|--inodes|--output", passage.command.text)
    passage.at += 1
    if is_space and not re.match(r"Filesystem|Dateisystem", passage.line):
        yield from _df_rows(passage)


def _df_rows(passage: Passage) -> Iterator[Fact]:
    above = ""
    for number, line in passage.rows():
        # a long name stands on a line of its own
        row = DF_ROW.fullmatch(f"{above} {line.strip()}".strip())
        above = line.strip() if len(line.split()) == 1 else ""
        if row is None:
            continue
        yield Fact(row["target"], "fs.used_share", share(row["used"]) or 0.0, number, "df")
        if row["source"].startswith("/dev/"):
            yield Fact(row["target"], "mount.source", device_name(row["source"]), number, "df")
        if row["type"]:
            yield Fact(row["target"], "mount.type", row["type"], number, "df")


def read_xfs_info(passage: Passage) -> Iterator[Fact]:
    """Stripe of xfs_info and mkfs.xfs, in blocks of the data section. The subject is the mount point if it is known."""
    head = re.match(r"meta-data=(\S+)", passage.line.strip())
    command = passage.command
    paths = [word for word in command.operands() if word.startswith("/")]
    mounted = command.program == "xfs_info" and paths and not paths[0].startswith("/dev/")
    subject = paths[0] if mounted else device_name(head[1]) if head else ""
    if mounted and head and head[1].startswith("/dev/"):
        yield Fact(subject, "mount.source", device_name(head[1]), passage.number, "xfs_info")
        yield Fact(subject, "mount.type", "xfs", passage.number, "xfs_info")
    block = 0.0
    for number, line in passage.rows():
        if line.startswith("data") and (size := re.search(r"bsize=(\d+)", line)):
            block = float(size[1])
        if block and (stripe := re.search(r"sunit=(\d+)\s+swidth=(\d+) blks", line)):
            yield Fact(subject, "fs.sunit", float(stripe[1]) * block, number, "xfs_info")
            yield Fact(subject, "fs.swidth", float(stripe[2]) * block, number, "xfs_info")
        if line.startswith(("naming", "log")):
            return


FILE_SIZE = re.compile(r"File size of (.+) is (\d+) \(\d+ blocks? of \d+ bytes\)")


def read_filefrag(passage: Passage) -> Iterator[Fact]:
    """Extents of `filefrag -v`. Output that was cut, and without unwritten extents, tells nothing of the rest."""
    head = FILE_SIZE.fullmatch(passage.line.strip())
    number = passage.number
    passage.at += 1
    if head is None:
        return
    yield Fact(head[1], "file.size", float(head[2]), number, "filefrag")
    unwritten = 0
    for number, line in passage.rows():
        if not re.match(r"\s*(\d+|ext):", line):
            passage.put_back()
            break
        if re.search(r"\bunwritten\b", line):
            unwritten = unwritten or number
    if unwritten:
        yield Fact(head[1], "file.unwritten", True, unwritten, "filefrag")


TOOL_ERROR = re.compile(
    r"fio: io_u error on file (?P<file>/[^:]+): (?P<io>[A-Z][^:]+):"
    r"|fio: pid=\d+, err=\d+/file:.*, error=(?P<pid>[A-Z].*)"
    r"|(?P<job>[^:\s]+): \(g(?:roupid)?=\d+.*\): err=\s*[1-9]\d* \(.*error=(?P<ended>[^)]+)\).*"
    r"|dd: (?:error )?(?:writing|reading|opening|failed to open)(?: to)? ['‘`]?(?P<dd>/[^'’:]+)['’]?: (?P<text>[A-Z].*)"
)


def read_tool_error(passage: Passage) -> Iterator[Fact]:
    """An error of fio or dd: a run that met one is no measurement."""
    match, number = TOOL_ERROR.match(passage.line.strip()), passage.number
    passage.at += 1
    if match:
        text = match["io"] or match["pid"] or match["ended"] or match["text"]
        subject = match["file"] or match["job"] or match["dd"] or ""
        yield Fact(subject, "tool.error", text.strip(), number, "tool")


# A file whose blocks hold a smaller share of its size is sparse, or compressed.
STORED = 0.9


def read_stat(passage: Passage) -> Iterator[Fact]:
    """`stat FILE`: a file whose blocks hold less than nine tenths of its size is sparse."""
    head = re.fullmatch(r"File: ['‘`]?(.+?)['’]?", passage.line.strip())
    passage.at += 1
    row = re.match(r"\s*Size: (\d+)\s+Blocks: (\d+)\s+IO Block: \d+\s+regular file", passage.line)
    if head and row:
        size, stored = float(row[1]), float(row[2]) * 512
        yield from _stored_facts(head[1], size, stored, passage.number, "stat")


# `ls -ls`: blocks of 1 KiB, or with -h a size, before the mode; then links, owner, group and the file's size
LS_ROW = re.compile(
    r"\s*(?P<stored>\d+(?:[.,]\d+)?[KMGT]?)\s+-[rwxsStT-]{9}[.+@]?\s+\d+\s+\S+\s+\S+\s+(?P<size>\d+(?:[.,]\d+)?[KMGT]?)\s+"
    r"(?:[A-Z][a-z]{2}\s+\d+\s+[\d:]+|\d+\.?\s+[A-Z][a-z]{2}\s+[\d:]+|\d{4}-\d\d-\d\d\s+\d\d:\d\d\S*(?:\s+[+-]\d{4})?)\s+"
    r"(?P<name>\S.*)"
)
KIB = 1024.0


def read_ls(passage: Passage) -> Iterator[Fact]:
    """Rows of `ls -ls`: a file's size, and what is stored of it."""
    command = passage.command
    passage.at += 1
    options = "".join(word for word in command.words[1:] if re.fullmatch(r"-\w+", word))
    if not ("s" in options and "l" in options):
        return
    for number, line in passage.rows():
        row = LS_ROW.fullmatch(line)
        size = binary_size(row["size"]) if row else None
        stored = binary_size(row["stored"]) if row else None
        if row is None or size is None or stored is None:
            continue
        # with -h a number without a unit counts bytes
        stored *= 1.0 if "h" in options else KIB
        folder = next((word for word in command.operands() if word.startswith("/")), "")
        name = f"{folder.rstrip('/')}/{row['name']}" if folder else row["name"]
        name = row["name"] if row["name"].startswith("/") else name
        yield from _stored_facts(name, size, stored, number, "ls")


def _stored_facts(
    name: str, size: float, stored: float, number: int, source: str
) -> Iterator[Fact]:
    yield Fact(name, "file.size", size, number, source)
    yield Fact(name, "file.stored", stored, number, source)
    yield Fact(name, "file.sparse", stored < STORED * size, number, source)


DU_ROW = re.compile(r"\s*(?P<size>\d+(?:[.,]\d+)?[KMGT]?)\s+(?P<name>/\S+|[\w.-]+)\s*")


def read_du(passage: Passage) -> Iterator[Fact]:
    """`du FILE` and `du --apparent-size FILE`: what is stored of a file, and its size."""
    command = passage.command
    passage.at += 1
    options = "".join(word for word in command.words[1:] if re.fullmatch(r"-\w+", word))
    unit = 1.0 if re.search("[bh]", options) else KIB * (KIB if "m" in options else 1.0)
    apparent = "--apparent-size" in command.words or "b" in options
    for number, line in passage.rows():
        row = DU_ROW.fullmatch(line)
        # a folder's sum is no file
        if row is None or row["name"] not in command.operands() or row["name"].endswith("/"):
            continue
        size = binary_size(row["size"])
        if size is not None and "." in row["name"].rpartition("/")[2]:
            name = "file.size" if apparent else "file.stored"
            yield Fact(row["name"], name, size * unit, number, "du")


FDISK_ROW = re.compile(
    r"(?P<device>/dev/\S+)\s+(?:\*\s+)?(?P<start>\d+)\s+\d+\s+(?P<sectors>\d+)\s+\d+(?:[.,]\d+)?[KMGTP]?\s+\S.*"
)
NUMBERED_ROW = re.compile(
    r"(?P<number>\d{1,3})\s+(?P<start>\d+)s?\s+(?P<end>\d+)s?\s+\d+(?:[.,]\d+)?\s?(?:s|[KMGT]i?B)\b.*"
)


def read_fdisk_row(passage: Passage) -> Iterator[Fact]:
    """A partition's row of `fdisk -l`, in sectors."""
    line, number = passage.line.strip(), passage.number
    passage.at += 1
    match = FDISK_ROW.fullmatch(line)
    # start and length in sectors agree with the end; older ones print cylinders
    if match is None or not re.match(r"\S+\s+(?:\*\s+)?\d+\s+\d+\s+\d+", line):
        return
    start, end, sectors = (int(word) for word in re.findall(r"(?<=\s)\d+(?=\s)", line)[:3])
    if end - start + 1 == sectors:
        name = device_name(match["device"])
        yield Fact(name, "disk.start", float(start), number, "fdisk")
        if parent := re.fullmatch(r"((?:nvme\d+n|mmcblk)\d+)p\d+|([a-z]+)\d+", name):
            yield Fact(name, "disk.parent", parent[1] or parent[2], number, "fdisk")


def read_partitions(passage: Passage) -> Iterator[Fact]:
    """Partitions that fdisk, parted, gdisk and sgdisk print below "Disk /dev/sda"."""
    disk = ""
    for number, line in passage.rows(blank_ends=False):
        line = line.strip()
        if titled := re.match(r"Disk (/dev/\S+?):\s*(?P<rest>.*)", line):
            if disk:
                passage.put_back()
                return
            disk = device_name(titled[1])
            if size := re.search(r"\b(\d{6,}) bytes", titled["rest"]):
                yield Fact(disk, "disk.size", float(size[1]), number, "fdisk")
        elif not disk:
            return
        elif model := re.fullmatch(r"Disk model:\s*(\S.*)|Model: (\S.*?) \(\w+\)", line):
            yield Fact(
                disk, "disk.model", printed_text(model[1] or model[2]) or "", number, "fdisk"
            )
        elif sizes := re.fullmatch(
            r"(?i)sector size \(logical/physical\):\s*(\d+)(?: ?B| bytes)?\s*/\s*(\d+)(?: ?B| bytes)?",
            line,
        ):
            yield Fact(disk, "disk.logical_block", float(sizes[1]), number, "fdisk")
            yield Fact(disk, "disk.physical_block", float(sizes[2]), number, "fdisk")
        elif row := NUMBERED_ROW.fullmatch(line):
            name = partition_name(disk, row["number"])
            yield Fact(name, "disk.start", float(row["start"]), number, "partition table")
            yield Fact(name, "disk.parent", disk, number, "partition table")


CHAPTER = Chapter(
    headings={
        "Disk": read_partitions,
        "TARGET": read_findmnt,
        "Filesystem": read_df,
        "Dateisystem": read_df,
        "File": read_filefrag,
        "File:": read_stat,
    },
    shapes=((r"meta-data=\S+", read_xfs_info), (r"/dev/[\w/.-]+[^:\s]", read_fdisk_row)),
    commands={
        "mount": read_mount_command,
        "df": read_df_output,
        "ls": read_ls,
        "du": read_du,
    },
    parts={
        "trimmed": read_fstrim,
        "err=": read_tool_error,
        "io_u error": read_tool_error,
        "dd: ": read_tool_error,
        " from ": read_nfsstat,
        " type ": read_mount,
        " on /": read_mount,
        **{
            f" {kind} ": read_mount
            for kind in ("ext4", "xfs", "nfs", "nfs4", "btrfs", "ext3", "cifs")
        },
        "(rw": read_export,
        "(ro": read_export,
        "(sync": read_export,
        "(async": read_export,
    },
)
