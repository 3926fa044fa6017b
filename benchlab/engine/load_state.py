# SPDX-License-Identifier: Apache-2.0
"""The state of a layout, from the database and from the answer of its last poll."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

from django.conf import settings
from django.db import connection
from django.db.models import Case, Field, Model, QuerySet, Value, When
from django.utils import timezone

from agents.contracts import AgentError
from benchlab.engine import tool_consoles
from benchlab.engine.checks import condition, planning
from benchlab.engine.layout_state import CurrentAttempt, LayoutState, ManualStep
from benchlab.engine.phases import run_attempts
from benchlab.engine.polls import polls
from benchlab.engine.step_rows import StepRows
from benchlab.hosts import package_installs
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.states import HOLDING, LAYOUT_IS_LOST, AttemptPhase, LayoutPhase, Player
from benchlab.topologies import moments

M = TypeVar("M", bound=Model)

# stands in the query for what each call gives
KEY_PLACEHOLDER = -1


@dataclass(frozen=True, slots=True)
class _Part:
    """One of the models: how it is reached ("layout__host", "" is the row itself), and which columns are read of it."""

    path: str
    model: type[Model]
    fields: tuple[Field[Any, Any], ...]

    @property
    def column_names(self) -> list[str]:
        before = f"{self.path}__" if self.path else ""
        return [before + field.attname for field in self.fields]

    def to_model(self, values: Sequence[Any]) -> Model | None:
        """Build the model; None if the row has none. A column that is not read is queried on access, as usual."""
        read = [_convert(field, value) for field, value in zip(self.fields, values, strict=True)]
        names = [field.attname for field in self.fields]
        if values[names.index(self.model._meta.pk.attname)] is None:
            return None
        return self.model.from_db(connection.alias, names, read)


def _convert(field: Field[Any, Any], value: Any) -> Any:
    converters: list[Callable[..., Any]] = field.get_db_converters(connection)
    for convert in converters:
        value = convert(value, field.cached_col, connection)
    return value


class CompiledQuery(Generic[M]):
    """The first of `rows`, in which `KEY` stands once; with what is at `paths`, each behind the one it hangs on.

    The query is written once: writing it anew for each step was a fifth of a busy worker's work. Nothing that is read
    is kept.
    """

    def __init__(
        self, rows: QuerySet[M], paths: Sequence[str], without: Collection[str] = ()
    ) -> None:
        self._rows, self._paths, self._without = rows, paths, without

    def fetch(self, key: int) -> M | None:
        sql, params = self._sql
        with connection.cursor() as cursor:
            cursor.execute(sql, [key if param == KEY_PLACEHOLDER else param for param in params])
            row = cursor.fetchone()
        return None if row is None else self._to_models(row)

    def _to_models(self, row: Sequence[Any]) -> M:
        rows_by_path: dict[str, Any] = {}
        begin = 0
        for part in self._column_groups:
            end = begin + len(part.fields)
            before, _, name = part.path.rpartition("__")
            model = rows_by_path[part.path] = part.to_model(row[begin:end])
            if part.path and rows_by_path[before] is not None:
                setattr(rows_by_path[before], name, model)
            begin = end
        first: M = rows_by_path[""]
        return first

    @cached_property
    def _column_groups(self) -> tuple[_Part, ...]:
        return tuple(self._read_columns())

    def _read_columns(self) -> Iterator[_Part]:
        models: dict[str, Any] = {"": self._rows.model}
        for path in ("", *self._paths):
            before, _, name = path.rpartition("__")
            if path:
                models[path] = models[before]._meta.get_field(name).related_model
            model = models[path]
            fields = [
                field
                for field in model._meta.concrete_fields
                if "__".join(filter(None, (path, field.name))) not in self._without
            ]
            yield _Part(path, model, tuple(fields))

    @cached_property
    def _sql(self) -> tuple[str, tuple[Any, ...]]:
        names = [name for part in self._column_groups for name in part.column_names]
        rows: Any = self._rows.values_list(*names)
        sql, params = rows[:1].query.sql_with_params()
        assert params.count(KEY_PLACEHOLDER) == 1, params
        return sql, params


# The plan is large, and most steps do without.
_ATTEMPT = CompiledQuery(
    Attempt.objects.filter(layout=KEY_PLACEHOLDER)
    .exclude(phase=AttemptPhase.DONE)
    .order_by(
        Case(When(phase=AttemptPhase.QUEUED, then=Value(1)), default=Value(0)), "run__position"
    ),
    ["run", "layout", "layout__host", "layout__host__credential", "layout__campaign"],
    without=["layout__plan"],
)
_LAYOUT = CompiledQuery(
    Layout.objects.filter(pk=KEY_PLACEHOLDER).order_by(),
    ["host", "host__credential", "campaign"],
    without=["plan"],
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
        player=tool_consoles.attempt_console(attempt).player(
            attempt, planning.facts_at_ready(layout)
        )
        if runs
        else Player.NONE,
    )
