# SPDX-License-Identifier: Apache-2.0
"""The reading of a host's facts on any system, and the parser of Linux's (hostside/facts.sh).

Linux's script runs first, and reports if the host is not Linux.

A glance is one command: has anything about mounts, swap or the claimed disks changed since the last whole look? Equal
glances prove that what stands on these disks is as it was, and that they are the same disks. They do not show a
signature that somebody wrote to an idle disk: a whole look does, and has to be repeated in time.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib.resources import files

from agents.contracts import AgentError, Claim, Need, Reason, Shell
from agents.facts import block, freebsd, kernel_openers, stacks, sysfs, volumes
from agents.facts.graph import names_by_path, resolve_paths
from agents.facts.kernel_openers import OpenedPaths
from agents.facts.model import BlockDevice, HostFacts, Mount, Zpool
from agents.facts.sections import (
    EMPTY,
    Section,
    bad_facts,
    decode_text,
    parse_tool_versions,
    run_facts_script,
    split_sections,
    succeeded,
    text_section,
    version_commands,
)
from agents.facts.sysfs import kernel_name


def read_facts(shell: Shell, programs: Iterable[Need] = (), timeout_s: float = 60.0) -> HostFacts:
    """The host's facts, as root where that works. Raises AgentError (BAD_FACTS, or the connection's)."""
    try:
        return _read_system_facts(shell, tuple(programs), timeout_s)
    except (ValueError, LookupError, ArithmeticError, TypeError, RecursionError) as error:
        # No parser foresees every output: report such a host as not understood.
        raise bad_facts(f"{type(error).__name__}: {error}") from error


def _read_system_facts(shell: Shell, programs: tuple[Need, ...], timeout_s: float) -> HostFacts:
    nonce = secrets.token_hex(8)

    def look() -> bytes:
        return run_facts_script(shell, linux_command(programs, nonce), timeout_s)

    output = look()
    system = split_sections(output).get("system")
    if system is None:
        looked = iter([output])
        return read_consistent_facts(lambda: next(looked, None) or look())
    name = system.text
    if name != "FreeBSD":
        what = "Linux without /sys/class/block" if name == "Linux" else name or "of no name"
        raise bad_facts(f"its system is {what}; Linux with /sys and FreeBSD can be read")
    return freebsd.parse_freebsd_facts(
        run_facts_script(shell, freebsd.facts_command(programs, nonce), timeout_s)
    )


GLANCE_SCRIPT = """
if [ ! -d /sys/class/block ]; then # FreeBSD: GEOM knows every disk and who has it open
    sysctl -nx kern.boot_id 2>/dev/null || stat -f %m /var/run/dmesg.boot || sysctl -n kern.boottime || exit
    echo mounts: && mount -p && echo swap: && swapinfo -k && exec sysctl -n kern.geom.confxml
    exit 1
fi
files='/proc/sys/kernel/random/boot_id /proc/self/mountinfo /proc/swaps /proc/mdstat /proc/partitions'
for name; do
    b=/sys/class/block/$name
    printf '%s\\n' "$b"/holders/* "$b"/*/holders/*
    files="$files $b/diskseq $b/size $b/ro $b/wwid $b/serial $b/device/wwid $b/device/serial $b/device/model"
done
exec grep -aHs '' $files
"""
REQUIRED_LINUX = ("/proc/self/mountinfo:", "/proc/partitions:", "/proc/sys/kernel/random/boot_id:")
REQUIRED_FREEBSD = ("mounts:\n", "swap:\n", "</mesh>")


def read_state_hash(shell: Shell, claims: Iterable[Claim]) -> str:
    """A hash that is equal as long as nothing changed. Raises AgentError if the host's output is incomplete."""
    # names hold no space
    nodes = [claim.node.removeprefix("/dev/") for claim in claims]
    names = [kernel_name(node) for node in nodes]
    ran = shell.run(("sh", "-c", GLANCE_SCRIPT, "glance", *names))
    needed = (*REQUIRED_LINUX, *(f"/sys/class/block/{name}/size:" for name in names))
    if b"<mesh>" in ran.stdout:
        needed = (*REQUIRED_FREEBSD, *(f"<name>{node}</name>" for node in nodes))
    if any(marker.encode() not in ran.stdout for marker in needed):
        errors = ran.stderr.decode(errors="replace")[:200]
        raise AgentError(f"mounts and disks cannot be read: {errors}", Reason.BAD_FACTS)
    return hashlib.sha256(ran.stdout).hexdigest()


HOSTSIDE = files("agents.hostside")
FACTS_SCRIPT = "".join(
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


def linux_command(programs: Iterable[Need], nonce: str) -> tuple[str, ...]:
    """The one command that looks. It changes nothing on the host."""
    return ("sh", "-c", FACTS_SCRIPT, "facts", nonce, *version_commands(programs))


MAX_READINGS = 4
# Grep's exit codes: 1, no line fits; 2, a process was gone by then. Above them it did not run.
GREP_FAILS = 2
MOUNTINFO = "/proc/self/mountinfo"


def read_consistent_facts(look: Callable[[], bytes]) -> HostFacts:
    """Facts that agree with themselves. One look takes a while, and right after a boot volumes appear in its midst:
    then a disk has a holder that is in no list of devices, and the host is looked at again. Raises AgentError.
    """
    facts = parse_linux_facts(look())
    for _ in range(MAX_READINGS - 1):
        if not unlisted_holders(facts):
            break
        facts = parse_linux_facts(look())
    return facts


def unlisted_holders(facts: HostFacts) -> set[str]:
    """Kernel names of devices that stand on others and are not listed themselves."""
    holders = {holder for device in facts.devices for holder in device.holders}
    return holders - {device.name for device in facts.devices}


def parse_linux_facts(output: bytes) -> HostFacts:
    """Facts from what the script printed. Raises AgentError BAD_FACTS naming section and line."""
    sections = split_sections(output)
    for name in ("uid", "files", "picked", "tree"):
        if name not in sections:
            raise bad_facts(f"the reading has no section {name!r}")
    attributes = sysfs.parse_attributes(sections["files"])
    contents = attributes.pop("", {})
    if MOUNTINFO not in contents:
        raise bad_facts("the reading has no mountinfo")
    opened = OpenedPaths(sections)
    blocks = block.parse_block_devices(sections, attributes, opened)
    devices = {device.name: device for device in blocks.devices}
    owned = names_by_path(devices.values())
    names = resolve_paths(owned, devices)
    unknown = _failures(sections, devices)
    mounts = stacks.parse_mountinfo(text_section("mountinfo", contents[MOUNTINFO]))
    swaps = stacks.parse_proc_swaps(text_section("swaps", contents.get("/proc/swaps", "")))
    arrays = volumes.parse_mdstat(text_section("mdstat", contents.get("/proc/mdstat", "")))
    every_mount = mounts + _namespace_mounts(sections["picked"])
    used = _mount_points(every_mount, blocks.tree.btrfs, devices, owned, opened)
    writers = stacks.parse_openers(sections)
    kernel = kernel_openers.parse_kernel_openers(
        sections, attributes, contents, blocks.devices, opened
    )
    tables = tuple(stacks.parse_dm_tables(succeeded(sections, "dmsetup")))
    unknown += [*kernel.unknown, *_unresolved_logs(every_mount, owned, opened)]
    unknown += stacks.unresolved_table_paths(tables, blocks.devices, owned)
    swapping = {names.get(path) for path in swaps}
    unknown += [f"swap on {p}, which is not a device of this host" for p in swaps if p not in names]
    pools = volumes.parse_status(succeeded(sections, "zpool"))
    physical_volumes = (
        stacks.parse_pvs(succeeded(sections, "pvs"))
        if "pvs" in sections
        # the script asks LVM only where a name does not tell
        else stacks.lvm_groups(blocks.devices)
    )
    owners, lost = _owners(blocks, physical_volumes, pools, names)
    owners |= volumes.array_members(arrays, devices, names)
    stacked, unplaced = volumes.place_zvols(devices.values(), owners)
    return replace(
        _parse_machine(sections, contents),
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
        dm_status=stacks.parse_mirror_status(succeeded(sections, "dmstatus")),
        drivers=stacks.parse_block_drivers(contents.get("/proc/devices", "")),
        lvm_pvs=tuple(path for path, _ in physical_volumes),
        md_arrays=volumes.with_settings(arrays, attributes),
        bcache=volumes.parse_bcache_devices(attributes, blocks.tree.bcache, sections),
        md_members=tuple(sorted(n for n, what in owners.items() if what.startswith("md "))),
        zpool_members=tuple(sorted(n for n, what in owners.items() if what.startswith("zpool "))),
        zpools=volumes.with_properties(pools, succeeded(sections, "zpool_get")),
        datasets=volumes.parse_datasets(succeeded(sections, "zfs_get")),
        # of the loaded module, else of the one that modprobe would load
        zfs_module=contents.get("/sys/module/zfs/version", "").strip()
        or succeeded(sections, "modinfo").text,
        members=owners,
        tools=parse_tool_versions(sections),
        sysctls=sysfs.sysctl_values(contents),
        governors=sysfs.cpu_governors(contents),
        governor_choices=sysfs.governor_choices(contents),
        scheduler_modules=sysfs.scheduler_modules(sections.get("schedulers", EMPTY)),
        unknown=tuple(unknown + lost + unplaced),
    )


def _failures(sections: Mapping[str, Section], devices: Mapping[str, BlockDevice]) -> list[str]:
    """Parts that could not be read and matter to the guard."""
    if sections["uid"].text != "0":
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


def _namespace_mounts(picked: Section) -> list[Mount]:
    """Mounts that another mount namespace shows."""
    matches = (
        re.match(rb"/proc/\d+/mountinfo:(.*)", line, re.S) for _, line in picked.numbered_lines()
    )
    lines = b"\n".join(match[1] for match in matches if match)
    return stacks.parse_mountinfo(Section("mounts of other namespaces", 0, lines, ""))


def _mount_points(
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
        device_names = {by_number.get(mount.majmin)}
        device_names.update(
            name for path in stacks.device_paths(mount) for name in owned.get(path, ())
        )
        for path in stacks.log_device_paths(mount):
            device_names.update(
                by_number.get(number) for number in opened.block_numbers(path) or ()
            )
        for name in filter(None, device_names):
            used.setdefault(name, {})[mount.target] = None
    for uuid, members in btrfs.items():
        targets = [t for name in members for t in used.get(name, {})] or [f"btrfs {uuid}"]
        for name in members:
            used.setdefault(name, {}).update(dict.fromkeys(targets))
    return {name: list(targets) for name, targets in used.items()}


def _unresolved_logs(
    mounts: Iterable[Mount], owned: Mapping[str, Iterable[str]], opened: OpenedPaths
) -> list[str]:
    """Log and journal devices of mounted file systems whose path leads nowhere here."""
    lost = {
        f"which device the file system mounted at {mount.target} uses as {path!r}: that path leads nowhere here"
        for mount in mounts
        for path in stacks.log_device_paths(mount)
        if path not in owned and opened.block_numbers(path) is None
    }
    return sorted(lost)


def _owners(
    blocks: block.BlockReading,
    physical_volumes: Iterable[tuple[str, str]],
    pools: Iterable[Zpool],
    names: Mapping[str, str],
) -> tuple[dict[str, str], list[str]]:
    """Kernel name -> what it belongs to, and paths that could not be resolved."""
    owners = {
        name: f"bcache {blocks.labels.get(name, '')}".strip() for name in sorted(blocks.tree.bcache)
    }
    pooled, lost = volumes.pool_members(pools, names)
    owners |= pooled
    for path, group in physical_volumes:
        volume = f"lvm {group}".strip()
        if (name := names.get(path)) is None:
            lost.append(f"{volume} has {path}, which is not a device of this host")
        else:
            owners[name] = volume
    return owners, lost


def _parse_machine(sections: Mapping[str, Section], contents: Mapping[str, str]) -> HostFacts:
    """The facts that say which host it is, and what commands may do there."""
    root = sections["uid"].text == "0"
    release = dict(
        re.findall(r"""^([A-Z_]+)=["']?(.*?)["']?$""", contents.get("/etc/os-release", ""), re.M)
    )
    likes = f"{release.get('ID', '')} {release.get('ID_LIKE', '')}".split()
    cpu = decode_text(sections["picked"].stdout)
    model = re.search(r":(?:model name|cpu model|Hardware)\s*:\s*(.*)", cpu)
    memory = re.search(r"MemTotal:\s*(\d+) kB", cpu)
    return HostFacts(
        hostname=contents.get("/proc/sys/kernel/hostname", ""),
        os_family=next(
            (FAMILIES[like] for like in likes if like in FAMILIES), release.get("ID", "linux")
        ),
        os_name=release.get("PRETTY_NAME", "Linux"),
        kernel=contents.get("/proc/sys/kernel/osrelease", ""),
        arch=contents.get("/proc/sys/kernel/arch") or sections.get("arch", EMPTY).text,
        boot_id=contents.get("/proc/sys/kernel/random/boot_id", ""),
        cpu_model=model[1].strip() if model else "",
        cpus=len(re.findall(r":processor\s*:", cpu)),
        memory=int(memory[1]) * 1024 if memory else 0,
        root=root,
        sudo=root,
    )
