# SPDX-License-Identifier: Apache-2.0
"""The machine: memory and ZFS's cache in it, processors, kernel, and what people write about it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agents.context.disks import ZFS_PARAMETERS
from agents.context.lines import Chapter, Passage, binary_size, parse_number, printed_text
from agents.context.model import Fact

# free's option -> bytes of its unit
FREE_UNITS = {"-b": 1.0, "-k": 1024.0, "-m": 1024.0**2, "-g": 1024.0**3}
# Without a unit, free counts KiB, and -m MiB: no machine with fio has less than 500 MB or more than 500 GB by -m.
MIN_KIB, MIN_MIB = 500_000, 2_000


def read_free(passage: Passage) -> Iterator[Fact]:
    """Memory of the row "Mem:" of free."""
    words, number = passage.line.split(), passage.number
    passage.at += 1
    # fewer words are another program's ("Mem: 16G" of top has commas)
    if len(words) < 4:
        return
    total = binary_size(words[1])
    if total is None or not total:
        return
    if words[1].isdigit():
        units = [FREE_UNITS[word] for word in passage.command.words if word in FREE_UNITS]
        if passage.command.program == "free" and units:
            total *= units[0]
        elif total >= MIN_KIB:
            total *= 1024
        elif total >= MIN_MIB:
            total *= 1024**2
        else:
            return
    yield Fact("", "host.memory", total, number, "free")


def read_meminfo(passage: Passage) -> Iterator[Fact]:
    """MemTotal of /proc/meminfo."""
    line, number = passage.line, passage.number
    passage.at += 1
    if match := re.match(r"\s*MemTotal:\s+(\d+) kB", line):
        yield Fact("", "host.memory", float(match[1]) * 1024, number, "/proc/meminfo")


def read_linux(passage: Passage) -> Iterator[Fact]:
    """First line of iostat, and `uname -a`."""
    line, number = passage.line.strip(), passage.number
    passage.at += 1
    release = re.match(r"Linux (?:\S+ )?(\d+\.\d+[\w.+~-]*)(?: #| \()", line)
    if release is None:
        return
    yield Fact("", "host.os", "Linux", number, "uname")
    yield Fact("", "host.kernel", release[1], number, "uname")
    if cores := re.search(r"\((\d+) CPU\)$", line):
        yield Fact("", "host.cores", float(cores[1]), number, "iostat")


def read_lscpu(passage: Passage) -> Iterator[Fact]:
    """One line of lscpu."""
    key, _, text = passage.line.strip().partition(":")
    number = passage.number
    passage.at += 1
    if key == "CPU(s)" and text.strip().isdigit():
        yield Fact("", "host.cores", float(text), number, "lscpu")
    elif key == "Hypervisor vendor":
        yield Fact("", "host.virtualization", text.strip().lower(), number, "lscpu")
    elif key == "Model name" and (model := printed_text(text)):
        yield Fact("", "host.cpu", model, number, "lscpu")


def read_os(passage: Passage) -> Iterator[Fact]:
    """Name of an operating system other than Linux."""
    line, number = passage.line.strip(), passage.number
    passage.at += 1
    if re.fullmatch(r"(?:ProductName:\s*)?(?:macOS|Mac OS X)|Darwin \S+ \d.*|Darwin", line):
        yield Fact("", "host.os", "Darwin", number, "uname")
    elif re.fullmatch(r"FreeBSD|FreeBSD \S+ \d.*", line):
        yield Fact("", "host.os", "FreeBSD", number, "uname")


def read_sysctl(passage: Passage) -> Iterator[Fact]:
    """Shares of dirty memory: "vm.dirty_ratio = 20"."""
    row = re.fullmatch(
        r"\s*vm\.(dirty_ratio|dirty_background_ratio)\s*=\s*(\d{1,3})\s*", passage.line
    )
    number = passage.number
    passage.at += 1
    if row:
        background = "background_" if "background" in row[1] else ""
        yield Fact("", f"host.dirty_{background}share", float(row[2]) / 100, number, "sysctl")


# sysctl of FreeBSD -> module parameter of Linux
SYSCTLS = {
    "vfs.zfs.arc_max": "zfs_arc_max",
    "vfs.zfs.arc.max": "zfs_arc_max",
    "vfs.zfs.txg.timeout": "zfs_txg_timeout",
    "vfs.zfs.dirty_data_max": "zfs_dirty_data_max",
}


def read_zfs_parameter(passage: Passage) -> Iterator[Fact]:
    """ZFS's parameters: a line of arc_summary, of modprobe.d ("options zfs ..."), or of FreeBSD's sysctl."""
    line, number = passage.line.strip(), passage.number
    passage.at += 1
    if row := re.fullmatch(r"(zfs_\w+|vfs\.zfs\.[\w.]+)\s*[:=\s]\s*(\d+)", line):
        pairs = [(row[1], row[2])]
    elif line.startswith("options zfs "):
        pairs = re.findall(r"\b(zfs_\w+)=(\d+)", line)
    else:
        return
    for name, text in pairs:
        fact, convert = ZFS_PARAMETERS.get(SYSCTLS.get(name, name), ("", parse_number))
        if fact and (value := convert(text)) is not None:
            yield Fact("", fact, value, number, "parameters of ZFS")


def read_session(passage: Passage) -> Iterator[Fact]:
    """A session of `iscsiadm -m session`."""
    line, number = passage.line, passage.number
    passage.at += 1
    if re.match(r"\s*(?:tcp|iser): \[\d+\] \S+ iqn\.", line):
        yield Fact("", "network.protocol", "iscsi", number, "iscsiadm")


def read_single_value(passage: Passage) -> Iterator[Fact]:
    """`nproc`, `uname -r`, `systemd-detect-virt`: one line of output."""
    command = passage.command
    passage.at += 1
    text, number = passage.line.strip(), passage.number
    if command.program == "nproc" and text.isdigit():
        yield Fact("", "host.cores", float(text), number, "nproc")
    elif command.starts("grep", "-c") and "processor" in command.text and text.isdigit():
        yield Fact("", "host.cores", float(text), number, "/proc/cpuinfo")
    elif command.words == ("uname", "-r") and re.fullmatch(r"\d+\.\d+\S*", text):
        yield Fact("", "host.kernel", text, number, "uname")
    elif command.program == "systemd-detect-virt" and re.fullmatch(r"[a-z-]+", text):
        yield Fact("", "host.virtualization", text, number, "systemd-detect-virt")


def read_arcstat(passage: Passage) -> Iterator[Fact]:
    """arcstat's rows: hits over reads of all of them; of demanded data, where newer versions print no misses."""
    columns = passage.line.split()
    number = passage.number
    passage.at += 1
    newer = {"ddread", "ddh%"} <= set(columns)
    if not newer and not {"read", "miss"} <= set(columns):
        return
    reads = misses = 0.0
    for _, line in passage.rows():
        words = line.split()
        if len(words) != len(columns) or words == columns:
            continue
        cells = dict(zip(columns, words, strict=True))
        # arcstat counts with factors of 1,000 or 1,024, by version: the share does not depend on it
        read = binary_size(cells["ddread" if newer else "read"])
        miss = binary_size(cells["miss"]) if not newer else None
        if newer and read is not None and (hit := parse_number(cells["ddh%"])) is not None:
            miss = read * (1 - hit / 100)
        if read is not None and miss is not None:
            reads, misses = reads + read, misses + miss
    if reads and misses <= reads:
        yield Fact("", "host.arc_hit_share", 1 - misses / reads, number, "arcstat")


def read_arc_summary(passage: Passage) -> Iterator[Fact]:
    """One line of arc_summary."""
    line, number = passage.line.strip(), passage.number
    passage.at += 1
    if hits := re.match(r"(?i)(?:cache hit ratio|total hits):\s+(\d+(?:\.\d+)?)\s?%", line):
        yield Fact("", "host.arc_hit_share", float(hits[1]) / 100, number, "arc_summary")
    if most := re.match(
        r"Max size \(high water\):\s+(?:[\d:.%]+\s+)+(\d+(?:\.\d+)?) ([KMGT])i?B", line
    ):
        yield Fact("", "host.arc_max", binary_size(most[1] + most[2]) or 0.0, number, "arc_summary")


def read_arcstats_file(passage: Passage) -> Iterator[Fact]:
    """/proc/spl/kstat/zfs/arcstats from its `hits` to its `c_max`."""
    counts: dict[str, tuple[float, int]] = {}
    for number, line in passage.rows():
        row = re.fullmatch(r"(\w+)\s+4\s+(\d+)", line.strip())
        if row is None:
            passage.at = max(passage.at - 1, number)
            break
        counts[row[1]] = float(row[2]), number
    if not counts:
        passage.at += 1
    if {"hits", "misses"} <= counts.keys() and (total := counts["hits"][0] + counts["misses"][0]):
        hit_share, number = counts["hits"][0] / total, counts["hits"][1]
        yield Fact("", "host.arc_hit_share", hit_share, number, "arcstats")
    if "c_max" in counts:
        yield Fact("", "host.arc_max", *counts["c_max"], "arcstats")


CHAPTER = Chapter(
    headings={
        "time": read_arcstat,
        "hits": read_arcstats_file,
        "Max": read_arc_summary,
        "Cache": read_arc_summary,
        "Total": read_arc_summary,
        "options": read_zfs_parameter,
        "Mem:": read_free,
        "MemTotal:": read_meminfo,
        "Linux": read_linux,
        "CPU(s):": read_lscpu,
        "Hypervisor": read_lscpu,
        "Model": read_lscpu,
        "ProductName:": read_os,
        "macOS": read_os,
        "Mac": read_os,
        "Darwin": read_os,
        "FreeBSD": read_os,
    },
    shapes=(
        (r"vm\.dirty_\w+", read_sysctl),
        (r"(?:zfs_\w+|vfs\.zfs\.[\w.]+)(?:[:=]\d*)?", read_zfs_parameter),
    ),
    parts={
        "iqn.": read_session,
    },
    commands={
        "nproc": read_single_value,
        "grep": read_single_value,
        "uname": read_single_value,
        "systemd-detect-virt": read_single_value,
    },
)
