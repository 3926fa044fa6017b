# SPDX-License-Identifier: Apache-2.0
"""A Linux host's facts: one look (hostside/facts.sh), one pure parser of what it printed."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib.resources import files

from agents.contracts import Need, Shell
from agents.facts import bcache, block, kernel_openers, md, stacks, sysfs, tunables, zfs
from agents.facts.graph import leading, owners
from agents.facts.model import BlockDevice, HostFacts, Machine, MdArray, Mount, Zpool
from agents.facts.opened_paths import OpenedPaths
from agents.facts.sections import Section, ask, asked, bad_facts, split, text, tools

HOSTSIDE = files("agents.hostside")
SCRIPT = "".join(
    HOSTSIDE.joinpath(name).read_text() for name in ("root_only.sh", "sections.sh", "facts.sh")
)
FAMILIES = {
    "debian": "debian",
    "ubuntu": "debian",
    "rhel": "rhel",
    "fedora": "rhel",
    "centos": "rhel",
    "suse": "suse",
    "opensuse": "suse",
    "sles": "suse",
    "arch": "arch",
    "alpine": "alpine",
}


def command(programs: Iterable[Need], nonce: str) -> tuple[str, ...]:
    """The one command that looks. It changes nothing on the host."""
    return ("sh", "-c", SCRIPT, "facts", nonce, *asked(programs))


LOOKS = 4
# Grep's exit codes: 1, no line fits; 2, a process was gone by then. Above them it did not run.
GREP_FAILS = 2


def read(shell: Shell, programs: Iterable[Need] = (), timeout_s: float = 60.0) -> HostFacts:
    """Look at a Linux host, as root where that works; `reading.read` knows other systems too. Raises AgentError."""
    programs = tuple(programs)
    return settled(lambda: ask(shell, command(programs, secrets.token_hex(8)), timeout_s))


def settled(look: Callable[[], bytes]) -> HostFacts:
    """Facts that agree with themselves. One look takes a while, and right after a boot volumes appear in its midst:
    then a disk has a holder that is in no list of devices, and the host is looked at again. Raises AgentError.
    """
    facts = parse(look())
    for _ in range(LOOKS - 1):
        if not strangers(facts):
            break
        facts = parse(look())
    return facts


def strangers(facts: HostFacts) -> set[str]:
    """Kernel names of devices that stand on others and are not listed themselves."""
    holders = {holder for device in facts.devices for holder in device.holders}
    return holders - {device.name for device in facts.devices}


def parse(output: bytes) -> HostFacts:
    """Facts from what the script printed. Raises AgentError BAD_FACTS naming section and line."""
    sections = split(output)
    for name in ("uid", "files", "picked", "tree"):
        if name not in sections:
            raise bad_facts(f"the reading has no section {name!r}")
    sections |= _inner(sections["files"])
    attributes = sysfs.attributes(sections["files"])
    opened = OpenedPaths(sections)
    blocks = block.read(sections, opened)
    devices = {device.name: device for device in blocks.devices}
    owned = owners(devices.values())
    names = leading(owned, devices)
    unknown = _failures(sections, devices)
    mounts = stacks.mounts(sections["mountinfo"])
    swaps = stacks.swaps(sections["swaps"]) if "swaps" in sections else []
    every_mount = mounts + _elsewhere(sections["picked"])
    used = _mounted(every_mount, blocks.tree.btrfs, devices, owned, opened)
    writers = stacks.openers(sections)
    kernel = kernel_openers.read(sections, blocks.devices, opened)
    tables = tuple(stacks.dm_tables(sections["dmsetup"])) if _ok(sections, "dmsetup") else ()
    unknown += [*kernel.unknown, *_lost_logs(every_mount, owned, opened)]
    unknown += stacks.lost_paths(tables, blocks.devices, owned)
    swapping = {names.get(path) for path in swaps}
    unknown += [f"swap on {p}, which is not a device of this host" for p in swaps if p not in names]
    pools = zfs.status(sections["zpool"]) if _ok(sections, "zpool") else []
    members, lost = _members(sections, blocks, names, pools)
    stacked, unplaced = zfs.zvols(devices.values(), members)
    root = text(sections["uid"].stdout).strip() == "0"
    return HostFacts(
        **_machine(sections),
        root=root,
        sudo=root,
        devices=tuple(
            replace(
                d,
                mounts=tuple(used.get(d.name, ())),
                swap=d.name in swapping,
                writers=writers.get(d.majmin, ()),
                openers=kernel.devices.get(d.name, ()),
            )
            for d in stacked
        ),
        mounts=tuple(mounts),
        swaps=tuple(swaps),
        dm_tables=tables,
        dm_status=stacks.mirrors(sections.get("dmstatus")),
        drivers=stacks.drivers(
            sysfs.attributes(sections["files"]).get("", {}).get("/proc/devices", "")
        ),
        lvm_pvs=tuple(path for path, _ in _volumes(sections, blocks)),
        md_arrays=md.with_settings(_arrays(sections), attributes),
        bcache=bcache.read(attributes, blocks.tree.bcache, sections),
        md_members=tuple(sorted(n for n, what in members.items() if what.startswith("md "))),
        zpool_members=tuple(sorted(n for n, what in members.items() if what.startswith("zpool "))),
        zpools=zfs.with_properties(pools, sections.get("zpool_get")),
        datasets=zfs.datasets(sections.get("zfs_get")),
        zfs_module=_zfs_module(sections),
        members=members,
        tools=tools(sections),
        unknown=tuple(unknown + lost + unplaced),
        **tunables.read(sections),
    )


INNER = {
    "/proc/self/mountinfo": "mountinfo",
    "/proc/swaps": "swaps",
    "/proc/mdstat": "mdstat",
}


def _inner(files: Section) -> dict[str, Section]:
    """The files that have parsers of their own, as sections."""
    kept = sysfs.attributes(files).get("", {})
    if "/proc/self/mountinfo" not in kept:
        raise bad_facts("the reading has no mountinfo")
    return {
        name: Section(name, 0, kept[path].encode(), "")
        for path, name in INNER.items()
        if path in kept
    }


def _ok(sections: Mapping[str, Section], name: str) -> bool:
    return name in sections and sections[name].exit_code == 0


def _failures(sections: Mapping[str, Section], devices: Mapping[str, BlockDevice]) -> list[str]:
    """Parts that could not be read and matter to the guard."""
    if text(sections["uid"].stdout).strip() != "0":
        return ["signatures, LVM and device-mapper tables: they need root (passwordless sudo)"]
    unknown = stacks.openers_failure(sections)
    # nobody knows what containers have mounted
    if sections["picked"].exit_code > GREP_FAILS:
        unknown.append(sections["picked"].failure)
    for name in ("lsblk", "pvs", "dmsetup", "zpool"):
        section = sections.get(name)
        if section is None or section.exit_code == 0:
            continue
        if name == "zpool" and "modules are not loaded" in section.stderr:
            # no module, no pool
            continue
        if name == "dmsetup" and not any(device.startswith("dm-") for device in devices):
            # no device-mapper in this kernel
            continue
        unknown.append(section.failure)
    if "lsblk" not in sections:
        unknown.append("lsblk printed nothing")
    if "dmsetup" not in sections and any(name.startswith("dm-") for name in devices):
        unknown.append("device-mapper tables: dmsetup is not installed")
    return unknown


def _elsewhere(picked: Section) -> list[Mount]:
    """Mounts that another mount namespace shows."""
    found = (re.match(rb"/proc/\d+/mountinfo:(.*)", line, re.S) for _, line in picked.lines())
    lines = b"\n".join(match[1] for match in found if match)
    return stacks.mounts(Section("mounts of other namespaces", 0, lines, ""))


def _mounted(
    mounts: Iterable[Mount],
    btrfs: Mapping[str, set[str]],
    devices: Mapping[str, BlockDevice],
    owned: Mapping[str, Iterable[str]],
    opened: OpenedPaths,
) -> dict[str, list[str]]:
    """Kernel name -> mount points. A btrfs mounts all its members, though mountinfo names one."""
    by_number = {device.majmin: name for name, device in devices.items()}
    used: dict[str, dict[str, None]] = {}
    for mount in mounts:
        found = {by_number.get(mount.majmin)}
        found.update(name for path in stacks.devices_of(mount) for name in owned.get(path, ()))
        for path in stacks.logs_of(mount):
            found.update(by_number.get(number) for number in opened.numbers(path) or ())
        for name in filter(None, found):
            used.setdefault(name, {})[mount.target] = None
    for uuid, members in btrfs.items():
        targets = [t for name in members for t in used.get(name, {})] or [f"btrfs {uuid}"]
        for name in members:
            used.setdefault(name, {}).update(dict.fromkeys(targets))
    return {name: list(targets) for name, targets in used.items()}


def _lost_logs(
    mounts: Iterable[Mount], owned: Mapping[str, Iterable[str]], opened: OpenedPaths
) -> list[str]:
    """Log and journal devices of mounted file systems whose path leads nowhere here."""
    lost = {
        f"which device the file system mounted at {mount.target} uses as {path!r}: that path leads nowhere here"
        for mount in mounts
        for path in stacks.logs_of(mount)
        if path not in owned and opened.numbers(path) is None
    }
    return sorted(lost)


def _members(
    sections: Mapping[str, Section],
    blocks: block.Blocks,
    names: Mapping[str, str],
    pools: Iterable[Zpool],
) -> tuple[dict[str, str], list[str]]:
    """Kernel name -> what it belongs to, and paths that could not be resolved."""
    found: dict[str, str] = {
        name: f"bcache {blocks.labels.get(name, '')}".strip() for name in sorted(blocks.tree.bcache)
    }
    pooled, lost = zfs.members(pools, names)
    found |= pooled
    for path, group in _volumes(sections, blocks):
        if (name := names.get(path)) is None:
            lost.append(
                f"lvm {group} has {path}, which is not a device of this host".replace("  ", " ")
            )
        else:
            found[name] = f"lvm {group}".strip()
    by_name = {device.name: device for device in blocks.devices}
    return found | md.owners(_arrays(sections), by_name, names), lost


def _volumes(sections: Mapping[str, Section], blocks: block.Blocks) -> list[tuple[str, str]]:
    """Path and group of each physical volume, as LVM says; the script asks it only where a name does not tell."""
    if "pvs" not in sections:
        return stacks.lvm_groups(blocks.devices)
    return stacks.pvs(sections["pvs"]) if _ok(sections, "pvs") else []


def _arrays(sections: Mapping[str, Section]) -> tuple[MdArray, ...]:
    return md.arrays(sections["mdstat"]) if "mdstat" in sections else ()


def _zfs_module(sections: Mapping[str, Section]) -> str:
    """Of the loaded one, else of the one that modprobe would load."""
    loaded = sysfs.attributes(sections["files"]).get("", {}).get("/sys/module/zfs/version", "")
    there = sections.get("modinfo")
    return loaded.strip() or (_line(there) if there and there.exit_code == 0 else "")


def _machine(sections: Mapping[str, Section]) -> Machine:
    kept = sysfs.attributes(sections["files"]).get("", {})
    release = dict(
        re.findall(r"""^([A-Z_]+)=["']?(.*?)["']?$""", kept.get("/etc/os-release", ""), re.M)
    )
    likes = f"{release.get('ID', '')} {release.get('ID_LIKE', '')}".split()
    cpu = text(sections["picked"].stdout)
    model = re.search(r":(?:model name|cpu model|Hardware)\s*:\s*(.*)", cpu)
    memory = re.search(r"MemTotal:\s*(\d+) kB", cpu)
    return {
        "hostname": kept.get("/proc/sys/kernel/hostname", ""),
        "os_family": next(
            (FAMILIES[like] for like in likes if like in FAMILIES), release.get("ID", "linux")
        ),
        "os_name": release.get("PRETTY_NAME", "Linux"),
        "kernel": kept.get("/proc/sys/kernel/osrelease", ""),
        "arch": kept.get("/proc/sys/kernel/arch") or _line(sections.get("arch")),
        "boot_id": kept.get("/proc/sys/kernel/random/boot_id", ""),
        "cpu_model": model[1].strip() if model else "",
        "cpus": len(re.findall(r":processor\s*:", cpu)),
        "memory": int(memory[1]) * 1024 if memory else 0,
    }


def _line(section: Section | None) -> str:
    return text(section.stdout).strip() if section else ""
