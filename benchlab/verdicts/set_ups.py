# SPDX-License-Identifier: Apache-2.0
"""Findings of a campaign that is over: those of its runs again, and those that compare its set-ups.

The lines of the campaign are the evidence.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

from django.db import InterfaceError, OperationalError
from django.db.models import Q
from django.utils import timezone

from benchlab.analysis.designs import Order
from benchlab.analysis.evidence import Line
from benchlab.campaigns.models import Campaign
from benchlab.charts.queries import Group, line_labels, read_groups
from benchlab.findings import stored_runs, storing
from benchlab.team.guests import Guest
from benchlab.verdicts import builds, history_alerts
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
            history_alerts.update_alerts(campaign)
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
    spread = builds.rebuilt_ratios([campaign.team_id]) if ours and by_workload else ()
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
        builds.design_of(line, other, known_builds, ()).order for other in groups if other != line
    }
    return next((order for order in ORDERS if order in orders), Order.INTERLEAVED)
