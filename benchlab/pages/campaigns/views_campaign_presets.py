# SPDX-License-Identifier: Apache-2.0
"""A whole campaign's preset: makes what of it the team has not yet, and fills the wizard with it."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from benchlab.audit import request_notes
from benchlab.campaigns.campaign_presets import PRESETS
from benchlab.campaigns.models import Workload
from benchlab.campaigns.presets import PRESETS as WORKLOADS
from benchlab.campaigns.services import create_workload
from benchlab.pages.campaigns.views import add_message
from benchlab.team.services import owning_team
from benchlab.topologies.models import Topology
from benchlab.topologies.presets import PRESETS as TOPOLOGIES


@require_POST
def campaign_preset(request: HttpRequest) -> HttpResponse:
    """`preset` is its slug. Nothing runs before the wizard's own button, and then the plan's."""
    preset = PRESETS.get(request.POST.get("preset", ""))
    if preset is None:
        add_message(request, "There is no such preset.", error=True)
        return redirect("campaign-new")
    team = owning_team(request.user)
    request_notes.note_subject(request, team.pk, f"preset {preset.name}")
    parameters: list[tuple[str, str]] = [("name", preset.name), ("question", preset.question)]
    parameters += [("repeats", str(preset.repeats)), ("order", preset.order)]
    for slug in preset.topologies:
        topology = TOPOLOGIES[slug]
        defaults = {"stack": topology.stack, "stages": topology.stages}
        row, _ = Topology.objects.get_or_create(team=team, name=topology.name, defaults=defaults)
        row.offer()
        parameters.append(("topologies", str(row.pk)))
    for slug in preset.workloads:
        load = WORKLOADS[slug]
        workload = Workload.objects.filter(team=team, name=load.name, imported=False).first()
        workload = workload or create_workload(
            team=team,
            user=request.user,
            name=load.name,
            tool=load.tool,
            options=load.options,
            sweep=load.sweep,
        )
        workload.offer()
        parameters.append(("workloads", str(workload.pk)))
    return redirect(f"{reverse('campaign-new')}?{urlencode(parameters)}")
