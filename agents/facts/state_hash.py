# SPDX-License-Identifier: Apache-2.0
"""A glance: has anything about mounts, swap or the claimed disks changed since the last whole look? One command.

Equal glances prove that what stands on these disks is as it was, and that they are the same disks. They do not show a
signature that somebody wrote to an idle disk: a whole look (agents.facts.reading) does, and has to be repeated in time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from agents.contracts import AgentError, Claim, Reason, Shell

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
    # The kernel writes cciss!c0d0 for /dev/cciss/c0d0; names hold no space.
    nodes = [claim.node.removeprefix("/dev/") for claim in claims]
    names = [node.replace("/", "!") for node in nodes]
    ran = shell.run(("sh", "-c", SCRIPT, "glance", *names))
    needed = (*REQUIRED_LINUX, *(f"/sys/class/block/{name}/size:" for name in names))
    if b"<mesh>" in ran.stdout:
        needed = (*REQUIRED_FREEBSD, *(f"<name>{node}</name>" for node in nodes))
    if any(marker.encode() not in ran.stdout for marker in needed):
        errors = ran.stderr.decode(errors="replace")[:200]
        raise AgentError(f"mounts and disks cannot be read: {errors}", Reason.BAD_FACTS)
    return hashlib.sha256(ran.stdout).hexdigest()
