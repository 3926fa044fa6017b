# SPDX-License-Identifier: Apache-2.0
"""A campaign or a saved comparison as one text to print: question, set-up, plan in words, charts, tables, conditions,
commands, hashes; and the team's own texts at its places. Callers have checked access to the subject.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest, QueryDict
from django.urls import reverse

from agents import quote
from benchlab.campaigns.models import Campaign, Run, Workload
from benchlab.charts import request_params
from benchlab.charts.cards import Card, build_cards, campaign_cards, with_differences
from benchlab.charts.conditions import line_differences
from benchlab.charts.device_stacks import iterate_claims
from benchlab.charts.queries import Group, read_groups
from benchlab.findings.display import OmittedCounts
from benchlab.hosts.models import Device, FactSnapshot, Host
from benchlab.runs import progress
from benchlab.runs.models import Artifact, Attempt, Layout, StepLog
from benchlab.runs.states import Outcome
from benchlab.sharing.models import SavedView, WrittenText
from benchlab.team.models import OwnedQuerySet
from benchlab.topologies import stack_boxes
from benchlab.topologies.stack_boxes import Box, Growth
from benchlab.verdicts import headlines
from benchlab.web.texts import clean_text

# campaigns whose raw output has an address in a sentence
MOST_LISTED = 20
# hashes on paper; beyond that nobody compares them by eye
MOST_ARTIFACTS = 2000


@dataclass(frozen=True, slots=True)
class Subject:
    """Subject of a report, and the report's URLs for its team."""

    row: Campaign | SavedView

    @property
    def kind(self) -> str:
        """First word of the report's URL names."""
        return "view" if isinstance(self.row, SavedView) else "campaign"

    def report_url(self, part: str = "") -> str:
        """Return the URL of the page, or of its part: "-file" (one HTML file), "-made" (the workers' files), "-raw"."""
        return reverse(f"{self.kind}-report{part}", args=[self.row.pk])

    @property
    def page_url(self) -> str:
        return self.report_url()

    @property
    def file_url(self) -> str:
        return self.report_url("-file")

    @property
    def jobs_url(self) -> str:
        return self.report_url("-made")

    @property
    def raw_url(self) -> str:
        """URL of the raw output behind the report, as an archive."""
        return self.report_url("-raw")

    @property
    def home_url(self) -> str:
        """URL of the report's subject."""
        if isinstance(self.row, SavedView):
            return f"{reverse('compare')}?{self.row.query}"
        return reverse("campaign-detail", args=[self.row.pk])

    @property
    def title(self) -> str:
        return f"{'comparison' if self.kind == 'view' else 'campaign'} {self.row.pk}"

    @property
    def file_stem(self) -> str:
        """Name of the report's files, without the extension."""
        return f"{self.title.replace(' ', '-')}-report"


@dataclass(frozen=True, slots=True)
class Machine:
    """A host as it was when the campaign last measured on it."""

    host: Host
    system: str
    kernel: str
    cpu: str
    # bytes
    memory: int | None
    # those that its layouts used
    disks: tuple[Device, ...]


@dataclass(frozen=True, slots=True)
class BuiltTopology:
    """A topology: its layers, and what was done to build it, in words."""

    name: str
    boxes: list[Box]
    growths: list[Growth]
    steps: tuple[str, ...]
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Load:
    workload: Workload
    options: tuple[tuple[str, str], ...]
    sweep: tuple[tuple[str, str], ...]
    # of its first run that succeeded
    command: str


def report_context(campaign: Campaign) -> dict[str, Any]:
    """Return the context without the cards, whose URLs depend on the reader."""
    return {
        "campaign": campaign,
        "progress": progress.campaign_progress(campaign),
        "texts": texts_by_place(campaign),
        "left_out": OmittedCounts(),
        **_set_up_context(campaign.layouts.all(), Q(campaign=campaign)),
    }


def _set_up_context(layouts: QuerySet[Layout], runs: Q) -> dict[str, Any]:
    """Return the hosts, stacks, workloads and hashes of these layouts and runs."""
    built = list(
        layouts.select_related("host", "topology", "facts_ready", "facts_planned").order_by(
            "campaign", "position", "pk"
        )
    )
    matching_runs = Run.objects.filter(runs).order_by()
    artifacts = _succeeded_artifacts(matching_runs)
    return {
        "machines": _machines(matching_runs, built),
        "built": _built_topologies(built),
        "loads": _loads(matching_runs),
        "artifacts": list(artifacts[:MOST_ARTIFACTS]),
        "artifacts_left": max(0, artifacts.count() - MOST_ARTIFACTS),
    }


def member_context(request: HttpRequest, subject: Subject) -> dict[str, Any]:
    """Build the context with the member's cards and lines. ?metric= and ?moment= are those of the campaign's page."""
    row = subject.row
    details = (
        _comparison_context(request, row)
        if isinstance(row, SavedView)
        else _campaign_context(request, row)
    )
    return {"subject": subject, **details}


def raw_artifacts(
    request: HttpRequest, subject: Subject, lines: Iterable[Group] | None = None
) -> OwnedQuerySet[Artifact]:
    """Select the raw output of the attempts behind the report's numbers, whoever may read it.

    `raw_data.readable_artifacts` checks who may. `lines` are those of a comparison; None reads them.
    """
    runs = Q(campaign=subject.row.pk)
    if isinstance(subject.row, SavedView):
        groups = lines
        if groups is None:
            groups = _lines_at_all_moments(request, request_params.line_filter(request.GET))
        runs = Q(pk__in=[sample.run for line in groups for sample in line.samples])
    return _succeeded_artifacts(Run.objects.filter(runs).order_by())


def artifact_list_urls(request: HttpRequest, subject: Subject) -> list[str]:
    """Return URLs of the API that list each file of raw output, one for each of the first campaigns."""
    campaigns: Sequence[int] = [subject.row.pk]
    if isinstance(subject.row, SavedView):
        campaigns = request_params.line_filter(request.GET).campaigns[:MOST_LISTED]
    rows = Campaign.objects.visible_to(request.user).filter(pk__in=campaigns).order_by("pk")
    return [
        f"{reverse('api:artifact-list')}?campaign={pk}{'&library=true' if library else ''}"
        for pk, library in rows.values_list("pk", "team__library")
    ]


def _campaign_context(request: HttpRequest, campaign: Campaign) -> dict[str, Any]:
    lines = read_groups(request.user, [campaign.pk])
    unequal = line_differences(request.user, lines)
    cards = campaign_cards(request.user, campaign.pk, request.GET, lines)
    compared_cards = with_differences(cards, unequal)
    return {
        **report_context(campaign),
        "cards": compared_cards,
        "campaign_lines": lines,
        "lines": lines,
    }


def _comparison_context(request: HttpRequest, view: SavedView) -> dict[str, Any]:
    """`request.GET` is as `asked` gives it."""
    line_filter = request_params.line_filter(request.GET)
    lines = _lines_at_all_moments(request, line_filter)
    attempts = [sample.attempt for line in lines for sample in line.samples]
    runs = [sample.run for line in lines for sample in line.samples]
    campaigns = Campaign.objects.visible_to(request.user).filter(pk__in=line_filter.campaigns)
    return {
        "comparison": view,
        "compared": list(campaigns),
        "missing": len(set(line_filter.campaigns)) - len(campaigns),
        "texts": texts_by_place(view),
        "left_out": OmittedCounts(),
        "cards": _comparison_cards(request, line_filter, lines),
        "lines": lines,
        "answered": line_filter.select(lines),
        **_set_up_context(Layout.objects.filter(attempts__in=attempts).distinct(), Q(pk__in=runs)),
    }


def _lines_at_all_moments(request: HttpRequest, line_filter: request_params.Filter) -> list[Group]:
    # each card chooses its own
    every_moment = replace(line_filter, moment=None)
    return every_moment.select_styled(read_groups(request.user, line_filter.campaigns))


def saved_query(request: HttpRequest, view: SavedView) -> QueryDict:
    """Return the saved query, with only those parameters of the page's URL that the page's forms set."""
    query = QueryDict(view.query, mutable=True)
    for name in ("metric", "moment", "baseline", *headlines.PARAMS):
        if name in request.GET:
            query[name] = request.GET[name]
    return query


def _comparison_cards(
    request: HttpRequest, line_filter: request_params.Filter, lines: Sequence[Group]
) -> list[Card]:
    unequal = line_differences(request.user, line_filter.select(lines))
    urls = reverse("compare-figure"), reverse("compare-csv")
    cards = build_cards(lines, *urls, line_filter, request_params.requested_metric(request.GET))
    return with_differences(cards, unequal)


def _machines(runs: QuerySet[Run], layouts: Iterable[Layout]) -> list[Machine]:
    hosts = Host.objects.filter(pk__in=runs.values("host")).order_by("pk")
    newest: dict[int, FactSnapshot] = {}
    used: dict[int, set[str]] = {}
    for layout in layouts:
        if facts := layout.facts_ready or layout.facts_planned:
            newest[layout.host_id] = facts
        used.setdefault(layout.host_id, set()).update(
            identity for identity, _ in iterate_claims(layout.plan)
        )
    disks: dict[int, list[Device]] = {}
    for disk in Device.objects.filter(host__in=used).order_by("host", "name"):
        if disk.identity in used[disk.host_id]:
            disks.setdefault(disk.host_id, []).append(disk)
    return [_build_machine(host, newest.get(host.pk), disks.get(host.pk, [])) for host in hosts]


def _build_machine(host: Host, snapshot: FactSnapshot | None, disks: Iterable[Device]) -> Machine:
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


def _built_topologies(layouts: Iterable[Layout]) -> list[BuiltTopology]:
    """Return one for each topology and copy of its stack, with the steps of its first layout that was built."""
    built: dict[tuple[int, str], BuiltTopology] = {}
    commands = _applied_commands(layouts)
    for layout in layouts:
        key = (layout.topology_id, repr(layout.stack))
        if key in built and (built[key].steps or not commands.get(layout.pk)):
            continue
        steps = commands.get(layout.pk, [])
        built[key] = BuiltTopology(
            layout.topology.name,
            stack_boxes.stack_boxes(layout.stack),
            stack_boxes.growths(layout.stack, layout.stages),
            tuple(dict.fromkeys(description for description, _ in steps)),
            tuple(command for _, command in steps),
        )
    return list(built.values())


def _applied_commands(layouts: Iterable[Layout]) -> dict[int, list[tuple[str, str]]]:
    """Return, by layout, (purpose, command) of each command that changed something, in order."""
    rows = StepLog.objects.filter(
        layout__in=[layout_row.pk for layout_row in layouts], kind="apply", exit_code=0
    )
    commands: dict[int, list[tuple[str, str]]] = {}
    for layout, description, argv in (
        rows.exclude(says="").order_by("pk").values_list("layout", "says", "argv")
    ):
        commands.setdefault(layout, []).append((description, quote.format_command(argv)))
    return commands


def _loads(runs: QuerySet[Run]) -> list[Load]:
    rows = Workload.objects.filter(pk__in=runs.values("workload")).order_by("name")
    commands = _run_commands(runs)
    return [
        Load(
            row,
            tuple((key, str(value)) for key, value in sorted(row.options.items())),
            tuple((key, ", ".join(map(str, values))) for key, values in sorted(row.sweep.items())),
            commands.get(row.pk, ""),
        )
        for row in rows
    ]


def _run_commands(runs: QuerySet[Run]) -> dict[int, str]:
    """Return, by workload, the command of its first successful run."""
    rows = Attempt.objects.filter(run__in=runs, outcome=Outcome.SUCCEEDED).exclude(argv=[])
    first = rows.order_by("run__workload", "pk").distinct("run__workload")
    return {
        load: quote.format_command(map(str, argv))
        for load, argv in first.values_list("run__workload", "argv")
    }


def _succeeded_artifacts(runs: QuerySet[Run]) -> OwnedQuerySet[Artifact]:
    """Select the raw output of these runs' successful attempts, from which the numbers come."""
    rows = Artifact.objects.filter(attempt__run__in=runs, attempt__outcome=Outcome.SUCCEEDED)
    return (
        rows.defer("content").select_related("attempt").order_by("attempt__run", "attempt", "name")
    )


Place = WrittenText.Place
Reported = Campaign | SavedView


class ChangedMeanwhile(Exception):
    """Somebody else wrote at that place since the form was shown; nothing was saved."""


@dataclass(frozen=True, slots=True)
class PlaceText:
    """A place of the report. Its form holds `draft`: the stored text, or a refused one with its `error`."""

    place: str
    label: str
    text: str
    draft: str
    error: str = ""

    @property
    def digest(self) -> str:
        """Hash of the text, which the form sends back to show what the writer saw."""
        return _text_digest(self.text)


def texts_by_place(about: Reported) -> dict[str, PlaceText]:
    """Return every place, including empty ones."""
    stored = dict(about.report_texts.values_list("place", "text"))
    return {
        place.value: PlaceText(
            place.value, str(place.label), stored.get(place, ""), stored.get(place, "")
        )
        for place in Place
    }


def write_text(
    about: Reported, place: str, by: AbstractBaseUser, text: str, base_text: str
) -> None:
    """Store the text. Raises ValidationError (too long), ChangedMeanwhile."""
    cleaned = clean_text(text, empty=True).replace("\r\n", "\n")
    with transaction.atomic():
        type(about)._default_manager.select_for_update().get(pk=about.pk)
        row = about.report_texts.filter(place=place).first()
        before = row.text if row else ""
        if cleaned == before:
            return
        if _text_digest(before) != base_text:
            raise ChangedMeanwhile
        about.report_texts.update_or_create(place=place, defaults={"text": cleaned, "by_id": by.pk})


def texts_with_error(
    about: Reported, place: str, draft: str, error: Exception
) -> dict[str, PlaceText]:
    """Return `texts_by_place` with the refused draft at its place and the reason why it was not saved."""
    texts = texts_by_place(about)
    was = texts[place]
    if isinstance(error, ValidationError):
        message = error.messages[0]
    else:
        message = (
            "Somebody else changed this text while you were writing; theirs is above, yours below. "
            "Save again to replace theirs."
        )
    return {**texts, place: PlaceText(place, was.label, was.text, draft, message)}


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
