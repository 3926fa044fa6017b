# SPDX-License-Identifier: Apache-2.0
"""{% load findings %}{% findings_of_run attempt %}: findings, above what they are about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from django import template

from benchlab.campaigns.models import Campaign
from benchlab.findings import display
from benchlab.findings.display import DisplayedFinding, OmittedCounts, Person
from benchlab.runs.models import Attempt

register = template.Library()


class Sample(Protocol):
    @property
    def attempt(self) -> int: ...


class Line(Protocol):
    """The part of charts.queries.Group that this module uses."""

    @property
    def campaign(self) -> int: ...
    @property
    def workload(self) -> int: ...
    @property
    def samples(self) -> Sequence[Sample]: ...


@register.inclusion_tag("findings/_findings.html", takes_context=True)
def findings_of_run(context: Mapping[str, Any], attempt: Attempt) -> dict[str, Any]:
    if not attempt.outcome:
        return {}
    return _context(context, display.attempt_findings(_person(context), attempt), "run")


@register.inclusion_tag("findings/_findings.html", takes_context=True)
def findings_of_campaign(context: Mapping[str, Any], campaign: Campaign) -> dict[str, Any]:
    findings = display.campaign_findings(_person(context), campaign)
    if may_add(context, campaign):
        findings = display.with_offers(campaign, findings)
    return _context(context, findings, "campaign")


def may_add(context: Mapping[str, Any], campaign: Campaign) -> bool:
    """True when whoever sees the page may add repeats to it."""
    if context.get("link") or campaign.source:
        return False
    return campaign.team_id in context["may"].operator


@register.inclusion_tag("findings/_findings.html", takes_context=True)
def findings_compared(context: Mapping[str, Any], lines: Iterable[Line]) -> dict[str, Any]:
    """Show the findings on the compared lines."""
    some = list(lines)
    findings = display.compared_findings(
        _person(context),
        {line.campaign for line in some},
        {line.workload for line in some},
        [sample.attempt for line in some for sample in line.samples],
    )
    return _context(context, findings, "compare")


def _person(context: Mapping[str, Any]) -> Person:
    """The person who sees the page; on a share link its guest, who may see its subject."""
    link, request = context.get("link"), context["request"]
    person: Person = link.guest if link else request.user
    return person


def _context(
    context: Mapping[str, Any], findings: Sequence[DisplayedFinding], on: str
) -> dict[str, Any]:
    guest = bool(context.get("link"))
    if guest:
        findings = [context["link"].redaction.redact(displayed) for displayed in findings]
    counted = [displayed for displayed in findings if displayed.row.dismissed_at is None]
    dismissed = [displayed for displayed in findings if displayed.row.dismissed_at is not None]
    left_out: OmittedCounts | None = context.get("left_out")
    if left_out is not None:
        left_out.findings, dismissed = len(dismissed), []
    return {
        "kinds": display.group_by_kind(counted),
        "dismissed": dismissed,
        "report": left_out is not None,
        "several": on != "run",
        "on": on,
        "guest": guest,
        "operator": () if guest else context["may"].operator,
        "csrf_token": context.get("csrf_token"),
    }
