# SPDX-License-Identifier: Apache-2.0
"""Linux software RAID (md). Sources: mdadm(8), md(4), article 002; tried with mdadm 4.2 on Linux 6.1.

Superblocks are of version 1.2, at the beginning of the members: 1.0 and 0.90 at the end would show the signatures of
what stands on the array on every member too. `--homehost any` makes a rebooted host assemble the array under its own
name, whatever the host is called then; the UUID is the layout's, so that every superblock is provably ours.

Sizes follow mdadm's own arithmetic (super1.c, Create.c of 4.2). They are in KiB unless a name says bytes, because
mdadm's options are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agents.contracts import (
    Claim,
    Need,
    OptionsError,
    Part,
    Plan,
    PlanError,
    Progress,
    Step,
    Target,
    Use,
    claims_of,
)
from agents.facts.graph import Graph
from agents.facts.health import Health
from agents.facts.model import HostFacts, MdArray
from agents.options import option
from agents.steps import scripts
from agents.steps.common import erase_all, member_nodes, settle, still_there, without_uses
from agents.uuids import uuid_of

LABEL = "md RAID"
NEEDS = (Need("mdadm", {"debian": "mdadm", "rhel": "mdadm", "suse": "mdadm", "arch": "mdadm"}),)
USES = {"data": Use("members of the array", least=2), "spare": Use("hot spares", least=0)}
PROVIDES = "volume"
REQUIRES = "devices"
KIB = 1 << 10
# mdadm refuses fewer
LEAST = {0: 2, 1: 2, 5: 2, 6: 4, 10: 2}
PARITY = {5: 1, 6: 2}
# a mirror has no chunk; what a superblock of any version could take
ROUND = 64
# mdadm's own default
CHUNK = 512 * KIB


@dataclass(frozen=True, slots=True)
class Options:
    level: int = option(5, "RAID level", choices=(0, 1, 5, 6, 10))
    chunk: int = option(
        0,
        "Chunk, a power of two; 0: 512 KiB as mdadm has it. A mirror (level 1) has none",
        unit="B",
        minimum=0,
    )
    layout: str = option(
        "n2",
        "Copies of level 10: near, far or offset, and how many",
        choices=("n2", "f2", "o2", "n3", "f3", "o3"),
    )
    bitmap: str = option(
        "internal", "Write-intent bitmap; level 0 never has one", choices=("internal", "none")
    )
    assume_clean: bool = option(
        False, "Skip the initial resync; parity and copies are then inconsistent"
    )

    def __post_init__(self) -> None:
        if self.chunk and self.level == 1:
            raise OptionsError("chunk: a mirror (level 1) has none, leave it at 0")
        if self.chunk and (self.chunk < 4 * KIB or self.chunk & (self.chunk - 1)):
            raise OptionsError(f"chunk: {self.chunk} B is not a power of two from 4 KiB on")


@dataclass(frozen=True, slots=True)
class Grow:
    """mdadm reshapes to all the members there are: nothing to choose."""


def required_programs(options: Options) -> tuple[Need, ...]:
    return NEEDS


def volume(target: Target) -> str:
    return f"/dev/md/{target.name}"


def plan(options: Options, target: Target, facts: HostFacts) -> Plan:
    """Plan the layer. Raises PlanError for too few or too small members."""
    data, spares, claims = _members_and_claims(options, target)
    chunk, offset = _chunk(options), data_offset(data, _chunk(options))
    gives = _gives(options, target, data)
    kind = f"RAID {options.level} of {len(data)}"
    undo = (
        _stop_step(volume(target), claims),
        *erase_all(target, [*data, *spares], facts),
    )
    steps = (
        *erase_all(target, [*data, *spares], facts),
        _clear_step([*data, *spares], offset, claims),
        Step(
            (
                *("mdadm", "--create", volume(target), "--run", f"--level={options.level}"),
                *(f"--raid-devices={len(data)}", "--metadata=1.2", f"--data-offset={offset}K"),
                *((f"--spare-devices={len(spares)}",) if spares else ()),
                *((f"--chunk={chunk // KIB}",) if chunk else ()),
                *((f"--layout={options.layout}",) if options.level == 10 else ()),
                *((f"--bitmap={options.bitmap}",) if options.level else ()),
                *(("--assume-clean",) if options.assume_clean and options.level else ()),
                *(f"--name={target.name}", "--homehost=any", f"--uuid={_uuid(target)}"),
                *(node.node for node in [*data, *spares]),
            ),
            f"Make {kind} disks" + (f" and {len(spares)} spares" if spares else ""),
            destroys=claims,
            undo=undo,
        ),
        settle(),
    )
    return Plan(steps, gives)


def _members_and_claims(
    options: Options, target: Target
) -> tuple[tuple[Part, ...], tuple[Part, ...], tuple[Claim, ...]]:
    data, spares = member_nodes(target, "data", main=True), member_nodes(target, "spare")
    claims = claims_of(target)
    if len(data) < LEAST[options.level]:
        raise PlanError(
            f"RAID {options.level} needs {LEAST[options.level]} members at least, there are {len(data)}"
        )
    if options.level == 10 and len(data) < int(options.layout[1:]):
        raise PlanError(f"{options.layout[1:]} copies need as many members, there are {len(data)}")
    if spares and not options.level:
        raise PlanError("RAID 0 cannot use a spare: it has no redundancy")
    if not claims:
        raise PlanError("the disks under the members are unknown")
    if spares and min(s.size for s in spares) < min(d.size for d in data):
        raise PlanError("a spare is smaller than the smallest member, and could not replace it")
    return data, spares, claims


def _chunk(options: Options) -> int:
    return 0 if options.level == 1 else options.chunk or CHUNK


def _uuid(target: Target) -> str:
    digits = uuid_of(target.name, "md").replace("-", "")
    return ":".join(digits[at : at + 8] for at in range(0, 32, 8))


def _gives(options: Options, target: Target, data: Sequence[Part]) -> Target:
    """The target of the array. Raises PlanError if no chunk fits on the smallest member."""
    chunk = _chunk(options)
    size = usable(options.level, data, chunk, options.layout)
    if size <= 0:
        least = min(node.size for node in data)
        raise PlanError(
            f"the smallest member has {least // KIB} KiB, too little for the {data_offset(data, chunk)} KiB"
            f" before the data and a chunk of {chunk // KIB} KiB"
        )
    count = stripe_count(options.level, len(data), options.layout)
    notes = [f"md RAID {options.level} of {len(data)}, data from {data_offset(data, chunk)} KiB on"]
    if options.assume_clean and options.level:
        notes.append("md was told that the members are clean (--assume-clean): no initial resync")
    return replace(
        without_uses(target, "data", "spare"),
        volume=volume(target),
        size=size,
        stripe_unit=chunk if count else 0,
        stripe_count=count,
        notes=(*target.notes, *notes),
    )


def _clear_step(nodes: Sequence[Part], offset: int, claims: tuple[Claim, ...]) -> Step:
    """An earlier array may have held a volume group or a file system: the new one must not begin with it."""
    argv = (
        "sh",
        "-c",
        scripts.MD_CLEAR,
        "clear",
        str(offset // 1024),
        *(node.node for node in nodes),
    )
    return Step(argv, "Write zeros where the data of the array will begin", destroys=claims)


def _stop_step(node: str, claims: tuple[Claim, ...]) -> Step:
    return Step(("sh", "-c", scripts.MD_STOP, "stop", node), f"Stop {node}", destroys=claims)


def teardown(options: Options, target: Target, facts: HostFacts) -> list[Step]:
    """Stop every array that a member is in, started or not, in the middle of a reshape or not; erase the members.

    A reshape that is stopped leaves superblocks that mdadm could go on from: the data is not wanted, so they go.
    """
    nodes = [*member_nodes(target, "data", main=True), *member_nodes(target, "spare")]
    claims, graph = claims_of(target), Graph(facts)
    present_nodes = still_there(target, nodes, facts)
    names = {device.name for node in present_nodes if (device := graph.find_device(node.node))}
    steps = [
        # One whose disks are all gone destroys none of them: nobody could say what is on them.
        _stop_step(f"/dev/{array.name}", () if array.name in graph.hollow else claims)
        for array in facts.md_arrays
        if (names & {member.device for member in array.members} or array.name in graph.hollow)
        and graph.is_ours(array.name, target.name)
    ]
    return steps + erase_all(target, present_nodes, facts)


def verify(options: Options, target: Target, facts: HostFacts) -> list[str]:
    """Level, chunk, copies, members, bitmap, size; not degraded unless the kernel is about to cure that."""
    array = array_at(volume(target), facts)
    if array is None:
        return [f"{volume(target)} is not an md array here"]
    data, spares, _ = _members_and_claims(options, target)
    wrong = array_differences(options, array)
    wrong += wrong_members(array, data, spares, facts)
    device = Graph(facts).find_device(volume(target))
    promised = _gives(options, target, data).size
    if device and device.size < promised and array.action != "reshape":
        wrong.append(f"{volume(target)} has {device.size} bytes, not {promised}")
    return wrong


def health_faults(options: Options, target: Target, health: Health) -> list[str]:
    """Failed, missing, taken from the spares, or short of members that nothing is about to bring back.

    Of an array that is to be at rest, work of the kernel is a fault too.
    """
    name = health.names.get(volume(target), "")
    array = next((row for row in health.arrays if row.name == name), None)
    if array is None:
        return [f"{volume(target)} is not there any more"]
    if array.state != "active":
        return [f"{array.name} is {array.state}, not active"]
    data, spares, _ = _members_and_claims(options, target)
    wished = [health.kernel_name(part.node) for part in [*data, *spares]]
    wrong = lost_members(array, wished, len(spares))
    busy = progress(array, options.level, target.name)
    if busy:
        # they are at work
        wrong = [fault for fault in wrong if "spares" not in fault]
    if busy and not health.at_rest:
        return wrong
    if not wrong and array.up < array.slots:
        wrong.append(f"{array.name} runs with {array.up} of {array.slots} members")
    if not wrong and busy:
        wrong.append(f"{busy.says} goes on")
    return wrong


def starts_resync(options: Options) -> bool:
    return options.level != 0 and not options.assume_clean


def background_progress(options: Options, target: Target, facts: HostFacts) -> Progress | None:
    """Resync, recovery, reshape or check, by /proc/mdstat."""
    array = array_at(volume(target), facts)
    return progress(array, options.level, target.name) if array else None


def plan_growth(
    options: Options,
    grow: Grow,
    target: Target,
    more: Mapping[str, tuple[Claim, ...]],
    facts: HostFacts,
) -> Plan:
    """Add disks and reshape on to them. RAID 0 passes through RAID 4 and comes back (mdadm does it)."""
    data, _, claims = _members_and_claims(options, target)
    new = [Part(claim.node, claim.size) for claims in more.values() for claim in claims]
    wider = bool(more.get("data"))
    if wider and options.level == 10 and options.layout[0] == "f":
        raise PlanError(
            f"the kernel cannot reshape RAID 10 with far copies ({options.layout}): use near copies"
        )
    old = [node for node in data if node not in new]
    if min(node.size for node in new) < min(node.size for node in old):
        raise PlanError("a new disk is smaller than the members, md cannot take it")
    offset = data_offset(old, _chunk(options))
    steps = [*erase_all(target, new, facts), _clear_step(new, offset, claims)]
    nodes, count = tuple(node.node for node in new), f"--raid-devices={len(data)}"
    if options.level == 0:
        steps.append(
            _mdadm(
                target,
                claims,
                f"Reshape to {len(data)} disks",
                "--grow",
                volume(target),
                count,
                "--add",
                *nodes,
            )
        )
    else:
        steps.append(
            _mdadm(
                target, claims, f"Add {len(new)} disks", "--manage", volume(target), "--add", *nodes
            )
        )
        if wider:
            steps.append(
                _mdadm(
                    target, claims, f"Reshape to {len(data)} disks", "--grow", volume(target), count
                )
            )
    return Plan((*steps, settle()), _gives(options, target, data))


def plan_expansion(options: Options, target: Target, facts: HostFacts) -> Plan:
    """Take the room that the members have gained. The kernel resyncs what is new."""
    data, _, claims = _members_and_claims(options, target)
    if options.level == 0:
        raise PlanError("RAID 0 cannot follow members that have grown: mdadm has no --size for it")
    step = _mdadm(
        target, claims, "Use the whole size of the members", "--grow", volume(target), "--size=max"
    )
    return Plan((step, settle()), _gives(options, target, data))


def _mdadm(target: Target, claims: tuple[Claim, ...], purpose: str, *words: str) -> Step:
    return Step(("mdadm", *words), f"{purpose} ({volume(target)})", destroys=claims, timeout_s=3600)


def data_offset(nodes: Sequence[Part], chunk: int) -> int:
    """Start of the data on every member (KiB): whole MiB. `chunk` in bytes, 0 for a mirror.

    mdadm's own choice, said explicitly because it differs from version to version. The room before the data is what
    a reshape later moves through.
    """
    sectors = min(node.size for node in nodes) // 512
    headroom = 128 * 1024 * 2
    while headroom << 10 > sectors and (not chunk or headroom > 4 * (chunk // KIB)):
        headroom >>= 1
    needed = 24 + _bitmap_sectors(sectors) + headroom
    return -(-needed // 2048) * 1024


def _bitmap_sectors(sectors: int) -> int:
    if sectors - 128 >= 200 * 1024 * 1024 * 2:
        return 256
    return 128 if sectors - 8 > 8 * 1024 * 1024 * 2 else 8


def usable(level: int, nodes: Sequence[Part], chunk: int, layout: str) -> int:
    """Bytes of the array's data; 0 or less when the members are too small for one chunk."""
    offset, step = data_offset(nodes, chunk), chunk // KIB or ROUND
    each = [(node.size // KIB - offset) // step * step for node in nodes]
    least, count = min(each), len(each)
    if level == 0:
        return sum(each) * KIB if least > 0 else 0
    if level == 1:
        return least * KIB
    if level == 10:
        return _raid10(least // step, count, layout) * step * KIB
    return least * (count - PARITY[level]) * KIB


def _raid10(chunks: int, count: int, layout: str) -> int:
    """Chunks of data when every member has `chunks`: far and offset copies lie within a member."""
    copies = int(layout[1:])
    if layout[0] == "n":
        return chunks * count // copies
    return chunks // copies * count


def stripe_count(level: int, count: int, layout: str) -> int:
    """Data chunks of a full stripe, as the kernel tells file systems (optimal_io_size); 0: no stripe."""
    if level == 1:
        return 0
    if level == 10:
        copies = int(layout[1:]) if layout[0] == "n" else 1
        return count if count % copies else count // copies
    return count - PARITY.get(level, 0)


def array_at(node: str, facts: HostFacts) -> MdArray | None:
    device = Graph(facts).find_device(node)
    return next((a for a in facts.md_arrays if device and a.name == device.name), None)


def array_differences(options: Options, array: MdArray) -> list[str]:
    level, bitmap = options.level, options.bitmap == "internal" and options.level != 0
    wrong = []
    if array.state != "active":
        wrong.append(f"{array.name} is {array.state}, not active")
    # a reshape of RAID 0, seen in the middle
    passing = level == 0 and array.level == "raid4"
    if array.level != f"raid{level}" and not passing:
        wrong.append(f"{array.name} is {array.level or 'without a level'}, not raid{level}")
    if array.chunk != _chunk(options):
        wrong.append(f"{array.name} has chunks of {array.chunk} B, not {_chunk(options)} B")
    if level == 10 and array.layout != options.layout:
        wrong.append(f"{array.name} has the layout {array.layout or '?'}, not {options.layout}")
    if array.bitmap != bitmap and not passing:
        wrong.append(f"{array.name} has {'a' if array.bitmap else 'no'} bitmap")
    return wrong


def wrong_members(
    array: MdArray, data: Sequence[Part], spares: Sequence[Part], facts: HostFacts
) -> list[str]:
    """Differences between the members and the disks. A slot that is not in sync yet may be on its way."""
    graph = Graph(facts)
    wished = [d.name if (d := graph.find_device(p.node)) else p.node for p in [*data, *spares]]
    wrong = lost_members(array, wished, len(spares))
    inside = {member.device for member in array.members}
    wrong += [f"{name} is in {array.name} too" for name in sorted(inside - set(wished))]
    if array.slots and array.slots != len(data) and not array.action:
        wrong.append(f"{array.name} has {array.slots} slots, not {len(data)}")
    return wrong


def lost_members(array: MdArray, wished: Sequence[str], spares: int) -> list[str]:
    """Members (kernel names) that are not in the array or have failed, and spares that were taken, in words."""
    flags = {member.device: member.flags for member in array.members}
    wrong = [f"{name} is not in {array.name}" for name in sorted(set(wished) - flags.keys())]
    wrong += [f"{name} has failed in {array.name}" for name, state in flags.items() if "F" in state]
    idle = sum("S" in state for state in flags.values())
    if idle != spares and not array.action:
        wrong.append(f"{array.name} has {idle} spares, not {spares}")
    return wrong


def progress(array: MdArray, level: int, name: str) -> Progress | None:
    if array.action:
        return Progress(f"{array.action} of {name}", array.done, array.finish_s)
    if level == 0 and array.level == "raid4":
        return Progress(f"return of {name} to RAID 0", 1.0)
    usable = sum("F" not in member.flags for member in array.members)
    if array.up < array.slots <= usable:
        return Progress(f"recovery of {name}, which has not begun", 0.0)
    return None
