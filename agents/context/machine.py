# SPDX-License-Identifier: Apache-2.0
"""The machine: memory and ZFS's cache in it, processors, kernel, and what people write about it."""

from __future__ import annotations

import re
from collections.abc import Iterator

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
    elif command.words == ("uname", "-r") and re.fullmatch(r"\d+\.\d+\S*", text):
        yield Fact("", "host.kernel", text, number, "uname")
    elif command.program == "systemd-detect-virt" and re.fullmatch(r"[a-z-]+", text):
        yield Fact("", "host.virtualization", text, number, "systemd-detect-virt")


# Remarks on lines of their own: "(in the guest)", "(client, NFS)", "# on the host"
REMARK = re.compile(
    r"\s*(?:\(([\w ,.-]{2,60})\)|#\s*((?:(?:in|on|from) (?:the )?)?(?:guest|vm|host|client|server)))\s*:?\s*"
)
PLACES = {"guest": "guest", "vm": "guest", "host": "host", "client": "client", "server": "server"}
PROTOCOLS = ("nfs", "iscsi", "smb")
REPLICATED = ("longhorn", "ceph", "rbd", "drbd", "gluster", "glusterfs", "linstor", "vitastor")


def read_remark(passage: Passage) -> Iterator[Fact]:
    """A remark that says where the lines below were run, or on what."""
    match = REMARK.fullmatch(passage.line)
    number = passage.number
    passage.at += 1
    text = (match[1] or match[2]).lower() if match else ""
    words = re.findall(r"\w+", text)
    for word in words:
        if word in PLACES:
            yield Fact("", "host.role", PLACES[word], number, "remark")
        elif word in PROTOCOLS:
            yield Fact("", "network.protocol", word, number, "remark")
        elif word in REPLICATED:
            yield Fact("", "replicated.kind", word, number, "remark")
    if copies := re.search(r"\b([2-5]) replicas\b", text):
        yield Fact("", "replicated.copies", float(copies[1]), number, "remark")
    if "virtio" in words:
        yield Fact("", "vm.bus", "virtio", number, "remark")


# A line of prose that wishes, asks or compares says nothing of the machine.
NO_STATEMENT = re.compile(
    r"(?i)\?|\b(?:if|would|should|could|need|needs|require[sd]?|recommend\w*|upgrade|minimum|at least|per|each|without"
    r"|instead|than|vs|buy|add|ram ?disk|another|other|not|no)\b"
)
MAX_PROSE_CHARACTERS = 100
# "SSD with PLP"; advice ("use a drive with power-loss protection") is a longer sentence
PROTECTED = re.compile(
    r"(?i)[\w ./:()+-]{0,30}\b(?:with |has |have |\()(?:PLP|power[- ]loss protection)\)?[.,;]?"
)


NUMBERS = {
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "eight": 8,
    "ten": 10,
    "twelve": 12,
}
# "4x 4 TB", "six SAS disks", "8 of them"; not the level in "RAID 0 of 8 disks"
DISK_COUNT = re.compile(
    rf"(?i)(?<!raid )(?<!raid-)\b(?P<count>[1-9]\d?|{'|'.join(NUMBERS)})"
    r"(?: ?[x×] ?(?=\S)| of (?:them|these)\b"
    r"| (?:(?:\d[\d.,]* ?(?:TB|GB|rpm|k)|(?!of\b|in\b|and\b|with\b)[a-z][\w./-]*) ){0,4}?"
    r"(?:disks?|drives?|hdds?|ssds?|spindles|members)\b)"
)
# "Two Samsung PM893": the number before a model
MODEL_COUNT = re.compile(rf"(?i)(?:^|\s)(?P<count>[1-9]\d?|{'|'.join(NUMBERS)}) (?:[x×] )?$")
SEVERAL = re.compile(
    r"(?i)\braid|\bmirror|\bstripe|\bpool\b|\barray\b|\bjbod\b|\b(?:disks|drives|hdds|ssds|both)\b"
)
RPM = re.compile(r"(?i)\b(\d{1,2}[,.]?\d00) ?(?:rpm|u/min)\b")
RPM_IN_THOUSANDS = re.compile(
    r"(?i)\b(5\.[49]|7\.2|10|15)k(?: ?rpm\b|(?= (?:sas|disks?|drives?|hdds?)\b)|(?<=7\.2k)(?=[),.;]|$))"
)
MEMORY = re.compile(
    r"(?i)\b(\d{1,4}) ?G(?:i?B)?(?: of)?(?: DDR\d| ECC)* (?:RAM|memory)\b"
    r"|\b(?:RAM|memory)(?: ?[:=] ?| )(\d{1,4}) ?Gi?B\b"
)
# Models whose name means one thing only: flash, by its makers' lists of products
FLASH_MODEL = re.compile(
    r"\b((?:Samsung )?(?:8[4-7]0 (?:EVO|PRO|QVO)|9[5-9]0 (?:EVO Plus|EVO|PRO))"
    r"|(?:Samsung )?[PS]M(?:8[5-9]3|9[58]3|9A[13]|17[2-4][35])[a-z]?"
    r"|(?:Intel )?(?:SSD )?(?:DC )?(?:S3[5-7][0-2]0|S4[56][0-2]0|P4[56][0-2]0|P[45]800X|P5[56][0-2]0)"
    r"|(?:Intel )?Optane (?:SSD )?(?:900P|905P|DC \w+)|Micron (?:5[1-4]00|7[345]00|9[2345]00)"
    r"|(?:Crucial )?[BM]X500|Kingston DC\d{3,4}\w|(?:KIOXIA|Toshiba) C[DM][5-8]\S*)(?=[\s,.;:()]|$)"
)
# parts of lines in which such models may be
FLASH_WORDS = (
    *(
        " evo",
        " pro",
        " qvo",
        "pm8",
        "pm9",
        "pm17",
        "sm8",
        "s35",
        "s36",
        "s37",
        "s45",
        "s46",
        "p45",
        "p46",
    ),
    *("800x", "p55", "p56", "optane", "micron", "x500", "kingston", "kioxia", "toshiba c"),
)
# beside such words a model may not be that of the disk under test
OTHER_USE = re.compile(
    r"(?i)\bcache|slog|\bzil\b|\blog\b|special|\bboot|system|\bos\b|hdd|rpm|spin|journal|\bwal\b"
)
# cards with a cache of their own; HBAs and the smallest PERCs have none
CARD_MODEL = re.compile(
    r"\b(PERC H(?:7[1345]0|8[1345]0|965)\w*|MegaRAID \d{4}\S*|Smart Array P\d{3}\w*)"
)
CORES = re.compile(r"(?i)(?:^|[,;(] ?|\bwith )(\d{1,3}) ?(?:v?CPUs?|cores|-core)\b")


def read_prose(passage: Passage) -> Iterator[Fact]:
    """ "7200 rpm", "62 GB RAM", "1 GbE" in a short clause that states it."""
    line, number = passage.line.strip(), passage.number
    passage.at += 1
    for clause in re.split(r"(?<=[.;!?:])\s+", line):
        if len(clause) <= MAX_PROSE_CHARACTERS and not NO_STATEMENT.search(clause):
            yield from _disk_words(clause, number)
            yield from _machine_words(clause, number)


def _disk_words(clause: str, number: int) -> Iterator[Fact]:
    """What a clause says of the disks, if it says how many they are or speaks of one."""
    count = DISK_COUNT.search(clause)
    facts: list[Fact] = []
    if rpm := RPM.search(clause):
        facts.append(Fact("", "disk.rpm", float(re.sub(r"[,.]", "", rpm[1])), number, "prose"))
    elif rpm := RPM_IN_THOUSANDS.search(clause):
        facts.append(Fact("", "disk.rpm", float(rpm[1] or rpm[2]) * 1000, number, "prose"))
    elif (model := FLASH_MODEL.search(clause)) and not OTHER_USE.search(clause):
        count = count or MODEL_COUNT.search(clause[: model.start()])
        facts.append(Fact("", "disk.model", model[1], number, "prose"))
        facts.append(Fact("", "disk.rotational", False, number, "prose"))
    if facts and (count or not SEVERAL.search(clause)):
        yield from facts
        if count:
            word = count["count"].lower()
            value = float(NUMBERS.get(word) or word)
            yield Fact("", "disk.count", value, number, "prose")
    if PROTECTED.fullmatch(clause):
        yield Fact("", "disk.protection", True, number, "prose")
    if card := CARD_MODEL.search(clause):
        yield Fact("", "controller.model", card[1], number, "prose")


def _machine_words(clause: str, number: int) -> Iterator[Fact]:
    if memory := MEMORY.search(clause):
        size = float(memory[1] or memory[2]) * 1024**3
        yield Fact("", "host.memory", size, number, "prose")
    if cores := CORES.search(clause):
        yield Fact("", "host.cores", float(cores[1]), number, "prose")
    if network := re.search(
        r"\b(\d{1,3}(?:\.5)?) ?(?:GbE|Gbps ethernet|Gbit ethernet|GBit LAN)\b",
        clause,
        re.IGNORECASE,
    ):
        yield Fact("", "host.network", float(network[1]) * 1e9 / 8, number, "prose")


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
    shapes=((r"\([\w,]+\)?:?|#\S*", read_remark), (r"vm\.dirty_\w+", read_sysctl)),
    parts={
        "rpm": read_prose,
        **dict.fromkeys(FLASH_WORDS, read_prose),
        **dict.fromkeys(("7.2k", "10k ", "15k ", "ram:", "memory:", "g ram", "perc h"), read_prose),
        **dict.fromkeys(("megaraid ", "smart array p", " cores", "cpus", " vcpu"), read_prose),
        "b memory": read_prose,
        " ram": read_prose,
        "gbe": read_prose,
        "plp": read_prose,
        "power loss": read_prose,
        "power-loss": read_prose,
        "iqn.": read_session,
    },
    commands={
        "nproc": read_single_value,
        "uname": read_single_value,
        "systemd-detect-virt": read_single_value,
    },
)
