"""The scene of a layout, from the database and from what a poll has just brought."""

from __future__ import annotations

from dataclasses import dataclass, replace

from django.conf import settings
from django.db.models import Case, Value, When
from django.utils import timezone

from agents.contracts import AgentError
from agents.jobs import job
from benchlab.engine import consoles
from benchlab.engine.checks import planning
from benchlab.engine.phases import running
from benchlab.engine.scene import Current, Person, Scene
from benchlab.engine.waits import Answer, waits
from benchlab.hosts import services as hosts
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.states import HOLDING, LAYOUT_IS_LOST, AttemptPhase, LayoutPhase, Player
from benchlab.topologies import moments


@dataclass(slots=True)
class Rows:
    """What a decision is done to."""

    layout: Layout
    attempt: Attempt | None
    answer: Answer | None = None  # of a poll of the attempt
    polled: job.Polled | None = None  # what it says
    offset: int | None = None  # of the samples that are here, where that is known


def rows(layout_id: int) -> Rows:
    """The layout with its attempt that is on the host, or else the next one: in one query while there are any."""
    queued_last = Case(When(phase=AttemptPhase.QUEUED, then=Value(1)), default=Value(0))
    still_open = Attempt.objects.filter(layout=layout_id).exclude(phase=AttemptPhase.DONE)
    with_all = still_open.select_related(
        "run", "layout__host__credential", "layout__campaign", "layout__topology"
    )
    # The plan is large, and most steps do without.
    attempt = with_all.defer("layout__plan").order_by(queued_last, "run__position").first()
    if attempt is not None:
        answer = waits.take(layout_id, attempt.pk)
        runs = attempt.phase == AttemptPhase.RUNNING
        return Rows(attempt.layout, attempt, answer if runs else None)
    known = Layout.objects.select_related("host__credential", "campaign", "topology").defer("plan")
    return Rows(known.get(pk=layout_id), None)


def scene(found: Rows) -> Scene:
    """Before the answer, if there is one, was read."""
    layout, attempt = found.layout, found.attempt
    waiting = layout.phase == LayoutPhase.WAITING and not layout.cancelled_at
    counts = layout.phase in (LayoutPhase.PROVISIONING, LayoutPhase.TEARING_DOWN)
    return Scene(
        phase=LayoutPhase(layout.phase),
        outcome=layout.outcome,
        cancelled=layout.cancelled_at is not None,
        paused=layout.campaign.paused_at is not None,
        behind=waiting and _behind(layout),
        installing=waiting and hosts.installing(layout.host),
        person=_person(layout),
        begun=planning.begun(layout).count() if counts else 0,
        applied=layout.applied,
        asked=bool(layout.asked),
        rebuilds=layout.rebuilds,
        teardown_tries=layout.teardown_tries,
        stage=layout.stage,
        followed=layout.followed,
        settled=layout.settled,
        current=_current(layout, attempt) if attempt else None,
        silent_s=silent_s(layout),
        lost_after_s=settings.BENCHLAB_LOST_AFTER_S,
        trouble=layout.trouble,
    )


def heard(before: Scene, found: Rows) -> Scene:
    """The scene with what a poll brought, whose samples are kept. Raises AgentError when the host says no."""
    answer, attempt = found.answer, found.attempt
    if answer is None or attempt is None:
        return before
    try:
        polled = answer.read()
    except AgentError as error:
        if error.reason in LAYOUT_IS_LOST or answer.question.outputs is None:
            raise
        return replace(before, not_fetched=True)
    found.polled = polled
    found.offset = running.keep(found.layout, attempt, answer.question.offset, polled)
    return replace(before, polled=polled.state)


def again(before: Scene, found: Rows) -> Scene:
    """The scene after something was tried in it, and failed."""
    layout, attempt, current = found.layout, found.attempt, before.current
    if current is not None and attempt is not None:
        phase = AttemptPhase(attempt.phase)
        current = replace(current, phase=phase, timeout_s=attempt.timeout_s)
    return replace(
        before,
        phase=LayoutPhase(layout.phase),
        teardown_tries=layout.teardown_tries,
        silent_s=silent_s(layout),
        current=current,
    )


def silent_s(layout: Layout) -> float:
    return (timezone.now() - (layout.seen_at or layout.created_at)).total_seconds()


def _behind(layout: Layout) -> bool:
    """Whether an earlier layout, or an earlier visit, of its campaign is to come first, or is not proven blank yet."""
    earlier = Layout.objects.filter(
        campaign=layout.campaign_id,
        host=layout.host_id,
        phase__in=[LayoutPhase.WAITING, *HOLDING],
        position__lt=layout.position,
    )
    return earlier.exists()


def _person(layout: Layout) -> Person:
    if not layout.needs_person:
        return Person.NOBODY
    return Person.SAID_DONE if layout.person_said_at else Person.ASKED


def _current(layout: Layout, attempt: Attempt) -> Current:
    ready = layout.phase == LayoutPhase.READY
    moment = moments.parse(attempt.run.stage) if ready else moments.Moment()
    started = attempt.started_at
    runs = ready and attempt.phase == AttemptPhase.RUNNING
    return Current(
        phase=AttemptPhase(attempt.phase),
        stage=moment.stage,
        growing=moment.growing,
        running_s=(timezone.now() - started).total_seconds() if started else 0.0,
        timeout_s=attempt.timeout_s,
        player=consoles.of(attempt).player(attempt, planning.at_ready(layout))
        if runs
        else Player.NONE,
    )
