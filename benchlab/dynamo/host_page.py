# SPDX-License-Identifier: Apache-2.0
"""The page of a host that only dynamo reaches: what it reports."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from benchlab.campaigns.models import Campaign
from benchlab.dynamo.models import DynamoLogin
from benchlab.hosts.models import Host

ACCESS = Host.Access.DYNAMO.value


def page(request: HttpRequest, host: Host) -> HttpResponse:
    used = Campaign.objects.visible_to(request.user).filter(runs__host=host).distinct()
    rows = host.reported.select_related("spare_by")
    login = DynamoLogin.objects.filter(host=host).select_related("accepted_by").first()
    context = {"host": host, "campaigns": used, "reported": rows, "login": login}
    return render(request, "dynamo/host.html", context)
