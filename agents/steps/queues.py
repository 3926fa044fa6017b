# SPDX-License-Identifier: Apache-2.0
"""Queue settings of disks (/sys/block/X/queue) for the tuning layer: which, on which disk, and as they were. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agents.contracts import Claim, PlanError, Step, Target, claims_of
from agents.facts.graph import Graph
from agents.facts.model import BlockDevice, HostFacts
from agents.facts.sysfs import attribute_path, selected_value
from agents.steps import scripts
from agents.steps.common import is_claimed

# In the order in which they are set: a new scheduler brings its own nr_requests.
ATTRIBUTES = ("scheduler", "nr_requests", "read_ahead_kb", "nomerges", "rq_affinity")


@dataclass(frozen=True, slots=True)
class Disk:
    """A claimed disk whose queue is set."""

    claim: Claim
    device: BlockDevice

    def attribute_path(self, attribute: str) -> str:
        return attribute_path(self.device.name, attribute)

    def saved_key(self, attribute: str) -> str:
        """Under which the old value is kept: by identity, for names change at a reboot."""
        return f"{self.claim.identity} {attribute}"

    def current_value(self, attribute: str) -> str:
        return selected_value(attribute, self.device.queue.get(attribute, ""))


def claimed_disks(target: Target, facts: HostFacts) -> list[Disk]:
    """Every disk of the layers below that is still that very disk."""
    pairs = ((claim, is_claimed(claim, facts)) for claim in claims_of(target))
    return [Disk(claim, device) for claim, device in pairs if device is not None]


def plan_queue_settings(
    wishes: Mapping[str, str], target: Target, facts: HostFacts
) -> tuple[list[Step], dict[str, str]]:
    """Steps that set each wish on every disk, and the old values. Raises PlanError naming disk and attribute."""
    if not wishes:
        return [], {}
    queue_disks = checked(wishes, target, facts)
    steps = []
    for attribute, step in zip(wishes, bare(wishes, queue_disks), strict=True):
        # The old nr_requests may be more than the new scheduler takes: it comes back with the old one.
        with_old = attribute == "nr_requests" and "scheduler" in wishes
        undo = (
            ()
            if with_old
            else restore_queues(queue_disks, as_now(queue_disks, [attribute]), always=True)
        )
        steps.append(replace(step, undo=undo))
    return steps, as_now(queue_disks, wishes)


def checked(wishes: Mapping[str, str], target: Target, facts: HostFacts) -> list[Disk]:
    """The disks, each of which can take these. Raises PlanError naming disk and attribute."""
    queue_disks = claimed_disks(target, facts)
    if not queue_disks:
        raise PlanError("there are no disks below to tune: put tuning above them")
    for disk in queue_disks:
        for attribute, wish in wishes.items():
            _check_attribute(disk, attribute, wish, facts)
    return queue_disks


def bare(wishes: Mapping[str, str], queue_disks: Sequence[Disk]) -> tuple[Step, ...]:
    """A step for each wish, in their order, that sets it on all of them."""
    return tuple(
        _write_step(
            wish, attribute, queue_disks, f"Set {attribute} to {wish} on {_disk_names(queue_disks)}"
        )
        for attribute, wish in wishes.items()
    )


def as_now(
    queue_disks: Sequence[Disk], wishes: Sequence[str] | Mapping[str, str]
) -> dict[str, str]:
    """Present values of all that changes with these wishes, by disk and attribute."""
    return {
        d.saved_key(a): d.current_value(a)
        for d in queue_disks
        for a in touched(wishes)
        if d.current_value(a)
    }


def touched(wishes: Sequence[str] | Mapping[str, str]) -> tuple[str, ...]:
    """Attributes that change when these are set."""
    changed = {*wishes, *(["nr_requests"] if "scheduler" in wishes else [])}
    return tuple(attribute for attribute in ATTRIBUTES if attribute in changed)


def _check_attribute(disk: Disk, attribute: str, wish: str, facts: HostFacts) -> None:
    offered_text = disk.device.queue.get(attribute, "")
    if not offered_text:
        raise PlanError(f"{disk.device.path} has no {attribute} in its queue: leave it out")
    if attribute != "scheduler":
        return
    listed = offered_text.replace("[", "").replace("]", "").split()
    # a plain "none" takes no other
    loadable = facts.scheduler_modules if "[" in offered_text else ()
    available = [*listed, *(name for name in loadable if name not in listed)]
    if wish not in available:
        raise PlanError(
            f"{disk.device.path} has no scheduler {wish!r} on kernel {facts.kernel};"
            f" it has {', '.join(available)}"
        )


def restore_queues(
    queue_disks: Sequence[Disk], previous: Mapping[str, str], always: bool = False
) -> tuple[Step, ...]:
    """Steps that bring back what was kept, where it differs now; in the order of ATTRIBUTES."""
    steps = []
    # disks whose scheduler changes, and nr_requests with it
    renewed: set[str] = set()
    for attribute in ATTRIBUTES:
        groups: dict[str, list[Disk]] = {}
        for disk in queue_disks:
            value = previous.get(disk.saved_key(attribute), "")
            stale = attribute == "nr_requests" and disk.device.name in renewed
            if value and (always or stale or disk.current_value(attribute) != value):
                groups.setdefault(value, []).append(disk)
        for value, those in groups.items():
            description = f"Set {attribute} of {_disk_names(those)} back to {value}"
            steps.append(_write_step(value, attribute, those, description))
        if attribute == "scheduler":
            renewed = {disk.device.name for those in groups.values() for disk in those}
    return tuple(steps)


def queue_differences(wishes: Mapping[str, str], queue_disks: Sequence[Disk]) -> list[str]:
    return [
        f"{disk.device.path}: {attribute} is {disk.current_value(attribute) or 'not there'}, not {wish}"
        for disk in queue_disks
        for attribute, wish in wishes.items()
        if disk.current_value(attribute) != wish
    ]


def not_restored(queue_disks: Sequence[Disk], previous: Mapping[str, str]) -> list[str]:
    return [
        f"{disk.device.path}: {attribute} is {disk.current_value(attribute)}, it was {before}"
        for disk in queue_disks
        for attribute in ATTRIBUTES
        if (before := previous.get(disk.saved_key(attribute)))
        and disk.current_value(attribute) not in (before, "")
    ]


def follow(volume: str, wish: str, target: Target) -> Step:
    """Set the read-ahead of a stacked device; it goes with the device, so nothing is kept."""
    sectors = str(int(wish) * 2)
    return Step(
        ("blockdev", "--setra", sectors, volume),
        f"Set read_ahead_kb to {wish} on {volume}",
        destroys=claims_of(target),
    )


def volume_differences(volume: str, wish: str, facts: HostFacts) -> list[str]:
    device = Graph(facts).find_device(volume)
    now = device.queue.get("read_ahead_kb", "") if device else ""
    return [] if now == wish else [f"{volume}: read_ahead_kb is {now or 'not there'}, not {wish}"]


def _write_step(value: str, attribute: str, queue_disks: Sequence[Disk], description: str) -> Step:
    paths = tuple(disk.attribute_path(attribute) for disk in queue_disks)
    claims = tuple(disk.claim for disk in queue_disks)
    return Step(
        ("sh", "-c", scripts.QUEUE_WRITE, "set", value, *paths), description, destroys=claims
    )


def _disk_names(queue_disks: Sequence[Disk]) -> str:
    return ", ".join(disk.device.name for disk in queue_disks)
