# SPDX-License-Identifier: Apache-2.0
"""Media, links and cloud volumes: what each can do at most, and what is usual for it. Data with a source each.

The figures are deliberately generous: a rule that says "more than it can" must be right for the fastest model sold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Link:
    """`payload`: B/s of data that it carries at most, after line code and protocol."""

    name: str
    payload: float
    source: str


# Line rate less 8b/10b and framing, as the fastest disks show it.
SATA = (
    Link("SATA 1.5 Gb/s", 150e6, "Serial ATA revision 1.0: 1.5 Gb/s with 8b/10b"),
    Link("SATA 3 Gb/s", 300e6, "Serial ATA revision 2.0: 3 Gb/s with 8b/10b"),
    Link("SATA 6 Gb/s", 600e6, "Serial ATA revision 3.0: 6 Gb/s with 8b/10b"),
)
SAS = (
    Link("SAS 6 Gb/s", 600e6, "SAS-2: 6 Gb/s with 8b/10b"),
    Link("SAS 12 Gb/s", 1200e6, "SAS-3: 12 Gb/s with 8b/10b"),
    Link("SAS 22.5 Gb/s", 2400e6, "SAS-4: 22.5 Gb/s with 128b/150b"),
)
USB = (
    Link("USB 2.0", 45e6, "USB 2.0: 480 Mb/s, 13 bulk packets of 512 B a microframe at most"),
    Link("USB 5 Gb/s", 460e6, "USB 3.2 Gen 1: 5 Gb/s with 8b/10b"),
    Link("USB 10 Gb/s", 1100e6, "USB 3.2 Gen 2: 10 Gb/s with 128b/132b"),
    Link("USB 20 Gb/s", 2200e6, "USB 3.2 Gen 2x2: 20 Gb/s with 128b/132b"),
)
# B/s of USB 2.0's line, 480 Mb/s; with a margin for rounding
USB2_LINE = 61e6
# Four lanes of PCIe 5.0, the widest link that an NVMe disk on sale has
NVME = Link("NVMe, PCIe 5.0 x4", 15.8e9, "PCI Express Base Specification 5.0")

# transport as lsblk prints it -> the fastest link of its kind that such a disk can have
FASTEST: Mapping[str, Link] = {
    "sata": SATA[-1],
    "ata": SATA[-1],
    "sas": SAS[-1],
    "usb": USB[-1],
    "nvme": NVME,
}
# SATA's payload in practice: no disk on sale reads more in order
SATA_IN_PRACTICE = 560e6


@dataclass(frozen=True, slots=True)
class Spinning:
    """Disk that spins: revolution in s, random IOPS at depth 1 (usual range), at a full queue, B/s in order at most."""

    rpm: int
    single: tuple[float, float]
    queued: float
    in_order: float
    source: str

    @property
    def revolution(self) -> float:
        """Seconds of one turn."""
        return 60 / self.rpm


# Half a turn and a mean seek (12, 8, 4 and 3 ms), with a margin for short seeks; at depth 32 the disk's own reordering
# gives at most 2.5 times. In order: the fastest models' outer tracks (data sheets of Exos X24 and Cheetah 15K.7).
SPINNING: Mapping[int, Spinning] = {
    5400: Spinning(5400, (45, 130), 300, 240e6, "data sheets of WD Red and Blue"),
    5900: Spinning(5900, (45, 140), 300, 240e6, "data sheet of Seagate IronWolf 4 TB"),
    7200: Spinning(7200, (60, 160), 350, 290e6, "data sheets of Seagate Exos and WD Ultrastar"),
    10000: Spinning(10000, (100, 250), 500, 290e6, "data sheet of Seagate Savvio 10K"),
    15000: Spinning(15000, (140, 350), 650, 320e6, "data sheet of Seagate Cheetah 15K.7"),
}
# Where no line tells the speed: the widest range of those on sale without a protected cache
ANY_SPINNING = Spinning(7200, (45, 160), 350, 290e6, "all disks of 5,400 to 7,200 rpm")

# models whose speed their name tells; data sheets of their makers
_RPM_BY_MODEL: Sequence[tuple[re.Pattern[str], int]] = (
    (re.compile(r"WD\d+(EFRX|EFAX|EZRZ|EZRX|EZAZ|PURZ|PURX)"), 5400),
    (re.compile(r"ST[34]000VN00[08]|ST[34]000DM00[0-4]|ST2000DL"), 5900),
    (re.compile(r"ST8000DM004|ST\d+LM\d|ST8000AS000|ST5000DM000"), 5400),
    (re.compile(r"HU[SH]7|ST\d+N[MTE]\d|WD\d+(FYYZ|FZEX|KFGX|EFZX|EFBX|FRYZ)|MG0\d|HUH\d"), 7200),
    (re.compile(r"ST(300|600|900|1200)MM|HUC10|AL1[345]SE|WD\d+HLFS"), 10000),
    (re.compile(r"ST(300|450|600|900)MP|ST3\d+SS|HUS15|HUC15"), 15000),
)


def spinning_disk(model: str, rpm: float | None = None) -> Spinning:
    """Abilities of a disk that spins, by its speed if a line tells it, else by its model."""
    if rpm:
        nearest = min(SPINNING, key=lambda speed_of_model: abs(speed_of_model - rpm))
        return SPINNING[nearest]
    speed_of_model = next((speed for pattern, speed in _RPM_BY_MODEL if pattern.search(model)), 0)
    return SPINNING.get(speed_of_model, ANY_SPINNING)


# Drive-managed SMR as the makers listed it in 2020 (WD: "WD Red NAS Drives"; Seagate: "CMR and SMR list";
# Toshiba: "Consumer hard drives using SMR").
_SMR = re.compile(
    r"WD[2346]0EFAX|WD(20|40|60)EZAZ|WD10SPZX|WD20SPZX|WD[24]0NMZW|ST[2468]000DM00[3458]|ST5000DM000|ST[12345]000LM0(15|24|48)"
    r"|ST8000AS00|ST6000AS00|HDWD2[246]0|HDWL1[12]0|DT02ABA|MQ04AB"
)


# Storage-class memory: data sheets of 900P (SSDPED), P4800X (SSDPE21), P5800X (SSDPF21), M10 (MEMPE)
_OPTANE = re.compile(r"OPTANE|SSDPED|SSDPE21|SSDPF21|MEMPE|P[45]800X|900P|905P|XL-?FLASH")


def is_optane(model: str) -> bool:
    """True for a model whose reads take a fifth of flash's."""
    return bool(_OPTANE.search(model.upper()))


def is_smr_model(model: str) -> bool:
    """True for a model that its maker lists as drive-managed SMR."""
    return bool(_SMR.search(model.upper()))


# Durable writes a second of one thread. Without power-loss protection each flush programs flash: 0.3 to 10 ms.
# Measured ranges: tanelpoder.com 2025 (fsync on NVMe), Percona "fsync performance on storage devices" 2018.
CONSUMER_SSD_FLUSHES = (60.0, 5000.0)
PROTECTED_SSD_FLUSHES = (8000.0, 100_000.0)
# The least time of a 4 KiB read from flash: array read plus transfer. Optane's 8 to 10 µs is the exception.
FLASH_READ_S = 40e-6
OPTANE_READ_S = 8e-6
# A read of a few KiB from a page cache or a controller's memory ends within this
MEMORY_READ_S = 15e-6


@dataclass(frozen=True, slots=True)
class CloudVolume:
    """Cap that a cloud sells: IOPS and B/s, either 0 where it has none of its own."""

    kind: str
    iops: float
    bandwidth: float
    source: str


_EBS = "https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html"
_AZURE = "https://learn.microsoft.com/azure/virtual-machines/disks-types"
_GOOGLE = "https://cloud.google.com/compute/docs/disks/performance"

CLOUD_VOLUMES: Sequence[CloudVolume] = (
    CloudVolume("gp3 (baseline)", 3000, 125 * MIB, _EBS),
    CloudVolume("gp3 (at most)", 16_000, 1000 * MIB, _EBS),
    CloudVolume("gp2 (burst, or 1,000 GiB)", 3000, 128 * MIB, _EBS),
    CloudVolume("gp2 (at most)", 16_000, 250 * MIB, _EBS),
    CloudVolume("io1 (at most)", 64_000, 1000 * MIB, _EBS),
    CloudVolume("io2 Block Express (at most)", 256_000, 4000 * MIB, _EBS),
    CloudVolume("st1 (at most)", 500, 500 * MIB, _EBS),
    CloudVolume("sc1 (at most)", 250, 250 * MIB, _EBS),
    CloudVolume("Azure P1 to P3", 120, 25e6, _AZURE),
    CloudVolume("Azure P6", 240, 50e6, _AZURE),
    CloudVolume("Azure P10", 500, 100e6, _AZURE),
    CloudVolume("Azure P15", 1100, 125e6, _AZURE),
    CloudVolume("Azure P20", 2300, 150e6, _AZURE),
    CloudVolume("Azure P30", 5000, 200e6, _AZURE),
    CloudVolume("Azure P40, P50", 7500, 250e6, _AZURE),
    CloudVolume("Azure P60", 16_000, 500e6, _AZURE),
    CloudVolume("Azure P70", 18_000, 750e6, _AZURE),
    CloudVolume("Azure P80", 20_000, 900e6, _AZURE),
    CloudVolume("Azure Standard SSD", 500, 60e6, _AZURE),
    CloudVolume("Azure VM cap of 128 MB/s cached", 0, 128e6, _AZURE),
    CloudVolume("Azure VM cap of 192 MB/s uncached", 0, 192e6, _AZURE),
    CloudVolume("pd-balanced (at most)", 80_000, 1200 * MIB, _GOOGLE),
    CloudVolume("pd-ssd or pd-balanced (4 to 7 vCPU)", 15_000, 240 * MIB, _GOOGLE),
    CloudVolume("pd-ssd (at most)", 100_000, 1200 * MIB, _GOOGLE),
)
# IOPS a GiB, without and with a floor and a ceiling: the size of a volume gives its cap
GP2_IOPS_PER_GIB = 3
GP2_FLOOR, GP2_CEILING, GP2_BURST = 100.0, 16_000.0, 3000.0
# I/O credits of a full bucket (AWS: "5.4 million I/O credits")
GP2_CREDITS = 5.4e6
# share by which a measured rate may miss a cap that is enforced on it
CAP_TOLERANCE = 0.025

_CLOUD_MODEL = re.compile(
    r"Amazon Elastic Block Store|Amazon EC2|Virtual[_ ]Disk|PersistentDisk|nvme_card-pd"
    r"|\bgp[23]\b|\bio[12]\b|Premium SSD|\bpd-(ssd|balanced|standard)",
    re.IGNORECASE,
)


def is_cloud_disk(model: str) -> bool:
    """True for a model that a cloud's volumes print, and no disk that one can buy."""
    return bool(_CLOUD_MODEL.search(model))


def gp2_baseline(size: float) -> float:
    """IOPS without credits of a gp2 volume of that size in B."""
    return min(max(size / GIB * GP2_IOPS_PER_GIB, GP2_FLOOR), GP2_CEILING)


def caps_at_iops(iops: float, near: float = CAP_TOLERANCE) -> Sequence[CloudVolume]:
    """Volumes that are sold with that many IOPS, within that share."""
    return [v for v in CLOUD_VOLUMES if v.iops and abs(iops / v.iops - 1) <= near]


def caps_at_bandwidth(bandwidth: float, near: float = CAP_TOLERANCE) -> Sequence[CloudVolume]:
    """Volumes that are sold with that many B/s, within that share."""
    return [v for v in CLOUD_VOLUMES if v.bandwidth and abs(bandwidth / v.bandwidth - 1) <= near]


def link_of(transport: str, negotiated: float | None = None) -> Link | None:
    """Link of a disk: as negotiated (B/s) where a line tells it, else the fastest of its kind; None if unknown."""
    if negotiated:
        return Link("its link as negotiated", negotiated, "the paste")
    return FASTEST.get(transport.lower())
