# SPDX-License-Identifier: Apache-2.0
"""Holders of a layout that cannot be taken down: other people's devices on its disks, programs in its mount."""

from __future__ import annotations

from collections.abc import Iterator

from agents.contracts import Shell
from agents.facts.graph import Graph
from agents.facts.model import BlockDevice, HostFacts
from agents.facts.sections import decode_text
from agents.plans import health_faults
from agents.plans.stack import StackPlan

# uses of a mount; a compiler that runs in it has hundreds
MAX_USES = 8
# sh -c USERS held MOUNT: a line for each use of a mount. One process looks at the links of all programs. Nothing in a
# path that we gave is a pattern.
USERS = r"""
{
    find /proc/[0-9]*/cwd /proc/[0-9]*/root /proc/[0-9]*/exe /proc/[0-9]*/fd -type l \
        \( -lname "$1" -o -lname "$1/*" \) 2>/dev/null
    grep -ls " $1/" /proc/[0-9]*/maps
} | while IFS=/ read -r _ _ process what _; do
    case " $seen " in *" $process "*) continue ;; esac
    seen="$seen $process"
    echo "$what $process $(tr '\0' ' ' 2>/dev/null <"/proc/$process/cmdline")"
done
grep -s "^$1/" /sys/class/block/loop*/loop/backing_file /dev/null | sed 's|^/sys/class/block/\([^/]*\)/.*|loop /dev/\1|'
sed -n "s|^\($1/[^ ]*\) .*|swap \1|p" /proc/swaps
while read -r _ _ _ _ target _; do case $target in "$1"/*) echo "mount $target" ;; esac; done </proc/self/mountinfo
"""
DOES = {
    "cwd": "has its working directory in {mount}",
    "root": "has its root directory in {mount}",
    "exe": "runs a program from {mount}",
    "fd": "has a file open in {mount}",
    "maps": "has a file of {mount} mapped",
}


def foreign_uses(plan: StackPlan, facts: HostFacts, shell: Shell) -> list[str]:
    """Every use that is none of the layout's own, in words. Raises AgentError when the host does not answer."""
    mounts = {layer.gives.mount for layer in plan.layers} & {mount.target for mount in facts.mounts}
    uses = [user for mount in sorted(mounts) for user in mount_users(shell, mount)]
    return [*uses, *devices(plan, facts)]


def mount_users(shell: Shell, mount: str) -> list[str]:
    """Programs, swap, loop devices and mounts that use what is mounted there."""
    ran = shell.run(("sh", "-c", USERS, "held", mount), root=True)
    lines = [line.strip() for line in decode_text(ran.stdout).splitlines()]
    more = [f"and {len(lines) - MAX_USES} more"] if len(lines) > MAX_USES else []
    return [_use(line, mount) for line in lines[:MAX_USES]] + more


def _use(line: str, mount: str) -> str:
    what, _, rest = line.partition(" ")
    if what in DOES:
        process, _, command = rest.partition(" ")
        return f"process {process} ({command[:100] or 'no name'}) {DOES[what].format(mount=mount)}"
    return {
        "loop": f"{rest} stands on a file in {mount}",
        "swap": f"{rest} is swap in use",
        "mount": f"something is mounted at {rest}",
    }.get(what, line)


def devices(plan: StackPlan, facts: HostFacts) -> list[str]:
    """Devices on the plan's disks that the plan does not make, and who uses those or its own."""
    if not plan.claims:
        return []
    graph = Graph(facts)
    own = {
        block_device.name
        for node in health_faults.layout_nodes(plan, len(plan.stages))
        if (block_device := graph.find_device(node))
    }
    disks = {
        name: disk
        for claim in plan.claims
        if (disk := graph.find_device(claim.node))
        for name in graph.stack_on(disk.name)
    }
    return [
        use
        for name, disk in disks.items()
        if (device := graph.devices.get(name))
        for use in _uses(device, disk, name in own, graph)
    ]


def _uses(device: BlockDevice, disk: BlockDevice, own: bool, graph: Graph) -> Iterator[str]:
    if not own and not graph.above.get(device.name):
        where = f", mounted at {', '.join(device.mounts)}," if device.mounts else ""
        yield f"{device.path} ({device.type}){where} stands on {disk.path} and is not of this layout"
    for opener in device.openers:
        yield f"{device.path} {opener.use}"
    if device.writers:
        yield f"{device.path} is open for writing in {', '.join(device.writers)}"
    if device.swap:
        yield f"{device.path} is swap in use"
