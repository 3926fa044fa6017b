# SPDX-License-Identifier: Apache-2.0
"""Changes in a set-up's history during a campaign: stored as findings of its runs until a person has looked.

They are looked for once the campaign is over, by the figure that pages show first. A confirmed change is a finding of
the run that it begins with; a run that stands out has a finding of its own (benchlab.analysis.changes).
"""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Count, Q, QuerySet

from benchlab.analysis.changes import Unusual
from benchlab.analysis.finding import Finding as RunFinding
from benchlab.analysis.finding import Number, Severity
from benchlab.analysis.formats import rate, share, shown_unit
from benchlab.campaigns.models import Campaign, Run
from benchlab.charts import metric_naming
from benchlab.charts.history import History, HistoryChange, HistoryRun, read_history
from benchlab.findings import storing
from benchlab.findings.models import Finding
from benchlab.runs.models import Attempt
from benchlab.runs.states import Outcome
from benchlab.team.guests import Guest

# Fewer runs of one set-up show nothing (docs/method.md).
LEAST = 10
# Most set-ups of a campaign to look at: those with most runs come first.
MOST = 200
CHANGE, STANDS_OUT = "change", "stands_out"

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
    return rows.filter(own | Q(kind=CHANGE) if newest else own)


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
    steps = [step for step in history.history_changes if step.change.confirmed]
    if steps and _is_newest(history, campaign):
        yield steps[-1].first.run, CHANGE, _change_finding(history, steps[-1])


def _outlier_finding(history: History, outlier: Unusual) -> RunFinding:
    run = history.runs[outlier.at]
    return RunFinding(
        f"the {_metric_name(history)} of {_amount_text(history, run.value)} stands out of the "
        f"{outlier.past} runs before it, by {outlier.z:.1f} robust standard deviations",
        Severity.DOUBT,
        {"value": _history_number(history, run.value, run)},
        about=history.metric,
        runs=(run.run,),
    )


def _change_finding(history: History, step: HistoryChange) -> RunFinding:
    before, after = step.change.before, step.change.after
    return RunFinding(
        f"from this run on the {_metric_name(history)} is {share(abs(step.change.ratio - 1))} {step.direction}: "
        f"{_amount_text(history, before)} before, {_amount_text(history, after)} in the {step.runs_since} runs since",
        Severity.NOTE,
        {
            "before": _history_number(history, before, step.first),
            "after": _history_number(history, after, step.first),
        },
        about=history.metric,
        runs=tuple(run.run for run in history.runs[step.change.at :]),
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
