# SPDX-License-Identifier: Apache-2.0
"""Faults of a layout on its host: lost disks, failed layers, and what keeps it from being taken down.

Lost disks are those that a host has no more, or has under another name; what stands on them is taken down still. Faults
of layers are those of one moment, and those in the samples of a run: each frame is a health check of its own, in the
parts that it has. Other people's devices on the disks, and programs in the mount, keep a layout from being taken down.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agents import options
from agents.contracts import Claim, Frame, Part, Shell, Step, Target, claims_of
from agents.drivers import protocols, registry
from agents.facts import health
from agents.facts.graph import Graph
from agents.facts.health import Health
from agents.facts.model import BlockDevice, HostFacts
from agents.facts.sections import decode_text
from agents.plans.stack import Placed, StackPlan


def missing_claims(claims: Iterable[Claim], facts: HostFacts) -> tuple[Claim, ...]:
    """The claims whose identity no device of the host has, under whatever name."""
    identities = {device.identity for device in facts.devices}
    return tuple(claim for claim in claims if claim.identity not in identities)


def pulled_claims(claims: Iterable[Claim], facts: HostFacts) -> tuple[Claim, ...]:
    """Those that have another name than when they were claimed, or none, while no other disk has their old one. In one
    boot that is a disk that was pulled out, put back in or not; after another a disk may have any name.
    """
    names = {device.name for device in facts.devices}
    return tuple(claim for claim in claims if _kernel_name(claim) not in names)


def current_path(claim: Claim, facts: HostFacts) -> str:
    """The path that a disk has now; "" where there is none, or more than one."""
    name = _name_now(claim, facts)
    return next((device.path for device in facts.devices if device.name == name), "")


def with_current_names(facts: HostFacts, claims: Iterable[Claim], layout: str = "") -> HostFacts:
    """The facts without the kernel's memory of disks as they were called when they were claimed.

    What stood on a disk that was pulled out names it still as what it stands on, and the guard would take that for a
    disk that nobody claims: for it the name stands that the disk has now, if it was plugged in again, or none. Only
    names that no device of the host has, and those of their partitions.

    An array all of whose members have such names stood on the claimed disks and is the layout's, though nothing on the
    host can say so any more: its superblocks are gone with them, and udev may have taken its link away.
    """
    names = {device.name for device in facts.devices}
    old = {_kernel_name(claim): _name_now(claim, facts) for claim in claims}
    old = {name: now for name, now in old.items() if name not in names}

    if not old:
        return facts
    disks = re.compile(rf"({'|'.join(map(re.escape, old))})(?:p?(\d+))?")

    def now(name: str) -> str:
        """Its present name; "" for a disk that is gone."""
        match = disks.fullmatch(name)
        if name in names or match is None:
            return name
        disk, number = old[match[1]], match[2]
        parts = (f"{disk}{number}", f"{disk}p{number}") if number else (disk,)
        return next((part for part in parts if part in names), "")

    devices = tuple(
        replace(device, parents=_current_names(device.parents, now)) for device in facts.devices
    )
    arrays = tuple(
        replace(
            array,
            members=tuple(
                replace(member, device=now(member.device) or member.device)
                for member in array.members
            ),
        )
        for array in facts.md_arrays
    )
    lost = {
        member.device
        for array in facts.md_arrays
        if all(m.device not in names and disks.fullmatch(m.device) for m in array.members)
        for member in array.members
        if layout and facts.members.get(member.device) == f"md {array.name}"
    }
    members = {**facts.members, **dict.fromkeys(lost, f"md {layout}")}
    owned = {now(name) or name: owner for name, owner in members.items()}
    return replace(facts, devices=devices, md_arrays=arrays, members=owned | members)


def _current_names(names: Iterable[str], now: Callable[[str], str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(current for name in names if (current := now(name))))


def _kernel_name(claim: Claim) -> str:
    return claim.node.removeprefix("/dev/").replace("/", "!")


def _name_now(claim: Claim, facts: HostFacts) -> str:
    """ "" where no device, or more than one, has its identity."""
    names = [device.name for device in facts.devices if device.identity == claim.identity]
    return names[0] if len(names) == 1 else ""


def steps_without(steps: Iterable[Step], lost: Collection[Claim]) -> list[Step]:
    """Steps of a teardown on the disks that are there; one that was for lost disks alone is left out.

    The guard refuses a Step that claims a disk which is not there, and rightly: it cannot know what that disk is. A
    command that names one is refused still.
    """
    away = {claim.identity for claim in lost}
    remaining_steps = []
    for step in steps:
        claims = tuple(claim for claim in step.destroys if claim.identity not in away)
        if claims or not step.destroys:
            remaining_steps.append(replace(step, destroys=claims))
    return remaining_steps


def relocated(plan: StackPlan, facts: HostFacts) -> StackPlan:
    """The same layers on the same disks, under the names these have now; its commands stay as they once ran.

    For taking down only. A disk that is not here, or not the only one of its identity, keeps its old name: layers and
    guard then see that another disk, or none, is there.
    """
    names = {claim.node: current_path(claim, facts) or claim.node for claim in plan.claims}
    if all(old == new for old, new in names.items()):
        return plan
    stages = tuple(
        replace(stage, layers=tuple(_rename_layer(layer, names) for layer in stage.layers))
        for stage in plan.stages
    )
    return replace(
        plan, layers=tuple(_rename_layer(layer, names) for layer in plan.layers), stages=stages
    )


def _rename_layer(layer: Placed, names: Mapping[str, str]) -> Placed:
    return replace(
        layer, target=_rename_target(layer.target, names), gives=_rename_target(layer.gives, names)
    )


def _rename_target(target: Target, names: Mapping[str, str]) -> Target:
    devices = {
        use: tuple(replace(claim, node=names.get(claim.node, claim.node)) for claim in claims)
        for use, claims in target.devices.items()
    }
    parts = {
        use: tuple(Part(names.get(part.node, part.node), part.size) for part in claims)
        for use, claims in target.parts.items()
    }
    volume = names.get(target.volume, target.volume)
    return replace(target, devices=devices, parts=parts, volume=volume)


def stack_faults(plan: StackPlan, health: Health, stage: int = 0) -> list[str]:
    """Faults in any layer, hidden or not, after `stage` stages; and disks that are gone. [] is right."""
    layers = plan.layers_after(stage)
    faults = [fault for claim in claims_of(layers[-1].gives) for fault in _disk(claim.node, health)]
    for layer in layers:
        kind = layer.spec.kind
        if driver := registry.implements(kind, protocols.HealthCheck):
            built = options.build_options(driver.Options, layer.spec.options)
            faults += [
                f"{kind}: {fault}" for fault in driver.health_faults(built, layer.target, health)
            ]
    return list(dict.fromkeys(faults))


def _disk(node: str, health: Health) -> list[str]:
    if node not in health.names:
        return [f"{node} is gone"]
    values = health.values.get(health.kernel_name(node), {})
    wrong = [f"{node} is gone"] if values.get("size") == "0" else []
    if values.get("ro") == "1":
        wrong.append(f"{node} is read-only")
    if values.get("device/state", "running") not in ("running", "live"):
        wrong.append(f"{node} is {values['device/state']}")
    return wrong


def layout_nodes(plan: StackPlan, stage: int = 0) -> list[str]:
    """Every node that a layer after `stage` stages stands on or gives: disks, pieces of them, volumes."""
    node_set: dict[str, None] = {}
    for layer in plan.layers_after(stage):
        for target in (layer.target, layer.gives):
            node_set |= dict.fromkeys(claim.node for claim in claims_of(target))
            node_set |= dict.fromkeys(
                part.node for parts in target.parts.values() for part in parts
            )
            node_set |= dict.fromkeys([target.volume] if target.volume else [])
    return list(node_set)


BCACHE = re.compile(r"/sys/class/block/([^/]+)/(bcache/(?:state|running))")
POOL = re.compile(r"/proc/spl/kstat/zfs/([^/]+)/state")
# the end of the sampler's command
STATUS = "dmsetup status --noflush"
SAMPLED = re.compile(
    rb"^# (?:/proc/mdstat|/sys/class/block/[^/\n]+/bcache/|/proc/spl/kstat/zfs/[^/\n]+/state|\|.*dmsetup status)",
    re.M,
)


@dataclass(frozen=True, slots=True)
class FaultSpan:
    """A fault, and for how many of the run's seconds it was there."""

    fault: str
    seconds: float
    run_seconds: float

    @property
    def sentence(self) -> str:
        return f"{self.fault}, for {self.seconds:.0f} s of {self.run_seconds:.0f} s"


def any_sampled(raw: bytes) -> bool:
    """True when samples hold any of what is looked at here: most hosts have neither arrays nor pools."""
    return SAMPLED.search(raw) is not None


def fault_spans(
    plan: StackPlan,
    frames: Sequence[Frame],
    after: Health,
    stage: int = 0,
    growing: bool = False,
    expected_faults: Collection[str] = (),
) -> list[FaultSpan]:
    """Faults that are neither `expected_faults` nor in the look `after` the run. A frame counts from the one before it.

    `growing`: the run is meant to measure while the kernel works on the layout. Raises AgentError for what no kernel
    prints.
    """
    expected = {*expected_faults, *stack_faults(plan, after, stage)}
    sampled = {path for frame in frames for path in frame.files}
    seconds = dict[str, float]()
    earlier = frames[0].at if frames else 0.0
    for frame in _complete_frames(frames):
        now = replace(_health_at(frame, after, sampled), at_rest=not growing)
        for fault in stack_faults(plan, now, stage):
            seconds[fault] = seconds.get(fault, 0.0) + frame.at - earlier
        earlier = frame.at
    total = frames[-1].at - frames[0].at if frames else 0.0
    return [FaultSpan(fault, s, total) for fault, s in seconds.items() if fault not in expected]


def _complete_frames(frames: Sequence[Frame]) -> Iterator[Frame]:
    """Without what a command printed in the last frame: it may have been ended in the midst of it, with the job."""
    yield from frames[:-1]
    for frame in frames[-1:]:
        files = {path: text for path, text in frame.files.items() if not path.endswith(STATUS)}
        yield replace(frame, files=files)


def _health_at(frame: Frame, after: Health, sampled: Collection[str]) -> Health:
    """The host as it was at that moment, as far as it was sampled; else as after the run."""
    now = replace(after, values=_caches(frame.files, after.values, sampled))
    if "/proc/mdstat" in frame.files:
        now = replace(now, arrays=health.parse_mdstat_text(frame.files["/proc/mdstat"]))
    for path, text in frame.files.items():
        if path.endswith(STATUS) and text:
            now = replace(now, mapped={**after.mapped, **health.parse_dm_status(text)})
        elif pool := POOL.fullmatch(path):
            now = health.with_pool_state(now, pool[1], text.strip())
    return now


def _caches(
    files: Mapping[str, str], after: Mapping[str, Mapping[str, str]], sampled: Collection[str]
) -> Mapping[str, Mapping[str, str]]:
    """State of each backing device of bcache; none where a file is away that is in other frames."""
    caches = {name: dict(values) for name, values in after.items()}
    for path in sampled:
        if match := BCACHE.fullmatch(path):
            caches.setdefault(match[1], {})[match[2]] = files.get(path, "").strip()
    return caches


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
    return [*uses, *foreign_devices(plan, facts)]


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


def foreign_devices(plan: StackPlan, facts: HostFacts) -> list[str]:
    """Devices on the plan's disks that the plan does not make, and who uses those or its own."""
    if not plan.claims:
        return []
    graph = Graph(facts)
    own = {
        block_device.name
        for node in layout_nodes(plan, len(plan.stages))
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
