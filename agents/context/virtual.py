# SPDX-License-Identifier: Apache-2.0
"""Virtual machines and clouds: how a guest's disks are emulated, and what a volume is provisioned with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from agents.context.lines import Chapter, Passage, binary_size, known_text, stated_size
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
    for key in ("iops", "iops_rd", "iops_wr", "mbps", "mbps_rd", "mbps_wr"):
        yield from _limit(name, key, options.get(key, ""), number)


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


# the names that cgroups, systemd, Docker, qemu, libvirt and Proxmox give to a limit -> fact
LIMITS: Mapping[str, str] = {
    **dict.fromkeys(("riops", "iops_rd", "read_iops_sec", "ioreadiopsmax"), "read_iops"),
    **dict.fromkeys(("wiops", "iops_wr", "write_iops_sec", "iowriteiopsmax"), "write_iops"),
    **dict.fromkeys(("iops", "total_iops_sec", "iops-total"), "iops"),
    **dict.fromkeys(("rbps", "mbps_rd", "read_bytes_sec", "ioreadbandwidthmax"), "read_bandwidth"),
    **dict.fromkeys(
        ("wbps", "mbps_wr", "write_bytes_sec", "iowritebandwidthmax"), "write_bandwidth"
    ),
    **dict.fromkeys(("mbps", "total_bytes_sec", "bps-total"), "bandwidth"),
    **dict.fromkeys(("device-read-iops", "read_iops_device", "iops-read"), "read_iops"),
    **dict.fromkeys(("device-write-iops", "write_iops_device", "iops-write"), "write_iops"),
    **dict.fromkeys(("device-read-bps", "read_bps_device", "bps-read"), "read_bandwidth"),
    **dict.fromkeys(("device-write-bps", "write_bps_device", "bps-write"), "write_bandwidth"),
}


def _limit(subject: str, key: str, text: str, number: int) -> Iterator[Fact]:
    """A limit; none for "max" and 0, which mean that there is none."""
    name, value = LIMITS.get(key.lower()), binary_size(text)
    if name is None or not value:
        return
    # qm counts MiB/s; systemd's suffixes are decimal
    value *= 1024.0**2 if key.startswith("mbps") else 1.0
    if key.startswith("IO") and text[-1:].isalpha():
        value = stated_size(f"{text}B") or value
    yield Fact(subject, f"throttle.{name}", value, number, "limits")


DISK_MAJOR = 8
MINORS_OF_A_DISK = 16


def numbered_disk(number: str) -> str:
    """Name of a disk by its major and minor number: "8:16" is "sdb"; other majors keep their number."""
    major, minor = (int(part) for part in number.split(":"))
    if major != DISK_MAJOR or minor >= 26 * MINORS_OF_A_DISK:
        return number
    letter, part = divmod(minor, MINORS_OF_A_DISK)
    return f"sd{chr(ord('a') + letter)}{part or ''}"


def read_cgroup_limit(passage: Passage) -> Iterator[Fact]:
    """A line of io.max, "8:16 rbps=max wbps=max riops=500 wiops=500"."""
    line, number = passage.line.strip(), passage.number
    passage.at += 1
    yield from _cgroup_limits(line, number)


def _cgroup_limits(line: str, number: int) -> Iterator[Fact]:
    row = re.fullmatch(r"(\d+:\d+)((?: [rw](?:bps|iops)=(?:\d+|max))+)", line)
    for key, text in re.findall(r"(\w+)=(\d+)", row[2]) if row else ():
        yield from _limit(numbered_disk(row[1]) if row else "", key, text, number)


def read_written_limit(passage: Passage) -> Iterator[Fact]:
    """`echo "8:16 riops=500" > io.max`, or `echo "8:16 500" > blkio.throttle.read_iops_device`."""
    command = passage.command
    passage.at += 1
    written = re.match(
        r"echo\s+[\"']?(\d+:\d+) ([^\"'>|]+?)[\"']?\s*(?:>|\|\s*(?:sudo\s+)?tee)+\s*(\S+)",
        command.text,
    )
    if written and written[3].endswith("io.max"):
        yield from _cgroup_limits(f"{written[1]} {written[2]}", command.line)
    elif written and "blkio.throttle." in written[3]:
        key = written[3].rpartition(".")[2]
        yield from _limit(numbered_disk(written[1]), key, written[2], command.line)


def read_limit_words(passage: Passage) -> Iterator[Fact]:
    """Limits in options: systemd's "IOReadIOPSMax=/dev/sda 500", Docker's "--device-read-iops /dev/sda:500", libvirt's
    <total_iops_sec> and blkdeviotune, and qemu's throttling."""
    line, number = passage.line.strip(), passage.number
    passage.at += 1
    for key, device, text in re.findall(
        r"\b(IO(?:Read|Write)(?:IOPS|Bandwidth)Max)=[\"']?/dev/(\S+) (\d+[KMGT]?)\b", line
    ):
        yield from _limit(device, key, text, number)
    for key, device, text in re.findall(
        r"--(device-(?:read|write)-(?:iops|bps))[ =][\"']?/dev/([^\s:]+):(\d+[kmgKMG]?)", line
    ):
        yield from _limit(device, key, text, number)
    for key, text in _hypervisor_limits(line):
        yield from _limit("", key, text, number)


def _hypervisor_limits(line: str) -> list[tuple[str, str]]:
    libvirt = re.findall(r"\b((?:total|read|write)_(?:iops|bytes)_sec)\s*[>:=]\s*(\d+)\b", line)
    qemu = re.findall(r"\bthrottling\.((?:iops|bps)-(?:total|read|write))=(\d+)\b", line)
    return [*libvirt, *qemu]


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


MIB = 1024.0**2
# keys of `az disk show` and `gcloud compute disks describe` -> fact, and the unit of their value
PROVISIONED = {
    "diskiopsreadwrite": ("cloud.iops", 1.0),
    "diskmbpsreadwrite": ("cloud.bandwidth", 1e6),
    "provisionediops": ("cloud.iops", 1.0),
    "provisionedthroughput": ("cloud.bandwidth", MIB),
}


def read_provisioned(passage: Passage) -> Iterator[Fact]:
    """ "diskIOPSReadWrite": 500 of Azure, provisionedIops: '3000' of Google."""
    row = re.fullmatch(r"\s*\"?(\w+)\"?: [\"']?(\d+)[\"']?,?\s*", passage.line)
    number = passage.number
    passage.at += 1
    if row and (known := PROVISIONED.get(row[1].lower())):
        yield Fact("", known[0], float(row[2]) * known[1], number, "provider")


CHAPTER = Chapter(
    headings={"scsihw:": read_qm_controller, "<disk": read_libvirt_disk},
    shapes=(
        (r"(?:scsi|virtio|ide|sata)\d+:", read_qm_disk),
        (r"\d+:\d+", read_cgroup_limit),
    ),
    commands={
        "echo": read_written_limit,
        **dict.fromkeys(("docker", "podman", "systemd-run", "systemctl"), read_limit_words),
    },
    parts={
        **dict.fromkeys(("diskiops", "diskmbps", "provisioned"), read_provisioned),
        **dict.fromkeys(("_iops_sec", "_bytes_sec", "throttling."), read_limit_words),
        **dict.fromkeys(("iopsmax=", "bandwidthmax=", "--device-"), read_limit_words),
        '"volumetype"': read_volumes_json,
        **dict.fromkeys(CLOUD_WORDS, read_cloud_words),
    },
)
