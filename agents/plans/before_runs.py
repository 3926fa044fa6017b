# SPDX-License-Identifier: Apache-2.0
"""The I/O scheduler of the disks below as a factor of the runs of one build: how it is set before each of them, and how
it was before all of them. Pure.

The scheduler is set on the disks that the layout has by then and on no others. A new one brings its own number of
requests (nr_requests): what the tuning layer asks of it is set again, and where the scheduler is the one that was there
before, what was there before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agents import options
from agents.contracts import Claim, OptionsError, PlanError, Step, Target, claims_of
from agents.drivers import registry
from agents.facts.model import HostFacts
from agents.facts.sysfs import Queues, kernel_name
from agents.plans.chain import LayerSpec
from agents.steps import queues

# Linux's own. The last three went with the single-queue block layer (5.0).
LINUX_SCHEDULERS = ("none", "mq-deadline", "kyber", "bfq", "cfq", "noop", "deadline")
TUNING = "tuning"


@dataclass(frozen=True, slots=True)
class BeforeRun:
    """Steps before a run that asks for `scheduler`, on the layout after so many stages.

    `wishes`: attribute -> value that every disk must then tell. `as_before`: commands of which the values are those
    that were there before; no part of the plan's fingerprint, as what brings things back is none.
    """

    scheduler: str
    stage: int
    wishes: Mapping[str, str]
    steps: tuple[Step, ...]
    as_before: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class SchedulerSweep:
    """`each`: one for each scheduler and stage. `kept`: how all disks were before, as in agents.contracts.Plan."""

    each: tuple[BeforeRun, ...] = ()
    kept: Mapping[str, str] = field(default_factory=dict)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps that the fingerprint covers."""
        return tuple(step for part in self.each for step in part.steps)

    @property
    def schedulers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part.scheduler for part in self.each))

    def before_run(self, scheduler: str, stage: int) -> BeforeRun:
        """The steps before a run. Raises PlanError if the plan has no such run."""
        for part in self.each:
            if (part.scheduler, part.stage) == (scheduler, stage):
                return part
        raise PlanError(f"the plan sets no I/O scheduler {scheduler!r} before a run")


def check_schedulers(schedulers: Sequence[str]) -> None:
    """Check the schedulers. Raises OptionsError with the wrong word and the allowed ones."""
    for name in schedulers:
        if name not in LINUX_SCHEDULERS:
            raise OptionsError(
                f"schedulers: {name!r} is not an I/O scheduler; known are {', '.join(LINUX_SCHEDULERS)}"
            )
        if schedulers.count(name) > 1:
            raise OptionsError(f"schedulers: {name} is listed twice")


def conflict(schedulers: Sequence[str], specs: Sequence[LayerSpec]) -> str:
    """Reason why schedulers cannot be swept on these layers; "" where they can."""
    if not schedulers:
        return ""
    for number, layer, tuned in _tuned(specs):
        if tuned.scheduler:
            return (
                f"layer {number} ({layer}) sets the I/O scheduler {tuned.scheduler} itself, and schedulers asks for "
                f"{', '.join(schedulers)}: leave one of the two out"
            )
    if not any(request.count for spec in specs for request in spec.devices):
        return "it uses no disk, so no I/O scheduler can be set: leave schedulers empty"
    return ""


def _tuned(specs: Sequence[LayerSpec]) -> Iterator[tuple[int, str, Any]]:
    """(number, name, options) of each layer that tunes."""
    for number, spec in enumerate(specs, start=1):
        if spec.kind == TUNING:
            driver = registry.layer(spec.kind)
            yield number, driver.LABEL, options.build_options(driver.Options, spec.options)


def _requests(specs: Sequence[LayerSpec]) -> dict[str, str]:
    """Setting of nr_requests by the topmost tuning layer that has one; {} where none has."""
    values = [str(tuned.nr_requests) for *_, tuned in _tuned(specs) if tuned.nr_requests >= 0]
    return {"nr_requests": values[-1]} if values else {}


def plan_scheduler_sweep(
    schedulers: Sequence[str],
    specs: Sequence[LayerSpec],
    gives: Sequence[Target],
    facts: HostFacts,
) -> SchedulerSweep:
    """`gives`: what the layout gives its runs after each stage, from none. Raises PlanError or OptionsError."""
    check_schedulers(schedulers)
    if problem := conflict(schedulers, specs):
        raise PlanError(problem)
    if not schedulers:
        return SchedulerSweep()
    each, previous = [], dict[str, str]()
    for stage, target in enumerate(gives):
        for name in schedulers:
            wishes = {"scheduler": name, **_requests(specs)}
            disks = queues.checked(wishes, target, facts)
            previous |= queues.as_now(disks, wishes)
            # Another layout may be at work on the host when this is planned, and its schedulers in force: the plan is
            # made again before it is carried out, and commands that depend on that would make it another one.
            each.append(
                BeforeRun(
                    name,
                    stage,
                    wishes,
                    queues.bare(wishes, disks),
                    _as_before(wishes, disks, previous),
                )
            )
    return SchedulerSweep(tuple(each), previous)


def _as_before(
    wishes: Mapping[str, str], disks: Sequence[queues.Disk], previous: Mapping[str, str]
) -> tuple[Step, ...]:
    """nr_requests of disks that had this scheduler before, unless something else is asked of it."""
    if "nr_requests" in wishes:
        return ()
    same = [
        disk for disk in disks if previous.get(disk.saved_key("scheduler")) == wishes["scheduler"]
    ]
    only = {
        disk.saved_key("nr_requests"): previous.get(disk.saved_key("nr_requests"), "")
        for disk in same
    }
    return queues.restore_queues(same, only, always=True)


def lacking(before: BeforeRun, queues: Queues) -> list[str]:
    """Wishes that are not in force: disk, attribute, and its value, in words. [] is right."""
    return [
        f"{attribute} of {name} is {values.get(attribute) or 'not there'}, not {wish}"
        for name, values in queues.items()
        for attribute, wish in before.wishes.items()
        if values.get(attribute) != wish
    ]


def not_as_before(before: BeforeRun, swept: SchedulerSweep, target: Target, queues: Queues) -> bool:
    """True when a disk that had this scheduler before has another number of requests than before."""
    if not before.as_before:
        return False
    for claim in claims_of(target):
        scheduler, requests = (
            swept.kept.get(f"{claim.identity} {attribute}", "")
            for attribute in ("scheduler", "nr_requests")
        )
        values = queues.get(kernel_name(claim.node), {})
        if scheduler == before.scheduler and values and requests != values["nr_requests"]:
            return True
    return False


def without(steps: Sequence[Step], lost: Sequence[Claim]) -> list[Step]:
    """The steps on the disks that are there: the guard refuses one that names a disk which is not."""
    away = tuple(f"/sys/block/{kernel_name(claim.node)}/" for claim in lost)
    return [
        replace(
            step,
            argv=tuple(word for word in step.argv if not str(word).startswith(away)),
            destroys=tuple(claim for claim in step.destroys if claim not in lost),
        )
        for step in steps
    ]


def put_back(swept: SchedulerSweep, target: Target, facts: HostFacts) -> tuple[Step, ...]:
    """Steps that bring back what was there before all runs, where it differs now."""
    return (
        queues.restore_queues(queues.claimed_disks(target, facts), swept.kept) if swept.kept else ()
    )


def not_put_back(swept: SchedulerSweep, target: Target, facts: HostFacts) -> list[str]:
    """Settings that are not as they were, after teardown. [] is right."""
    return (
        queues.not_restored(queues.claimed_disks(target, facts), swept.kept) if swept.kept else []
    )
