# SPDX-License-Identifier: Apache-2.0
"""Home: what runs and at which step, what needs a person, what the last results say, the hosts' disks, the activity.

?wall=1 is a summary for a screen on a wall, cut to what it holds, and acted upon elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.db.models import BooleanField, Count, Exists, F, Func, Max, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.text import capfirst
from django.views.decorators.http import require_GET

from benchlab.campaigns.models import Campaign, Workload
from benchlab.findings import display
from benchlab.pages.campaigns import attention, latest, work
from benchlab.pages.campaigns.attention import HostShortage, TopBar
from benchlab.pages.hosts import queries
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
MAX_RESULTS = 4
# on a wall screen
MAX_WALL_HOSTS = 4
# lines of the activity
MAX_EVENTS = 6


# (page, text, description)
FIRST_STEPS = (
    ("host-list", "Add a host", "A machine that BenchLab reaches by SSH."),
    (
        "host-list",
        "Mark disks spare",
        "Only those may be wiped. A scratch directory needs none.",
    ),
    ("topology-list", "Choose a topology", "What is built on the disks: raw, a file system, …"),
    ("workload-list", "Choose a workload", "What is run on it: fio, dd, …"),
    (
        "compare-layouts",
        "Compare layouts",
        "Two to four of them, sized to your disks. Nothing is wiped before you agree to the plan.",
    ),
    (
        "campaign-list",
        "Measure a layout on your disks",
        "Read the plan of a campaign, agree to it, and start it.",
    ),
)


@require_GET
def home(request: HttpRequest) -> HttpResponse:
    """Whole, or the part that HX-Target names: what changes by the minute is asked for more often than the rest.

    ?wall=1 is the same for a screen on a wall: larger, without a menu, cut to what it holds.
    """
    target = str(request.htmx.target or "") if request.htmx else ""  # type: ignore[attr-defined]
    template, parts = (WALL, WALL_PARTS) if request.GET.get("wall") == "1" else (PAGE, PARTS)
    if request.htmx and target not in parts:  # type: ignore[attr-defined]
        target = next(iter(parts))
    context: dict[str, Any] = {"part": target}
    for part in [parts[target]] if target else parts.values():
        context |= part(request)
    return render(request, f"{template}#{target}" if target else template, context)


def _now_context(request: HttpRequest) -> dict[str, Any]:
    """Campaigns that are not over: what runs and at which step, what waits for its turn, what needs a person."""
    still_open = list(_own_campaigns(request).filter(_is_open()))
    rows = _with_progress(still_open)

    def rows_in_state(*states: State) -> list[dict[str, Any]]:
        return [row for row in rows if row["progress"].state in states]

    runs, needed = rows_in_state(*attention.RUNNING_STATES), _needed_context(request, rows)
    working = work.work_by_campaign(row["campaign"] for row in runs)
    return {
        "runs": [row | {"work": working[row["campaign"].pk]} for row in runs],
        "waits": rows_in_state(State.QUEUED, State.PAUSED),
        "top_bar": TopBar([row["campaign"].pk for row in runs], needed["needed"]),
        **needed,
    }


def _needed_context(request: HttpRequest, still_open: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Tasks that a person must do or look at, and how many. A layout that asks for a person stands for itself."""
    waiting = attention.find_action_needed(request.user)
    rows = [row | {"plan": waiting.plans.get(row["campaign"].pk)} for row in still_open]
    context = {
        "person": [
            row for row in rows if row["plan"] or row["progress"].state in attention.PERSON_STATES
        ],
        "missing": waiting.missing,
        "manual_steps": waiting.manual_steps,
        "hosts": waiting.hosts,
        "changed": display.unreviewed_with_context(request.user),
    }
    return context | {"needed": sum(map(len, context.values()))}


def _results_context(request: HttpRequest) -> dict[str, Any]:
    over = _own_campaigns(request).filter(~_is_open()).annotate(ended=Max("layouts__ended_at"))
    last = list(over[:MAX_RESULTS])
    results = latest.latest_results(request.user, last)
    rows = _with_progress(last)
    return {
        "latest": [row | {"result": results.get(row["campaign"].pk)} for row in rows],
        "fleet": queries.read_fleet(request.user),
    }


def _rest_context(request: HttpRequest) -> dict[str, Any]:
    context = _results_context(request)
    return context | {
        "steps": [] if _measured_on_disks(request) else _first_steps(request, context["fleet"]),
        "events": activity.page_events(
            request.user, activity.newest_rows(request.user, MAX_EVENTS)
        ),
    }


def _wall_now_context(request: HttpRequest) -> dict[str, Any]:
    """Context of Home, limited to what fits on a screen that nobody scrolls."""
    context = _now_context(request)
    return context | {
        "now": timezone.now(),
        "running": len(context["runs"]),
        "runs": limit_running(context["runs"]),
        "more_runs": max(0, len(context["runs"]) - MAX_CAMPAIGNS),
        "lines": attention_lines(context),
    }


def _wall_rest_context(request: HttpRequest) -> dict[str, Any]:
    context = _results_context(request)
    return context | {"fleet_rows": context["fleet"].rows[:MAX_WALL_HOSTS]}


Part = Callable[[HttpRequest], dict[str, Any]]
PAGE, WALL = "home.html", "wall.html"
# By the element that asks for it; the first one is what a request gets that names none.
PARTS: Mapping[str, Part] = {"home-now": _now_context, "home-rest": _rest_context}
WALL_PARTS: Mapping[str, Part] = {"wall-now": _wall_now_context, "wall-rest": _wall_rest_context}


def _own_campaigns(request: HttpRequest) -> QuerySet[Campaign]:
    return Campaign.objects.for_user(request.user).current()


def _is_open() -> Exists:
    unfinished = Layout.objects.filter(campaign=OuterRef("pk")).exclude(phase=LayoutPhase.DONE)
    return Exists(unfinished)


def _with_progress(rows: Sequence[Campaign]) -> list[dict[str, Any]]:
    progresses = progress.progress_by_campaign(rows)
    return [{"campaign": row, "progress": progresses[row.pk]} for row in rows]


def _measured_on_disks(request: HttpRequest) -> bool:
    """True when a layout of the person's teams was measured on disks: in a directory it is no layout yet."""
    succeeded = Attempt.objects.filter(layout=OuterRef("pk"), outcome=Outcome.SUCCEEDED)
    built = Layout.objects.for_user(request.user).filter(
        ON_DISKS, campaign__source=Campaign.Source.MEASURED
    )
    return built.filter(Exists(succeeded)).exists()


def _first_steps(request: HttpRequest, disks: queries.Fleet) -> list[dict[str, object]]:
    """List the steps from an empty installation to a first layout on one's own disks."""
    user = request.user
    measured = Campaign.objects.for_user(user).filter(source=Campaign.Source.MEASURED)
    # A directory is no layout yet: `up` makes one, and workloads that its first campaign measures there.
    layouts = Topology.objects.for_user(user).exclude(stack__0__kind="directory")
    workloads = Workload.objects.for_user(user).filter(imported=False)
    are_done = (
        bool(disks.rows),
        any(row.host_row.spare_disks for row in disks.rows),
        layouts.exists(),
        workloads.filter(Q(runs=None) | Q(runs__topology__in=layouts)).exists(),
        measured.annotate(compared=Count("layouts__topology", distinct=True))
        .filter(compared__gt=1)
        .exists(),
        False,
    )
    return [
        {"text": text, "description": description, "url": reverse(page), "is_done": is_done}
        for (page, text, description), is_done in zip(FIRST_STEPS, are_done, strict=True)
    ]


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
    page: str
    pk: int | None

    @property
    def url(self) -> str:
        return reverse(self.page, args=[self.pk]) if self.pk else ""


def limit_running(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The first campaigns of at_work's, each with as many lines as there is room for; `more`: those left out."""
    visible = rows[:MAX_CAMPAIGNS]
    most = MAX_WORK_LINES // max(1, len(visible))
    return [dict(row) | row["work"].limited(most) for row in visible]


def attention_lines(needed: Mapping[str, Any]) -> list[AttentionLine]:
    """The first ones of all that Home lists."""
    return list(islice(_every_line(needed), MAX_LINES))


def _every_line(needed: Mapping[str, Any]) -> Iterator[AttentionLine]:
    for layout in needed["manual_steps"]:
        first = layout.needs_person.strip().partition("\n")[0]
        what = f"{layout.topology} on {layout.host}"
        yield AttentionLine(
            BAD, "Needs a person", what, first, "campaign-detail", layout.campaign_id
        )
    for host in needed["hosts"]:
        message = host.trouble_text or host.get_trouble_display()
        if host.offered_key or not host.host_key:
            message = "Its host key is not confirmed."
        yield AttentionLine(BAD, "Host", host.name, message, "host-detail", host.pk)
    for shortage in needed["missing"]:
        message = "; ".join(_shortage_parts(shortage))
        yield AttentionLine(
            BAD, "Disks missing", shortage.name, message, "host-detail", shortage.host
        )
    for row in needed["person"]:
        campaign, plan = row["campaign"], row["plan"]
        css, word = BAD, capfirst(row["progress"].state.label)
        message = campaign.question
        if plan is not None:
            css, word = WARN, "Plan to confirm"
            disks = f"{plan.disks} disk{'' if plan.disks == 1 else 's'} of " if plan.disks else ""
            message = disks + ", ".join(plan.hosts)
        yield AttentionLine(css, word, campaign.name, message, "campaign-detail", campaign.pk)
    for finding in needed["changed"]:
        run = finding.attempt.run if finding.attempt else None
        what = f"{run.topology} on {run.host}" if run else ""
        yield AttentionLine(
            WARN, "History", what, finding.says, "run-detail", run.pk if run else None
        )


def _shortage_parts(shortage: HostShortage) -> Iterator[str]:
    if shortage.missing_disks:
        yield f"{', '.join(disk['name'] for disk in shortage.missing_disks)} gone"
    for lack in shortage.shortages:
        yield f"{lack.topology} lacks {', '.join(f'{n} {role}' for role, n in lack.short.items())}"
