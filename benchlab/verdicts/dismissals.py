# SPDX-License-Identifier: Apache-2.0
"""Answers that a person dismissed as unimportant: identify them, and check whether they still say the same."""

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
from benchlab.findings import storing
from benchlab.findings.models import Finding
from benchlab.verdicts import baselines
from benchlab.verdicts.answers import Answer, answers_of, lines_of
from benchlab.verdicts.models import DismissedAnswer, VerdictSnapshot, changed_lines
from benchlab.verdicts.sentences import ratio_text


class UnknownAnswer(ValidationError):
    """No answer of these lines has that key."""


@dataclass(frozen=True, slots=True)
class DismissalNote:
    """Notes on an answer.

    `key`: identifies the answer and what it says in a request. `holds`: it is dismissed and still says the same.
    `earlier_text`: what it said then, if it says something else now.
    """

    key: str
    row: DismissedAnswer | None = None
    holds: bool = False
    earlier_text: str = ""

    @property
    def dismissed(self) -> bool:
        return self.row is not None and self.row.dismissed_at is not None


class Presentation(StrEnum):
    """Appearance of an answer, depending on its dismissal."""

    PLAIN = "plain"
    # folded, with who dismissed it, when and why, and a button to restore it
    FOLDED = "folded"
    # visible, with what it said when it was dismissed
    AGAIN = "again"
    # visible, with the reason
    TAKEN_BACK = "taken back"
    LEFT_OUT = "left out"


def choose_presentation(noted: DismissalNote, *, worked_on: bool) -> Presentation:
    """Choose how an answer appears; this is the only place that decides it.

    `worked_on`: the page is one where people weigh answers (a campaign, a comparison). Elsewhere (Home, a report)
    dismissed answers are left out, and all others appear as if nobody had made a note.
    """
    if not worked_on:
        return Presentation.LEFT_OUT if noted.holds else Presentation.PLAIN
    if noted.dismissed:
        return Presentation.FOLDED if noted.holds else Presentation.AGAIN
    return Presentation.TAKEN_BACK if noted.row and noted.row.note else Presentation.PLAIN


def answer_key(answer: Answer) -> str:
    """Key of an answer and of what it says in words, so that a request from a page with older numbers is noticed."""
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
    """Return the dismissed answers by campaign. One query."""
    rows = DismissedAnswer.objects.visible_to(user).exclude(dismissed_at=None)
    rows_by_campaign: dict[int, list[DismissedAnswer]] = defaultdict(list)
    for row in rows.filter(campaign__in=list(campaigns)).order_by("pk"):
        rows_by_campaign[row.campaign_id].append(row)
    return rows_by_campaign


def campaign_version(campaign: Campaign) -> str:
    """A digest that changes whenever an answer or a finding of the campaign is dismissed or restored. One query."""
    answers = DismissedAnswer.objects.filter(campaign=campaign).exclude(dismissed_at=None)
    findings = Finding.objects.filter(campaign=campaign).exclude(dismissed_at=None).order_by()
    finding_times = findings.values_list(Cast("pk", CharField()), "dismissed_at")
    times = answers.order_by().values_list("answer", "dismissed_at").union(finding_times, all=True)
    pairs = sorted((which, str(at)) for which, at in times)
    return _json_digest(pairs)[:8] if pairs else ""


def notes_from_rows(
    answers: Sequence[Answer], rows: Iterable[DismissedAnswer]
) -> list[DismissalNote]:
    """Notes on each answer, from these rows."""
    row_by_answer = {row.answer: row for row in rows}
    return [
        _note_from_row(answer, row_by_answer.get(answer_identity(answer))) for answer in answers
    ]


def rows_version(rows: Iterable[DismissedAnswer]) -> str:
    """A digest that changes whenever an answer is dismissed or restored."""
    pairs = [(row.answer, row.dismissed_at and row.dismissed_at.timestamp()) for row in rows]
    return _json_digest(sorted(pairs))[:8] if pairs else ""


def _note_from_row(answer: Answer, row: DismissedAnswer | None) -> DismissalNote:
    key = answer_key(answer)
    if row is None or row.dismissed_at is None:
        return DismissalNote(key, row)
    unlike = changed_lines(row.said, verdict_snapshot(answer))
    return DismissalNote(key, row, not unlike, _earlier_text(answer, row.said, unlike))


def _earlier_text(answer: Answer, snapshot: VerdictSnapshot, unlike: Sequence[str]) -> str:
    """ "faster, 1.3×"; if the answer has several lines, with the name of each that changed."""
    names = {_line_key(row.group): row.label for row in answer.others}
    texts = []
    for line in unlike:
        before = snapshot.get(line)
        words = f"{before[0]}, {ratio_text(before[1])}" if before else "nothing"
        texts.append(f"{words} of {names[line]}" if len(names) > 1 or not before else words)
    return "; ".join(texts)


def find_answer(user: Person, campaign: Campaign, query: QueryDict, key: str) -> Answer:
    """The answer with this key among those of an address, on this campaign and any others that it names.

    Raises BadRequest for an invalid address, UnknownAnswer if this campaign has no such answer.
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
    """Dismiss the answer that `key` identifies, with a note.

    Raises ValidationError without a note, AlreadyDecided if somebody else was faster, or if the answer no longer says
    what it said when `key` was made.
    """
    if answer_key(answer) != key:
        raise storing.AlreadyDecided(
            "It says another thing by now: look again. Your note was not kept."
        )
    now = dict(verdict_snapshot(answer))
    with transaction.atomic():
        row, _ = DismissedAnswer.objects.get_or_create(
            answer=answer_identity(answer), defaults={"campaign": campaign, "said": now}
        )
        before: Mapping[str, tuple[str, float]] = row.said if row.dismissed_at else {}
        # A page may show only some of its lines: the verdicts of the others are kept.
        row.said = now if changed_lines(before, now) else {**before, **now}
        storing.dismiss_row(row, by, note)


def restore_answer(answer: Answer, note: str) -> None:
    """Restore a dismissed answer, so that it counts again.

    Raises ValidationError without a note, UnknownAnswer if nobody dismissed it, AlreadyDecided if it was restored with
    another note.
    """
    row = DismissedAnswer.objects.filter(answer=answer_identity(answer)).first()
    if row is None:
        raise UnknownAnswer("Nobody dismissed it.")
    storing.restore_row(row, note)


def audit_text(answer: Answer) -> str:
    """Name the answer for the log."""
    against = f"{answer.metric_word} against {answer.baseline.label}"
    return f"answer {' · '.join(filter(None, [answer.title, answer.scope]))}: {against}"
