"""Home: what runs and at which step, what needs a person, what the last results say, the hosts' disks, the activity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import BooleanField, Exists, F, Func, Max, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from benchlab.campaigns.models import Campaign, Workload
from benchlab.findings import display
from benchlab.hosts.models import Host
from benchlab.pages.campaigns import at_work, latest
from benchlab.pages.hosts import fleet
from benchlab.runs import progress
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.progress import State
from benchlab.runs.states import LayoutPhase, Outcome
from benchlab.sharing import activity
from benchlab.topologies.models import Topology

# Whether a plan claims a disk, however deep: it keeps its claims with its layers.
ON_DISKS = Func(
    F("plan"),
    template="jsonb_path_exists(%(expressions)s, '$.**.identity')",
    output_field=BooleanField(),
)
LATEST = 4
DONE_LATELY = 6  # lines of the activity


@dataclass(frozen=True, slots=True)
class Step:
    text: str
    says: str
    url: str
    done: bool


@require_GET
def home(request: HttpRequest) -> HttpResponse:
    """Whole, or the part that HX-Target names: what changes by the minute is asked for more often than the rest."""
    target = str(request.htmx.target or NOW) if request.htmx else ""  # type: ignore[attr-defined]
    parts = {target: PARTS[target]} if target in PARTS else PARTS
    context: dict[str, Any] = {}
    for part in parts.values():
        context |= part(request)
    return render(request, f"home.html#{target}" if target in PARTS else "home.html", context)


def _now(request: HttpRequest) -> dict[str, Any]:
    still_open = list(_mine(request).filter(_is_open()))
    found = progress.of(still_open)

    def now(*states: State) -> list[dict[str, Any]]:
        return _with_progress((row for row in still_open if found[row.pk].state in states), found)

    runs = now(State.RUNNING, State.CANCELLING)
    working = at_work.of(row["campaign"] for row in runs)
    return {
        "person": now(State.STUCK, State.ASKS, State.DRAFT),
        "runs": [row | {"work": working[row["campaign"].pk]} for row in runs],
        "waits": now(State.QUEUED, State.PAUSED),
        "asked": _asked(request),
        "hosts": _troubled_hosts(request),
        "changed": display.to_look_at(request.user),
    }


def _rest(request: HttpRequest) -> dict[str, Any]:
    over = _mine(request).filter(~_is_open()).annotate(ended=Max("layouts__ended_at"))
    last = list(over[:LATEST])
    results = latest.of(request.user, last)
    rows = _with_progress(last, progress.of(last))
    disks = fleet.of(request.user)
    return {
        "latest": [row | {"result": results.get(row["campaign"].pk)} for row in rows],
        "fleet": disks,
        "steps": [] if _measured_on_disks(request) else _steps(request, disks),
        "events": activity.events(request.user, activity.rows(request.user, DONE_LATELY)),
    }


NOW = "home-now"
PARTS: Mapping[str, Callable[[HttpRequest], dict[str, Any]]] = {NOW: _now, "home-rest": _rest}


def _mine(request: HttpRequest) -> QuerySet[Campaign]:
    return Campaign.objects.for_user(request.user).current()


def _is_open() -> Exists:
    unfinished = Layout.objects.filter(campaign=OuterRef("pk")).exclude(phase=LayoutPhase.DONE)
    return Exists(unfinished)


def _with_progress(
    rows: Iterable[Campaign], found: Mapping[int, progress.Progress]
) -> list[dict[str, Any]]:
    return [{"campaign": row, "progress": found[row.pk]} for row in rows]


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


def _measured_on_disks(request: HttpRequest) -> bool:
    """Whether a layout of the person's teams was measured on disks: in a directory it is no layout yet."""
    succeeded = Attempt.objects.filter(layout=OuterRef("pk"), outcome=Outcome.SUCCEEDED)
    built = Layout.objects.for_user(request.user).filter(
        ON_DISKS, campaign__source=Campaign.Source.MEASURED
    )
    return built.filter(Exists(succeeded)).exists()


def _steps(request: HttpRequest, disks: fleet.Fleet) -> list[Step]:
    """From nothing to a first layout on one's own disks."""
    user = request.user
    return [
        Step(
            "Add a host",
            "A machine that BenchLab reaches by SSH.",
            reverse("host-list"),
            bool(disks.rows),
        ),
        Step(
            "Mark disks spare",
            "Only those may be wiped. A scratch directory needs none.",
            reverse("host-list"),
            any(row.shown.spare_disks for row in disks.rows),
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
        Step(
            "Compare layouts",
            "Two to four of them, sized to your disks. Nothing is wiped before you agree to the plan.",
            reverse("compare-layouts"),
            Campaign.objects.for_user(user).filter(source=Campaign.Source.MEASURED).exists(),
        ),
        Step(
            "Measure a layout on your disks",
            "Read the plan of a campaign, agree to it, and start it.",
            reverse("campaign-list"),
            False,
        ),
    ]
