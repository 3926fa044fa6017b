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
from benchlab.pages.campaigns.action_needed import HostShortage
from benchlab.pages.campaigns.at_work import CampaignWork
from benchlab.runs.models import Layout

# lines
MAX_LINES = 6
MAX_CAMPAIGNS = 3
# lines of what is built or measured just now, of all campaigns
MAX_WORK_LINES = 3
BAD, WARN = "is-bad", "is-warn"


@dataclass(frozen=True, slots=True)
class AttentionLine:
    """`css`: the class of the word's badge."""

    css: str
    word: str
    what: str
    message: str
    url: str


def limit_running(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The first campaigns of at_work's, each with as many lines as there is room for; `more`: those left out."""
    visible = rows[:MAX_CAMPAIGNS]
    return [dict(row) | _limit_work(row["work"], MAX_WORK_LINES // len(visible)) for row in visible]


def _limit_work(work: CampaignWork, most: int) -> dict[str, Any]:
    limited = CampaignWork(
        work.buildings[:most], work.measurings[: max(0, most - len(work.buildings))]
    )
    return {"work": limited, "more": work.line_count - limited.line_count}


def attention_lines(needed: Mapping[str, Any]) -> list[AttentionLine]:
    """The first ones of all that Home tells (views_home)."""
    every = [
        *map(_manual_step_line, needed["manual_steps"]),
        *map(_host_line, needed["hosts"]),
        *map(_shortage_line, needed["missing"]),
        *map(_campaign_line, needed["person"]),
        *map(_finding_line, needed["changed"]),
    ]
    return every[:MAX_LINES]


def _manual_step_line(layout: Layout) -> AttentionLine:
    first = layout.needs_person.strip().partition("\n")[0]
    what = f"{layout.topology} on {layout.host}"
    return AttentionLine(BAD, "Needs a person", what, first, _campaign_address(layout.campaign_id))


def _host_line(host: Host) -> AttentionLine:
    if host.offered_key or not host.host_key:
        message = "Its host key is not confirmed."
    else:
        message = host.trouble_text or host.get_trouble_display()
    return AttentionLine(BAD, "Host", host.name, message, reverse("host-detail", args=[host.pk]))


def _shortage_line(shortage: HostShortage) -> AttentionLine:
    message = "; ".join(_shortage_parts(shortage))
    return AttentionLine(
        BAD, "Disks missing", shortage.name, message, reverse("host-detail", args=[shortage.host])
    )


def _shortage_parts(shortage: HostShortage) -> Iterator[str]:
    if shortage.missing_disks:
        yield f"{', '.join(disk.name for disk in shortage.missing_disks)} gone"
    for lack in shortage.shortages:
        yield f"{lack.topology} lacks {', '.join(f'{n} {role}' for role, n in lack.short.items())}"


def _campaign_line(row: Mapping[str, Any]) -> AttentionLine:
    campaign, plan = row["campaign"], row["plan"]
    url = _campaign_address(campaign.pk)
    if plan is None:
        return AttentionLine(
            BAD, capfirst(row["progress"].state.label), campaign.name, campaign.question, url
        )
    disks = f"{plan.disks} disk{'' if plan.disks == 1 else 's'} of " if plan.disks else ""
    return AttentionLine(WARN, "Plan to confirm", campaign.name, disks + ", ".join(plan.hosts), url)


def _finding_line(finding: Finding) -> AttentionLine:
    run = finding.attempt.run if finding.attempt else None
    what = f"{run.topology} on {run.host}" if run else ""
    url = reverse("run-detail", args=[run.pk]) if run else ""
    return AttentionLine(WARN, "History", what, finding.says, url)


def _campaign_address(pk: int) -> str:
    return reverse("campaign-detail", args=[pk])
