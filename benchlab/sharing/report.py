"""A campaign as one text to print: question, set-up, plan in words, charts, tables, conditions, hashes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest

from benchlab.campaigns.models import Campaign, Workload
from benchlab.charts.cards import campaign_cards, with_differences
from benchlab.charts.conditions import claims, differences
from benchlab.charts.queries import groups
from benchlab.hosts.models import Device, FactSnapshot, Host
from benchlab.runs import progress
from benchlab.runs.models import Artifact, Layout, StepLog
from benchlab.runs.states import Outcome
from benchlab.sharing import report_texts
from benchlab.topologies import picture
from benchlab.topologies.picture import Box, Growth

MOST_ARTIFACTS = 2000  # hashes on paper; beyond that nobody compares them by eye


@dataclass(frozen=True, slots=True)
class Machine:
    """A host as it was when the campaign last measured on it."""

    host: Host
    system: str
    kernel: str
    cpu: str
    memory: int | None  # bytes
    disks: tuple[Device, ...]  # those that its layouts used


@dataclass(frozen=True, slots=True)
class Built:
    """A topology: its layers, and what was done to build it, in words."""

    name: str
    boxes: list[Box]
    growths: list[Growth]
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Load:
    workload: Workload
    options: tuple[tuple[str, str], ...]
    sweep: tuple[tuple[str, str], ...]


def context(campaign: Campaign) -> dict[str, Any]:
    """All but its cards, whose addresses are the reader's own."""
    layouts = list(
        campaign.layouts.select_related(
            "host", "topology", "facts_ready", "facts_planned"
        ).order_by("position", "pk")
    )
    artifacts = _artifacts(campaign)
    return {
        "campaign": campaign,
        "progress": progress.of_one(campaign),
        "texts": report_texts.of(campaign),
        "machines": _machines(campaign, layouts),
        "built": _built(layouts),
        "loads": _loads(campaign),
        "artifacts": list(artifacts[:MOST_ARTIFACTS]),
        "artifacts_left": max(0, artifacts.count() - MOST_ARTIFACTS),
    }


def for_member(request: HttpRequest, campaign: Campaign) -> dict[str, Any]:
    """With its cards and lines, as who is logged in sees them. ?metric= and ?moment= as on the campaign's page."""
    lines = groups(request.user, [campaign.pk])
    unequal = differences(request.user, lines)
    cards = campaign_cards(request.user, campaign.pk, request.GET, lines)
    shown = with_differences(cards, unequal)
    return {**context(campaign), "cards": shown, "campaign_lines": lines}


def _machines(campaign: Campaign, layouts: Iterable[Layout]) -> list[Machine]:
    hosts = Host.objects.filter(runs__campaign=campaign).distinct().order_by("pk")
    newest: dict[int, FactSnapshot] = {}
    used: dict[int, set[str]] = {}
    for layout in layouts:
        if facts := layout.facts_ready or layout.facts_planned:
            newest[layout.host_id] = facts
        used.setdefault(layout.host_id, set()).update(
            identity for identity, _ in claims(layout.plan)
        )
    disks: dict[int, list[Device]] = {}
    for disk in Device.objects.filter(host__in=used).order_by("host", "name"):
        if disk.identity in used[disk.host_id]:
            disks.setdefault(disk.host_id, []).append(disk)
    return [_machine(host, newest.get(host.pk), disks.get(host.pk, [])) for host in hosts]


def _machine(host: Host, snapshot: FactSnapshot | None, disks: Iterable[Device]) -> Machine:
    facts: Mapping[str, Any] = snapshot.facts if snapshot else {}
    cpus = f"{facts.get('cpus')} × {facts.get('cpu_model', '')}" if facts.get("cpus") else ""
    return Machine(
        host=host,
        system=str(facts.get("os_name") or ""),
        kernel=str(facts.get("kernel") or ""),
        cpu=cpus,
        memory=facts.get("memory") or None,
        disks=tuple(disks),
    )


def _built(layouts: Iterable[Layout]) -> list[Built]:
    """One for each topology and copy of its stack; the steps are those of its first layout that was built."""
    found: dict[tuple[int, str], Built] = {}
    said = _said(layouts)
    for layout in layouts:
        key = (layout.topology_id, repr(layout.stack))
        if key in found and (found[key].steps or not said.get(layout.pk)):
            continue
        found[key] = Built(
            layout.topology.name,
            picture.boxes(layout.stack),
            picture.growths(layout.stack, layout.stages),
            said.get(layout.pk, ()),
        )
    return list(found.values())


def _said(layouts: Iterable[Layout]) -> dict[int, tuple[str, ...]]:
    """Layout -> what each command that changed something was for, in order."""
    rows = StepLog.objects.filter(layout__in=[one.pk for one in layouts], kind="apply", exit_code=0)
    found: dict[int, dict[str, None]] = {}
    for layout, says in rows.exclude(says="").order_by("pk").values_list("layout", "says"):
        found.setdefault(layout, {})[says] = None
    return {layout: tuple(says) for layout, says in found.items()}


def _loads(campaign: Campaign) -> list[Load]:
    rows = Workload.objects.filter(runs__campaign=campaign).distinct().order_by("name")
    return [
        Load(
            row,
            tuple((key, str(value)) for key, value in sorted(row.options.items())),
            tuple((key, ", ".join(map(str, values))) for key, values in sorted(row.sweep.items())),
        )
        for row in rows
    ]


def _artifacts(campaign: Campaign) -> QuerySet[Artifact]:
    """Of the attempts that the numbers come from."""
    rows = Artifact.objects.filter(
        attempt__run__campaign=campaign, attempt__outcome=Outcome.SUCCEEDED
    )
    return (
        rows.defer("content").select_related("attempt").order_by("attempt__run", "attempt", "name")
    )
