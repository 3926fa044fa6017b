"""Findings put beside what they are about. What was dismissed stays dismissed; a fault of ours here loses no result."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Count, Exists, Max, OuterRef, QuerySet, Subquery

from agents.texts.plaintext import visible
from benchlab.analysis import finding
from benchlab.analysis.evidence import Line, Run
from benchlab.campaigns.models import Campaign
from benchlab.findings import stored_runs
from benchlab.findings.models import MOST_ABOUT, Finding, Looked
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.states import LayoutPhase, Outcome

log = logging.getLogger(__name__)

Found = Mapping[str, Sequence[finding.Finding] | None]  # by kind; None: its module failed


def attempts(pks: Iterable[int]) -> None:
    """These have their results: what is to be found of them. Never raises."""
    rows = Attempt.objects.filter(pk__in=list(pks)).order_by("pk")
    known = dict(rows.values_list("pk", "run__campaign"))
    for some in _in_turn(list(known)):
        _find({pk: known[pk] for pk in some})


def _in_turn(pks: Sequence[int]) -> Iterator[Sequence[int]]:
    for begin in range(0, len(pks), stored_runs.AT_ONCE):
        yield pks[begin : begin + stored_runs.AT_ONCE]


def _find(campaigns: Mapping[int, int]) -> None:
    """Of these attempts; {attempt: its campaign}."""
    try:
        with transaction.atomic():  # an import's own would be lost to an error in it
            look_again(set(campaigns.values()))
            runs = list(stored_runs.runs_of(list(campaigns)))
    except Exception:  # the result stands; `manage.py reparse` finds again
        if len(campaigns) > 1:  # one that cannot be read costs the others nothing
            for pk, campaign in campaigns.items():
                _find({pk: campaign})
            return
        log.exception("findings of attempts %s", list(campaigns))
        return
    for run in runs:
        try:
            _keep(
                of_run(run), [run.run], campaign_id=campaigns[run.attempt], attempt_id=run.attempt
            )
        except Exception:
            log.exception("findings of attempt %s", run.attempt)


def of_run(run: Run) -> Found:
    """By every module that looks at one run. Pure."""
    return _each({kind: one.applies for kind, one in finding.of_runs().items()}, run, run.run)


def of_lines(lines: Sequence[Line]) -> Found:
    """By every module that looks at lines beside each other. Pure."""
    looks = {kind: one.compares for kind, one in finding.of_lines().items()}
    return _each(looks, lines, lines[0].workload if lines else "")


def _each(
    looks: Mapping[str, Callable[[Any], list[finding.Finding]]], evidence: Any, what: object
) -> dict[str, list[finding.Finding] | None]:
    found: dict[str, list[finding.Finding] | None] = {}
    for kind, look in looks.items():
        try:
            found[kind] = look(evidence)
        except Exception:  # one that fails keeps no other from being told
            log.exception("finding %s of %s", kind, what)
            found[kind] = None
    return found


def keep_lines(campaign: Campaign, workload_id: int, lines: Sequence[Line]) -> None:
    """Between the lines of one workload. Never raises."""
    try:
        _keep(of_lines(lines), [], campaign_id=campaign.pk, workload_id=workload_id)
    except Exception:
        log.exception("findings of campaign %s, workload %s", campaign.pk, workload_id)


@transaction.atomic
def _keep(found: Found, runs: Sequence[int], **of: int) -> None:
    """In place of what was found before. `runs`: those of one that names none."""
    rows = Finding.objects.filter(**of).exclude(kind__in=list(finding.OF_HISTORY))
    known = {(row.kind, row.about): row for row in rows.select_for_update()}
    there = _each_once(found)
    for key, one in there.items():
        _say(known.get(key) or Finding(kind=key[0], about=key[1], **of), one, runs)
    failed = {kind for kind, told in found.items() if told is None}
    for key, row in known.items():
        if key not in there and key[0] not in failed:
            _gone(row)


@transaction.atomic
def keep_history(
    rows: QuerySet[Finding], alerts: Sequence[tuple[int, str, finding.Finding]]
) -> None:
    """`alerts`: (run, kind, what is told) in place of those `rows`."""
    before = rows.select_related("attempt").select_for_update(of=("self",))
    known = {(row.attempt.run_id, row.kind): row for row in before if row.attempt}
    wanted = {(run, kind): one for run, kind, one in alerts}
    last = Attempt.objects.filter(run__in=[run for run, _ in wanted], outcome=Outcome.SUCCEEDED)
    attempts_of = {one.run_id: one for one in last.order_by("number").select_related("run")}
    for (run, kind), one in wanted.items():
        attempt = attempts_of[run]
        of_new = {"campaign_id": attempt.run.campaign_id, "attempt": attempt, "about": one.about}
        _say(known.get((run, kind)) or Finding(kind=kind, **of_new), one, [run])
    for key, row in known.items():
        if key not in wanted:
            _gone(row)


def _each_once(found: Found) -> dict[tuple[str, str], finding.Finding]:
    """By kind and about. Two that nobody could tell apart are a fault of their module."""
    there: dict[tuple[str, str], finding.Finding] = {}
    for kind, told in found.items():
        for one in told or ():
            key = kind, visible(one.about)[:MOST_ABOUT]
            if there.setdefault(key, one) is not one:
                log.error("finding %s tells two of %r", *key)
    return there


def _gone(row: Finding) -> None:
    """It is found no longer."""
    if row.dismissed_at is None:
        row.delete()
    elif row.stands:
        row.stands = False
        row.save(update_fields=["stands"])


def _say(row: Finding, one: finding.Finding, runs: Sequence[int]) -> None:
    said: dict[str, Any] = {
        "says": visible(one.says),
        "severity": one.severity.value,
        "numbers": {name: _number(number) for name, number in one.numbers.items()},
        "runs": list(dict.fromkeys(one.runs or runs)),
        "stands": True,
    }
    if row.pk and all(getattr(row, name) == value for name, value in said.items()):
        return
    for name, value in said.items():
        setattr(row, name, value)
    row.save()


def _number(one: finding.Number) -> dict[str, Any]:
    """JSON has no NaN and no infinity."""
    told = dataclasses.asdict(one)
    told["value"] = float(one.value) if math.isfinite(one.value) else None
    return {
        name: visible(value) if isinstance(value, str) else value for name, value in told.items()
    }


def due(most: int | None, among: Iterable[int] | None = None) -> list[int]:
    """Campaigns that are over and whose lines nobody looked at since their last result came, the newest first."""
    of = {"campaign": OuterRef("pk")}
    got = Attempt.objects.filter(run__campaign=OuterRef("pk"), outcome=Outcome.SUCCEEDED)
    going = Layout.objects.filter(**of).exclude(phase=LayoutPhase.DONE)
    looked_at = Looked.objects.filter(**of)
    before = Looked.objects.filter(campaign=OuterRef("run__campaign")).values("at")
    since = got.filter(ended_at__gt=Subquery(before))
    rows = Campaign.objects.filter(~Exists(looked_at) | Exists(since), ~Exists(going), Exists(got))
    rows = rows if among is None else rows.filter(pk__in=list(among))
    return list(rows.order_by("-pk").values_list("pk", flat=True)[:most])


def results(campaign: Campaign) -> tuple[object, ...]:
    """Changes when a result comes."""
    return tuple(succeeded(campaign).aggregate(Max("ended_at"), Count("pk")).values())


def succeeded(campaign: Campaign) -> QuerySet[Attempt]:
    return Attempt.objects.filter(run__campaign=campaign, outcome=Outcome.SUCCEEDED)


def looked(campaign: Campaign, at: tuple[object, ...], began: datetime) -> None:
    """Its lines were looked at from then on, when its results were `at`."""
    if results(campaign) == at:
        Looked.objects.update_or_create(campaign=campaign, defaults={"at": began})


def look_again(campaigns: Iterable[int]) -> None:
    """As if a result had come."""
    Looked.objects.filter(campaign__in=list(campaigns)).delete()
