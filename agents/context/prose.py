# SPDX-License-Identifier: Apache-2.0
"""Remarks of people beside outputs: lines of their own, and clauses that name disks, cards and memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agents.context.lines import Chapter, Passage
from agents.context.model import Fact, Value

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
    r"(?: ?[x×] ?(?=\S)(?!E[357]-|Xeon|EPYC|Opteron|Intel (?:Xeon|Core)|AMD)"
    r"(?!\d+ ?(?:Gi?B )?(?:RAM|DDR|DIMM|ECC|GbE|Gbit|cores)) ?(?=\S)| of (?:them|these)\b"
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


# models for data centres, whose data sheets all state power-loss protection
PROTECTED_MODEL = re.compile(
    r"[PS]M(?:8[5-9]3|9[58]3|9A3)|\bS[34]\d|Micron (?:5[1-4]|7|9)|Kingston DC|P4[56]|C[DM][5-8]"
)


def read_prose(passage: Passage) -> Iterator[Fact]:
    """ "7200 rpm", "62 GB RAM", "1 GbE" in a short clause that states it."""
    line, number = passage.line.strip(), passage.number
    passage.at += 1
    for clause in re.split(r"(?<=[.;!?])\s+", line):
        if len(clause) <= MAX_PROSE_CHARACTERS and not NO_STATEMENT.search(clause):
            yield from _disk_words(clause, number)
            yield from _machine_words(clause, number)


def _disk_words(clause: str, number: int) -> Iterator[Fact]:
    """What a clause says of the disks, if it says how many they are or speaks of one."""
    place = -1
    facts: list[tuple[str, Value]] = []
    if rpm := RPM.search(clause):
        place = rpm.start()
        facts = [("disk.rpm", float(re.sub(r"[,.]", "", rpm[1])))]
    elif rpm := RPM_IN_THOUSANDS.search(clause):
        place = rpm.start()
        facts = [("disk.rpm", float(rpm[1]) * 1000)]
    elif (model := FLASH_MODEL.search(clause)) and not OTHER_USE.search(clause):
        place = model.start()
        facts = [("disk.model", model[1]), ("disk.rotational", False)]
        facts += [("disk.protection", True)] if PROTECTED_MODEL.search(model[1]) else []
    count = _disk_count(clause, place)
    if count:
        facts.append(("disk.count", count))
    if place >= 0 and (count or not SEVERAL.search(clause)):
        yield from (Fact("", name, value, number, "prose") for name, value in facts)
    if PROTECTED.fullmatch(clause):
        yield Fact("", "disk.protection", True, number, "prose")
    if card := CARD_MODEL.search(clause):
        yield Fact("", "controller.model", card[1], number, "prose")


def _disk_count(clause: str, place: int) -> float | None:
    """The number of disks by the words next before `place`, or else behind it; None without such words."""
    counts = list(DISK_COUNT.finditer(clause))
    before = [count for count in counts if count.start() < place]
    at_model = MODEL_COUNT.search(clause[: max(place, 0)])
    nearest = at_model or (before[-1] if before else next(iter(counts), None))
    if nearest is None:
        return None
    word = nearest["count"].lower()
    return float(NUMBERS.get(word) or word)


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


CHAPTER = Chapter(
    shapes=((r"\([\w,]+\)?:?|#\S*", read_remark),),
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
    },
)
