# SPDX-License-Identifier: Apache-2.0
"""Store findings, and dismissals of what does not matter here, with the reason.

Dismissed findings stay dismissed, and a fault of ours here loses no result.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Count, Exists, Max, OuterRef, QuerySet, Subquery
from django.utils import timezone

from agents.plaintext import visible
from benchlab.analysis import activity, finding
from benchlab.analysis.evidence import Line, Run
from benchlab.analysis.finding import Evidence
from benchlab.campaigns.models import Campaign
from benchlab.findings import stored_runs
from benchlab.findings.models import MOST_ABOUT, MOST_NOTE, Dismissible, Finding, Looked
from benchlab.runs import events
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.states import LayoutPhase, Outcome
from benchlab.web.texts import clean_text

log = logging.getLogger(__name__)

# fields that a rebuild overwrites
REBUILT_FIELDS = ("says", "severity", "numbers", "runs", "stands")

# by kind; None: its check failed
FindingsByKind = Mapping[str, Sequence[finding.Finding] | None]


def find_for_attempts(pks: Iterable[int]) -> None:
    """Find what there is to find about attempts that have just got their results. Never raises."""
    rows = Attempt.objects.filter(pk__in=list(pks)).order_by("pk")
    campaign_of = dict(rows.values_list("pk", "run__campaign"))
    for some in _batches(list(campaign_of)):
        _find_for_batch({pk: campaign_of[pk] for pk in some})


def _batches(pks: Sequence[int]) -> Iterator[Sequence[int]]:
    for begin in range(0, len(pks), stored_runs.AT_ONCE):
        yield pks[begin : begin + stored_runs.AT_ONCE]


def _find_for_batch(campaigns: Mapping[int, int]) -> None:
    """Store the findings of these attempts; `campaigns` is {attempt: its campaign}."""
    try:
        # An error would otherwise roll back the import's own transaction.
        with transaction.atomic():
            reset_comparison(set(campaigns.values()))
            runs = list(stored_runs.read_runs(list(campaigns)))
    except Exception:
        # The results stay; `manage.py reparse` can find again.
        # An attempt that cannot be read must not cost the others their findings.
        if len(campaigns) > 1:
            for pk, campaign in campaigns.items():
                _find_for_batch({pk: campaign})
            return
        log.exception("findings of attempts %s", list(campaigns))
        return
    _store_run_findings([(run, findings_of_run(run)) for run in runs], campaigns)
    _store_courses(runs)


def _store_courses(runs: Sequence[Run]) -> None:
    """Store the course of each run's rate. Never raises. Two queries.

    A run whose samples were removed keeps its own.
    """
    try:
        with transaction.atomic():
            rows = Attempt.objects.filter(raw_removed_at=None).only("course")
            attempts = rows.in_bulk([run.attempt for run in runs])
            for run in runs:
                if run.attempt in attempts:
                    attempts[run.attempt].course = activity.run_course(run).to_json()
            Attempt.objects.bulk_update(attempts.values(), ["course"])
    except Exception:
        log.exception("courses of attempts %s", [run.attempt for run in runs])


def _store_run_findings(
    looked: Sequence[tuple[Run, FindingsByKind]], campaigns: Mapping[int, int]
) -> None:
    """Store all of them in one transaction; each in its own if one cannot be stored."""
    pks = [run.attempt for run, _ in looked]
    sets = [
        _FindingSet(findings, [run.run], campaigns[run.attempt], run.attempt)
        for run, findings in looked
    ]
    try:
        _store_sets(Finding.objects.filter(attempt__in=pks), sets)
    except Exception:
        if len(looked) > 1:
            for checked in looked:
                _store_run_findings([checked], campaigns)
            return
        log.exception("findings of attempts %s", pks)


def findings_of_run(run: Run) -> FindingsByKind:
    """Apply every check of a single run. Pure."""
    return _collect_findings(finding.run_findings(), run, run.run)


def findings_of_lines(lines: Sequence[Line]) -> FindingsByKind:
    """Apply every check of lines. Pure."""
    workload = lines[0].workload if lines else ""
    return _collect_findings(finding.line_findings(), lines, workload)


def _collect_findings(
    kinds: Mapping[str, finding.Kind[Evidence]], evidence: Evidence, what: object
) -> dict[str, list[finding.Finding] | None]:
    findings: dict[str, list[finding.Finding] | None] = {}
    for kind, declared in kinds.items():
        try:
            findings[kind] = declared.applies(evidence)
        except Exception:
            # A check that fails must not cost the findings of the others.
            log.exception("finding %s of %s", kind, what)
            findings[kind] = None
    return findings


def store_line_findings(campaign: Campaign, workload_id: int, lines: Sequence[Line]) -> None:
    """Store the findings between the lines of one workload. Never raises."""
    try:
        rows = Finding.objects.filter(campaign=campaign, workload=workload_id)
        _store_sets(
            rows, [_FindingSet(findings_of_lines(lines), [], campaign.pk, workload=workload_id)]
        )
    except Exception:
        log.exception("findings of campaign %s, workload %s", campaign.pk, workload_id)


@dataclasses.dataclass(frozen=True, slots=True)
class _FindingSet:
    """Findings of one attempt, or of the lines of one workload. `runs` are the default of a finding that names none."""

    findings: FindingsByKind
    runs: Sequence[int]
    campaign: int
    attempt: int | None = None
    workload: int | None = None

    def new_row(self, kind: str, about: str) -> Finding:
        return Finding(
            kind=kind,
            about=about,
            campaign_id=self.campaign,
            attempt_id=self.attempt,
            workload_id=self.workload,
        )


@transaction.atomic
def _store_sets(rows: QuerySet[Finding], sets: Sequence[_FindingSet]) -> None:
    """Replace the earlier findings, which are `rows`. Three queries, and one for each that is gone."""
    of_runs = rows.exclude(kind__in=list(finding.HISTORY_LABELS)).order_by("pk")
    rows_by_attempt: dict[int | None, dict[tuple[str, str], Finding]] = defaultdict(dict)
    for row in of_runs.select_for_update():
        rows_by_attempt[row.attempt_id][row.kind, row.about] = row
    changed = [
        row
        for finding_set in sets
        for row in _changed_rows(finding_set, rows_by_attempt[finding_set.attempt])
    ]
    Finding.objects.bulk_create([row for row in changed if row.pk is None])
    existing = [row for row in changed if row.pk is not None]
    if existing:
        Finding.objects.bulk_update(existing, REBUILT_FIELDS)


def _changed_rows(
    finding_set: _FindingSet, rows: Mapping[tuple[str, str], Finding]
) -> Iterator[Finding]:
    """Return the new rows and those whose content has changed. Findings that no longer hold are retired at once."""
    findings = _unique_findings(finding_set.findings)
    for key, found_finding in findings.items():
        row = rows.get(key) or finding_set.new_row(*key)
        if _fill_row(row, found_finding, finding_set.runs):
            yield row
    failed = {
        kind for kind, failed_findings in finding_set.findings.items() if failed_findings is None
    }
    for key, row in rows.items():
        if key not in findings and key[0] not in failed:
            _retire(row)


@transaction.atomic
def store_history_alerts(
    rows: QuerySet[Finding], alerts: Sequence[tuple[int, str, finding.Finding]]
) -> None:
    """Replace `rows` by `alerts`: (run, kind, its text)."""
    before = rows.select_related("attempt").select_for_update(of=("self",))
    rows_by_key = {(row.attempt.run_id, row.kind): row for row in before if row.attempt}
    alerts_by_key = {(run, kind): alert for run, kind, alert in alerts}
    last = Attempt.objects.filter(
        run__in=[run for run, _ in alerts_by_key], outcome=Outcome.SUCCEEDED
    )
    attempts_of = {
        attempt.run_id: attempt for attempt in last.order_by("number").select_related("run")
    }
    for (run, kind), alert in alerts_by_key.items():
        attempt = attempts_of[run]
        of_new = {"campaign_id": attempt.run.campaign_id, "attempt": attempt, "about": alert.about}
        row = rows_by_key.get((run, kind)) or Finding(kind=kind, **of_new)
        if _fill_row(row, alert, [run]):
            row.save()
    for key, row in rows_by_key.items():
        if key not in alerts_by_key:
            _retire(row)


def _unique_findings(findings_by_kind: FindingsByKind) -> dict[tuple[str, str], finding.Finding]:
    """Return the findings by kind and about. Two with the same key are a fault of their check."""
    unique: dict[tuple[str, str], finding.Finding] = {}
    for kind, findings in findings_by_kind.items():
        for run_finding in findings or ():
            key = kind, visible(run_finding.about)[:MOST_ABOUT]
            if unique.setdefault(key, run_finding) is not run_finding:
                log.error("finding %s tells two of %r", *key)
    return unique


def _retire(row: Finding) -> None:
    """Retire a finding that no longer holds."""
    if row.dismissed_at is None:
        row.delete()
    elif row.stands:
        row.stands = False
        row.save(update_fields=["stands"])


def _fill_row(row: Finding, source: finding.Finding, runs: Sequence[int]) -> bool:
    """Fill a row with a finding. Returns True if the row is new or its content has changed."""
    values: dict[str, Any] = {
        "says": visible(source.sentence),
        "severity": source.severity.value,
        "numbers": {name: _number_to_json(number) for name, number in source.numbers.items()},
        "runs": list(dict.fromkeys(source.runs or runs)),
        "stands": True,
    }
    if row.pk and all(getattr(row, name) == value for name, value in values.items()):
        return False
    for name, value in values.items():
        setattr(row, name, value)
    return True


def _number_to_json(number: finding.Number) -> dict[str, Any]:
    """JSON has no NaN and no infinity."""
    data = dataclasses.asdict(number)
    data["value"] = float(number.value) if math.isfinite(number.value) else None
    return {
        name: visible(value) if isinstance(value, str) else value for name, value in data.items()
    }


def campaigns_due(most: int | None, among: Iterable[int] | None = None) -> list[int]:
    """Return finished campaigns whose lines were not compared since their last result, newest first."""
    campaign_filter = {"campaign": OuterRef("pk")}
    got = Attempt.objects.filter(run__campaign=OuterRef("pk"), outcome=Outcome.SUCCEEDED)
    going = Layout.objects.filter(**campaign_filter).exclude(phase=LayoutPhase.DONE)
    looked_at = Looked.objects.filter(**campaign_filter)
    before = Looked.objects.filter(campaign=OuterRef("run__campaign")).values("at")
    since = got.filter(ended_at__gt=Subquery(before))
    rows = Campaign.objects.filter(~Exists(looked_at) | Exists(since), ~Exists(going), Exists(got))
    rows = rows if among is None else rows.filter(pk__in=list(among))
    return list(rows.order_by("-pk").values_list("pk", flat=True)[:most])


def result_state(campaign: Campaign) -> tuple[object, ...]:
    """Changes when a result comes."""
    return tuple(succeeded_attempts(campaign).aggregate(Max("ended_at"), Count("pk")).values())


def succeeded_attempts(campaign: Campaign) -> QuerySet[Attempt]:
    return Attempt.objects.filter(run__campaign=campaign, outcome=Outcome.SUCCEEDED)


def record_comparison(campaign: Campaign, at: tuple[object, ...], began: datetime) -> None:
    """Record that its lines were compared from `began` on, if its results are still `at`."""
    if result_state(campaign) == at:
        Looked.objects.update_or_create(campaign=campaign, defaults={"at": began})


def reset_comparison(campaigns: Iterable[int]) -> None:
    """Have the lines of these campaigns compared again, as after a new result."""
    Looked.objects.filter(campaign__in=list(campaigns)).delete()


class AlreadyDecided(ValidationError):
    """Somebody else decided first; their decision stands."""


def dismiss_row(row: Dismissible, by: AbstractBaseUser, note: str) -> None:
    """Dismiss a row with a note; a person's last note counts.

    Raises ValidationError without a note, and AlreadyDecided if somebody else dismissed the same.
    """
    cleaned = clean_text(note, MOST_NOTE)
    with transaction.atomic():
        stored = _lock_row(row)
        if stored and stored.dismissed_at and stored.dismissed_by_id != by.pk and stored.same(row):
            raise AlreadyDecided(
                f"{_dismisser_name(stored)} dismissed it before you. Your note was not kept."
            )
        row.note, row.dismissed_at, row.dismissed_by_id = cleaned, timezone.now(), by.pk
        _save_dismissal(row)


def restore_row(row: Dismissible, note: str) -> None:
    """Make a dismissed row count again.

    Raises ValidationError without a note, and AlreadyDecided if it was restored with another note.
    """
    cleaned = clean_text(note, MOST_NOTE)
    with transaction.atomic():
        stored = _lock_row(row)
        if stored and stored.dismissed_at is None and stored.note not in ("", cleaned):
            raise AlreadyDecided("It was taken back before you. Your note was not kept.")
        row.note, row.dismissed_at, row.dismissed_by_id = cleaned, None, None
        _save_dismissal(row)


def _lock_row(row: Dismissible) -> Any:
    """Read the stored row and lock it, so that other requests wait. None if it is gone; saving then fails."""
    return type(row)._default_manager.select_for_update().filter(pk=row.pk).first()


def _dismisser_name(row: Dismissible) -> str:
    return row.dismissed_by.get_username() if row.dismissed_by else "Somebody who left"


def _save_dismissal(row: Dismissible) -> None:
    row.save(update_fields=["note", "dismissed_at", "dismissed_by", *row.KEPT_WITH])
    events.notify_pages(row.campaign_id)
