# SPDX-License-Identifier: Apache-2.0
"""Check before, during and after each run that each layer is in order, and settings are those of the verified layout.

A fault stops the layout or marks the run. The topology chooses which of both (OnDegraded): a run on a degraded array is
a test as well, and no figure of it goes unmarked. Each check is one command. The fingerprint is a hash of all that must
be equal for two results to compare without a warning (METHOD).
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone

from agents.contracts import NOTHING, AgentError, Claim, Reason, Shell, claims_of
from agents.drivers import registry
from agents.facts import health
from agents.facts import settings as fact_settings
from agents.facts.health import Health
from agents.facts.model import HostFacts
from agents.facts.settings import Change, Setting, Settings
from agents.facts.sysfs import ATTRIBUTES, Queues, kernel_name
from agents.jobs import job
from agents.plans import applied_part, layout_faults
from agents.plans.applied_part import scope
from agents.plans.stack import StackPlan
from benchlab.engine.checks import planning
from benchlab.runs import transitions
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.states import LAYOUT_IS_LOST
from benchlab.topologies import moments
from benchlab.topologies.models import OnDegraded

log = logging.getLogger(__name__)

BEFORE, DURING = "before", "during"
# Maximum age of the check after a run that also serves as the check before the next run.
REUSE_SECONDS = 1.0
# of the kernel's log are told, and how many more there are
MAX_LOG_LINES = 3


@dataclass(frozen=True, slots=True)
class Condition:
    """`ails`: what is not as planned, in words. `log_end`: up to where the kernel's log was read."""

    ails: tuple[str, ...] = ()
    # nodes of disks that are not there any more
    gone: frozenset[str] = frozenset()
    log_end: float | None = None
    rebooted: bool = False
    # None if there was nothing to check
    health: Health | None = None


@dataclass(frozen=True, slots=True)
class _RecentCondition:
    """Findings right after a run, while that step goes on: nothing ailed, of a layout as it stood then."""

    # time.monotonic() before the host was asked
    began: float
    # since which reading it is ready, and its stage
    stands: tuple[int | None, int]
    found: Condition

    @property
    def fresh(self) -> bool:
        return time.monotonic() - self.began < REUSE_SECONDS


# By layout, its attempt and when `check_overdue_run` looked, in this process. Never iterated: other threads add to it.
_overdue_checks: dict[int, tuple[int, float]] = {}
# by layout; of this process, whose lease lets one thread step it
_recent_conditions: dict[int, _RecentCondition] = {}


def check_layout(layout: Layout, shell: Shell) -> Condition:
    """Check the layout. Raises AgentError if the host does not answer or its answer cannot be parsed."""
    plan = planning.stored_plan(layout)
    # A directory: nothing in it is ours to lose, and nothing was set
    if not plan.claims and not applied_part.setting_steps(plan, layout.stage):
        return Condition()
    gives = [layer.gives for layer in plan.layers_after(layout.stage)]
    pool = next((target.pool for target in gives if target.pool), "")
    nodes = layout_faults.layout_nodes(plan, layout.stage)
    reading = health.read_health(shell, nodes, gives[-1].mount, pool)
    if reading.boot_id and reading.boot_id != planning.facts_at_ready(layout).boot_id:
        return Condition(rebooted=True)
    ails = layout_faults.stack_faults(plan, reading, layout.stage)
    # what is older than the first look is no part of a run
    if layout.log_end is not None:
        ails += _log_lines(reading.kernel_errors(nodes, layout.log_end))
    missing = {claim.node for claim in claims_of(gives[-1])} - reading.names.keys()
    return Condition(
        tuple(ails), frozenset(missing), max(reading.log_end, layout.log_end or 0.0), health=reading
    )


def _log_lines(lines: list[str]) -> list[str]:
    more = len(lines) - MAX_LOG_LINES
    texts = [f"kernel log: {line}" for line in lines[:MAX_LOG_LINES]]
    return texts + ([f"kernel log: {more} more lines of that kind"] if more > 0 else [])


def check_before_run(layout: Layout, shell: Shell) -> Condition:
    """Check the layout before a run. Raises AgentError DEGRADED when it is to be measured in order only.

    Where a step goes right on from one run to the next, nothing of ours touches the layout between them: what was in
    order right after one is so right before the next. What fails in that moment marks the next run, as what fails right
    after its start does.
    """
    recent = _recent_conditions.pop(layout.pk, None)
    if recent and recent.fresh and recent.stands == _layout_version(layout):
        return recent.found
    condition = check_layout(layout, shell)
    if condition.ails and not measures_degraded(layout):
        raise _degraded(condition.ails)
    return condition


def mark_start(layout: Layout, attempt: Attempt, condition: Condition) -> None:
    """Mark an attempt that has just been started, and remember what was seen."""
    _mark_attempt(attempt, condition.ails, BEFORE)
    _store_condition(layout, condition)


def check_after_run(layout: Layout, attempt: Attempt, shell: Shell) -> Condition | None:
    """Mark an attempt during which something failed. Doing it twice marks it once; what it measured is never lost.

    None: the host could not be looked at, and the attempt is marked with that.
    """
    began = time.monotonic()
    try:
        condition = check_layout(layout, shell)
    except AgentError as error:
        if error.reason in LAYOUT_IS_LOST:
            raise
        mark_unchecked(attempt, str(error))
        return None
    if not condition.rebooted:
        _mark_during(layout, attempt, condition)
        _keep_recent(layout, began, condition)
    return condition


def mark_unchecked(attempt: Attempt, why: str) -> None:
    """Mark an attempt after which the host could not be checked: its layout and settings may have changed during it."""
    _mark_attempt(attempt, [f"the layout could not be checked after the run: {why}"], DURING)


def mark_sampled_faults(
    layout: Layout, attempt: Attempt, condition: Condition, samples: bytes
) -> None:
    """Mark an attempt with what was not in order for a part of it, by its samples. `condition`: from the look after it.

    What the run was to measure, a growth or the first resync, is no fault.
    """
    if condition.health is None or condition.rebooted or not layout_faults.any_sampled(samples):
        return
    moment = moments.parse_moment(attempt.run.stage)
    marked = [mark["says"] for mark in attempt.degraded]
    try:
        spells = layout_faults.fault_spans(
            planning.stored_plan(layout),
            job.frames(samples),
            condition.health,
            moment.stage,
            moment.growing,
            marked,
        )
    except AgentError as error:
        _mark_attempt(
            attempt, [f"the layout's faults could not be read from the samples: {error}"], DURING
        )
        return
    _mark_attempt(attempt, [spell.sentence for spell in spells], DURING)


def since_check_s(attempt: Attempt) -> float:
    """Seconds since `check_overdue_run` last looked in this process, or since the attempt was started."""
    attempt_id, looked = _overdue_checks.get(attempt.layout_id, (0, 0.0))
    if attempt_id == attempt.pk:
        return time.monotonic() - looked
    started = attempt.started_at
    return (timezone.now() - started).total_seconds() if started else 0.0


def check_overdue_run(layout: Layout, attempt: Attempt, shell: Shell) -> None:
    """Mark an attempt that takes too long, while it runs, with what is not in order by now.

    It may end by itself, or never. A look that fails now is reported after the run.
    """
    _overdue_checks[layout.pk] = (attempt.pk, time.monotonic())
    try:
        condition = check_layout(layout, shell)
    except AgentError as error:
        log.info("attempt %s: its layout could not be looked at: %s", attempt.pk, error)
        return
    if not condition.rebooted:
        _mark_during(layout, attempt, condition)


def _mark_during(layout: Layout, attempt: Attempt, condition: Condition) -> None:
    with transaction.atomic():
        _mark_attempt(attempt, condition.ails, DURING)
        _store_condition(layout, condition)


def _keep_recent(layout: Layout, began: float, condition: Condition) -> None:
    for pk in [pk for pk, recent in list(_recent_conditions.items()) if not recent.fresh]:
        _recent_conditions.pop(pk, None)
    if not condition.ails:
        _recent_conditions[layout.pk] = _RecentCondition(began, _layout_version(layout), condition)


def forget_recent(layout_id: int) -> None:
    """Forget the recent check at the end of a step: the next step makes its own."""
    _recent_conditions.pop(layout_id, None)


def _layout_version(layout: Layout) -> tuple[int | None, int]:
    return layout.facts_ready_id, layout.stage


def _store_condition(layout: Layout, condition: Condition) -> None:
    """Store the condition: at once if something ails, else later, for the log may be read again."""
    if list(condition.ails) == layout.degraded and condition.log_end == layout.log_end:
        return
    at_once = condition.ails or layout.degraded or layout.log_end is None
    how = transitions.store_fields if at_once else transitions.store_later
    how(layout, degraded=list(condition.ails), log_end=condition.log_end)


def raise_if_degraded(layout: Layout, attempt: Attempt) -> None:
    """Raise AgentError DEGRADED after a run during which something failed, unless that is to be measured."""
    faults = [mark["says"] for mark in attempt.degraded if mark["seen"] == DURING]
    if faults and not measures_degraded(layout):
        raise _degraded(faults)


def measures_degraded(layout: Layout) -> bool:
    return layout.on_degraded == OnDegraded.MEASURE


def _mark_attempt(attempt: Attempt, ails: Collection[str], when: str) -> None:
    marked = {mark["says"] for mark in attempt.degraded}
    new = [{"says": fault, "seen": when} for fault in ails if fault not in marked]
    if not new:
        return
    attempt.degraded = [*attempt.degraded, *new]
    if when == DURING:
        attempt.fingerprint = degraded_digest(attempt.fingerprint, new)
    attempt.save(update_fields=["degraded", "fingerprint"])


def _degraded(ails: Collection[str]) -> AgentError:
    return AgentError(f"The layout has faults: {'; '.join(ails)}", Reason.DEGRADED)


def fingerprint_parts(
    layout: Layout,
    plan: StackPlan,
    attempt: Attempt,
    facts: HostFacts,
    ails: Sequence[str] = (),
    queues: Queues = NOTHING,
) -> dict[str, Any]:
    """Parts of the fingerprint, so that a page can say in which of these two results differ.

    `ails`: what was not in order when the run began. `queues`: what was set for it, of disks whose facts are of before.
    """
    moment = moments.parse_moment(attempt.run.stage)
    claims = claims_of(plan.target_at(moment.stage))
    parts = {
        "host": layout.host_id,
        "kernel": facts.kernel,
        "cpu": f"{facts.cpus} x {facts.cpu_model}",
        "memory": facts.memory,
        "devices": [_device_parts(facts, claim.node, queues) for claim in claims],
        "stack": layout.stack,
        "tool": attempt.run.tool,
        "tool_version": tool_version(attempt.run.tool, facts),
        "options": attempt.run.options,
    }
    # Without a key of its own, what was measured before there were stages stays equal
    if moment != moments.Moment():
        parts |= {"stage": attempt.run.stage, "stages": layout.stages[: moment.stage]}
    # No key of its own either: a run on a layout in order stays equal to earlier ones.
    if ails:
        parts["degraded"] = sorted(ails)
    return parts


def degraded_digest(digested: str, marks: Sequence[Mapping[str, str]]) -> str:
    """Digest of a run during which something failed.

    It differs from that of every run in which nothing, or something else, failed.
    """
    return parts_digest({"began": digested, "degraded": list(marks)})


def parts_digest(parts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def tool_version(kind: str, facts: HostFacts) -> str:
    """Version line of the tool's first program on that host; "" if it reported none."""
    needs = registry.tool(kind).NEEDS
    return facts.tools.get(needs[0].program, "") if needs else ""


def _device_parts(facts: HostFacts, node: str, queues: Queues = NOTHING) -> dict[str, Any]:
    device = facts.find_device(node)
    if device is None:
        return {"node": node}
    parts = {
        "identity": device.identity,
        "model": device.model,
        "size": device.size,
        "scheduler": queues.get(device.name, {}).get("scheduler", device.scheduler),
        "sectors": [device.logical_sector, device.physical_sector],
    }
    # Without a key of its own, what was measured on disks that tell none stays equal.
    return parts | ({"firmware": device.firmware} if device.firmware else {})


def changed_settings(
    layout: Layout, attempt: Attempt, state: Condition, queues: Queues | None = None
) -> list[Change]:
    """Settings that differ from the expected ones, by the look that `state` holds; [] if none does.

    `queues`: what was set for this run; None before that, when what it asks for is no matter yet.
    """
    if state.health is None or state.rebooted:
        return []
    plan, moment = planning.stored_plan(layout), moments.parse_moment(attempt.run.stage)
    part = scope(plan, moment.stage, moment.growing)
    expected = dict(fact_settings.settings_from_facts(planning.facts_at_ready(layout), part))
    if attempt.run.scheduler:
        claims = [claim for claim in plan.claims if claim.node in part.disks]
        for setting in _queue_settings(claims):
            expected.pop(setting, None)
        expected |= _expected_queues(claims, queues or {})
    return fact_settings.changed_settings(
        expected, fact_settings.settings_from_health(state.health, part), bool(state.ails)
    )


def _queue_settings(claims: list[Claim]) -> list[Setting]:
    return [(attribute, claim.node) for claim in claims for attribute in ATTRIBUTES]


def _expected_queues(claims: list[Claim], queues: Queues) -> Settings:
    return {
        (attribute, claim.node): value
        for claim in claims
        for attribute, value in queues.get(kernel_name(claim.node), {}).items()
    }
