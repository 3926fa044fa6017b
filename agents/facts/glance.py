"""A glance: has anything about mounts, swap, holders or disks changed since the last whole look? One command, no fork.

Equal glances prove that what stands on what is as it was, and that the disks are the same ones. They do not show a
signature that somebody wrote to an idle disk: a whole look (agents.facts.linux) does, and has to be repeated in time.
"""

from __future__ import annotations

import hashlib

from agents.contracts import AgentError, Reason, Shell

BLOCK = "/sys/class/block"
SCRIPT = f"""
b={BLOCK}
printf '%s\\n' $b/* $b/*/holders/* $b/*/slaves/*
exec grep -aHs '' /proc/sys/kernel/random/boot_id /proc/self/mountinfo /proc/swaps /proc/mdstat \\
    $b/*/dev $b/*/size $b/*/ro $b/*/wwid $b/*/serial $b/*/device/wwid $b/*/device/serial $b/*/device/model \\
    $b/*/dm/name
"""
LEAST = ("/proc/self/mountinfo:", "/proc/sys/kernel/random/boot_id:")


def read(shell: Shell) -> str:
    """A hash that is equal as long as nothing changed. Raises AgentError when the host says too little."""
    ran = shell.run(("sh", "-c", SCRIPT))
    if any(needed.encode() not in ran.stdout for needed in LEAST):
        said = ran.stderr.decode(errors="replace")[:200]
        raise AgentError(f"the host's mounts cannot be read: {said}", Reason.BAD_FACTS)
    return hashlib.sha256(ran.stdout).hexdigest()
