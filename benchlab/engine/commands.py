# SPDX-License-Identifier: Apache-2.0
"""Requests of people to a campaign: plan, start, pause, resume, cancel, retry. Wishes only; the engine acts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from benchlab.campaigns.models import Campaign, Run
from benchlab.runs import events, transitions
from benchlab.runs.models import Attempt, Layout, Transition
from benchlab.runs.states import AttemptPhase, LayoutPhase, Outcome
from benchlab.runs.verdict import Verdict
from benchlab.workers import messages

STEP, PLAN = "benchlab.engine.tasks.step_layout", "benchlab.engine.tasks.plan_layout"
# Request a plan again if it has not come by then: reading a host's facts takes seconds.
PLAN_AGAIN_S = 60.0


class CommandError(Exception):
    """The request cannot be carried out now; the text says why."""


def wake_layouts(*layout_ids: int) -> None:
    """Ask a worker to look, once the transaction is committed. The sweeper sends lost messages again."""
    messages.after_commit(STEP, layout_ids)


def check_runnable(campaign: Campaign) -> None:
    """Refuse results that were measured elsewhere, and archived campaigns. Raises CommandError."""
    if campaign.source:
        raise CommandError("It was measured elsewhere: nothing of it can be run from here.")
    if campaign.archived_at:
        raise CommandError("It is archived: restore it first.")


def lock_campaign(pk: int) -> Campaign:
    """Lock the campaign until the transaction ends against deletion, archiving and other requests.

    Raises CommandError.
    """
    row = Campaign.objects.select_for_update().filter(pk=pk).first()
    if row is None:
        raise CommandError("It was deleted in the meantime.")
    return row


def request_plans(campaign: Campaign) -> None:
    """Have every layout that is not confirmed yet planned anew from fresh facts."""
    check_runnable(campaign)
    drafts = campaign.layouts.filter(phase=LayoutPhase.DRAFT)
    again = timezone.now() + timedelta(seconds=PLAN_AGAIN_S)
    drafts.update(
        plan=None, plan_fingerprint="", plan_error="", planned_at=None, next_step_at=again
    )
    messages.after_commit(PLAN, drafts.values_list("pk", flat=True))


@transaction.atomic
def start_campaign(campaign: Campaign, confirmed: Mapping[int, str], by: str = "") -> None:
    """Queue every planned layout. `confirmed`: layout id -> the fingerprint that `by` saw.

    Raises CommandError when a plan is missing or is not the one that was seen; then nothing was started.
    """
    check_runnable(lock_campaign(campaign.pk))
    drafts = list(
        campaign.layouts.select_for_update().filter(phase=LayoutPhase.DRAFT).order_by("position")
    )
    if not drafts:
        raise CommandError("There is nothing left to start: every layout was started before.")
    for row in drafts:
        if row.plan_error:
            raise CommandError(f"{row.topology} on {row.host} cannot be built: {row.plan_error}")
        if not row.plan_fingerprint:
            raise CommandError(
                f"{row.topology} on {row.host} is not planned yet; wait for its plan."
            )
        if confirmed.get(row.pk) != row.plan_fingerprint:
            raise CommandError(
                f"The plan of {row.topology} on {row.host} changed since you saw it; look again."
            )
    for row in drafts:
        transitions.move_layout(
            row,
            LayoutPhase.WAITING,
            "started",
            confirmed_fingerprint=row.plan_fingerprint,
            confirmed_by=by,
            next_step_at=None,
        )
    Campaign.objects.filter(pk=campaign.pk, started_at=None).update(started_at=timezone.now())
    wake_layouts(*[row.pk for row in drafts])


def pause_campaign(campaign: Campaign) -> None:
    """Start no further run. The running one ends by itself, and its layout stays."""
    check_runnable(campaign)
    _update_and_wake(campaign, paused_at=timezone.now())


def resume_campaign(campaign: Campaign) -> None:
    _update_and_wake(campaign, paused_at=None)


@transaction.atomic
def cancel_campaign(campaign: Campaign) -> None:
    """Stop what runs, take down what stands. Safe at every phase and twice.

    The wish is noted with each layout, which obeys whenever its host answers, whatever is retried meanwhile. Raises
    CommandError when the campaign is over: what was measured to the end was not cancelled.
    """
    # a retry comes before, or after
    before = lock_campaign(campaign.pk)
    check_runnable(before)
    if (
        before.cancelled_at is None
        and not campaign.layouts.exclude(phase=LayoutPhase.DONE).exists()
    ):
        raise CommandError("The campaign is over: there is nothing left to cancel.")
    now = timezone.now()
    Campaign.objects.filter(pk=campaign.pk, cancelled_at=None).update(cancelled_at=now)
    still_open = campaign.layouts.exclude(phase__in=[LayoutPhase.DRAFT, LayoutPhase.DONE])
    still_open.filter(cancelled_at=None).update(cancelled_at=now)
    for row in campaign.layouts.filter(phase=LayoutPhase.DRAFT):
        discard_layout(row, Outcome.CANCELLED, "cancelled before it began")
    _update_and_wake(campaign)


def discard_layout(row: Layout, outcome: Outcome, why: str, reason: str = "") -> None:
    """End a layout that made nothing on its host, and every attempt of it that waits."""

    def end_each() -> None:
        waiting = row.attempts.filter(phase=AttemptPhase.QUEUED)
        transitions.end_queued_attempts(dict.fromkeys(waiting, Verdict(outcome, reason, why)))

    transitions.move_layout(
        row,
        LayoutPhase.DONE,
        why,
        also=end_each,
        outcome=outcome,
        reason=reason,
        reason_text=why,
    )


@transaction.atomic
def retry_run(run: Run) -> Attempt:
    """A new attempt of a run that is over. It gets a layout of its own, with the confirmed plan's fingerprint.

    The campaign goes on with that layout alone: others that were cancelled and still stand stay cancelled.
    Raises CommandError while the run's last attempt is still open.
    """
    check_runnable(lock_campaign(run.campaign_id))
    last = run.attempts.select_related("layout").latest("number")
    if last.phase != AttemptPhase.DONE:
        raise CommandError(f"Attempt {last.number} of this run is not over yet.")
    layout = _layout_for_retry(run, last.layout)
    number = (run.attempts.aggregate(top=Max("number"))["top"] or 0) + 1
    attempt = Attempt.objects.create(run=run, layout=layout, number=number)
    Campaign.objects.filter(pk=run.campaign_id).update(cancelled_at=None)
    events.notify_pages(run.campaign_id)
    return attempt


def _layout_for_retry(run: Run, old: Layout) -> Layout:
    """The draft that earlier retries share, or a new one: it is planned and confirmed like the first.

    Visits are not mixed: what was built anew for one of them measures nothing of another.
    """
    draft = Layout.objects.filter(
        campaign=run.campaign_id,
        host=run.host_id,
        topology=run.topology_id,
        visit=run.visit,
        phase=LayoutPhase.DRAFT,
    ).first()
    if draft:
        return draft
    layout = copy_as_draft(old, position=old.position, visit=old.visit)
    request_plans(old.campaign)
    return layout


def copy_as_draft(old: Layout, *, position: int, visit: int) -> Layout:
    """Copy the layout as a draft, which is planned and agreed to like the first."""
    return Layout.objects.create(
        campaign=old.campaign,
        host=old.host,
        topology=old.topology,
        stack=old.stack,
        stages=old.stages,
        measure_resync=old.measure_resync,
        schedulers=old.schedulers,
        on_degraded=old.on_degraded,
        position=position,
        visit=visit,
        expected_s=old.expected_s,
    )


def retry_teardown(layout: Layout) -> None:
    """Try again to take a stuck layout down, after a person looked at it. Raises CommandError if it is not stuck."""
    if layout.phase != LayoutPhase.STUCK:
        raise CommandError(f"{layout.name} is not stuck, it is {layout.phase}.")
    try:
        transitions.move_layout(
            layout,
            LayoutPhase.TEARING_DOWN,
            "a person asked again",
            teardown_tries=0,
            next_step_at=None,
        )
    except transitions.Moved:
        raise CommandError(f"{layout.name} is being taken down already.") from None
    wake_layouts(layout.pk)


@transaction.atomic
def report_manual_step(layout: Layout, key: str, who: str) -> None:
    """Record that a person reports the awaited step as done; the engine checks it.

    `key`: Layout.person_key as the person saw it. Raises CommandError when that wait is over.
    """
    row = Layout.objects.select_for_update().get(pk=layout.pk)
    if not row.needs_person or row.person_said_at or row.person_key != key:
        raise CommandError(f"{row.name} does not wait for that any more; look again.")
    now = timezone.now()
    # The host was not polled while the person worked on it: its silence counts from here.
    transitions.store_fields(
        row, person_said_at=now, person_trouble="", seen_at=now, next_step_at=None
    )
    Transition.objects.create(
        layout=row, old=row.phase, new=row.phase, reason=f"{who} says that it is done"
    )
    events.notify_pages(row.campaign_id)
    wake_layouts(row.pk)


def _update_and_wake(campaign: Campaign, **fields: object) -> None:
    if fields:
        Campaign.objects.filter(pk=campaign.pk).update(**fields)
    for name, value in fields.items():
        setattr(campaign, name, value)
    open_ids = campaign.layouts.exclude(phase__in=[LayoutPhase.DRAFT, LayoutPhase.DONE])
    open_ids.update(next_step_at=None)
    events.notify_pages(campaign.pk)
    wake_layouts(*open_ids.values_list("pk", flat=True))
