# SPDX-License-Identifier: Apache-2.0
"""Findings as pages show them: the ones that matter first, each number leading to where it comes from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.urls import reverse
from django.utils.text import slugify

from benchlab.analysis import finding
from benchlab.analysis.formats import shown_unit
from benchlab.campaigns.models import Campaign
from benchlab.findings.models import Finding, Severities
from benchlab.runs.models import Artifact, Attempt, Measurement
from benchlab.runs.repeat_offers import Offer, RepeatGoal, repeat_offers
from benchlab.runs.states import Outcome
from benchlab.web.units import si

Person = AbstractBaseUser | AnonymousUser
RANK = {word: at for at, word in enumerate(Severities.values)}
# rows of a page: of more, only the first are shown
MAX_FINDINGS = 500
# lines of Home
MAX_UNREVIEWED = 20


@dataclass(frozen=True, slots=True)
class DisplayedNumber:
    """A number in a sentence; `url` leads to its source, "" if there is none."""

    label: str
    text: str
    url: str


@dataclass(frozen=True, slots=True)
class DisplayedFinding:
    row: Finding
    label: str
    # of its paragraph in docs/method.md
    anchor: str
    numbers: tuple[DisplayedNumber, ...]
    # None: between set-ups
    run: int | None
    # of its attempt
    number: int = 1
    # further repeats that would decide it
    offer: Offer | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """The findings of one kind: a page with hundreds of runs has a line for each kind."""

    kind: str
    label: str
    severity: str
    word: str
    findings: tuple[DisplayedFinding, ...]

    @property
    def run_count(self) -> int:
        return len({run for finding in self.findings for run in finding.row.runs})


def label_of(kind: str) -> str:
    """Label of a kind, also of one that no longer exists."""
    declared = finding.run_findings().get(kind) or finding.line_findings().get(kind)
    former = finding.HISTORY_LABELS.get(kind, kind.replace("_", " ").capitalize())
    return declared.label if declared else former


def anchor_of(kind: str) -> str:
    """Return the anchor of its paragraph in docs/method.md: a run's findings by label, all others by kind."""
    if kind in finding.HISTORY_LABELS:
        return slugify(kind.replace("_", " "))
    return slugify(label_of(kind) if kind in finding.run_findings() else kind)


def unreviewed_alerts(user: Person) -> QuerySet[Finding]:
    """The newest findings in histories of set-ups that nobody has reviewed, as many as a page shows."""
    rows = Finding.objects.for_user(user).current()
    rows = rows.filter(kind__in=list(finding.HISTORY_LABELS), stands=True, dismissed_at=None)
    return rows.order_by("-found_at", "-pk")[:MAX_UNREVIEWED]


def unreviewed_with_context(user: Person) -> list[Finding]:
    """Read the same findings with their run's topology, workload and host. One query."""
    whose = ("attempt__run__topology", "attempt__run__workload", "attempt__run__host")
    return list(unreviewed_alerts(user).select_related(*whose))


def attempt_findings(user: Person, attempt: Attempt) -> list[DisplayedFinding]:
    return _display_query(_current_findings(user).filter(attempt=attempt))


def campaign_findings(user: Person, campaign: Campaign) -> list[DisplayedFinding]:
    """List the findings between its set-ups, and those on the last successful attempt of each run."""
    return _display_query(_current_findings(user).filter(campaign=campaign).filter(_of_last()))


def with_offers(campaign: Campaign, findings: Sequence[DisplayedFinding]) -> list[DisplayedFinding]:
    """Offer each finding that requests repeats that number of them. Three queries if any does."""
    requests = {
        at: requested
        for at, row in enumerate(findings)
        if (requested := _requested_repeats(row.row))
    }
    offers_by_index = dict(
        zip(requests, repeat_offers(campaign, list(requests.values())), strict=True)
    )
    return [
        replace(displayed, offer=offers_by_index.get(at)) for at, displayed in enumerate(findings)
    ]


def _requested_repeats(row: Finding) -> RepeatGoal | None:
    needed = row.numbers.get(finding.NEEDED)
    if row.dismissed_at or not needed or not needed["value"]:
        return None
    return RepeatGoal(row.runs, int(needed["value"]))


def compared_findings(
    user: Person, campaigns: Collection[int], workloads: Collection[int], attempts: Collection[int]
) -> list[DisplayedFinding]:
    """List the findings on these attempts, and those between set-ups only if all their runs are among these."""
    rows = _current_findings(user).filter(campaign__in=campaigns)
    matching = rows.filter(Q(attempt__in=attempts) | Q(workload__in=workloads))
    runs = set(Attempt.objects.filter(pk__in=attempts).values_list("run", flat=True))
    return [
        displayed
        for displayed in _display_query(matching)
        if displayed.run is not None or set(displayed.row.runs) <= runs
    ]


def _current_findings(user: Person) -> QuerySet[Finding]:
    rows = Finding.objects.visible_to(user).filter(stands=True)
    return rows.filter(Q(attempt=None) | Q(attempt__outcome=Outcome.SUCCEEDED))


def _of_last() -> Q:
    later = Attempt.objects.filter(
        run=OuterRef("attempt__run"),
        outcome=Outcome.SUCCEEDED,
        number__gt=OuterRef("attempt__number"),
    )
    return Q(attempt=None) | Q(~Exists(later))


def _display_query(rows: QuerySet[Finding]) -> list[DisplayedFinding]:
    """Three queries."""
    ordered = list(rows.select_related("attempt", "dismissed_by", "campaign").order_by("pk"))
    ordered.sort(key=lambda row: (RANK.get(row.severity, 9), row.attempt_id is not None))
    return display_rows(ordered[:MAX_FINDINGS])


def display_rows(rows: Sequence[Finding]) -> list[DisplayedFinding]:
    lines = _output_line_urls(rows)
    return [_display_row(row, lines) for row in rows]


def _display_row(row: Finding, lines: Mapping[tuple[int, str], str]) -> DisplayedFinding:
    attempt = row.attempt
    numbers = tuple(_display_number(row, number, lines) for number in row.numbers.values())
    return DisplayedFinding(
        row,
        label_of(row.kind),
        anchor_of(row.kind),
        numbers,
        attempt.run_id if attempt else None,
        attempt.number if attempt else 1,
    )


def _display_number(
    row: Finding, number: Mapping[str, Any], lines: Mapping[tuple[int, str], str]
) -> DisplayedNumber:
    value, unit = number["value"], number["unit"]
    counts = shown_unit(number["figure"] or number["metric"], unit)
    text = "not known" if value is None else si(value, counts)
    return DisplayedNumber(number["of"], text, _number_url(row, number, lines))


def _number_url(
    row: Finding, number: Mapping[str, Any], lines: Mapping[tuple[int, str], str]
) -> str:
    """Return the URL of the line of raw output, of the devices' chart, or else of the run."""
    attempt = row.attempt
    own = attempt is not None and number["run"] in (0, attempt.run_id)
    run = attempt.run_id if attempt is not None and own else number["run"]
    if not run:
        return ""
    if own and attempt is not None and (line := lines.get((attempt.pk, number["figure"]))):
        return line
    page = reverse("run-detail", args=[run])
    page += f"?attempt={attempt.number}" if own and attempt is not None else ""
    if number["metric"]:
        return f"{page}#devices"
    return f"{page}#measurements" if number["figure"] else page if not own else ""


def _output_line_urls(rows: Iterable[Finding]) -> dict[tuple[int, str], str]:
    """Return {(attempt, figure): URL of its line of raw output}. Two queries."""
    figures_by_attempt: dict[int, set[str]] = defaultdict(set)
    for row in rows:
        if row.attempt_id:
            figures_by_attempt[row.attempt_id] |= {
                number["figure"] for number in row.numbers.values()
            } - {""}
    names = set().union(*figures_by_attempt.values())
    if not names:
        return {}
    measurements = Measurement.objects.filter(
        attempt__in=figures_by_attempt, name__in=names, labels={}, line__gt=0
    ).values_list("attempt", "name", "line", "output")
    stored = Artifact.objects.filter(attempt__in=figures_by_attempt).values_list(
        "attempt", "name", "pk"
    )
    artifacts = {(attempt, name): pk for attempt, name, pk in stored}
    return {
        (attempt, name): _line_url(artifacts[attempt, output], line)
        for attempt, name, line, output in measurements
        if (attempt, output) in artifacts
    }


def _line_url(artifact: int, line: int) -> str:
    return f"{reverse('artifact-lines', args=[artifact])}?{urlencode({'line': line})}#L{line}"


def group_by_kind(findings: Iterable[DisplayedFinding]) -> list[Kind]:
    """Group findings by kind in their order, those between set-ups apart from those of single runs."""
    kinds: dict[tuple[str, str, bool], list[DisplayedFinding]] = defaultdict(list)
    for displayed in findings:
        kinds[displayed.row.kind, displayed.row.severity, displayed.run is None].append(displayed)
    return [
        Kind(kind, some[0].label, severity, some[0].row.get_severity_display(), tuple(some))
        for (kind, severity, _), some in kinds.items()
    ]


@dataclass(slots=True)
class OmittedCounts:
    """Counts that a report has in its context as `left_out`. The tags that show answers and findings fill them in."""

    answers: int = 0
    findings: int = 0

    @property
    def anchor(self) -> str:
        """Anchor of the omitted ones on the page that the report is about."""
        return "answers" if self.answers else "findings"

    @property
    def text(self) -> str:
        """ "2 answers and 1 finding were", empty where nothing is left out."""
        counts = [(self.answers, "answer"), (self.findings, "finding")]
        parts = [f"{number} {noun}{'s' if number > 1 else ''}" for number, noun in counts if number]
        single = self.answers + self.findings == 1
        return f"{' and '.join(parts)} {'was' if single else 'were'}" if parts else ""
