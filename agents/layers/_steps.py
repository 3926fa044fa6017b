"""Steps and checks that several layers share."""

from __future__ import annotations

from dataclasses import replace

from agents.contracts import Claim, Part, PlanError, Step, Target
from agents.facts.graph import Graph
from agents.facts.in_use import MOUNT_ROOT
from agents.facts.model import BlockDevice, HostFacts
from agents.guard import claims_of

MIB = 1 << 20
ZERO = (
    'for at in 0 "$2"; do'
    ' dd if=/dev/zero of="$1" bs=1M count=1 seek="$at" oflag=seek_bytes conv=fsync || exit; done'
)


def one(target: Target, use: str) -> Claim:
    """The single disk of a use. Raises PlanError."""
    given = target.devices.get(use, ())
    if len(given) != 1:
        raise PlanError(f"{use}: needs exactly one disk, was given {len(given)}")
    return given[0]


def members(target: Target, use: str, main: bool = False) -> tuple[Part, ...]:
    """The nodes for a use: disks of the layer's own, partitions made for it, or for the main use the volume below."""
    disks = tuple(Part(claim.node, claim.size) for claim in target.devices.get(use, ()))
    found = disks + target.parts.get(use, ())
    if not found and main and target.volume:
        return (Part(target.volume, target.size),)
    return found


def below(target: Target) -> tuple[Claim, ...]:
    """The disks that a volume lies on. Raises PlanError: a volume on nothing cannot be guarded."""
    if not target.volume:
        raise PlanError("there is no volume below: put a layer under it that gives one")
    if not (claims := claims_of(target)):
        raise PlanError(f"nobody says which disks {target.volume} lies on")
    return claims


def mount_point(target: Target) -> str:
    return f"{MOUNT_ROOT}/{target.name}"


def wipe(node: str, claims: tuple[Claim, ...], says: str = "") -> Step:
    """Erase every signature of a node. wipefs opens it exclusively, so a node in use stays whole."""
    return Step(
        ("wipefs", "--all", node), says or f"Erase the signatures of {node}", destroys=claims
    )


def erase(disk: Claim, facts: HostFacts) -> list[Step]:
    """Make a whole disk blank: its partitions, its signatures, what is at both ends of it.

    Partitions first: a later table with the same borders would bring their file systems back.
    """
    graph = Graph(facts)
    device = graph.find(disk.node)
    names = graph.stack_on(device.name) if device else []
    parts = [d for n in names if (d := graph.devices.get(n)) and d.type == "part"]
    signed = sorted(part.path for part in parts if part.signatures)
    steps = [wipe(node, (disk,)) for node in signed]
    steps += _blank(Part(disk.node, disk.size), (disk,))
    return [*steps, *([_reread(disk)] if parts else []), settle()]


def erase_piece(piece: Part, claims: tuple[Claim, ...]) -> list[Step]:
    """The same for a partition or volume that a layer below made. It must be there when the steps run."""
    return [*_blank(piece, claims), settle()]


def _blank(piece: Part, claims: tuple[Claim, ...]) -> list[Step]:
    return [wipe(piece.node, claims), zero(piece, claims)]


def zero(piece: Part, claims: tuple[Claim, ...]) -> Step:
    """Zeros over the first and the last MiB, where partition tables, GPT, md 0.90 and 1.0 and ZFS write.

    wipefs alone is not enough: kernels see tables in noise, an xfs superblock without its magic passed for one
    (tests/rig/noise.py), and ZFS finds what libblkid does not.
    """
    argv = ("sh", "-c", ZERO, "zero", piece.node, str(max(piece.size - MIB, 0)))
    return Step(argv, f"Write zeros over both ends of {piece.node}", destroys=claims)


def _reread(disk: Claim) -> Step:
    return Step(
        ("blockdev", "--rereadpt", disk.node),
        f"Have the kernel forget the partitions of {disk.node}",
        destroys=(disk,),
    )


def settle() -> Step:
    """Wait until udev has made the nodes and read the new signatures."""
    return Step(("udevadm", "settle", "--timeout=30"), "Wait for udev")


def is_claimed(claim: Claim, facts: HostFacts) -> BlockDevice | None:
    """The device at a claim's node if it still is that very disk: teardown must not touch another."""
    device = Graph(facts).find(claim.node)
    return device if device is not None and device.identity == claim.identity else None


def piece_there(node: str, claims: tuple[Claim, ...], facts: HostFacts) -> BlockDevice | None:
    """The partition or volume at a node if it is there and lies on the claimed disks alone."""
    graph = Graph(facts)
    device = graph.find(node)
    ours = {here.name for claim in claims if (here := is_claimed(claim, facts))}
    return device if device is not None and graph.disks_under(device.name) <= ours else None


def taken(target: Target, *uses: str) -> Target:
    """What is left for the layers above: the pieces of these uses are used up, and so is the geometry below."""
    left = {use: given for use, given in target.parts.items() if use not in uses}
    return replace(target, parts=left, volume="", size=0, stripe_unit=0, stripe_count=0)
