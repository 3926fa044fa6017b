"""From a free host to a verified layout."""

from __future__ import annotations

import time

from django.db import transaction
from django.utils import timezone

from agents import apply, stack, stored
from agents.contracts import RETRYABLE, AgentError, Reason, Shell
from agents.lasting import lasting
from agents.reached import own
from benchlab.hosts import services as hosts
from benchlab.hosts.models import FactSnapshot
from benchlab.runs import (
    events,
    growing,
    moves,
    person,
    planning,
    preflight,
    steps,
    teardown,
    touched,
)
from benchlab.runs.commands import drop
from benchlab.runs.models import Layout, StepLog, Transition
from benchlab.runs.states import LayoutPhase, Outcome

BUSY_S = 3.0
REBUILDS = 3  # a host that cuts off every build is not one to measure on


def wait(layout: Layout) -> float | None:
    """Take the host if it is free, and nobody paused or cancelled meanwhile."""
    if layout.cancelled_at:
        drop(layout, Outcome.CANCELLED, "cancelled while it waited for its host")
        return None
    if layout.campaign.paused_at:
        return BUSY_S
    earlier = Layout.objects.filter(
        campaign=layout.campaign_id,
        host=layout.host_id,
        phase=LayoutPhase.WAITING,
        position__lt=layout.position,
    )
    if earlier.exists():  # the campaign's random order of layouts is part of its method
        return BUSY_S
    if hosts.installing(layout.host):  # a package manager beside a benchmark would be measured
        return BUSY_S
    try:
        moves.layout(layout, LayoutPhase.PROVISIONING, "the host is free", seen_at=timezone.now())
    except moves.HostBusy:
        return BUSY_S
    return 0.0


def build(layout: Layout) -> float | None:
    """Plan anew, compare with what was confirmed, apply, look again. What was cut off is taken back and begun anew."""
    if layout.cancelled_at:
        moves.begin_teardown(layout, Outcome.CANCELLED, Reason.CANCELLED, "cancelled")
        return 0.0
    if person.waits(layout):
        return person.WAITS_S
    cut_off = touched.begun(layout).count() != layout.applied
    if cut_off and (layout.asked or layout.rebuilds >= REBUILDS):
        raise steps.cut_off(
            layout, "the layout was built", "What it left is taken down; retry the runs."
        )
    shell = hosts.connect(layout.host)
    if cut_off:
        return _take_back(layout, shell)
    if layout.needs_person and not person.accepted(layout, shell):
        return person.WAITS_S
    with lasting(shell) as quick:
        return _layers(layout, quick)


def _take_back(layout: Layout, shell: Shell) -> float:
    """A network cut, a worker that ended, a reboot: nobody knows how far the commands came. Blank disks are sure."""
    why = layout.trouble or "BenchLab's worker ended while the layout was built."
    try:
        teardown.clear(layout, shell)
    except AgentError as error:
        if error.reason in RETRYABLE or not teardown.again(layout, error.reason, str(error)):
            raise
        return teardown.BETWEEN_TRIES_S
    with transaction.atomic():
        moves.note(
            layout,
            rebuilds=layout.rebuilds + 1,
            discarded=layout.discarded + touched.begun(layout).count(),
            teardown_tries=0,
            trouble="",
        )
        said = f"{why} What was built is taken back, and built anew."
        Transition.objects.create(layout=layout, old=layout.phase, new=layout.phase, reason=said)
    events.changed(layout.campaign_id)
    return 0.0


def _planned(layout: Layout, shell: Shell) -> tuple[stack.StackPlan, FactSnapshot]:
    """The plan to go on with. While nothing was built it is made anew: a person may have rebooted the host."""
    if not layout.applied:
        plan, snapshot = planning.confirmed(layout, shell)
        moves.note(layout, plan=stored.to_json(plan), facts_planned=snapshot)
    else:
        plan, snapshot = planning.stored(layout), planning.held(layout, shell)
        person.check_unchanged(layout, plan, hosts.facts_of(snapshot))
    moves.note(layout, seen_at=timezone.now())
    return plan, snapshot


def _layers(layout: Layout, shell: Shell) -> float | None:
    """Those that do not stand yet, up to one that only a person can make."""
    began = time.monotonic()
    plan, after = _planned(layout, shell)
    facts = hosts.facts_of(after)
    for number, layer in list(enumerate(plan.layers, start=1))[layout.built :]:
        if wish := stack.asked(layer):
            return person.ask(layout, number, wish.says)
        # The layers below took their time, and a person perhaps days.
        touched.as_confirmed(layout, own(layer), facts)
        steps.run(layout, layer.steps, shell, StepLog.Kind.APPLY, apply.Look(facts, began))
        began = time.monotonic()
        after = hosts.read_facts(layout.host, shell)
        facts = hosts.facts_of(after)
        # An exit code alone is never believed.
        if differences := stack.verify(plan, facts, upto=number):
            said = "; ".join(differences)
            raise AgentError(f"Every command said yes, yet: {said}", Reason.VERIFY_FAILED)
    preflight.precheck(layout, shell, facts)
    found = stack.awaited(plan, facts)
    growing.tell(layout, found, settled=not found)
    moves.layout(layout, LayoutPhase.READY, "built and verified", facts_ready=after)
    return 0.0
