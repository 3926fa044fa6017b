# SPDX-License-Identifier: Apache-2.0
"""Check right before each run that the layout is still ours, whole and the only thing there.

A number from another disk is worse than none.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta

from django.utils import timezone

from agents import options
from agents.contracts import (
    RETRYABLE,
    AgentError,
    GuardError,
    Job,
    Progress,
    Reason,
    Shell,
    Target,
)
from agents.drivers import registry
from agents.facts import reading
from agents.facts.model import HostFacts
from agents.plans import stack
from agents.safety import root_only
from agents.safety.guard import job_refusals
from benchlab.engine import jobs
from benchlab.engine.checks import planning
from benchlab.engine.checks.condition import Condition
from benchlab.hosts import discovery, spare_disks
from benchlab.runs import transitions
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.states import AttemptPhase, Outcome
from benchlab.runs.verdict import Verdict
from benchlab.topologies import moments

FULL_CHECK_INTERVAL = timedelta(minutes=10)


class KernelBusy(Exception):
    """The kernel works on the layout, and the run needs it at rest."""


class MomentOver(Exception):
    """The moment that the run was to measure is over."""


def check_before_start(
    layout: Layout, attempt: Attempt, work: Job, shell: Shell, now: Condition
) -> tuple[HostFacts, list[Progress]]:
    """The host's facts and what goes on there, if everything is as it was when the layout was verified.

    `now`: what is known not to be in order, and measured all the same. Raises AgentError, or Works or Passed when it
    is not the moment that the run wants.

    Between runs that follow each other closely a glance is enough: when mounts, swap, holders and disks are as they
    were right before the last whole look, so is what the guard would find.
    """
    ready = planning.facts_at_ready(layout)
    if missing := discovery.missing_program(attempt.run.tool, attempt.run.options, ready):
        raise AgentError(missing, Reason.TOOL_MISSING)
    plan, moment = planning.stored_plan(layout), moments.parse_moment(attempt.run.stage)
    present = [claim for claim in plan.claims if claim.node not in now.gone]
    facts, fingerprint, progress = (
        ready,
        reading.read_state_hash(shell, present),
        list[Progress](),
    )
    recent = layout.looked_at and timezone.now() - layout.looked_at < FULL_CHECK_INTERVAL
    if moment.growing or not (recent and fingerprint == layout.glance):
        facts = verify_layout(layout, shell, moment.growing, now.ails)
        progress = _awaited_progress(layout, plan, facts, moment.growing)
    target = planning.run_target(layout, attempt.run)
    spares = spare_disks.host_spares(layout.host)
    if refused := job_refusals(work.argv, work.inputs, target, facts, spares, layout.name):
        raise GuardError("; ".join(refused))
    if facts is not ready:
        # The glance was taken before the look: what changed in between will differ from it next time.
        transitions.store_later(layout, glance=fingerprint, looked_at=timezone.now())
    return facts, progress


def _awaited_progress(
    layout: Layout, plan: stack.StackPlan, facts: HostFacts, growing: bool
) -> list[Progress]:
    progress = stack.awaited(plan, facts, layout.stage)
    if progress and not growing:
        raise KernelBusy
    if growing and not progress:
        raise MomentOver
    return progress


def read_same_boot(layout: Layout, shell: Shell) -> HostFacts:
    """Read the host's facts. Raises AgentError if it was rebooted: what stands there now is not what was built."""
    ready = planning.facts_at_ready(layout)
    facts = discovery.read_current_facts(shell)
    if facts.boot_id != ready.boot_id:
        raise AgentError(
            f"{layout.host} was rebooted since the layout was built.", Reason.HOST_REBOOTED
        )
    return replace(facts, tools=ready.tools)


def verify_layout(
    layout: Layout, shell: Shell, growing: bool = False, accepted: Collection[str] = ()
) -> HostFacts:
    """A whole look: the same boot, and the layout as it was built and grown, but for what is `known` to ail it.

    Raises AgentError.
    """
    facts = read_same_boot(layout, shell)
    faults = stack.verify_stack(
        planning.stored_plan(layout), facts, stage=layout.stage, growing=growing
    )
    if differences := [fault for fault in faults if fault not in accepted]:
        raise AgentError(
            "The layout is not what was built: " + "; ".join(differences), Reason.VERIFY_FAILED
        )
    return facts


def end_impossible_runs(layout: Layout, shell: Shell, facts: HostFacts) -> None:
    """End the runs that cannot work on this host, before the first run, so that their reasons are shown at once."""
    ended = dict[Attempt, Verdict]()
    for attempt in layout.attempts.filter(phase=AttemptPhase.QUEUED).select_related("run"):
        target = planning.run_target(layout, attempt.run)
        reason, text = _refusal(attempt, target, shell, facts)
        if reason:
            ended[attempt] = Verdict(Outcome.FAILED, reason, text)
    transitions.end_queued_attempts(ended)


def _refusal(
    attempt: Attempt, target: Target, shell: Shell, facts: HostFacts
) -> tuple[Reason | None, str]:
    if missing := discovery.missing_program(attempt.run.tool, attempt.run.options, facts):
        return Reason.TOOL_MISSING, missing
    tool = registry.tool(attempt.run.tool)
    try:
        built = options.build_options(tool.Options, attempt.run.options)
        if facts.sudo and not jobs.runs_as_login_user(attempt.layout):
            built = root_only.trusted(shell, attempt.run.tool, built)
        trial = tool.build_precheck(built, target)
    except AgentError as error:
        if error.reason in RETRYABLE:
            raise
        return error.reason, str(error)
    if trial is None:
        return None, ""
    console = jobs.attempt_console(attempt)
    try:
        trial = console.filled(attempt, trial)
    except AgentError as error:
        return error.reason, str(error)
    root = facts.sudo and not jobs.runs_as_login_user(attempt.layout)
    trial = jobs.fit_to_user(trial, root)
    if root:
        trial = jobs.with_user(trial, attempt.run.tool, built, target, attempt.layout, facts)
    message = console.refusal(shell, trial, facts)
    return (Reason.BAD_OPTIONS, message) if message else (None, "")
