# SPDX-License-Identifier: Apache-2.0
"""The reading of a host's facts on any system: first Linux's script, which reports if the host is not Linux.

A glance is one command: has anything about mounts, swap or the claimed disks changed since the last whole look? Equal
glances prove that what stands on these disks is as it was, and that they are the same disks. They do not show a
signature that somebody wrote to an idle disk: a whole look does, and has to be repeated in time.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable

from agents.contracts import AgentError, Claim, Need, Reason, Shell
from agents.facts import freebsd, linux
from agents.facts.model import HostFacts
from agents.facts.sections import bad_facts, run_facts_script, split_sections
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
    output = run_facts_script(shell, linux.facts_command(programs, nonce), timeout_s)
    system = split_sections(output).get("system")
    if system is None:
        looked = iter([output])
        return linux.read_consistent_facts(
            lambda: (
                next(looked, None)
                or run_facts_script(shell, linux.facts_command(programs, nonce), timeout_s)
            )
        )
    name = system.text
    if name != "FreeBSD":
        what = "Linux without /sys/class/block" if name == "Linux" else name or "of no name"
        raise bad_facts(f"its system is {what}; Linux with /sys and FreeBSD can be read")
    return freebsd.parse_freebsd_facts(
        run_facts_script(shell, freebsd.facts_command(programs, nonce), timeout_s)
    )


SCRIPT = """
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
    ran = shell.run(("sh", "-c", SCRIPT, "glance", *names))
    needed = (*REQUIRED_LINUX, *(f"/sys/class/block/{name}/size:" for name in names))
    if b"<mesh>" in ran.stdout:
        needed = (*REQUIRED_FREEBSD, *(f"<name>{node}</name>" for node in nodes))
    if any(marker.encode() not in ran.stdout for marker in needed):
        errors = ran.stderr.decode(errors="replace")[:200]
        raise AgentError(f"mounts and disks cannot be read: {errors}", Reason.BAD_FACTS)
    return hashlib.sha256(ran.stdout).hexdigest()
