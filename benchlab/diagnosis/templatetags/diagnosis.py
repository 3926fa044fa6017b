# SPDX-License-Identifier: Apache-2.0
"""{% load diagnosis %}: what an answer's card needs beside the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django import template

from benchlab.campaigns.models import Run
from benchlab.diagnosis.answer_json import AnswerJson, DiagnosisJson
from benchlab.diagnosis.model import Verdict
from benchlab.diagnosis.models import CampaignAnswer
from benchlab.hosts.models import Host

register = template.Library()


@register.filter
def as_json(value: Any) -> str:
    """The value as JSON, for a hidden field; the template escapes it."""
    return json.dumps(value)


@register.simple_tag(takes_context=True)
def can_measure(context: Mapping[str, Any], answer: AnswerJson) -> bool:
    """True if a next step of the answer can become a campaign: the person may make one, and a host is reached."""
    rows = (*answer["shown"], *answer["folded"])
    if not any(step["workload"] for row in rows for step in row["next_steps"]):
        return False
    user = context["request"].user
    if not user.is_authenticated or not context["may"].operator:
        return False
    hosts = Host.objects.for_user(user).current()
    return hosts.exclude(access=Host.Access.DESCRIBED).exists()


@register.simple_tag
def causes_of_run(run: Run) -> list[DiagnosisJson]:
    """The doubts and limits that this run shows, by its campaign's stored diagnosis. One query.

    Their figures may be those of another run with the same cause, so a page names the causes alone.
    """
    row = CampaignAnswer.objects.filter(campaign=run.campaign_id).first()
    rows = [*row.answer["shown"], *row.answer["folded"]] if row else []
    return [one for one in rows if run.pk in one["runs"] and one["verdict"] != Verdict.FINE]
