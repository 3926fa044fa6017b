# SPDX-License-Identifier: Apache-2.0
"""Parsers of /sys, /proc/sys and udev's database: attributes, holders and slaves, other names of a device, its link,
its queue, and what a host's tunables are.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf

from agents.contracts import AgentError, Reason, Shell
from agents.facts.sections import Section, decode_hex_escapes, decode_text

BLOCK_PATH = "/sys/class/block/"
# An attribute of the device itself, or one that its bus keeps further up, by a way that leads there.
ATTRIBUTE = re.compile(
    rb"/sys/class/block/([^/]+)/([a-z_/]+|device/[A-Za-z0-9_./:-]+/[a-z_]+):(.*)", re.S
)
# Vital product data of a SCSI device: binary, and cut by grep wherever a byte is a newline.
PAGE = re.compile(rb"/sys/class/block/([^/]+)/device/(vpd_pg8[03]):(.*)", re.S)
# What names a device that the kernel serves; the names of targets and of PCI functions hold colons.
SERVED_FILE = re.compile(
    rb"(/sys/(?:kernel/config|kernel/scst_tgt|fs/bcachefs|class/rnbd-server|bus/xen-backend)/.+?"
    rb"/(?:info|udev_path|device_path|file|filename|dev|physical_device)):(.*)",
    re.S,
)


@dataclass(slots=True)
class Tree:
    """Edges between kernel names."""

    parents: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    holders: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    # backing and cache devices, registered
    bcache: set[str] = field(default_factory=set)
    # uuid -> members
    btrfs: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    # kernel name -> "HOST:CHANNEL:TARGET:LUN"
    scsi: dict[str, str] = field(default_factory=dict)


def parse_attributes(files: Section) -> dict[str, dict[str, str]]:
    """Kernel name -> {"size": …, "queue/rotational": …}; the rest of the files under ""."""
    by_name: dict[str, dict[str, str]] = defaultdict(dict)
    for number, line in files.numbered_lines():
        if PAGE.match(line) is not None:
            continue
        if (match := ATTRIBUTE.match(line)) is not None:
            by_name[decode_text(match[1])].setdefault(
                decode_text(match[2]), decode_text(match[3].strip(b" \t\r\n\0"))
            )
        elif (
            match := SERVED_FILE.match(line)
            or re.match(
                rb"(/(?:etc|proc|sys/module|sys/devices/system/cpu)/[^:]+):(.*)", line, re.S
            )
        ) is not None:
            path, value = decode_text(match[1]), decode_text(match[2])
            by_name[""][path] = "\n".join(filter(None, (by_name[""].get(path), value)))
        elif not line.startswith(b"grep: "):
            raise files.error_at(number, line, "neither a device's attribute nor a file")
    return dict(by_name)


def parse_vpd_pages(files: Section) -> dict[str, dict[str, bytes]]:
    """Kernel name -> {"vpd_pg80": page with its header, "vpd_pg83": …}, of SCSI devices that have such pages."""
    by_name: dict[str, dict[str, bytes]] = defaultdict(dict)
    for _, line in files.numbered_lines():
        if (match := PAGE.match(line)) is not None:
            page, before = decode_text(match[2]), by_name[decode_text(match[1])]
            before[page] = before[page] + b"\n" + match[3] if page in before else match[3]
    return dict(by_name)


def parse_tree(section: Section) -> Tree:
    edges = Tree()
    for number, line in section.numbered_lines():
        if b"*" in line:
            # a pattern that nothing matched
            continue
        parts = decode_text(line).split("/")
        match parts[2:]:
            case ["class", "block", name, "holders", holder]:
                _add_edge(edges, name, holder)
            case ["class", "block", name, "slaves", parent]:
                _add_edge(edges, parent, name)
            case ["block", disk, part, "partition"]:
                _add_edge(edges, disk, part, held=False)
            case ["class", "block", name, "bcache"] if not name.startswith("bcache"):
                edges.bcache.add(name)
            case ["class", "block", _, "bcache"]:
                pass
            case ["class", "block", name, "device", "scsi_device", address]:
                edges.scsi[name] = address
            case ["fs", "btrfs", uuid, "devices", name]:
                edges.btrfs[uuid].add(name)
            case _:
                raise section.error_at(number, line, "unknown path")
    return edges


def _add_edge(edges: Tree, below: str, above: str, held: bool = True) -> None:
    edges.parents[above].add(below)
    if held:
        edges.holders[below].add(above)


def parse_udev_links(picked: Section, names: Mapping[str, str]) -> dict[str, set[str]]:
    """Kernel name -> paths that udev made for it. `names`: "8:16" -> "sdb"."""
    paths_by_name: dict[str, set[str]] = defaultdict(set)
    for number, line in picked.numbered_lines():
        if line.startswith(b"/proc/"):
            continue
        match = re.match(rb"/run/udev/data/b(\d+:\d+):(S:|E:MD_DEVNAME=)(.*)", line, re.S)
        if match is None:
            raise picked.error_at(number, line, "not a line of udev's database")
        name = names.get(decode_text(match[1]))
        if name is None:
            # a device that has gone
            continue
        prefix = "/dev/" if match[2] == b"S:" else "/dev/md/"
        # udev's own \x20 is part of the link's name in /dev, so it stays.
        paths_by_name[name].add(prefix + decode_text(match[3]))
    return dict(paths_by_name)


def parse_lsblk(section: Section) -> Iterator[dict[str, str]]:
    r"""Lines of `lsblk -P`: KEY="value" with \xHH. Keys as MAJ_MIN, LOG_SEC (2.37 writes them so)."""
    for number, line in section.numbered_lines():
        row, end = {}, 0
        for match in re.finditer(rb'([A-Z0-9:_%-]+)="((?:[^"\\]|\\.)*)"(?: |$)', line):
            if match.start() != end:
                break
            row[re.sub("[:-]", "_", decode_text(match[1]))] = decode_hex_escapes(match[2]).strip(
                " \t\n"
            )
            end = match.end()
        if end != len(line) or not {"KNAME", "TYPE", "MAJ_MIN"} <= row.keys():
            raise section.error_at(
                number, line, 'not KEY="value" pairs with KNAME, TYPE and MAJ:MIN'
            )
        yield row


# bits/s of one unit of the rate, and the rate up to which a line code holds with its share of data. Frames and their
# heads take more of it. Serial ATA and SAS to 12 Gb/s: 8b/10b; SAS-4: 128b/150b. PCI Express: 8b/10b to 5 GT/s,
# 128b/130b to 32, 242 of 256 bytes beyond. USB: none at 480 Mb/s, 8b/10b at 5 Gb/s, 128b/132b beyond.
LineCode = tuple[float, tuple[tuple[float, float], ...]]
SERIAL: LineCode = (1e9, ((12, 0.8), (inf, 128 / 150)))
PCIE: LineCode = (1e9, ((5, 0.8), (32, 128 / 130), (inf, 242 / 256)))
USB: LineCode = (1e6, ((480, 1.0), (5000, 0.8), (inf, 128 / 132)))
# "6.0 Gbps", "12.0 Gbit", "8.0 GT/s PCIe"; of USB and of lanes a bare number
RATE = re.compile(r"(\d{1,5}(?:\.\d{1,3})?)(?: G.*)?")


def link_bandwidth(sys: Mapping[str, str]) -> int:
    """Upper bound (B/s) of a disk's link, by the rate that its bus negotiated; 0 where nothing tells it.

    `sys`: its attributes below /sys/class/block. Several phys of a SAS disk, and several paths to an NVMe namespace,
    carry together; of a port multiplier's links it is the fastest, through which all of them go.
    """
    sata = _bandwidths(sys, "/sata_spd", SERIAL).values()
    sas = _bandwidths(sys, "/negotiated_linkrate", SERIAL).values()
    lanes = _rates_by_directory(sys, "/current_link_width")
    pcie = [
        bandwidth * lanes.get(path, 0.0)
        for path, bandwidth in _bandwidths(sys, "/current_link_speed", PCIE).items()
    ]
    usb = _bandwidths(sys, "/speed", USB).values()
    return round(max(sata, default=0.0) or sum(sas) or sum(pcie) or sum(usb))


def _rates_by_directory(sys: Mapping[str, str], name: str) -> dict[str, float]:
    """Rates by the directory of their attribute. A value that is not a number is unknown."""
    matches = {path: RATE.fullmatch(value) for path, value in sys.items() if path.endswith(name)}
    return {path.removesuffix(name): float(rate[1]) for path, rate in matches.items() if rate}


def _bandwidths(sys: Mapping[str, str], name: str, line_code: LineCode) -> dict[str, float]:
    """B/s by the directory of the rate's attribute."""
    bits, shares = line_code
    return {
        path: rate * bits / 8 * next(share for limit, share in shares if rate <= limit)
        for path, rate in _rates_by_directory(sys, name).items()
    }


SYSCTL = re.compile(r"/proc/sys/((?:vm|fs|dev/raid)/.+)")
POLICY = re.compile(r"/sys/devices/system/cpu/cpufreq/(policy\d+)/scaling_(\w+)")
SCHEDULERS = {"noop", "deadline", "cfq", "mq-deadline", "kyber", "bfq"}


def sysctl_values(contents: Mapping[str, str]) -> dict[str, str]:
    """ "vm.dirty_ratio" -> "20". `contents`: by path, of files below /proc."""
    return {
        match[1].replace("/", "."): value
        for path, value in contents.items()
        if (match := SYSCTL.fullmatch(path))
    }


def cpu_governors(contents: Mapping[str, str]) -> dict[str, str]:
    """cpufreq policy -> governor. `contents`: by path, of files below /sys/devices/system/cpu."""
    return dict(_cpufreq_values(contents, "governor"))


def governor_choices(contents: Mapping[str, str]) -> tuple[str, ...]:
    choices = dict(_cpufreq_values(contents, "available_governors")).values()
    return tuple(sorted({word for value in choices for word in value.split()}))


def _cpufreq_values(contents: Mapping[str, str], name: str) -> Iterator[tuple[str, str]]:
    for path, value in contents.items():
        match = POLICY.fullmatch(path)
        if match and match[2] == name:
            yield match[1], value


def scheduler_modules(section: Section) -> tuple[str, ...]:
    """bfq.ko.xz is bfq, kyber-iosched.ko is kyber; other files of that directory are no schedulers."""
    paths = section.text.split()
    names = {path.rpartition("/")[2].partition(".ko")[0].removesuffix("-iosched") for path in paths}
    return tuple(sorted(names & SCHEDULERS))


# Settings of a queue that bear on what is measured.
QUEUE = ("scheduler", "nr_requests", "read_ahead_kb", "nomerges", "rq_affinity", "write_cache")
# A scheduler brings its own number of requests.
ATTRIBUTES = ("scheduler", "nr_requests")

# kernel name -> attribute -> what is in force
Queues = Mapping[str, Mapping[str, str]]


def selected_value(attribute: str, line: str) -> str:
    """Value that the kernel's line means: "[none] mq-deadline" is none."""
    if attribute != "scheduler" or "[" not in line:
        return line.strip()
    return line.partition("[")[2].partition("]")[0]


def attribute_path(name: str, attribute: str) -> str:
    return f"/sys/block/{name}/queue/{attribute}"


def kernel_name(node: str) -> str:
    """The kernel writes cciss!c0d0 for /dev/cciss/c0d0."""
    return node.removeprefix("/dev/").replace("/", "!")


def read_queues(shell: Shell, nodes: Iterable[str]) -> Queues:
    """Queue settings of these disks. Raises AgentError: BAD_FACTS names the first disk without any."""
    names = [kernel_name(node) for node in nodes]
    paths = [attribute_path(name, attribute) for name in names for attribute in ATTRIBUTES]
    ran = shell.run(("grep", "-Hs", "", *paths))
    lines = ran.stdout.decode("utf-8", "backslashreplace").splitlines()
    values_by_path = dict(line.split(":", 1) for line in lines if ":" in line)
    queues = {}
    for name in names:
        values = {a: values_by_path.get(attribute_path(name, a), "") for a in ATTRIBUTES}
        queues[name] = {a: selected_value(a, value) for a, value in values.items()}
        if not queues[name]["scheduler"]:
            where = attribute_path(name, "scheduler")
            raise AgentError(f"{where} cannot be read: is the disk still there?", Reason.BAD_FACTS)
    return queues
