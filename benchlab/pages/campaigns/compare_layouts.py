# SPDX-License-Identifier: Apache-2.0
"""Compare layouts: the short way to a campaign. Hosts, two to four layouts sized to their disks, and what matters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Exists, OuterRef, Prefetch
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from agents.drivers import registry
from agents.drivers.protocols import Layer
from benchlab.campaigns import estimates, workload_presets
from benchlab.campaigns.estimates import Estimate, estimate
from benchlab.campaigns.models import Campaign, Workload
from benchlab.campaigns.services import Selection, find_or_create_workload
from benchlab.engine.checks import previews
from benchlab.engine.checks.previews import FittedTopology
from benchlab.engine.new_runs import create_campaign
from benchlab.hosts.models import Device, Host
from benchlab.hosts.spare_disks import Mark, disk_marks
from benchlab.runs.models import Layout
from benchlab.topologies.canvas import option_summary
from benchlab.topologies.host_shapes import CHOSEN_AT_FIRST, FAST_ROLES
from benchlab.web.texts import parse_row_id

# layouts of one comparison
MIN_LAYOUTS, MAX_LAYOUTS = 2, 4
MAX_DEPTHS, MAX_DEPTH = 12, 1024
# disks of a card
MAX_DRAWN_DISKS = 24
# Even ones: layouts that take turns are built in two visits, and each visit measures equally often.
REPEATS = {1: "1, to try", 4: "4, enough for an interval", 6: "6", 10: "10, for small differences"}
PAGE = "campaigns/compare_layouts.html"


@dataclass(frozen=True, slots=True)
class HostChoice:
    """A host as it is offered. `shut`: why it cannot be chosen."""

    host: Host
    devices: Sequence[Device]
    busy: bool
    unavailable: str

    @property
    def spare_count(self) -> int:
        return self._roles.total()

    @property
    def spares(self) -> str:
        """ "11 hdd, 1 ssd"."""
        return _role_counts(self._roles) or "none is spare"

    @property
    def host_and_devices(self) -> tuple[Host, Sequence[Device]]:
        return self.host, self.devices

    @property
    def marks(self) -> list[Mark]:
        return disk_marks(self.devices)

    @property
    def _roles(self) -> Counter[str]:
        return Counter(device.role for device in self.devices if device.spare and device.present)


def _role_counts(roles: Counter[str]) -> str:
    return ", ".join(f"{n} {role}" for role, n in roles.most_common())


@dataclass(frozen=True, slots=True)
class ChosenHosts:
    """The first host, and those on which the same is measured as well; `may_join`: who could be among these."""

    first: HostChoice
    others: Sequence[HostChoice] = ()
    candidates: Sequence[HostChoice] = ()

    @property
    def choices(self) -> list[HostChoice]:
        return [self.first, *self.others]

    @property
    def hosts(self) -> list[Host]:
        return [choice.host for choice in self.choices]

    @property
    def spares(self) -> str:
        """Spare disks that each of them has, in words."""
        return _role_counts(
            previews.common_disks(choice.host_and_devices for choice in self.choices)
        )


@dataclass(frozen=True, slots=True)
class LayoutCard:
    """A layout as a card."""

    fitting: FittedTopology
    ticked: bool

    @property
    def layers(self) -> list[str]:
        """The top one first, each with what says most of it."""
        stack = reversed(self.fitting.shape.stack)
        return [_layer_summary(registry.layer(layer["kind"]), layer["options"]) for layer in stack]

    @property
    def disk_classes(self) -> list[str]:
        """Classes of its disks, as many as fit a card."""
        wants = self.fitting.shape.wants.items()
        classes = [
            "use ssd" if role in FAST_ROLES else "use" for role, n in wants for _ in range(n)
        ]
        return classes[:MAX_DRAWN_DISKS]


def _layer_summary(driver: Layer[Any], options: Mapping[str, Any]) -> str:
    return ", ".join((driver.LABEL, *option_summary(driver, options)[:2]))


class CompareForm(forms.Form):
    """Form of all that is chosen beside the host; the layouts' names are those of `fittings`."""

    layouts = forms.MultipleChoiceField(
        error_messages={"required": f"Tick {MIN_LAYOUTS} to {MAX_LAYOUTS} layouts."}
    )
    matters = forms.ChoiceField(
        choices=[(matter.slug, matter.name) for matter in workload_presets.WORKLOAD_GOALS.values()]
    )
    repeats = forms.TypedChoiceField(
        choices=list(REPEATS.items()),
        coerce=int,
        initial=4,
        help_text="Even: layouts that take turns are built twice, and measured equally often each time",
    )
    time = forms.ChoiceField(
        label="Time a point",
        choices=[
            (time_choice.slug, time_choice.says)
            for time_choice in workload_presets.RUN_LENGTHS.values()
        ],
        initial="usual",
    )
    depths = forms.CharField(
        label="Outstanding I/Os",
        max_length=100,
        initial=", ".join(map(str, workload_presets.DEPTHS)),
    )
    name = forms.CharField(
        required=False, max_length=200, help_text="Empty: the host and what is compared"
    )

    def __init__(self, fittings: Sequence[FittedTopology], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        layouts = self.fields["layouts"]
        assert isinstance(layouts, forms.MultipleChoiceField)
        layouts.choices = [
            (fitting.shape.slug, fitting.shape.name) for fitting in fittings if not fitting.error
        ]

    def clean_layouts(self) -> list[str]:
        chosen = list(dict.fromkeys(self.cleaned_data["layouts"]))
        if not MIN_LAYOUTS <= len(chosen) <= MAX_LAYOUTS:
            raise ValidationError(
                f"Tick {MIN_LAYOUTS} to {MAX_LAYOUTS} layouts, not {len(chosen)}."
            )
        return chosen

    def clean_depths(self) -> list[int]:
        words = self.cleaned_data["depths"].replace(",", " ").split()
        numbers = {parse_row_id(word) for word in words}
        depths = sorted(number for number in numbers if number is not None)
        if len(depths) < len(numbers):
            raise ValidationError("Give whole numbers, separated by commas: 1, 2, 4.")
        if not depths or depths[0] < 1 or depths[-1] > MAX_DEPTH or len(depths) > MAX_DEPTHS:
            raise ValidationError(f"Give 1 to {MAX_DEPTHS} numbers from 1 to {MAX_DEPTH}.")
        return depths


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison that the form describes; nothing of it is stored yet. The hosts are of one team."""

    hosts: list[Host]
    fittings: list[FittedTopology]
    works: list[workload_presets.WorkloadSpec]
    repeats: int

    @property
    def disk_count(self) -> int:
        return len(
            frozenset[tuple[int, str]]().union(*(fitting.disks for fitting in self.fittings))
        )

    @property
    def host_names(self) -> str:
        return ", ".join(host.name for host in self.hosts)


@require_http_methods(["GET", "POST"])
def compare_layouts(request: HttpRequest) -> HttpResponse:
    """GET with ?host= offers that host's layouts, with ?also= those that fit further ones, too; POST estimates, and
    with `create` makes the campaign."""
    parameters = request.POST if request.method == "POST" else request.GET
    choices = _host_choices(request.user)
    chosen = _choose_hosts(choices, parameters.get("host", ""), parameters.getlist("also"))
    fittings = (
        previews.fit_topologies([choice.host_and_devices for choice in chosen.choices])
        if chosen
        else []
    )
    form = CompareForm(fittings, parameters if request.method == "POST" else None)
    if not form.is_bound:
        ticked = [card_fitting.shape.slug for card_fitting in fittings if not card_fitting.error][
            :CHOSEN_AT_FIRST
        ]
        form.initial.update(layouts=ticked, matters=next(iter(workload_presets.WORKLOAD_GOALS)))
        form = CompareForm(fittings, _initial_values(form))
    if request.method == "POST" and (lost := _lost_hosts_message(choices, chosen, parameters)):
        form.add_error(None, lost)
    comparison = _read_comparison(form, chosen, fittings) if chosen and form.is_valid() else None
    if "create" in request.POST and comparison:
        try:
            return redirect(
                "campaign-detail",
                _create_campaign(request, comparison, form.cleaned_data["name"]).pk,
            )
        except ValidationError as error:
            form.add_error(None, ValidationError(error.messages))
    return _comparison_page(request, form, choices, chosen, fittings, comparison)


def _initial_values(form: CompareForm) -> dict[str, Any]:
    return {name: form.get_initial_for_field(field, name) for name, field in form.fields.items()}


def _host_choices(user: AbstractBaseUser | AnonymousUser) -> list[HostChoice]:
    holding = Layout.objects.holding().filter(host=OuterRef("pk"))
    rows = (
        Host.objects.for_user(user)
        .filter(access=Host.Access.SSH)
        .select_related("team")
        .annotate(busy=Exists(holding))
        .prefetch_related(Prefetch("devices", Device.objects.order_by("name")))
    )
    choices = [
        HostChoice(row, list(row.devices.all()), row.busy, _unavailable_reason(row)) for row in rows
    ]
    return sorted(
        choices,
        key=lambda choice: (bool(choice.unavailable), choice.spare_count == 0, choice.host.name),
    )


def _unavailable_reason(host: Host) -> str:
    if not host.host_key:
        return "its host key is not confirmed yet"
    if host.trouble:
        return host.trouble_text or "it does not answer"
    return "" if host.seen_at else "it was not read yet"


def _choose_hosts(
    choices: Sequence[HostChoice], host_id: str, also: Sequence[str]
) -> ChosenHosts | None:
    """The host that was asked for, else the first with spare disks, else the first; and further ones of its team."""
    available = [choice for choice in choices if not choice.unavailable]
    first = next(
        (choice for choice in available if str(choice.host.pk) == host_id),
        available[0] if available else None,
    )
    if first is None:
        return None
    join = [
        choice
        for choice in available
        if choice.host.team_id == first.host.team_id and choice.spare_count
    ]
    others = [choice for choice in join if choice is not first]
    return ChosenHosts(first, [choice for choice in others if str(choice.host.pk) in also], others)


def _lost_hosts_message(
    choices: Sequence[HostChoice], chosen: ChosenHosts | None, parameters: QueryDict
) -> str:
    """Sentence on hosts that were chosen and are not now, as one that does not answer any more: never are others taken
    for them. Empty: all of them are. One that the person does not see is left out.
    """
    now = {str(host.pk) for host in chosen.hosts} if chosen else set()
    requested = {parameters.get("host", ""), *parameters.getlist("also")}
    lost = [choice for choice in choices if str(choice.host.pk) in requested - now]
    if lost:
        descriptions = [
            f"{choice.host} ({choice.unavailable})" if choice.unavailable else str(choice.host)
            for choice in lost
        ]
        names = ", ".join(descriptions)
        return f"Not chosen any more: {names}. Look at the hosts above, and at the layouts: they fit those."
    first = str(chosen.first.host.pk) if chosen else ""
    return "" if parameters.get("host") in (None, "", first) else "That host is not there any more."


def _read_comparison(
    form: CompareForm, chosen: ChosenHosts, fittings: Sequence[FittedTopology]
) -> Comparison:
    values = form.cleaned_data
    ticked = [fitting for fitting in fittings if fitting.shape.slug in values["layouts"]]
    smallest = min(fitting.size for fitting in ticked)
    matter, time = (
        workload_presets.WORKLOAD_GOALS[values["matters"]],
        workload_presets.RUN_LENGTHS[values["time"]],
    )
    works = workload_presets.goal_workloads(matter, time, values["depths"], smallest)
    return Comparison(chosen.hosts, ticked, works, values["repeats"])


def _estimate_comparison(comparison: Comparison) -> Estimate:
    """Estimate the cost of rows that need not be stored. Raises ValidationError."""
    topologies = [
        layout_fitting.topology for layout_fitting in comparison.fittings if layout_fitting.topology
    ]
    workloads = [
        Workload(
            pk=-number,
            team=comparison.hosts[0].team,
            name=work.name,
            tool=work.tool,
            options=work.options,
            sweep=work.sweep,
        )
        for number, work in enumerate(comparison.works, start=1)
    ]
    selection = Selection(comparison.hosts, topologies, workloads, comparison.repeats)
    return estimate(selection, estimates.RECOMMENDED)


@transaction.atomic
def _create_campaign(request: HttpRequest, comparison: Comparison, name: str) -> Campaign:
    """Raises ValidationError; then nothing was stored."""
    team, user = comparison.hosts[0].team, request.user
    topologies = [
        previews.find_or_create_topology(layout_fitting, user)
        for layout_fitting in comparison.fittings
    ]
    workloads = [
        find_or_create_workload(
            team=team,
            user=user,
            name=work.name,
            tool=work.tool,
            options=work.options,
            sweep=work.sweep,
        )
        for work in comparison.works
    ]
    alternatives = _join_alternatives([str(topology) for topology in topologies])
    selection = Selection(comparison.hosts, topologies, workloads, comparison.repeats)
    return create_campaign(
        team=team,
        user=user,
        name=name or f"{comparison.host_names}: {alternatives}"[:200],
        question=f"Which is best on {comparison.host_names}: {alternatives}?",
        hosts=comparison.hosts,
        topologies=topologies,
        workloads=workloads,
        repeats=comparison.repeats,
        order=estimates.advise_order(selection).order,
    )


def _join_alternatives(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _comparison_page(
    request: HttpRequest,
    form: CompareForm,
    choices: Sequence[HostChoice],
    chosen: ChosenHosts | None,
    fittings: Sequence[FittedTopology],
    comparison: Comparison | None,
) -> HttpResponse:
    estimate, refused = None, ""
    if comparison:
        try:
            estimate = _estimate_comparison(comparison)
        except ValidationError as error:
            refused = " ".join(error.messages)
    ticked = form["layouts"].value() or []
    context = {
        "form": form,
        "choices": choices,
        "chosen": chosen,
        "offers": [
            LayoutCard(layout_fitting, layout_fitting.shape.slug in ticked)
            for layout_fitting in fittings
        ],
        "matters": workload_presets.WORKLOAD_GOALS.values(),
        "estimate": estimate,
        "refused": refused,
        "comparison": comparison,
    }
    part = ""
    if request.htmx:  # type: ignore[attr-defined]
        part = "#compare-dock" if request.method == "POST" else "#compare-form"
    return render(request, PAGE + part, context)
