# SPDX-License-Identifier: Apache-2.0
"""An answer that a person said does not matter: which one it is, and whether it still says what they said it of."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import CharField
from django.db.models.functions import Cast
from django.http import QueryDict

from benchlab.campaigns.models import Campaign
from benchlab.charts import request_params
from benchlab.charts.queries import Group, Person
from benchlab.findings import dismissal
from benchlab.findings.models import Finding
from benchlab.verdicts import baselines
from benchlab.verdicts.answers import Answer, answers_of, lines_of
from benchlab.verdicts.models import DismissedAnswer, VerdictSnapshot, changed_lines
from benchlab.verdicts.sentences import ratio_text


class UnknownAnswer(ValidationError):
    """No answer of these lines has that key."""


@dataclass(frozen=True, slots=True)
class DismissalNote:
    """Notes on an answer. `key`: what names the answer in a request, and what it says; `holds`: dismissed, and it says
    the same still; `before`: what it said then, where it says another thing.
    """

    key: str
    row: DismissedAnswer | None = None
    holds: bool = False
    earlier_text: str = ""

    @property
    def dismissed(self) -> bool:
        return self.row is not None and self.row.dismissed_at is not None


class Presentation(StrEnum):
    """Look of an answer by what was said to it."""

    PLAIN = "plain"
    # with who, when and why, and a way back
    FOLDED = "folded"
    # in sight, with what it said when it was dismissed
    AGAIN = "again"
    # in sight, with why
    TAKEN_BACK = "taken back"
    LEFT_OUT = "left out"


def choose_presentation(noted: DismissalNote, *, worked_on: bool) -> Presentation:
    """The one place that decides it. `worked_on`: where people weigh answers (a campaign, a comparison); elsewhere
    (Home, a report) what was dismissed is not told, and all else as if nobody had said anything to it."""
    if not worked_on:
        return Presentation.LEFT_OUT if noted.holds else Presentation.PLAIN
    if noted.dismissed:
        return Presentation.FOLDED if noted.holds else Presentation.AGAIN
    return Presentation.TAKEN_BACK if noted.row and noted.row.note else Presentation.PLAIN


def answer_key(answer: Answer) -> str:
    """Key of an answer and of what it says in words: who answers a page that is older than its numbers is told."""
    words = [
        (line, conclusion) for line, (conclusion, _) in sorted(verdict_snapshot(answer).items())
    ]
    return f"{answer_identity(answer)}-{_json_digest(words)[:8]}"


def answer_identity(answer: Answer) -> str:
    """Digest of what the answer compares.

    It holds the campaigns, the baseline with its workload, the metric, and what the lines have in common; neither what
    was measured nor which lines there are so far.
    """
    campaigns = sorted({row.group.campaign for row in answer.rows})
    parts = [answer.metric, answer.alike, campaigns, _line_key(answer.baseline.group)]
    return _json_digest(parts)[:24]


def verdict_snapshot(answer: Answer) -> VerdictSnapshot:
    verdicts = [(row, row.against.curve) for row in answer.others if row.against]
    return {
        _line_key(row.group): (curve.conclusion.value, float(f"{curve.ratio:.6g}"))
        for row, curve in verdicts
        if curve
    }


def _line_key(group: Group) -> str:
    parts = {**baselines.line_parts(group), "w": str(group.workload)}
    return ".".join(letter + text for letter, text in parts.items())


def _json_digest(data: object) -> str:
    return sha256(json.dumps(data).encode()).hexdigest()


def notes_of_answers(user: Person, answers: Sequence[Answer]) -> list[DismissalNote]:
    """Notes on each answer, as `user` may see them. One query where there are any."""
    if not answers:
        return []
    rows = DismissedAnswer.objects.visible_to(user).filter(answer__in=map(answer_identity, answers))
    return notes_from_rows(answers, rows.select_related("dismissed_by"))


def dismissed_by_campaign(
    user: Person, campaigns: Iterable[int]
) -> dict[int, list[DismissedAnswer]]:
    """Those that are dismissed, by their campaign. One query."""
    rows = DismissedAnswer.objects.visible_to(user).exclude(dismissed_at=None)
    rows_by_campaign: dict[int, list[DismissedAnswer]] = defaultdict(list)
    for row in rows.filter(campaign__in=list(campaigns)).order_by("pk"):
        rows_by_campaign[row.campaign_id].append(row)
    return rows_by_campaign


def campaign_version(campaign: Campaign) -> str:
    """Another one whenever an answer or a finding of it is dismissed, or taken back. One query."""
    answers = DismissedAnswer.objects.filter(campaign=campaign).exclude(dismissed_at=None)
    findings = Finding.objects.filter(campaign=campaign).exclude(dismissed_at=None).order_by()
    finding_times = findings.values_list(Cast("pk", CharField()), "dismissed_at")
    times = answers.order_by().values_list("answer", "dismissed_at").union(finding_times, all=True)
    pairs = sorted((which, str(at)) for which, at in times)
    return _json_digest(pairs)[:8] if pairs else ""


def notes_from_rows(
    answers: Sequence[Answer], rows: Iterable[DismissedAnswer]
) -> list[DismissalNote]:
    """Notes of these rows on each."""
    row_by_answer = {row.answer: row for row in rows}
    return [
        _note_from_row(answer, row_by_answer.get(answer_identity(answer))) for answer in answers
    ]


def rows_version(rows: Iterable[DismissedAnswer]) -> str:
    """Another one whenever an answer is dismissed, or taken back."""
    pairs = [(row.answer, row.dismissed_at and row.dismissed_at.timestamp()) for row in rows]
    return _json_digest(sorted(pairs))[:8] if pairs else ""


def _note_from_row(answer: Answer, row: DismissedAnswer | None) -> DismissalNote:
    key = answer_key(answer)
    if row is None or row.dismissed_at is None:
        return DismissalNote(key, row)
    unlike = changed_lines(row.said, verdict_snapshot(answer))
    return DismissalNote(key, row, not unlike, _earlier_text(answer, row.said, unlike))


def _earlier_text(answer: Answer, snapshot: VerdictSnapshot, unlike: Sequence[str]) -> str:
    """ "faster, 1.3×"; of several lines each that changed, by its name."""
    names = {_line_key(row.group): row.label for row in answer.others}
    texts = []
    for line in unlike:
        before = snapshot.get(line)
        words = f"{before[0]}, {ratio_text(before[1])}" if before else "nothing"
        texts.append(f"{words} of {names[line]}" if len(names) > 1 or not before else words)
    return "; ".join(texts)


def find_answer(user: Person, campaign: Campaign, query: QueryDict, key: str) -> Answer:
    """The answer of this key among those that an address asks for, on this campaign and, where it names some, others.

    Raises BadRequest for an address that nobody understands, Unknown where there is no such answer of this campaign.
    """
    line_filter = request_params.line_filter(query)
    if campaign.pk not in line_filter.campaigns:
        line_filter = request_params.line_filter(_with_campaign(query, campaign))
    answers = answers_of(
        lines_of(user, line_filter),
        request_params.requested_metric(query),
        baselines.requested_baseline(query),
    )
    name = key.partition("-")[0]
    for answer in answers:
        if answer_identity(answer) == name and campaign.pk in {
            row.group.campaign for row in answer.rows
        }:
            return answer
    raise UnknownAnswer("There is no such answer; it may have gone with its results.")


def _with_campaign(query: QueryDict, campaign: Campaign) -> QueryDict:
    extended = query.copy()
    extended.appendlist("campaign", str(campaign.pk))
    return extended


def dismiss_answer(
    answer: Answer, campaign: Campaign, by: AbstractBaseUser, key: str, note: str
) -> None:
    """Raises ValidationError without a note, Already where somebody else was faster, or where it says another thing
    than what `key` was told of."""
    if answer_key(answer) != key:
        raise dismissal.AlreadyDecided(
            "It says another thing by now: look again. Your note was not kept."
        )
    now = dict(verdict_snapshot(answer))
    with transaction.atomic():
        row, _ = DismissedAnswer.objects.get_or_create(
            answer=answer_identity(answer), defaults={"campaign": campaign, "said": now}
        )
        before: Mapping[str, tuple[str, float]] = row.said if row.dismissed_at else {}
        # Of a part of its lines: what was said of the others stands.
        row.said = now if changed_lines(before, now) else {**before, **now}
        dismissal.dismiss_row(row, by, note)


def restore_answer(answer: Answer, note: str) -> None:
    """It counts again. Raises ValidationError without a note, Unknown where nobody dismissed it, Already where it was
    taken back with another note."""
    row = DismissedAnswer.objects.filter(answer=answer_identity(answer)).first()
    if row is None:
        raise UnknownAnswer("Nobody dismissed it.")
    dismissal.restore_row(row, note)


def audit_text(answer: Answer) -> str:
    """Name the answer for the log."""
    against = f"{answer.metric_word} against {answer.baseline.label}"
    return f"answer {' · '.join(filter(None, [answer.title, answer.scope]))}: {against}"
