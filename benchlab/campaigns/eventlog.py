"""The log of a campaign: every move and every command, read anew each time, so that no line can be missed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from agents.quote import shown
from benchlab.campaigns.models import Campaign
from benchlab.runs.models import StepLog, Transition

TAIL = 200


@dataclass(frozen=True, slots=True)
class Line:
    key: str  # "m12": move 12; "c7": command 7
    at: datetime
    layout: str
    where: str
    text: str  # of a run's move: what follows "run 12: "
    command: str = ""
    bad: bool = False
    run: int | None = None
    number: int = 0  # of the run within its campaign, from 1


@dataclass(frozen=True, slots=True)
class Log:
    lines: list[Line]
    earlier: int  # lines that are not shown


def of(campaign: Campaign, limit: int | None = TAIL) -> Log:
    """The last `limit` lines (None: all), newest first."""
    moves = Transition.objects.filter(layout__campaign=campaign).order_by("-pk")
    steps = StepLog.objects.filter(layout__campaign=campaign).order_by("-pk")
    total = moves.count() + steps.count()
    lines = [_move(row) for row in _rows(moves, limit, "attempt__run")]
    lines += [_step(row) for row in _rows(steps.defer("stdout"), limit)]
    lines.sort(key=lambda line: (line.at, line.key), reverse=True)
    shown = lines[:limit] if limit else lines
    return Log(shown, total - len(shown))


def _rows(query: QuerySet[Any], limit: int | None, *related: str) -> QuerySet[Any]:
    found = query.select_related("layout__host", "layout__topology", *related)
    return found[:limit] if limit else found


def _move(row: Transition) -> Line:
    what = f"{row.old} → {row.new}" + (f": {row.reason}" if row.reason else "")
    run = row.attempt.run if row.attempt else None
    return Line(
        key=f"m{row.pk}",
        at=row.at,
        layout=row.layout.name,
        where=_where(row),
        text=what,
        run=run.pk if run else None,
        number=run.position + 1 if run else 0,
    )


def _step(row: StepLog) -> Line:
    bad = bool(row.exit_code)
    if row.ended_at is None:
        said = "running"
    else:
        said = f"exit {row.exit_code}" + (f": {row.stderr.strip()[-300:]}" if bad else "")
    return Line(
        key=f"c{row.pk}",
        at=row.started_at,
        layout=row.layout.name,
        where=_where(row),
        text=f"{row.says} ({said})",
        command=shown(row.argv),
        bad=bad,
    )


def _where(row: Transition | StepLog) -> str:
    return f"{row.layout.host} · {row.layout.topology}"
