# SPDX-License-Identifier: Apache-2.0
"""Provision a layout: from a free host to a verified layout."""

from __future__ import annotations

import time
from dataclasses import replace

from django.db import transaction

from agents.contracts import AgentError, Reason, Shell
from agents.facts.model import HostFacts
from agents.plans import applied_part, stack
from agents.plans.applied_part import own_claims
from agents.plans.blank import not_blank
from agents.safety import apply
from agents.ssh.lasting_shell import lasting
from benchlab.engine.checks import planning, preflight
from benchlab.engine.phases import grow, manual_steps, step_log, teardown
from benchlab.hosts import discovery, ssh_access
from benchlab.hosts.models import FactSnapshot
from benchlab.runs import events, transitions
from benchlab.runs.models import Layout, StepLog, Transition
from benchlab.runs.states import LayoutPhase


def build_layout(layout: Layout) -> bool:
    """Plan anew, compare with the confirmed plan, apply and check again. False: a person is to make the next layer."""
    with lasting(ssh_access.connect_to_host(layout.host)) as quick:
        return _build_layers(layout, quick)


def roll_back_build(layout: Layout) -> None:
    """Roll back an interrupted build (network, worker, reboot): nobody knows how far the commands came.

    Only blank disks are certain.
    """
    why = layout.trouble or "BenchLab's worker ended while the layout was built."
    teardown.clear_disks(layout, ssh_access.connect_to_host(layout.host))
    with transaction.atomic():
        transitions.store_fields(
            layout,
            rebuilds=layout.rebuilds + 1,
            discarded=layout.discarded + planning.apply_steps(layout).count(),
            teardown_tries=0,
            trouble="",
        )
        text = f"{why} The partial layout is removed and rebuilt."
        Transition.objects.create(layout=layout, old=layout.phase, new=layout.phase, reason=text)
    events.notify_pages(layout.campaign_id)


def _current_plan(layout: Layout, shell: Shell) -> tuple[stack.StackPlan, FactSnapshot]:
    """The plan to go on with. While nothing was built it is made anew: a person may have rebooted the host."""
    if not layout.applied:
        plan, snapshot = _confirmed_plan(layout, shell)
        transitions.store_fields(layout, plan=applied_part.to_json(plan), facts_planned=snapshot)
    else:
        plan, snapshot = planning.stored_plan(layout), _read_held_facts(layout, shell)
        manual_steps.check_unchanged(layout, plan, discovery.facts_of(snapshot))
    transitions.note_response(layout)
    return plan, snapshot


def _read_held_facts(layout: Layout, shell: Shell) -> FactSnapshot:
    """Read the host's facts while no other layout is at work on that machine. Raises transitions.MachineBusy."""
    if layout.facts_planned_id:
        planned = FactSnapshot.objects.filter(pk=layout.facts_planned_id)
        transitions.claim_machine(layout, planned.values_list("boot_id", flat=True).first() or "")
    snapshot = discovery.read_facts(layout.host, shell)
    # until now another layout may have been at it
    if transitions.claim_machine(layout, snapshot.boot_id):
        snapshot = discovery.read_facts(layout.host, shell)
    return snapshot


def _confirmed_plan(layout: Layout, shell: Shell) -> tuple[stack.StackPlan, FactSnapshot]:
    """The plan made anew from facts read now, with the fingerprint that a person confirmed.

    Raises PLAN_STALE when it is another plan.
    """
    snapshot = _read_held_facts(layout, shell)
    facts = discovery.facts_of(snapshot)
    plan = planning.plan_layout(layout, facts)
    if plan.fingerprint != layout.confirmed_fingerprint and not _only_blanked(layout, plan, facts):
        raise AgentError(
            f"The devices of {layout.host} changed after the plan was confirmed, so nothing was touched. "
            "Look at the host's disks, then retry: the new plan will be shown before it runs.",
            Reason.PLAN_STALE,
        )
    return replace(plan, fingerprint=layout.confirmed_fingerprint), snapshot


def _only_blanked(layout: Layout, plan: stack.StackPlan, facts: HostFacts) -> bool:
    """True if the same disks became blank since and the commands stayed the same: then nothing unseen can be lost.

    An earlier layout of the same campaign does that to them: it wiped what the person agreed to lose.
    """
    confirmed = planning.stored_plan(layout)
    return (
        confirmed.fingerprint == layout.confirmed_fingerprint
        and (confirmed.layers, confirmed.stages) == (plan.layers, plan.stages)
        and confirmed.swept.steps == plan.swept.steps
        and not not_blank(plan.claims, facts, layout.name)
    )


def _build_layers(layout: Layout, shell: Shell) -> bool:
    """Build the layers that do not stand yet, up to one that only a person can make."""
    began = time.monotonic()
    plan, after = _current_plan(layout, shell)
    facts = discovery.facts_of(after)
    # all of them before the first is touched
    if not layout.applied:
        apply.prove_unused(shell, plan.claims, facts.os_family)
    for number, layer in list(enumerate(plan.layers, start=1))[layout.built :]:
        if step := stack.manual_task(layer):
            manual_steps.request_step(layout, number, step.instruction)
            return False
        # The layers below took their time, and a person perhaps days.
        planning.check_confirmed(layout, own_claims(layer), facts)
        step_log.run_steps(layout, layer.steps, shell, StepLog.Kind.APPLY, apply.Look(facts, began))
        began = time.monotonic()
        # Facts read on the way are not stored.
        if number < len(plan.layers):
            facts = replace(discovery.read_current_facts(shell), tools=facts.tools)
        else:
            after = discovery.read_facts(layout.host, shell)
            facts = discovery.facts_of(after)
        # An exit code alone is never believed.
        if differences := stack.verify_stack(plan, facts, upto=number):
            message = "; ".join(differences)
            raise AgentError(
                f"All commands succeeded, but verification found: {message}", Reason.VERIFY_FAILED
            )
    preflight.end_impossible_runs(layout, shell, facts)
    progress = stack.awaited(plan, facts)
    grow.note_progress(layout, progress, store=transitions.store_later, settled=not progress)
    transitions.move_layout(layout, LayoutPhase.READY, "built and verified", facts_ready=after)
    # Only now: a layout that was not built may be built by another plan.
    planning.remember_built(layout, after)
    return True
