# SPDX-License-Identifier: Apache-2.0
"""Findings of a campaign that is over: those of its runs again, those between its set-ups, changes in their history.

The lines of the campaign are the evidence. Changes are looked for by the figure that pages show first, and stored as
findings of its runs until a person has looked: a confirmed change or drift is one of the run that it begins with;
a run that stands out has one of its own (benchlab.analysis.changes).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

from django.db import InterfaceError, OperationalError
from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from benchlab.analysis.changes import Unusual
from benchlab.analysis.designs import Order
from benchlab.analysis.evidence import Line
from benchlab.analysis.finding import Finding as RunFinding
from benchlab.analysis.finding import Number, Severity
from benchlab.analysis.formats import rate, shown_unit
from benchlab.campaigns.models import Campaign, Run
from benchlab.charts import metric_naming
from benchlab.charts.history import (
    History,
    HistoryChange,
    HistoryDrift,
    HistoryRun,
    read_history,
)
from benchlab.charts.queries import Group, line_labels, read_groups
from benchlab.findings import stored_runs, storing
from benchlab.findings.models import Finding
from benchlab.runs.models import Attempt
from benchlab.runs.states import Outcome
from benchlab.team.guests import Guest
from benchlab.verdicts import builds
from benchlab.workers.lease import Lock, lease

log = logging.getLogger(__name__)

# Worst first: the order of a line against the others is its worst order against any of them.
ORDERS = (Order.UNTOLD, Order.ONE_AFTER_OTHER, Order.ABBA, Order.INTERLEAVED)
# Campaigns per sweep: after an upgrade, an old lab is looked at in small steps.
AT_ONCE = 20


def sweep_campaigns(among: Iterable[int] | None = None) -> None:
    """Look at the campaigns that ended or whose results changed since: all of these in `among`, else AT_ONCE of any."""
    for pk in storing.campaigns_due(AT_ONCE if among is None else None, among):
        with lease(pk, Lock.SET_UPS) as held:
            campaign = Campaign.objects.filter(pk=pk).first() if held else None
            if campaign is not None:
                _find_for_campaign(campaign)


def _find_for_campaign(campaign: Campaign) -> None:
    """Find anew, and record the look even if it fails.

    A fault of BenchLab is logged once and not at each sweep: `manage.py reparse` looks again.
    """
    at, began = storing.result_state(campaign), timezone.now()
    # Do it again here, as a message may have been lost.
    if campaign.source == Campaign.Source.MEASURED:
        storing.find_for_attempts(storing.succeeded_attempts(campaign).values_list("pk", flat=True))
    try:
        find_between_lines(campaign)
        if campaign.source == Campaign.Source.MEASURED:
            update_alerts(campaign)
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("set-ups of campaign %s", campaign.pk)
    storing.record_comparison(campaign, at, began)


def find_between_lines(campaign: Campaign) -> None:
    """Find anew what differs between the lines of a campaign, one workload at a time."""
    by_workload: dict[int, list[Group]] = {}
    for group in _campaign_groups(campaign):
        by_workload.setdefault(group.workload, []).append(group)
    before = campaign.findings.exclude(workload=None).values_list("workload", flat=True)
    ours = campaign.source == Campaign.Source.MEASURED
    spread = builds.lab_of_teams([campaign.team_id]).luck if ours and by_workload else ()
    for workload in dict.fromkeys([*by_workload, *(pk for pk in before if pk)]):
        lines = list(_evidence_lines(by_workload.get(workload, []), spread))
        storing.store_line_findings(campaign, workload, lines)


def _campaign_groups(campaign: Campaign) -> list[Group]:
    """Read all lines of the campaign, for no particular user: whoever sees the campaign will see the findings.

    Runs that were measured degraded belong to no set-up.
    """
    nobody = Guest({"runs.Attempt": Q(run__campaign=campaign)})
    return [group for group in read_groups(nobody, [campaign.pk], names=()) if not group.condition]


def _evidence_lines(groups: Sequence[Group], spread: tuple[float, ...]) -> Iterator[Line]:
    known_builds = builds.read_builds(groups)
    for group, label in zip(groups, line_labels(groups), strict=True):
        repeats = {sample.attempt: sample.repeat for sample in group.samples}
        runs = tuple(stored_runs.read_runs(list(repeats), of_disks=False))
        if runs:
            yield Line(
                label,
                group.workload_name,
                runs,
                tuple(repeats[run.attempt] for run in runs),
                group.topology,
                _worst_order(group, groups, known_builds),
                group.host,
                spread,
            )


def _worst_order(line: Group, groups: Iterable[Group], known_builds: builds.Builds) -> Order:
    orders = {
        builds.design_of(line, other, known_builds, builds.Lab()).order
        for other in groups
        if other != line
    }
    return next((order for order in ORDERS if order in orders), Order.INTERLEAVED)


# Fewer runs of one set-up show nothing (docs/method.md).
LEAST = 10
# Most set-ups of a campaign to look at: those with most runs come first.
MOST = 200
CHANGE, DRIFT, STANDS_OUT = "change", "drift", "stands_out"

# (run, kind, finding)
Alert = tuple[int, str, RunFinding]


def update_alerts(campaign: Campaign) -> None:
    """Store what the newest runs of each set-up of the campaign with a history show, in place of its earlier alerts."""
    for run in _runs_with_history(campaign):
        history = read_history(_team_guest(campaign), run)
        if history.attempt is not None and history.runs:
            rows = _replaced_findings(
                campaign, history.attempt.fingerprint, newest=_is_newest(history, campaign)
            )
            storing.store_history_alerts(rows, list(_alerts(history, campaign)))


def _is_newest(history: History, campaign: Campaign) -> bool:
    return history.runs[-1].campaign == campaign.pk


def _replaced_findings(campaign: Campaign, fingerprint: str, *, newest: bool) -> QuerySet[Finding]:
    """Findings that the new ones replace.

    A run of an earlier campaign that stands out keeps its finding until that is dismissed.
    """
    own = Q(kind=STANDS_OUT, campaign=campaign)
    rows = Finding.objects.not_deleted().filter(
        attempt__fingerprint=fingerprint, campaign__team=campaign.team_id
    )
    return rows.filter(own | Q(kind__in=(CHANGE, DRIFT)) if newest else own)


def _team_guest(campaign: Campaign) -> Guest:
    """Guest who sees what the campaign's team has, and nothing else."""
    return Guest({"runs.Attempt": Q(run__campaign__team=campaign.team_id)})


def _runs_with_history(campaign: Campaign) -> list[Run]:
    """One run of each set-up that the team has measured often enough. Two queries."""
    mine = storing.succeeded_attempts(campaign).filter(degraded=[]).exclude(fingerprint="")
    newest = dict(mine.order_by("pk").values_list("fingerprint", "run"))
    often = (
        Attempt.objects.not_deleted()
        .filter(
            fingerprint__in=list(newest),
            outcome=Outcome.SUCCEEDED,
            run__campaign__team=campaign.team_id,
        )
        .order_by()
        .values("fingerprint")
        .annotate(runs=Count("run", distinct=True))
        .filter(runs__gt=LEAST)
        .order_by("-runs")
        .values_list("fingerprint", flat=True)
    )
    return list(
        Run.objects.filter(pk__in=[newest[fingerprint] for fingerprint in often[:MOST]]).order_by(
            "pk"
        )
    )


def _alerts(history: History, campaign: Campaign) -> Iterator[Alert]:
    for outlier in history.unusual:
        if history.runs[outlier.at].campaign == campaign.pk:
            yield history.runs[outlier.at].run, STANDS_OUT, _outlier_finding(history, outlier)
    if not _is_newest(history, campaign):
        return
    steps = [step for step in history.history_changes if step.change.confirmed]
    if steps:
        yield steps[-1].first.run, CHANGE, _change_finding(history, steps[-1])
    if drift := history.history_drift:
        yield drift.first.run, DRIFT, _drift_finding(history, drift)


def _outlier_finding(history: History, outlier: Unusual) -> RunFinding:
    run = history.runs[outlier.at]
    extreme, side = ("high", "above") if outlier.z > 0 else ("low", "below")
    return RunFinding(
        f"the {_metric_name(history)} is unusually {extreme}, {_amount_text(history, run.value)}: "
        f"{abs(outlier.z):.1f} robust standard deviations {side} the median of the {outlier.past} runs before it",
        Severity.DOUBT,
        {"value": _history_number(history, run.value, run)},
        about=history.metric,
        runs=(run.run,),
    )


def _change_finding(history: History, step: HistoryChange) -> RunFinding:
    before, after = step.change.before, step.change.after
    runs = f"{step.runs_since} run{'s' * (step.runs_since > 1)}"
    return RunFinding(
        f"from this run on the {_metric_name(history)} is {step.change_text}: "
        f"{_amount_text(history, before)} before, {_amount_text(history, after)} since ({runs})",
        Severity.NOTE,
        {
            "before": _history_number(history, before, step.first),
            "after": _history_number(history, after, step.first),
        },
        about=history.metric,
        runs=tuple(run.run for run in history.runs[step.change.at :]),
    )


def _drift_finding(history: History, drift: HistoryDrift) -> RunFinding:
    before, after = drift.drift.before, drift.drift.after
    return RunFinding(
        f"the {_metric_name(history)} drifts, without a single step: {drift.change_text} from this one on, "
        f"from {_amount_text(history, before)} to {_amount_text(history, after)}",
        Severity.NOTE,
        {
            "before": _history_number(history, before, drift.first),
            "after": _history_number(history, after, history.runs[-1]),
        },
        about=history.metric,
        runs=tuple(run.run for run in history.runs[drift.drift.begin :]),
    )


def _metric_name(history: History) -> str:
    name = metric_naming.metric_word(history.metric)
    return name if name.isupper() else name.lower()


def _amount_text(history: History, value: float) -> str:
    return rate(value, shown_unit(history.metric, history.unit))


def _history_number(history: History, value: float, run: HistoryRun) -> Number:
    return Number(
        value,
        history.unit,
        metric_naming.metric_word(history.metric),
        run=run.run,
        figure=history.metric,
    )
