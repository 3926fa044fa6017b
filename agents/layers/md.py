# SPDX-License-Identifier: Apache-2.0
"""Linux software RAID (md). Sources: mdadm(8), md(4), article 002; tried with mdadm 4.2 on Linux 6.1.

Superblocks are of version 1.2, at the beginning of the members: 1.0 and 0.90 at the end would show the signatures of
what stands on the array on every member too. `--homehost any` makes a rebooted host assemble the array under its own
name, whatever the host is called then; the UUID is the layout's, so that every superblock is provably ours.
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
from agents.facts.model import HostFacts
from agents.layers import _md
from agents.layers._md import KIB, LEAST, data_offset, stripe_count, usable
from agents.options import option
from agents.steps import scripts
from agents.steps.common import erase_all, member_nodes, settle, still_there, without_uses
from agents.uuids import uuid_of

LABEL = "md RAID"
NEEDS = (Need("mdadm", {"debian": "mdadm", "rhel": "mdadm", "suse": "mdadm", "arch": "mdadm"}),)
USES = {"data": Use("members of the array", least=2), "spare": Use("hot spares", least=0)}
PROVIDES = "volume"
REQUIRES = "devices"
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
    array = _md.array_at(volume(target), facts)
    if array is None:
        return [f"{volume(target)} is not an md array here"]
    data, spares, _ = _members_and_claims(options, target)
    wrong = _md.array_differences(
        array,
        level=options.level,
        chunk=_chunk(options),
        layout=options.layout,
        bitmap=options.bitmap == "internal" and options.level != 0,
    )
    wrong += _md.wrong_members(array, data, spares, facts)
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
    wrong = _md.lost_members(array, wished, len(spares))
    busy = _md.progress(array, options.level, target.name)
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
    array = _md.array_at(volume(target), facts)
    return _md.progress(array, options.level, target.name) if array else None


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
