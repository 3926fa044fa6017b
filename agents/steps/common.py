# SPDX-License-Identifier: Apache-2.0
"""Steps and checks that several layers share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from agents.contracts import Claim, Part, PlanError, Step, Target, claims_of
from agents.facts.device_uses import MOUNT_ROOT
from agents.facts.graph import Graph
from agents.facts.model import BlockDevice, HostFacts
from agents.steps import scripts

MIB = 1 << 20
# a node and a byte on it, at a whole sector
Place = tuple[str, int]


def single_disk(target: Target, use: str) -> Claim:
    """The single disk of a use. Raises PlanError."""
    claims = target.devices.get(use, ())
    if len(claims) != 1:
        raise PlanError(f"{use}: needs exactly one disk, got {len(claims)}")
    return claims[0]


def member_nodes(target: Target, use: str, main: bool = False) -> tuple[Part, ...]:
    """The nodes for a use: disks of the layer's own, partitions made for it, or for the main use the volume below."""
    disks = tuple(Part(claim.node, claim.size) for claim in target.devices.get(use, ()))
    all_members = disks + target.parts.get(use, ())
    if not all_members and main and target.volume:
        return (Part(target.volume, target.size),)
    return all_members


def volume_disks(target: Target) -> tuple[Claim, ...]:
    """The disks that a volume lies on. Raises PlanError: a volume on nothing cannot be guarded."""
    if not target.volume:
        raise PlanError("there is no volume below: add a layer below that provides one")
    if not (claims := claims_of(target)):
        raise PlanError(f"the disks under {target.volume} are unknown")
    return claims


def mount_point(target: Target) -> str:
    return f"{MOUNT_ROOT}/{target.name}"


def wipe(node: str, claims: tuple[Claim, ...], description: str = "") -> Step:
    """Erase every signature of a node. wipefs opens it exclusively, so a node in use stays whole."""
    return _wipe([node], claims, description)


def _wipe(nodes: Sequence[str], claims: tuple[Claim, ...], description: str = "") -> Step:
    description = description or f"Erase the signatures of {', '.join(nodes)}"
    return Step(("wipefs", "--all", *nodes), description, destroys=claims, quiet=True)


def erase_all(
    target: Target,
    nodes: Sequence[Part],
    facts: HostFacts,
    also: Sequence[Place] = (),
    settled: bool = True,
) -> list[Step]:
    """Blank disks of ours as wholes (partitions, signatures, what is at both ends, and the MiB at `also`), and what
    a layer below made as it is. One command of each kind for all of them: the guard looks at the host before each.

    Not `settled`: udev has not read them anew yet, and what comes next does not need it.
    A disk's partitions first: a later table with the same borders would bring their file systems back.
    """
    ours = {claim.node: claim for claim in claims_of(target)}
    disks = tuple(ours[node.node] for node in nodes if node.node in ours)
    claims = disks if len(disks) == len(nodes) else claims_of(target)
    if not nodes:
        return []
    zero = zeros([*_disk_ends(nodes), *also], claims, facts)
    if facts.os_family == "freebsd":
        return [*map(_destroy_table, disks), zero]
    cut, signed = _partitions(disks, facts)
    steps = [_wipe([*signed, *(node.node for node in nodes)], claims), zero]
    if not cut and not settled:
        return steps
    return [*steps, *([_reread(cut)] if cut else []), settle()]


def _partitions(
    disks: Iterable[Claim], facts: HostFacts
) -> tuple[tuple[Claim, ...], tuple[str, ...]]:
    """The disks that have some, and those partitions that have signatures."""
    graph = Graph(facts)
    cut, signed = [], []
    for disk in disks:
        device = graph.find_device(disk.node)
        # Its own: those of an array on it go with the array.
        names = sorted(graph.above.get(device.name, ())) if device else []
        parts = [d for n in names if (d := graph.devices.get(n)) and d.type == "part"]
        signed += sorted(part.path for part in parts if part.signatures)
        cut += [disk] if parts else []
    return tuple(cut), tuple(signed)


def _disk_ends(nodes: Iterable[Part]) -> list[Place]:
    """The first and the last MiB, where partition tables, GPT, md 0.90 and 1.0 and ZFS write.

    wipefs alone is not enough: kernels see tables in noise, an xfs superblock without its magic passed for one
    (tests/rig/noise.py), and ZFS finds what libblkid does not.
    """
    return [(node.node, at) for node in nodes for at in (0, max(node.size - MIB, 0))]


def zeros(
    places: Iterable[Place], claims: tuple[Claim, ...], facts: HostFacts, description: str = ""
) -> Step:
    """Zeros over one MiB at each of these places."""
    places = tuple(dict.fromkeys(places))
    nodes = ", ".join(dict.fromkeys(node for node, _ in places))
    script = scripts.ZERO_FREEBSD if facts.os_family == "freebsd" else scripts.ZERO
    return Step(
        ("sh", "-c", script, "zero", *(str(word) for place in places for word in place)),
        description or f"Write zeros over {len(places)} MiB: the ends of {nodes}",
        destroys=claims,
        quiet=True,
    )


def _destroy_table(disk: Claim) -> Step:
    return Step(
        ("sh", "-c", scripts.GPART_DESTROY, "destroy", disk.node),
        f"Remove the partition table of {disk.node}",
        destroys=(disk,),
    )


def _reread(disks: tuple[Claim, ...]) -> Step:
    nodes = [disk.node for disk in disks]
    return Step(
        ("blockdev", "--rereadpt", *nodes),
        f"Have the kernel forget the partitions of {', '.join(nodes)}",
        destroys=disks,
        # the kernel says "busy" while udev reads one of them
        quiet=True,
    )


def settle() -> Step:
    """Wait until udev has made the nodes and read the new signatures."""
    return Step(("udevadm", "settle", "--timeout=30"), "Wait for udev")


def is_claimed(claim: Claim, facts: HostFacts) -> BlockDevice | None:
    """The device at a claim's node if it still is that very disk: teardown must not touch another."""
    device = Graph(facts).find_device(claim.node)
    return device if device is not None and device.identity == claim.identity else None


def piece_there(node: str, claims: tuple[Claim, ...], facts: HostFacts) -> BlockDevice | None:
    """The partition or volume at a node if it is there and lies on the claimed disks alone."""
    graph = Graph(facts)
    device = graph.find_device(node)
    ours = {claimed_device.name for claim in claims if (claimed_device := is_claimed(claim, facts))}
    under = graph.disks_under(device.name) if device else set()
    return device if under and under <= ours else None


def without_uses(target: Target, *uses: str) -> Target:
    """Target left for the layers above: the pieces of these uses are used up, and so is the geometry below."""
    remaining = {use: part_claims for use, part_claims in target.parts.items() if use not in uses}
    return replace(target, parts=remaining, volume="", size=0, stripe_unit=0, stripe_count=0)


def still_there(target: Target, nodes: Sequence[Part], facts: HostFacts) -> list[Part]:
    """The nodes that are still the same disks of ours, or pieces that lie only on our disks."""
    disks = {claim.node: claim for claim in claims_of(target)}
    return [
        node
        for node in nodes
        if (
            is_claimed(disks[node.node], facts)
            if node.node in disks
            else piece_there(node.node, claims_of(target), facts)
        )
    ]
