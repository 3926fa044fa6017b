# SPDX-License-Identifier: Apache-2.0
"""Virtual machines and clouds: how a guest's disks are emulated, and what a volume is provisioned with."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agents.context.lines import Chapter, Passage, known_text
from agents.context.model import Fact, Value


def read_qm_disk(passage: Passage) -> Iterator[Fact]:
    """A disk of a Proxmox guest, "scsi0: local-zfs:vm-101-disk-0,iothread=1". Absent options have qm's defaults."""
    row = re.match(
        r"\s*(scsi|virtio|ide|sata)(\d+): ([\w./-]+:[^\s,]+)(?:,(\S*))?\s*$", passage.line
    )
    number = passage.number
    passage.at += 1
    if row is None or "media=cdrom" in (row[4] or ""):
        return
    name = f"{row[1]}{row[2]}"
    options = dict(pair.split("=", 1) for pair in (row[4] or "").split(",") if "=" in pair)
    yield Fact(name, "vm.bus", row[1], number, "qm config")
    yield Fact(name, "vm.cache", options.get("cache", "none"), number, "qm config")
    if row[1] in ("scsi", "virtio"):
        iothread = options.get("iothread", "0") in ("1", "on", "yes")
        yield Fact(name, "vm.iothread", iothread, number, "qm config")
    if "aio" in options:
        yield Fact(name, "vm.aio", options["aio"], number, "qm config")


CONTROLLERS = known_text(
    "lsi", "lsi53c810", "megasas", "pvscsi", "virtio-scsi-pci", "virtio-scsi-single"
)


def read_qm_controller(passage: Passage) -> Iterator[Fact]:
    """ "scsihw: virtio-scsi-single"."""
    text, number = passage.line.partition(":")[2], passage.number
    passage.at += 1
    if controller := CONTROLLERS(text):
        yield Fact("", "vm.controller", controller, number, "qm config")


def read_libvirt_disk(passage: Passage) -> Iterator[Fact]:
    """A <disk> of libvirt's XML, to its end."""
    rows: list[tuple[int, str]] = []
    for number, line in passage.rows():
        rows.append((number, line))
        if "</disk>" in line:
            break
        if len(rows) > 1 and "<disk " in line:
            passage.put_back()
            return
    text = "\n".join(line for _, line in rows)
    target = re.search(r"<target\b[^>]*\bdev=['\"](\w+)['\"]", text)
    if target is None or re.search(r"<disk\b[^>]*device=['\"](?:cdrom|floppy)", text):
        return
    for number, line in rows:
        if bus := re.search(r"<target\b[^>]*\bbus=['\"](\w+)['\"]", line):
            yield Fact(target[1], "vm.bus", bus[1], number, "libvirt")
        if driver := re.search(r"<driver\b([^>]*)", line):
            options = dict(re.findall(r"(\w+)=['\"]([^'\"]*)['\"]", driver[1]))
            yield Fact(target[1], "vm.iothread", "iothread" in options, number, "libvirt")
            for option, name in (("cache", "vm.cache"), ("io", "vm.aio")):
                if option in options:
                    yield Fact(target[1], name, options[option], number, "libvirt")


# Names of volumes and machines that mean one thing only.
CLOUD_KINDS = re.compile(
    r"\b(gp2|gp3|io1|io2|pd-ssd|pd-balanced|pd-standard|pd-extreme|hyperdisk-\w+|Premium_LRS|PremiumV2_LRS|UltraSSD_LRS"
    r"|StandardSSD_LRS|Premium SSD v2|Premium SSD|Ultra Disk)\b"
)
CLOUD_INSTANCES = re.compile(
    r"\b(Standard_[A-Z]+\d+\w*|[a-z]\d[a-z]{0,4}\.(?:\d{0,2}x?large|medium|metal)"
    r"|[nec]\d[a-z]?-\w+-\d+)\b"
)
CLOUD_RATES = re.compile(r"\b(\d{1,3}(?:[,.]?\d{3})*) (?:provisioned )?IOPS\b")
CLOUD_BANDWIDTH = re.compile(r"\b(\d{2,5}) (Mi?B)/s\b")
# A question, a comparison; lsblk's model and JSON, which have readers of their own.
NO_STATEMENT = re.compile(r"\?|\b(?:or|vs|instead|than|if)\b|Elastic Block|\w\":")
MAX_CLOUD_LINE = 120
# parts of lines in which such names may be
CLOUD_WORDS = (
    *(
        "gp2",
        "gp3",
        "io1",
        "io2",
        "pd-ssd",
        "pd-balanced",
        "pd-standard",
        "pd-extreme",
        "hyperdisk",
    ),
    *("_lrs", "premium ssd", "ultra disk", "standard_", "large", ".metal"),
)


def read_cloud_words(passage: Passage) -> Iterator[Fact]:
    """A short line that names a kind of volume or of machine, and what it is provisioned with."""
    line, number = passage.line.strip(), passage.number
    passage.at += 1
    if len(line) > MAX_CLOUD_LINE or NO_STATEMENT.search(line):
        return
    if instance := CLOUD_INSTANCES.search(line):
        yield Fact("", "cloud.instance", instance[1], number, "prose")
    if kind := CLOUD_KINDS.search(line):
        yield Fact("", "cloud.kind", kind[1], number, "prose")
        if rate := CLOUD_RATES.search(line):
            yield Fact("", "cloud.iops", float(re.sub(r"[,.]", "", rate[1])), number, "prose")
        if bandwidth := CLOUD_BANDWIDTH.search(line):
            factor = 1024.0**2 if "i" in bandwidth[2] else 1e6
            yield Fact("", "cloud.bandwidth", float(bandwidth[1]) * factor, number, "prose")


def read_volumes_json(passage: Passage) -> Iterator[Fact]:
    """One volume of `aws ec2 describe-volumes`: its keys stand around "VolumeType" in any order."""
    at = passage.at
    passage.at += 1
    first = at
    while first > 0 and at - first < 40 and "{" not in passage.lines[first]:
        first -= 1
    volume = ""
    facts: list[tuple[str, Value, int]] = []
    for number in range(first, min(at + 40, len(passage.lines))):
        line = passage.lines[number]
        if number > at and re.match(r"\s*\},?\s*$", line):
            break
        for key, text in re.findall(
            r'"(VolumeId|VolumeType|Iops|Throughput)":\s*"?([\w-]+)"?', line
        ):
            if key == "VolumeId":
                volume = text
            elif key == "VolumeType":
                facts.append(("cloud.kind", text, number + 1))
            elif text.isdigit():
                # Throughput is MiB/s
                name = "cloud.iops" if key == "Iops" else "cloud.bandwidth"
                factor = 1.0 if key == "Iops" else 1024.0**2
                facts.append((name, float(text) * factor, number + 1))
    for name, value, line_number in facts:
        yield Fact(volume, name, value, line_number, "describe-volumes")


CHAPTER = Chapter(
    headings={"scsihw:": read_qm_controller, "<disk": read_libvirt_disk},
    shapes=((r"(?:scsi|virtio|ide|sata)\d+:", read_qm_disk),),
    parts={'"volumetype"': read_volumes_json, **dict.fromkeys(CLOUD_WORDS, read_cloud_words)},
)
