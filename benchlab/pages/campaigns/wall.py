# SPDX-License-Identifier: Apache-2.0
"""Summary for a screen on a wall, cut to what it holds: what runs and what needs a person, acted upon elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils.text import capfirst

from benchlab.findings.models import Finding
from benchlab.hosts.models import Host
from benchlab.pages.campaigns.action_needed import Missing
from benchlab.pages.campaigns.at_work import AtWork
from benchlab.runs.models import Layout

# lines
MOST = 6
MOST_RUNS = 3
# lines of what is built or measured just now, of all campaigns
MOST_AT_WORK = 3
BAD, WARN = "is-bad", "is-warn"


@dataclass(frozen=True, slots=True)
class Line:
    """`css`: the class of the word's badge."""

    css: str
    word: str
    what: str
    says: str
    url: str


def running(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The first campaigns of at_work's, each with as many lines as there is room for; `more`: those left out."""
    shown = rows[:MOST_RUNS]
    return [dict(row) | _cut(row["work"], MOST_AT_WORK // len(shown)) for row in shown]


def _cut(work: AtWork, most: int) -> dict[str, Any]:
    kept = AtWork(work.buildings[:most], work.measurings[: max(0, most - len(work.buildings))])
    return {"work": kept, "more": work.lines - kept.lines}


def lines(needed: Mapping[str, Any]) -> list[Line]:
    """The first ones of all that Home tells (views_home)."""
    every = [
        *map(_asked, needed["asked"]),
        *map(_of_host, needed["hosts"]),
        *map(_missing, needed["missing"]),
        *map(_of_campaign, needed["person"]),
        *map(_changed, needed["changed"]),
    ]
    return every[:MOST]


def _asked(layout: Layout) -> Line:
    first = layout.needs_person.strip().partition("\n")[0]
    what = f"{layout.topology} on {layout.host}"
    return Line(BAD, "Needs a person", what, first, _campaign(layout.campaign_id))


def _of_host(host: Host) -> Line:
    if host.offered_key or not host.host_key:
        says = "Its host key is not confirmed."
    else:
        says = host.trouble_text or host.get_trouble_display()
    return Line(BAD, "Host", host.name, says, reverse("host-detail", args=[host.pk]))


def _missing(one: Missing) -> Line:
    says = "; ".join(_parts_of(one))
    return Line(BAD, "Disks missing", one.name, says, reverse("host-detail", args=[one.host]))


def _parts_of(one: Missing) -> Iterator[str]:
    if one.gone:
        yield f"{', '.join(disk.name for disk in one.gone)} gone"
    for lack in one.lacks:
        yield f"{lack.topology} lacks {', '.join(f'{n} {role}' for role, n in lack.short.items())}"


def _of_campaign(row: Mapping[str, Any]) -> Line:
    campaign, plan = row["campaign"], row["plan"]
    url = _campaign(campaign.pk)
    if plan is None:
        return Line(
            BAD, capfirst(row["progress"].state.label), campaign.name, campaign.question, url
        )
    disks = f"{plan.disks} disk{'' if plan.disks == 1 else 's'} of " if plan.disks else ""
    return Line(WARN, "Plan to confirm", campaign.name, disks + ", ".join(plan.hosts), url)


def _changed(one: Finding) -> Line:
    run = one.attempt.run if one.attempt else None
    what = f"{run.topology} on {run.host}" if run else ""
    url = reverse("run-detail", args=[run.pk]) if run else ""
    return Line(WARN, "History", what, one.says, url)


def _campaign(pk: int) -> str:
    return reverse("campaign-detail", args=[pk])
