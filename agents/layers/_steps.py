"""Steps and checks that several layers share."""

from __future__ import annotations

from agents.contracts import Claim, Part, PlanError, Step, Target
from agents.facts.in_use import MOUNT_ROOT
from agents.facts.model import BlockDevice, HostFacts
from agents.guard import claims_of


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


def settle() -> Step:
    """Wait until udev has made the nodes and read the new signatures."""
    return Step(("udevadm", "settle", "--timeout=30"), "Wait for udev")


def is_claimed(claim: Claim, facts: HostFacts) -> BlockDevice | None:
    """The device at a claim's node if it still is that very disk: teardown must not touch another."""
    device = facts.device(claim.node)
    return device if device is not None and device.identity == claim.identity else None
