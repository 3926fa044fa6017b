"""Home: what runs, what waits, what needs a person; and on a new installation, what to do next."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from benchlab.campaigns.models import Campaign, Workload
from benchlab.findings import shown
from benchlab.hosts.models import Device, Host
from benchlab.runs import progress
from benchlab.runs.models import Layout
from benchlab.runs.progress import State
from benchlab.runs.states import LayoutPhase
from benchlab.topologies.models import Topology

LATEST = 8


@dataclass(frozen=True, slots=True)
class Step:
    text: str
    says: str
    url: str
    done: bool


@require_GET
def home(request: HttpRequest) -> HttpResponse:
    unfinished = Layout.objects.filter(campaign=OuterRef("pk")).exclude(phase=LayoutPhase.DONE)
    mine = Campaign.objects.for_user(request.user).annotate(is_open=Exists(unfinished))
    still_open = list(mine.filter(is_open=True))
    latest = list(mine.filter(is_open=False)[:LATEST])
    found = progress.of([*still_open, *latest])

    def now(*states: State) -> list[dict[str, object]]:
        chosen = [row for row in still_open if found[row.pk].state in states]
        return [{"campaign": row, "progress": found[row.pk]} for row in chosen]

    context = {
        "person": now(State.STUCK, State.ASKS, State.DRAFT),
        "runs": now(State.RUNNING, State.CANCELLING),
        "waits": now(State.QUEUED, State.PAUSED),
        "latest": [{"campaign": row, "progress": found[row.pk]} for row in latest],
        "asked": _asked(request),
        "hosts": _troubled_hosts(request),
        "changed": shown.to_look_at(request.user),
        "steps": [] if found else _steps(request),
    }
    part = "#home-now" if request.htmx else ""  # type: ignore[attr-defined]
    return render(request, "home.html" + part, context)


def _asked(request: HttpRequest) -> list[Layout]:
    """Layouts that wait for something only a person can do."""
    mine = Layout.objects.for_user(request.user).exclude(needs_person="")
    return list(mine.select_related("host", "topology", "campaign"))


def _troubled_hosts(request: HttpRequest) -> list[Host]:
    return list(
        Host.objects.for_user(request.user).filter(
            ~Q(trouble="") | Q(host_key="") | ~Q(offered_key="")
        )
    )


def _steps(request: HttpRequest) -> list[Step]:
    """From nothing to a first campaign."""
    user = request.user
    return [
        Step(
            "Add a host",
            "A machine that BenchLab reaches by SSH.",
            reverse("host-list"),
            Host.objects.for_user(user).exists(),
        ),
        Step(
            "Mark disks spare",
            "Only those may be wiped. A scratch directory needs none.",
            reverse("host-list"),
            Device.objects.for_user(user).filter(spare=True).exists(),
        ),
        Step(
            "Choose a topology",
            "What is built on the disks: raw, a file system, …",
            reverse("topology-list"),
            Topology.objects.for_user(user).exists(),
        ),
        Step(
            "Choose a workload",
            "What is run on it: fio, dd, …",
            reverse("workload-list"),
            Workload.objects.for_user(user).exists(),
        ),
        Step("Make a campaign", "Ask a question.", reverse("campaign-new"), False),
    ]
