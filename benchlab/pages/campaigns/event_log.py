# SPDX-License-Identifier: Apache-2.0
"""The log of a campaign: every move and every command, read anew each time, so that no line can be missed."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any

from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from agents.quote import format_command
from benchlab.campaigns.models import Campaign
from benchlab.pages.search import marked
from benchlab.runs.models import StepLog, Transition
from benchlab.web import lists

MAX_LINES = 200
LAYOUT_NAMES = ("layout__host__name", "layout__topology__name")
TRANSITION_COLUMNS = ("pk", "at", "old", "new", "reason", "attempt__run_id", *LAYOUT_NAMES)
COMMAND_COLUMNS = (
    "pk",
    "started_at",
    "ended_at",
    "exit_code",
    "stderr",
    "says",
    "argv",
    *LAYOUT_NAMES,
)
LINE = """<li id="{}">
<time datetime="{}" class="muted">{}</time>
<span class="muted" title="{}">{}</span>
<span>{}{}{}</span>{}
</li>
"""
DAY = '<li class="day">{}</li>\n'
# One line, all of it while its button has the focus: static/steps.js copies what stands before the button.
COMMAND = (
    '<code>{}</code><button type="button" class="copy" aria-label="Copy the command: {}"></button>'
)
FAILED = SafeString('<span class="badge badge-failed">Failed</span> ')


@dataclass(frozen=True, slots=True)
class LogLine:
    # "m12": move 12; "c7": command 7
    key: str
    at: datetime
    where: str
    # of a run's move: what follows "run 12: ", its number as on every other page
    text: str
    command: str = ""
    bad: bool = False
    run: int | None = None
    # what was looked for
    marks: re.Pattern[str] | None = None

    @property
    def day(self) -> str:
        """UTC: a campaign goes on for days, and each line has but its time."""
        return f"{self.at.day} {self.at:%b %Y}"

    @property
    def html(self) -> SafeString:
        """Not by the template: there are hundreds, and a live page asks for them time and again."""
        bad, at = FAILED if self.bad else "", self.at
        command = (
            format_html(COMMAND, self._marked(self.command), self.text) if self.command else ""
        )
        return format_html(
            LINE,
            self.key,
            at.isoformat(),
            f"{at:%H:%M:%S}",
            # one line is shown of it
            self.where,
            self._marked(self.where),
            bad,
            self._of_run,
            self._marked(self.text),
            command,
        )

    def _marked(self, text: str) -> str:
        return marked(text, self.marks) if self.marks else text

    @property
    def _of_run(self) -> str:
        if self.run is None:
            return ""
        href = reverse("run-detail", args=[self.run])
        return format_html('<a href="{}">run {}</a>: ', href, self.run)


@dataclass(frozen=True, slots=True)
class EventLog:
    lines: list[LogLine]
    # lines that are not shown
    earlier: int

    @property
    def html(self) -> SafeString:
        """The lines, each day's under its name."""
        days = groupby(self.lines, key=lambda line: line.day)
        parts = (
            part
            for day, lines in days
            for part in (format_html(DAY, day), *(line.html for line in lines))
        )
        return format_html_join("", "{}", ((part,) for part in parts))


def read_log(campaign: Campaign, limit: int | None = MAX_LINES, text: str = "") -> EventLog:
    """The last `limit` lines (None: all), newest first; with `text` those that have each of its words."""
    moves = Transition.objects.filter(layout__campaign=campaign).order_by("-pk")
    steps = StepLog.objects.filter(layout__campaign=campaign).order_by("-pk")
    if text:
        moves = moves.filter(lists.match_words(("old", "new", "reason", *LAYOUT_NAMES), text))
        steps = steps.annotate(words=Cast("argv", TextField()))
        steps = steps.filter(lists.match_words(("says", "words", "stderr", *LAYOUT_NAMES), text))
    moved, more_moves = _latest_rows(moves, limit, TRANSITION_COLUMNS)
    commands, more_steps = _latest_rows(steps, limit, COMMAND_COLUMNS)
    lines = [*map(_transition_line, moved), *map(_command_line, commands)]
    lines.sort(key=lambda line: (line.at, line.key), reverse=True)
    shown_lines = lines[:limit] if limit else lines
    earlier = len(lines) - len(shown_lines) + more_moves + more_steps
    if marks := lists.search_pattern(text):
        shown_lines = [replace(line, marks=marks) for line in shown_lines]
    return EventLog(shown_lines, earlier)


def _latest_rows(
    query: QuerySet[Any], limit: int | None, names: tuple[str, ...]
) -> tuple[list[Any], int]:
    """The last ones, and how many others there are: counted only where there are any."""
    rows = query.values_list(*names, named=True)
    latest = list(rows[:limit] if limit else rows)
    return latest, query.count() - len(latest) if len(latest) == limit else 0


def _transition_line(row: Any) -> LogLine:
    what = f"{row.old} → {row.new}" + (f": {row.reason}" if row.reason else "")
    return LogLine(f"m{row.pk}", row.at, _layout_label(row), what, run=row.attempt__run_id)


def _command_line(row: Any) -> LogLine:
    bad = bool(row.exit_code)
    if row.ended_at is None:
        result = "running"
    else:
        result = f"exit {row.exit_code}" + (f": {row.stderr.strip()[-300:]}" if bad else "")
    text = f"{row.says} ({result})"
    return LogLine(
        f"c{row.pk}", row.started_at, _layout_label(row), text, format_command(row.argv), bad
    )


def _layout_label(row: Any) -> str:
    return f"{row.layout__host__name} · {row.layout__topology__name}"
