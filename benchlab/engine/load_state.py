# SPDX-License-Identifier: Apache-2.0
"""The state of a layout, from the database and from the answer of its last poll."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Generic, TypeVar

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connection
from django.db.models import Case, Model, QuerySet, Value, When
from django.db.models.query import get_related_populators
from django.db.models.sql.compiler import SQLCompiler
from django.utils import timezone

from agents.contracts import AgentError
from benchlab.engine import jobs
from benchlab.engine.checks import condition, planning
from benchlab.engine.decisions import CurrentAttempt, LayoutState, ManualStep
from benchlab.engine.jobs import StepRows
from benchlab.engine.phases import run_attempts
from benchlab.engine.polls import polls
from benchlab.hosts import package_installs
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.states import HOLDING, LAYOUT_IS_LOST, AttemptPhase, LayoutPhase, Player
from benchlab.topologies import moments

M = TypeVar("M", bound=Model)

# stands in the query for what each call gives
KEY_PLACEHOLDER = -1


class CompiledQuery(Generic[M]):
    """The first of `rows`, in which KEY_PLACEHOLDER stands once, with the related rows that it selects.

    The query is written once: writing it anew for each step was a fifth of a busy worker's work. Nothing that is read
    is kept. A column that is deferred is queried on access, as usual.
    """

    def __init__(self, rows: QuerySet[M]) -> None:
        self._rows = rows

    @cached_property
    def _compiled(self) -> tuple[SQLCompiler, str, tuple[Any, ...]]:
        compiler = self._rows[:1].query.get_compiler(DEFAULT_DB_ALIAS)
        sql, params = compiler.as_sql()
        assert params.count(KEY_PLACEHOLDER) == 1, params
        return compiler, sql, params

    def fetch(self, key: int) -> M | None:
        compiler, sql, params = self._compiled
        with connection.cursor() as cursor:
            cursor.execute(sql, [key if param == KEY_PLACEHOLDER else param for param in params])
            row = cursor.fetchone()
        return None if row is None else self._to_models(compiler, row)

    def _to_models(self, compiler: SQLCompiler, row: Sequence[object]) -> M:
        """Build the models of a row, as django.db.models.query.ModelIterable does."""
        select, info = compiler.select or [], compiler.klass_info or {}
        converters = compiler.get_converters([column for column, _, _ in select])
        [values] = compiler.apply_converters([row], converters)
        names = [select[at][0].target.attname for at in info["select_fields"]]
        model = self._rows.model.from_db(DEFAULT_DB_ALIAS, names, values[: len(names)])
        # The stubs describe a later Django.
        populators = get_related_populators(info, select, DEFAULT_DB_ALIAS)  # type: ignore[call-arg]
        for related in populators:
            related.populate(values, model)
        return model


# The plan is large, and most steps do without.
_ATTEMPT = CompiledQuery(
    Attempt.objects.filter(layout=KEY_PLACEHOLDER)
    .exclude(phase=AttemptPhase.DONE)
    .order_by(
        Case(When(phase=AttemptPhase.QUEUED, then=Value(1)), default=Value(0)), "run__position"
    )
    .select_related("run", "layout__host__credential", "layout__campaign")
    .defer("layout__plan")
)
_LAYOUT = CompiledQuery(
    Layout.objects.filter(pk=KEY_PLACEHOLDER)
    .order_by()
    .select_related("host__credential", "campaign")
    .defer("plan")
)


def load_rows(layout_id: int) -> StepRows:
    """The layout with its attempt that is on the host, or else the next one: in one query while there are any."""
    attempt = _ATTEMPT.fetch(layout_id)
    if attempt is not None:
        answer = polls.take_answer(layout_id, attempt.pk)
        runs = attempt.phase == AttemptPhase.RUNNING
        return StepRows(attempt.layout, attempt, answer if runs else None)
    layout = _LAYOUT.fetch(layout_id)
    if layout is None:
        raise Layout.DoesNotExist(layout_id)
    return StepRows(layout, None)


def load_state(rows: StepRows) -> LayoutState:
    """Load the state as it is before the answer of a poll, if there is one, is read."""
    layout, attempt = rows.layout, rows.attempt
    waiting = layout.phase == LayoutPhase.WAITING and not layout.cancelled_at
    counts = layout.phase in (LayoutPhase.PROVISIONING, LayoutPhase.TEARING_DOWN)
    return LayoutState(
        phase=LayoutPhase(layout.phase),
        outcome=layout.outcome,
        cancelled=layout.cancelled_at is not None,
        paused=layout.campaign.paused_at is not None,
        waits_for_earlier=waiting and _waits_for_earlier(layout),
        installing=waiting and package_installs.is_installing(layout.host),
        manual_step=_manual_step(layout),
        commands_begun=planning.apply_steps(layout).count() if counts else 0,
        commands_applied=layout.applied,
        had_manual_step=bool(layout.asked),
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


def with_poll(before: LayoutState, rows: StepRows) -> LayoutState:
    """Add the answer of a poll to the state, and store its samples. Raises AgentError when the host refused."""
    answer, attempt = rows.answer, rows.attempt
    if answer is None or attempt is None:
        return before
    try:
        polled = answer.to_polled()
    except AgentError as error:
        if error.reason in LAYOUT_IS_LOST or answer.question.outputs is None:
            raise
        return replace(before, not_fetched=True)
    rows.polled = polled
    rows.offset = run_attempts.store_poll(rows.layout, attempt, answer.question.offset, polled)
    return replace(before, polled=polled.state)


def after_failure(before: LayoutState, rows: StepRows) -> LayoutState:
    """Update the state after a decision that could not be carried out."""
    layout, attempt, current = rows.layout, rows.attempt, before.current
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


def _waits_for_earlier(layout: Layout) -> bool:
    """True when an earlier layout, or visit, of its campaign is to come first, or is not proven blank yet."""
    earlier = Layout.objects.filter(
        campaign=layout.campaign_id,
        host=layout.host_id,
        phase__in=[LayoutPhase.WAITING, *HOLDING],
        position__lt=layout.position,
    )
    return earlier.exists()


def _manual_step(layout: Layout) -> ManualStep:
    if not layout.needs_person:
        return ManualStep.NONE
    return ManualStep.REPORTED_DONE if layout.person_said_at else ManualStep.REQUESTED


def _current(layout: Layout, attempt: Attempt) -> CurrentAttempt:
    ready = layout.phase == LayoutPhase.READY
    moment = moments.parse_moment(attempt.run.stage) if ready else moments.Moment()
    started = attempt.started_at
    runs = ready and attempt.phase == AttemptPhase.RUNNING
    return CurrentAttempt(
        phase=AttemptPhase(attempt.phase),
        stage=moment.stage,
        growing=moment.growing,
        running_s=(timezone.now() - started).total_seconds() if started else 0.0,
        timeout_s=attempt.timeout_s,
        expected_s=attempt.run.expected_s,
        looked_s=condition.since_check_s(attempt) if runs else 0.0,
        player=jobs.attempt_console(attempt).player(attempt, planning.facts_at_ready(layout))
        if runs
        else Player.NONE,
    )
