# SPDX-License-Identifier: Apache-2.0
"""Links to disks and to other hosts: PCIe, SATA, USB, networks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agents.context.lines import Chapter, Passage
from agents.context.model import Fact

# GT/s of a lane -> B/s: 8 of 10 bits are data up to PCIe 2, 128 of 130 since PCIe 3
PCIE_CODE = {2.5: 0.8, 5.0: 0.8}
MODERN_PCIE_CODE = 128 / 130
# USB: 8 of 10 bits at 5 Gb/s, 128 of 132 above; below, the wire's rate is the data's
USB_CODE = {5e9: 0.8}
MODERN_USB_CODE = 128 / 132
PCIE = re.compile(r"Speed (?P<rate>\d+(?:\.\d+)?)GT/s(?: \(\w+\))?,? Width x(?P<lanes>\d+)")
STORAGE = re.compile(
    r"(?P<address>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d) .*?(?:Non-Volatile|SATA|RAID|SAS|SCSI|Mass storage)",
    re.IGNORECASE,
)
ADDRESS = re.compile(r"(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d")


def read_pci_device(passage: Passage) -> Iterator[Fact]:
    """A storage controller of `lspci -vv`; the subject is its address."""
    head = STORAGE.match(passage.line)
    passage.at += 1
    if head is None:
        return
    for number, line in passage.rows():
        if ADDRESS.match(line):
            passage.put_back()
            return
        yield from _link_facts(head["address"], line, number)


def read_pci_link(passage: Passage) -> Iterator[Fact]:
    """LnkCap or LnkSta without its device, as `lspci -vv | grep Lnk` leaves it."""
    line, number = passage.line, passage.number
    at, passage.at = passage.at, passage.at + 1
    # a device above has its own reader
    above = passage.lines[max(at - 80, 0) : at]
    if not any(ADDRESS.match(earlier) for earlier in above):
        yield from _link_facts("", line, number)


def _link_facts(subject: str, line: str, number: int) -> Iterator[Fact]:
    text = line.strip()
    link = PCIE.search(text)
    if link is None or not text.startswith(("LnkCap:", "LnkSta:")):
        return
    name = "disk.link_max" if text.startswith("LnkCap:") else "disk.link_speed"
    rate = float(link["rate"])
    code = PCIE_CODE.get(rate, MODERN_PCIE_CODE)
    yield Fact(subject, name, rate * 1e9 * code / 8 * int(link["lanes"]), number, "lspci")


def read_usb(passage: Passage) -> Iterator[Fact]:
    """A line of `lsusb -t` with a storage driver. Only one such disk has a sure name: none."""
    line, number = passage.line, passage.number
    passage.at += 1
    row = re.search(r"Dev (\d+), .*Driver=(?:uas|usb-storage)\S*, (\d+)M\b", line)
    if row:
        rate = float(row[2]) * 1e6
        code = USB_CODE.get(rate, MODERN_USB_CODE if rate > 5e9 else 1.0)
        yield Fact(f"usb {row[1]}", "disk.link_speed", rate * code / 8, number, "lsusb")
        yield Fact(f"usb {row[1]}", "disk.transport", "usb", number, "lsusb")


def read_sata_link(passage: Passage) -> Iterator[Fact]:
    """ "ata1: SATA link up 3.0 Gbps" of the kernel's log: eight of ten bits are data."""
    line, number = passage.line, passage.number
    passage.at += 1
    if link := re.search(r"\b(ata\d+): SATA link up (\d+(?:\.\d+)?) Gbps", line):
        yield Fact(link[1], "disk.link_speed", float(link[2]) * 1e9 * 0.8 / 8, number, "kernel log")


def read_ping(passage: Passage) -> Iterator[Fact]:
    """The mean of ping's summary."""
    line, number = passage.line.strip(), passage.number
    passage.at += 1
    pattern = r"(?:rtt|round-trip) min/avg/max(?:/\w+)? = [\d.]+/([\d.]+)/[\d.]+(?:/[\d.]+)? ms.*"
    if found := re.fullmatch(pattern, line):
        yield Fact("", "host.ping", float(found[1]) / 1000, number, "ping")


def read_network(passage: Passage) -> Iterator[Fact]:
    """ "Speed: 1000Mb/s" of ethtool, or what iperf received."""
    line, number = passage.line.strip(), passage.number
    passage.at += 1
    if speed := re.fullmatch(r"Speed: (\d+)Mb/s", line):
        yield Fact("", "host.network", float(speed[1]) * 1e6 / 8, number, "ethtool")
    elif rate := re.search(r"\s(\d+(?:\.\d+)?) ([MG])bits/sec.*\breceiver$", line):
        factor = 1e9 if rate[2] == "G" else 1e6
        yield Fact("", "host.network", float(rate[1]) * factor / 8, number, "iperf")


TC_RATES = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
TC_TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


def read_traffic_control(passage: Passage) -> Iterator[Fact]:
    """The rate and the delay that tc gives a network, as typed or as `tc qdisc show` prints them."""
    line, number = passage.line, passage.number
    passage.at += 1
    if not re.search(r"\bqdisc\b.* (?:tbf|netem|htb)\b|\btc class\b.* htb\b", line):
        return
    if rate := re.search(r"\brate (\d+(?:\.\d+)?)([kmg]bit)\b", line, re.IGNORECASE):
        value = float(rate[1]) * TC_RATES[rate[2].lower()] / 8
        yield Fact("", "host.network", value, number, "tc")
    if delay := re.search(r"\bdelay (\d+(?:\.\d+)?)(us|ms|s)\b", line):
        yield Fact("", "host.ping", float(delay[1]) * TC_TIMES[delay[2]], number, "tc")


CHAPTER = Chapter(
    headings={
        "LnkCap:": read_pci_link,
        "LnkSta:": read_pci_link,
        "rtt": read_ping,
        "round-trip": read_ping,
        "Speed:": read_network,
    },
    shapes=((ADDRESS.pattern, read_pci_device),),
    commands={"tc": read_traffic_control},
    parts={
        "qdisc ": read_traffic_control,
        "sata link up": read_sata_link,
        "driver=": read_usb,
        "bits/sec": read_network,
    },
)
