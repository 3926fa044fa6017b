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
from benchlab.analysis.rate_words import shown_unit
from benchlab.campaigns.models import Campaign
from benchlab.findings.models import Finding, Severities
from benchlab.runs.models import Artifact, Attempt, Measurement
from benchlab.runs.repeat_offers import Offer, Wanted, offers
from benchlab.runs.states import Outcome
from benchlab.web.units import si

Person = AbstractBaseUser | AnonymousUser
RANK = {word: at for at, word in enumerate(Severities.values)}
# rows of a page: who has more of them looks at the first
MOST = 500
# lines of Home
MOST_TO_LOOK_AT = 20


@dataclass(frozen=True, slots=True)
class Told:
    """A number of a sentence; `url`: where it comes from, "" where nothing leads there."""

    of: str
    text: str
    url: str


@dataclass(frozen=True, slots=True)
class Shown:
    row: Finding
    label: str
    # of its paragraph in docs/method.md
    anchor: str
    numbers: tuple[Told, ...]
    # None: between set-ups
    run: int | None
    # of its attempt
    number: int = 1
    # further repeats that would tell
    offer: Offer | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """Those of one kind: a page with hundreds of runs has a line for each kind."""

    kind: str
    label: str
    severity: str
    word: str
    found: tuple[Shown, ...]

    @property
    def runs(self) -> int:
        return len({run for one in self.found for run in one.row.runs})


def label_of(kind: str) -> str:
    module = _module(kind)
    known = finding.OF_HISTORY.get(kind, kind.replace("_", " ").capitalize())
    return module.LABEL if module else known


def anchor_of(kind: str) -> str:
    """Of its paragraph in docs/method.md: of a run's findings by their label, of all others by their kind."""
    if kind in finding.OF_HISTORY:
        return slugify(kind.replace("_", " "))
    return slugify(label_of(kind) if kind in finding.of_runs() else kind)


def method_of(kind: str) -> str:
    """The heading in docs/method.md."""
    module = _module(kind)
    return module.METHOD if module else "Findings"


def _module(kind: str) -> finding.OfRun | finding.OfLines | None:
    """None of one that is no more."""
    return finding.of_runs().get(kind) or finding.of_lines().get(kind)


def not_looked_at(user: Person) -> QuerySet[Finding]:
    """Findings in the histories of set-ups that nobody looked at: the newest first, as many as are shown."""
    rows = Finding.objects.for_user(user).current()
    rows = rows.filter(kind__in=list(finding.OF_HISTORY), stands=True, dismissed_at=None)
    return rows.order_by("-found_at", "-pk")[:MOST_TO_LOOK_AT]


def to_look_at(user: Person) -> list[Finding]:
    """The same with what it is about. One query."""
    whose = ("attempt__run__topology", "attempt__run__workload", "attempt__run__host")
    return list(not_looked_at(user).select_related(*whose))


def of_attempt(user: Person, attempt: Attempt) -> list[Shown]:
    return _shown(_standing(user).filter(attempt=attempt))


def of_campaign(user: Person, campaign: Campaign) -> list[Shown]:
    """Between its set-ups, and of the last attempt of each run that succeeded."""
    return _shown(_standing(user).filter(campaign=campaign).filter(_of_last()))


def with_offers(campaign: Campaign, found: Sequence[Shown]) -> list[Shown]:
    """With what would tell: as many repeats as its number of that name says. Three queries where there are any."""
    wanted = {at: one for at, row in enumerate(found) if (one := _wanted(row.row))}
    offered = dict(zip(wanted, offers(campaign, list(wanted.values())), strict=True))
    return [replace(one, offer=offered.get(at)) for at, one in enumerate(found)]


def _wanted(row: Finding) -> Wanted | None:
    told = row.numbers.get(finding.NEEDED)
    if row.dismissed_at or not told or not told["value"]:
        return None
    return Wanted(row.runs, int(told["value"]))


def of_lines(
    user: Person, campaigns: Collection[int], workloads: Collection[int], attempts: Collection[int]
) -> list[Shown]:
    """Of these attempts; between set-ups only what is about runs of theirs."""
    rows = _standing(user).filter(campaign__in=campaigns)
    found = rows.filter(Q(attempt__in=attempts) | Q(workload__in=workloads))
    runs = set(Attempt.objects.filter(pk__in=attempts).values_list("run", flat=True))
    return [one for one in _shown(found) if one.run is not None or set(one.row.runs) <= runs]


def _standing(user: Person) -> QuerySet[Finding]:
    rows = Finding.objects.visible_to(user).filter(stands=True)
    return rows.filter(Q(attempt=None) | Q(attempt__outcome=Outcome.SUCCEEDED))


def _of_last() -> Q:
    later = Attempt.objects.filter(
        run=OuterRef("attempt__run"),
        outcome=Outcome.SUCCEEDED,
        number__gt=OuterRef("attempt__number"),
    )
    return Q(attempt=None) | Q(~Exists(later))


def _shown(rows: QuerySet[Finding]) -> list[Shown]:
    """Three queries."""
    found = list(rows.select_related("attempt", "dismissed_by", "campaign").order_by("pk"))
    found.sort(key=lambda row: (RANK.get(row.severity, 9), row.attempt_id is not None))
    return shown(found[:MOST])


def shown(rows: Sequence[Finding]) -> list[Shown]:
    lines = _lines_of(rows)
    return [_one(row, lines) for row in rows]


def _one(row: Finding, lines: Mapping[tuple[int, str], str]) -> Shown:
    attempt = row.attempt
    numbers = tuple(_told(row, one, lines) for one in row.numbers.values())
    return Shown(
        row,
        label_of(row.kind),
        anchor_of(row.kind),
        numbers,
        attempt.run_id if attempt else None,
        attempt.number if attempt else 1,
    )


def _told(row: Finding, one: Mapping[str, Any], lines: Mapping[tuple[int, str], str]) -> Told:
    value, unit = one["value"], one["unit"]
    counts = shown_unit(one["figure"] or one["metric"], unit)
    text = "not known" if value is None else si(value, counts)
    return Told(one["of"], text, _url(row, one, lines))


def _url(row: Finding, one: Mapping[str, Any], lines: Mapping[tuple[int, str], str]) -> str:
    """The line of raw output; the chart of the devices; else its run."""
    attempt = row.attempt
    own = attempt is not None and one["run"] in (0, attempt.run_id)
    run = attempt.run_id if attempt is not None and own else one["run"]
    if not run:
        return ""
    if own and attempt is not None and (line := lines.get((attempt.pk, one["figure"]))):
        return line
    page = reverse("run-detail", args=[run])
    page += f"?attempt={attempt.number}" if own and attempt is not None else ""
    if one["metric"]:
        return f"{page}#devices"
    return f"{page}#measurements" if one["figure"] else page if not own else ""


def _lines_of(rows: Iterable[Finding]) -> dict[tuple[int, str], str]:
    """{(attempt, figure): address of the line that says it}. Two queries."""
    wanted: dict[int, set[str]] = defaultdict(set)
    for row in rows:
        if row.attempt_id:
            wanted[row.attempt_id] |= {one["figure"] for one in row.numbers.values()} - {""}
    names = set().union(*wanted.values())
    if not names:
        return {}
    told = Measurement.objects.filter(
        attempt__in=wanted, name__in=names, labels={}, line__gt=0
    ).values_list("attempt", "name", "line", "output")
    kept = Artifact.objects.filter(attempt__in=wanted).values_list("attempt", "name", "pk")
    artifacts = {(attempt, name): pk for attempt, name, pk in kept}
    return {
        (attempt, name): _line(artifacts[attempt, output], line)
        for attempt, name, line, output in told
        if (attempt, output) in artifacts
    }


def _line(artifact: int, line: int) -> str:
    return f"{reverse('artifact-lines', args=[artifact])}?{urlencode({'line': line})}#L{line}"


def by_kind(found: Iterable[Shown]) -> list[Kind]:
    """In their order; what is between set-ups apart from what is of single runs."""
    kinds: dict[tuple[str, str, bool], list[Shown]] = defaultdict(list)
    for one in found:
        kinds[one.row.kind, one.row.severity, one.run is None].append(one)
    return [
        Kind(kind, some[0].label, severity, some[0].row.get_severity_display(), tuple(some))
        for (kind, severity, _), some in kinds.items()
    ]
