# SPDX-License-Identifier: Apache-2.0
"""Build a layout from a free host to a verified one, and take it down, top first, ours only, until its disks are blank.

Some steps are a person's: they are asked for and their report is checked; no task waits meanwhile.
`Layout.needs_person` is the text while somebody is needed, `person_said_at` when somebody said that it is done, and
`person_trouble` why that was not accepted. The phase stays what it is, so the host stays locked.

What is left after a failed teardown is said in plain words: on which disk, and what to do.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from django.db import transaction

from agents.contracts import RETRYABLE, AgentError, Claim, ManualTask, Reason, Shell
from agents.facts.model import HostFacts
from agents.plans import applied_part, blank, layout_faults, stack
from agents.plans.applied_part import own_claims
from agents.plans.blank import not_blank
from agents.plans.layout_faults import (
    foreign_uses,
    missing_claims,
    relocated,
    steps_without,
    with_current_names,
)
from agents.safety import apply
from agents.ssh.lasting_shell import lasting
from benchlab.engine.checks import planning, preflight
from benchlab.engine.phases import end_attempts, grow, step_log
from benchlab.hosts import discovery, ssh_access
from benchlab.hosts.models import FactSnapshot
from benchlab.runs import events, transitions
from benchlab.runs.models import Layout, StepLog, Transition
from benchlab.runs.states import LayoutPhase, Outcome
from benchlab.runs.verdict import Verdict


def build_layout(layout: Layout) -> bool:
    """Plan anew, compare with the confirmed plan, apply and check again. False: a person is to make the next layer."""
    with lasting(ssh_access.connect_to_host(layout.host)) as quick:
        return _build_layers(layout, quick)


def roll_back_build(layout: Layout) -> None:
    """Roll back an interrupted build (network, worker, reboot): nobody knows how far the commands came.

    Only blank disks are certain.
    """
    why = layout.trouble or "BenchLab's worker ended while the layout was built."
    clear_disks(layout, ssh_access.connect_to_host(layout.host))
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
        check_unchanged(layout, plan, discovery.facts_of(snapshot))
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
            request_step(layout, number, step.instruction)
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


def end_unbuilt(layout: Layout) -> bool:
    """End a layout of which no command ever began. False: a person has something to take back."""
    end_attempts.end_open_attempts(layout, _layout_verdict(layout))
    return _finish_teardown(layout, "nothing was built")


def tear_down(layout: Layout) -> bool:
    """Try once to take the layout down. False: a person has something to take back.

    A repeated call after an interruption does what is left to do.
    """
    shell = ssh_access.connect_to_host(layout.host)
    started = end_attempts.attempts_with_spool(layout)
    for attempt in started:
        end_attempts.stop_attempt(layout, attempt, shell)
    end_attempts.end_open_attempts(layout, _layout_verdict(layout))
    plan, after = clear_disks(layout, shell)
    for attempt in [*started, *end_attempts.attempts_removed_before(layout, after.boot_id)]:
        end_attempts.remove_spool(layout, attempt, shell)
    over = "taken down, every device proven blank" if plan.claims else "taken down"
    return _finish_teardown(layout, over, facts_after=after)


def _layout_verdict(layout: Layout) -> Verdict:
    return Verdict(Outcome(layout.outcome), layout.reason, layout.reason_text)


def clear_disks(layout: Layout, shell: Shell) -> tuple[stack.StackPlan, FactSnapshot]:
    """Take down what was there and prove it: what that was, and the host afterwards. Raises AgentError."""
    with lasting(shell) as quick:
        plan, after = _run_teardown(layout, quick)
    facts = discovery.facts_of(after)
    if error := leftover_error(layout, plan, facts):
        raise error
    if not_restored := stack.not_restored(plan, facts):
        raise AgentError("Not as it was before: " + "; ".join(not_restored), Reason.NOT_BLANK)
    return plan, after


def _run_teardown(layout: Layout, shell: Shell) -> tuple[stack.StackPlan, FactSnapshot]:
    """Take down what is there. Returns the plan of that, and the facts of the host afterwards."""
    began = time.monotonic()
    facts = _read_facts_as_planned(layout, shell)
    transitions.note_response(layout)
    plan = planning.begun_plan(layout, facts)
    # What is there goes, even if a disk of it is dead, which is reported at the end.
    lost = missing_claims(plan.claims, facts)
    facts = with_current_names(facts, plan.claims, layout.name)
    down = steps_without(stack.teardown_stack(relocated(plan, facts), facts), lost)
    look = apply.Look(facts, began)
    try:
        step_log.run_steps(layout, down, shell, StepLog.Kind.TEARDOWN, look, claims=plan.claims)
    except AgentError as error:
        if error.reason not in RETRYABLE:
            raise _with_cause(layout, plan, shell, error) from error
        raise
    return plan, discovery.read_facts(layout.host, shell)


def _with_cause(
    layout: Layout, plan: stack.StackPlan, shell: Shell, error: AgentError
) -> AgentError:
    """Add to the error what a look at the host shows: a disk that was pulled out, or who holds what is to go."""
    now = discovery.read_current_facts(shell)
    if cause := still_in_kernel(layout, plan, now):
        return AgentError(f"{cause} The last command that failed: {error}", Reason.NEEDS_REBOOT)
    if cause := "; ".join(foreign_uses(plan, now, shell)):
        end = f"End that if it is no longer needed, then {RETRY_HINT}."
        return AgentError(f"{error}. In use: {cause}. {end}", error.reason)
    return error


def _read_facts_as_planned(layout: Layout, shell: Shell) -> HostFacts:
    """Read the host's facts now. Its programs are those that it reported when the layout was planned."""
    planned = planning.facts_at_planning(layout)
    if planned is None:
        return discovery.facts_of(discovery.read_facts(layout.host, shell))
    return replace(discovery.read_current_facts(shell), tools=planned.tools)


def _finish_teardown(layout: Layout, reason: str, **fields: Any) -> bool:
    """Finish once the disks are blank, unless a person has something to take back."""
    if request_undo(layout):
        return False
    transitions.move_layout(layout, LayoutPhase.DONE, reason, trouble="", needs_person="", **fields)
    return True


RETRY_HINT = "press “Tear down again”"


def leftover_error(layout: Layout, plan: stack.StackPlan, facts: HostFacts) -> AgentError | None:
    """Error that names the leftovers; None if every disk is proven blank."""
    if message := still_in_kernel(layout, plan, facts):
        return AgentError(message, Reason.NEEDS_REBOOT)
    lost = layout_faults.missing_claims(plan.claims, facts)
    not_blank = blank.not_blank([c for c in plan.claims if c not in lost], facts, layout.name)
    sentences = ["Not blank: " + "; ".join(not_blank)] if not_blank else []
    if lost:
        sentences.append(_missing_disks_text(layout, lost))
    if not sentences:
        return None
    return AgentError(". ".join(sentences), Reason.NOT_BLANK if not_blank else Reason.DISK_GONE)


def still_in_kernel(layout: Layout, plan: stack.StackPlan, facts: HostFacts) -> str:
    """Message if the kernel still holds the layout after a disk of it was pulled out in this boot; "" otherwise."""
    pulled = layout_faults.pulled_claims(plan.claims, facts)
    standing = blank.kernel_remains(plan.claims, facts, layout.name)
    if not (pulled and standing and _same_boot(layout, facts)):
        return ""
    disks = ", ".join(_pulled_disks(layout, pulled, facts))
    lost = layout_faults.missing_claims(pulled, facts)
    put_back = f"put {_pronoun(lost)} back in, " if lost else ""
    return (
        f"Pulled out of {layout.host} while {layout.name} used it: {disks}. The kernel still holds what was built"
        f" there: {'; '.join(standing)}. No command can remove that: {put_back}reboot {layout.host}, then {RETRY_HINT}."
    )


def _same_boot(layout: Layout, facts: HostFacts) -> bool:
    planned = planning.facts_at_planning(layout)
    return planned is not None and planned.boot_id == facts.boot_id


def _missing_disks_text(layout: Layout, lost: Sequence[Claim]) -> str:
    disks = ", ".join(_disk_labels(layout, lost))
    is_, they, them = ("is", "it", "it") if len(lost) == 1 else ("are", "they", "them")
    return (
        f"{disks} {is_} not on {layout.host} any more, so {they} cannot be proven blank. Put {them} back in and"
        f" {RETRY_HINT}; where that cannot be, an owner may release the host."
    )


def _pulled_disks(layout: Layout, disks: Sequence[Claim], facts: HostFacts) -> Iterator[str]:
    for claim, words in zip(disks, _disk_labels(layout, disks), strict=True):
        now = layout_faults.current_path(claim, facts)
        yield words + (f", which is {now} now" if now else ", which is not back")


def _pronoun(disks: Sequence[Claim]) -> str:
    return "it" if len(disks) == 1 else "them"


def _disk_labels(layout: Layout, disks: Sequence[Claim]) -> list[str]:
    """Each disk by what stands on its label."""
    rows = layout.host.devices.filter(identity__in=[claim.identity for claim in disks])
    serials = dict(rows.values_list("identity", "serial"))
    return [_disk_label(claim, serials.get(claim.identity, "")) for claim in disks]


def _disk_label(claim: Claim, serial: str) -> str:
    identifier = f"serial {serial}" if serial else claim.identity
    return f"{claim.node} ({claim.model or 'model unknown'}, {identifier})"


REFUSAL_REASONS = {Reason.COMMAND_FAILED, Reason.GUARD_REFUSED}


def request_step(layout: Layout, number: int, text: str) -> None:
    """Wait at layer `number` (1-based, bottom up); what is below it stands and was verified."""
    applied = planning.apply_steps(layout).count()
    _store_request(layout, text, asked=number, built=number - 1, applied=applied)


def _store_request(layout: Layout, text: str, trouble: str = "", **fields: Any) -> None:
    request = {"needs_person": text, "person_said_at": None, "person_trouble": trouble}
    transitions.store_fields(layout, notify=True, **request, **fields)


def accept_step(layout: Layout, shell: Shell) -> bool:
    """True when the check agrees with the person. If not, the reason is stored and the layout waits on."""
    placed = planning.stored_plan(layout).layers[layout.asked - 1]
    step = stack.manual_task(placed)
    if step and (why := _check_failure(layout, step, shell)):
        _store_request(layout, layout.needs_person, why)
        return False
    transitions.store_fields(
        layout, needs_person="", person_said_at=None, person_trouble="", built=layout.asked
    )
    return True


def _check_failure(layout: Layout, step: ManualTask, shell: Shell) -> str:
    """Reason why the check failed; "" when it passed. Raises AgentError when the host does not answer."""
    if step.check is None:
        return ""
    try:
        step_log.run_steps(layout, [step.check], shell, StepLog.Kind.CHECK)
    except AgentError as error:
        if error.reason in REFUSAL_REASONS:
            return str(error)
        raise
    output = layout.steps.filter(kind=StepLog.Kind.CHECK).latest("pk").stdout
    if step.expect in output:
        return ""
    words = " ".join(str(word) for word in step.check.argv)
    return f"{words} did not print {step.expect!r}; it printed: {output.strip()[:500] or 'nothing'}"


def check_unchanged(layout: Layout, plan: stack.StackPlan, facts: HostFacts) -> None:
    """Check that what stood stayed while somebody was at the host. Raises AgentError."""
    assert layout.facts_planned, "what was built was planned"
    if facts.boot_id != layout.facts_planned.boot_id:
        raise AgentError(
            f"{layout.host} was rebooted while a layout was built on it: put the manual step below all other layers.",
            Reason.HOST_REBOOTED,
        )
    if differences := stack.verify_stack(plan, facts, upto=layout.built):
        message = "; ".join(differences)
        raise AgentError(
            f"The host changed during the manual step: {message}", Reason.VERIFY_FAILED
        )


def request_undo(layout: Layout) -> bool:
    """Ask a person, once the disks are blank, to restore what else they must. True if the layout waits for that."""
    if not layout.asked or layout.person_said_at:
        return False
    placed = planning.stored_plan(layout).layers[: layout.asked]
    steps = [step for layer in reversed(placed) if (step := stack.manual_task(layer))]
    texts = [step.back for step in steps if step.back]
    if texts:
        _store_request(layout, "\n\n".join(texts))
    return bool(texts)
