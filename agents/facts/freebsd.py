# SPDX-License-Identifier: Apache-2.0
"""A FreeBSD host's facts: one script (hostside/facts_freebsd.sh) and one pure parser of its output."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.resources import files

from agents.contracts import Need
from agents.facts import freebsd_disks, geom, zfs
from agents.facts.model import HostFacts, Machine, Mount
from agents.facts.sections import (
    Section,
    bad_facts,
    decode_octal_escapes,
    decode_text,
    parse_tool_versions,
    split_sections,
    version_commands,
)

HOSTSIDE = files("agents.hostside")
SCRIPT = "".join(
    HOSTSIDE.joinpath(name).read_text()
    for name in ("root_only.sh", "sections.sh", "facts_freebsd.sh")
)
REQUIRED_SECTIONS = ("uid", "sysctl", "boot_id", "booted", "mounts", "swaps", "geom")
NO_ROOT = "signatures, and who uses which disk: they need root (passwordless sudo)"


def facts_command(programs: Iterable[Need], nonce: str) -> tuple[str, ...]:
    """The command that reads the facts. It changes nothing on the host."""
    return ("sh", "-c", SCRIPT, "facts", nonce, *version_commands(programs))


def parse_freebsd_facts(output: bytes) -> HostFacts:
    """Facts from what the script printed. Raises AgentError BAD_FACTS naming section and line."""
    sections = split_sections(output)
    for name in REQUIRED_SECTIONS:
        if name not in sections:
            raise bad_facts(f"the reading has no section {name!r}")
    mesh = geom.parse_geom(sections["geom"])
    root = decode_text(sections["uid"].stdout).strip() == "0"
    mounted, swapped = parse_mounts(sections["mounts"]), parse_swaps(sections["swaps"])
    pools = parse_pool_devices(sections["zpool"]) if _has_output(sections, "zpool") else []
    users = freebsd_disks.device_users(mesh, mounted, swapped, pools)
    devices = freebsd_disks.block_devices(mesh, users.members)
    looked = freebsd_disks.device_signatures(mesh, sections)
    unknown = [*users.unknown, *_failures(sections), *([] if root else [NO_ROOT])]
    return HostFacts(
        **_parse_machine(sections),
        root=root,
        sudo=root,
        devices=tuple(
            replace(
                device,
                mounts=tuple(users.mounts.get(device.name, ())),
                swap=device.name in users.swap,
                signatures=looked.get(device.name, ()),
                signatures_known=device.name in looked,
            )
            for device in devices
        ),
        mounts=tuple(mounted),
        swaps=tuple(swapped),
        zpool_members=tuple(sorted(n for n, o in users.members.items() if o.startswith("zpool "))),
        zpools=zfs.with_properties(
            zfs.parse_status(sections["zpool"]) if _has_output(sections, "zpool") else (),
            sections.get("zpool_get"),
        ),
        datasets=zfs.parse_datasets(sections.get("zfs_get")),
        members=users.members,
        tools=parse_tool_versions(sections),
        unknown=tuple(unknown),
    )


def _has_output(sections: Mapping[str, Section], name: str) -> bool:
    return name in sections and sections[name].exit_code == 0


def _failures(sections: Mapping[str, Section]) -> list[str]:
    """Parts that could not be read and matter to the guard."""
    names = ("mounts", "swaps", "zpool")
    return [
        sections[name].failure for name in names if name in sections and sections[name].exit_code
    ]


def _parse_machine(sections: Mapping[str, Section]) -> Machine:
    sysctls = dict(re.findall(r"^([a-z_.]+): (.*)$", decode_text(sections["sysctl"].stdout), re.M))
    if "kern.osrelease" not in sysctls:
        raise bad_facts(f"sysctl: no kern.osrelease: {sections['sysctl'].failure}")
    numbers = {
        key: int(sysctls[key]) if sysctls.get(key, "").isdigit() else 0
        for key in ("hw.ncpu", "hw.physmem")
    }
    return {
        "hostname": sysctls.get("kern.hostname", ""),
        "os_family": "freebsd",
        "os_name": f"FreeBSD {sysctls['kern.osrelease']}",
        "kernel": sysctls["kern.osrelease"],
        "arch": sysctls.get("hw.machine", ""),
        "boot_id": _boot_id(sections, sysctls),
        "cpu_model": sysctls.get("hw.model", "").strip(),
        "cpus": numbers["hw.ncpu"],
        "memory": numbers["hw.physmem"],
    }


def _boot_id(sections: Mapping[str, Section], sysctls: Mapping[str, str]) -> str:
    """Text that changes at a boot and only then; hostside/freebsd.sh says the same.

    kern.boot_id is random, from FreeBSD 13 on. Before that the time at which rc wrote dmesg.boot. kern.boottime is the
    last resort, for it moves when somebody sets the clock: then a boot is seen that was none, never the reverse.
    """
    if (
        match := re.search(r"0x([0-9a-f]{32})", decode_text(sections["boot_id"].stdout))
    ) is not None:
        return match[1]
    booted = decode_text(sections["booted"].stdout).strip()
    if booted.isdigit():
        return f"dmesg-{booted}"
    since = re.search(r"sec = (\d+)", sysctls.get("kern.boottime", ""))
    if since is None:
        raise bad_facts("neither kern.boot_id, dmesg.boot nor kern.boottime can be read")
    return f"boottime-{since[1]}"


def parse_mounts(section: Section) -> list[Mount]:
    r"""`mount -p`: source, target, type, options, two numbers. White space in names comes as \040, or (older) raw."""
    mounts = []
    for number, line in section.numbered_lines():
        match = re.fullmatch(rb"(\S+)\s+(/.*?)\s+([\w.-]+)\s+(\S+)\s+\d+\s+\d+", line.strip())
        if match is None:
            raise section.error_at(number, line, "not a line of mount -p")
        source, target, kind, options = match.groups()
        mounts.append(
            Mount(
                decode_octal_escapes(source),
                decode_octal_escapes(target),
                decode_text(kind),
                decode_text(options),
            )
        )
    return mounts


def parse_swaps(section: Section) -> list[str]:
    """`swapinfo -k`: a heading, then path, three numbers, percent."""
    paths = []
    for number, line in section.numbered_lines():
        if line.startswith((b"Device ", b"Total ")):
            continue
        match = re.fullmatch(rb"(/dev/.+?)\s+\d+\s+\d+\s+\d+\s+\d+%", line.strip())
        if match is None:
            raise section.error_at(number, line, "not a line of swapinfo")
        paths.append(decode_text(match[1]))
    return paths


GROUPS = re.compile(
    r"(mirror|raidz\d?|draid[\w:]*|spare|replacing|indirect|hole|root)(-\d+)?|"
    r"NAME|logs|cache|spares|special|dedup"
)


def parse_pool_devices(section: Section) -> list[tuple[str, str]]:
    """Device (without /dev/) and pool of each vdev of `zpool status`; one that is missing says what it was."""
    pool, inside, rows = "", False, []
    for _, line in section.numbered_lines():
        words = decode_text(line).split()
        if not words:
            continue
        if words[0] == "pool:":
            pool, inside = " ".join(words[1:]), False
        elif words[0] in ("config:", "errors:"):
            inside = words[0] == "config:"
        elif inside and words[0] != pool and not GROUPS.fullmatch(words[0]):
            device = words[words.index("was") + 1] if "was" in words[:-1] else words[0]
            # else a file
            if device.startswith("/dev/") or not device.startswith("/"):
                rows.append((device.removeprefix("/dev/"), pool))
    return rows
