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
from benchlab.campaigns import ordering, workload_goals
from benchlab.campaigns.estimate import Estimate, estimate
from benchlab.campaigns.models import Campaign, Workload
from benchlab.campaigns.services import find_or_create_workload
from benchlab.engine import fitted_topologies
from benchlab.engine.fitted_topologies import FittedTopology
from benchlab.engine.new_campaign import create_campaign
from benchlab.hosts.disk_marks import Mark, disk_marks
from benchlab.hosts.models import Device, Host
from benchlab.runs.models import Layout
from benchlab.topologies.canvas import option_summary
from benchlab.topologies.host_shapes import CHOSEN_AT_FIRST, FAST_ROLES
from benchlab.web.row_ids import parse_row_id

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
        return Counter(one.role for one in self.devices if one.spare and one.present)


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
        return [one.host for one in self.choices]

    @property
    def spares(self) -> str:
        """Spare disks that each of them has, in words."""
        return _role_counts(
            fitted_topologies.common_disks(one.host_and_devices for one in self.choices)
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
        return [_layer_summary(registry.layer(one["kind"]), one["options"]) for one in stack]

    @property
    def disk_classes(self) -> list[str]:
        """Classes of its disks, as many as fit a card."""
        wants = self.fitting.shape.wants.items()
        found = ["use ssd" if role in FAST_ROLES else "use" for role, n in wants for _ in range(n)]
        return found[:MAX_DRAWN_DISKS]


def _layer_summary(driver: Layer[Any], options: Mapping[str, Any]) -> str:
    return ", ".join((driver.LABEL, *option_summary(driver, options)[:2]))


class CompareForm(forms.Form):
    """Form of all that is chosen beside the host; the layouts' names are those of `fittings`."""

    layouts = forms.MultipleChoiceField(
        error_messages={"required": f"Tick {MIN_LAYOUTS} to {MAX_LAYOUTS} layouts."}
    )
    matters = forms.ChoiceField(
        choices=[(one.slug, one.name) for one in workload_goals.WORKLOAD_GOALS.values()]
    )
    repeats = forms.TypedChoiceField(
        choices=list(REPEATS.items()),
        coerce=int,
        initial=4,
        help_text="Even: layouts that take turns are built twice, and measured equally often each time",
    )
    time = forms.ChoiceField(
        label="Time a point",
        choices=[(one.slug, one.says) for one in workload_goals.RUN_LENGTHS.values()],
        initial="usual",
    )
    depths = forms.CharField(
        label="Outstanding I/Os",
        max_length=100,
        initial=", ".join(map(str, workload_goals.DEPTHS)),
    )
    name = forms.CharField(
        required=False, max_length=200, help_text="Empty: the host and what is compared"
    )

    def __init__(self, fittings: Sequence[FittedTopology], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offered = self.fields["layouts"]
        assert isinstance(offered, forms.MultipleChoiceField)
        offered.choices = [(one.shape.slug, one.shape.name) for one in fittings if not one.error]

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
        found = sorted(number for number in numbers if number is not None)
        if len(found) < len(numbers):
            raise ValidationError("Give whole numbers, separated by commas: 1, 2, 4.")
        if not found or found[0] < 1 or found[-1] > MAX_DEPTH or len(found) > MAX_DEPTHS:
            raise ValidationError(f"Give 1 to {MAX_DEPTHS} numbers from 1 to {MAX_DEPTH}.")
        return found


@dataclass(frozen=True, slots=True)
class Comparison:
    """Wish of the form: nothing of it is stored yet. The hosts are of one team."""

    hosts: list[Host]
    fittings: list[FittedTopology]
    works: list[workload_goals.WorkloadSpec]
    repeats: int

    @property
    def disk_count(self) -> int:
        return len(frozenset[tuple[int, str]]().union(*(one.disks for one in self.fittings)))

    @property
    def host_names(self) -> str:
        return ", ".join(host.name for host in self.hosts)


@require_http_methods(["GET", "POST"])
def compare_layouts(request: HttpRequest) -> HttpResponse:
    """GET with ?host= offers that host's layouts, with ?also= those that fit further ones, too; POST estimates, and
    with `create` makes the campaign."""
    given = request.POST if request.method == "POST" else request.GET
    choices = _host_choices(request.user)
    chosen = _choose_hosts(choices, given.get("host", ""), given.getlist("also"))
    fittings = (
        fitted_topologies.fit_topologies([one.host_and_devices for one in chosen.choices])
        if chosen
        else []
    )
    form = CompareForm(fittings, given if request.method == "POST" else None)
    if not form.is_bound:
        ticked = [one.shape.slug for one in fittings if not one.error][:CHOSEN_AT_FIRST]
        form.initial.update(layouts=ticked, matters=next(iter(workload_goals.WORKLOAD_GOALS)))
        form = CompareForm(fittings, _initial_values(form))
    if request.method == "POST" and (lost := _lost_hosts_message(choices, chosen, given)):
        form.add_error(None, lost)
    wish = _read_comparison(form, chosen, fittings) if chosen and form.is_valid() else None
    if "create" in request.POST and wish:
        try:
            return redirect(
                "campaign-detail", _create_campaign(request, wish, form.cleaned_data["name"]).pk
            )
        except ValidationError as error:
            form.add_error(None, ValidationError(error.messages))
    return _comparison_page(request, form, choices, chosen, fittings, wish)


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
    found = [
        HostChoice(row, list(row.devices.all()), row.busy, _unavailable_reason(row)) for row in rows
    ]
    return sorted(
        found, key=lambda one: (bool(one.unavailable), one.spare_count == 0, one.host.name)
    )


def _unavailable_reason(host: Host) -> str:
    if not host.host_key:
        return "its host key is not confirmed yet"
    if host.trouble:
        return host.trouble_text or "it does not answer"
    return "" if host.seen_at else "it was not read yet"


def _choose_hosts(
    choices: Sequence[HostChoice], asked: str, also: Sequence[str]
) -> ChosenHosts | None:
    """The host that was asked for, else the first with spare disks, else the first; and further ones of its team."""
    there = [one for one in choices if not one.unavailable]
    first = next((one for one in there if str(one.host.pk) == asked), there[0] if there else None)
    if first is None:
        return None
    join = [one for one in there if one.host.team_id == first.host.team_id and one.spare_count]
    others = [one for one in join if one is not first]
    return ChosenHosts(first, [one for one in others if str(one.host.pk) in also], others)


def _lost_hosts_message(
    choices: Sequence[HostChoice], chosen: ChosenHosts | None, given: QueryDict
) -> str:
    """Sentence on hosts that were chosen and are not now, as one that does not answer any more: never are others taken
    for them. Empty: all of them are. One that the person does not see is left out.
    """
    now = {str(host.pk) for host in chosen.hosts} if chosen else set()
    asked = {given.get("host", ""), *given.getlist("also")}
    lost = [one for one in choices if str(one.host.pk) in asked - now]
    if lost:
        said = [
            f"{one.host} ({one.unavailable})" if one.unavailable else str(one.host) for one in lost
        ]
        return f"Not chosen any more: {', '.join(said)}. Look at the hosts above, and at the layouts: they fit those."
    first = str(chosen.first.host.pk) if chosen else ""
    return "" if given.get("host") in (None, "", first) else "That host is not there any more."


def _read_comparison(
    form: CompareForm, chosen: ChosenHosts, fittings: Sequence[FittedTopology]
) -> Comparison:
    told = form.cleaned_data
    ticked = [one for one in fittings if one.shape.slug in told["layouts"]]
    smallest = min(one.size for one in ticked)
    matter, time = (
        workload_goals.WORKLOAD_GOALS[told["matters"]],
        workload_goals.RUN_LENGTHS[told["time"]],
    )
    works = workload_goals.goal_workloads(matter, time, told["depths"], smallest)
    return Comparison(chosen.hosts, ticked, works, told["repeats"])


def _estimate_comparison(wish: Comparison) -> Estimate:
    """Of rows that need not be stored. Raises ValidationError."""
    topologies = [one.topology for one in wish.fittings if one.topology]
    workloads = [
        Workload(
            pk=-number,
            team=wish.hosts[0].team,
            name=work.name,
            tool=work.tool,
            options=work.options,
            sweep=work.sweep,
        )
        for number, work in enumerate(wish.works, start=1)
    ]
    return estimate(wish.hosts, topologies, workloads, wish.repeats, ordering.RECOMMENDED)


@transaction.atomic
def _create_campaign(request: HttpRequest, wish: Comparison, name: str) -> Campaign:
    """Raises ValidationError; then nothing was stored."""
    team, user = wish.hosts[0].team, request.user
    topologies = [fitted_topologies.find_or_create_topology(one, user) for one in wish.fittings]
    workloads = [
        find_or_create_workload(
            team=team,
            user=user,
            name=work.name,
            tool=work.tool,
            options=work.options,
            sweep=work.sweep,
        )
        for work in wish.works
    ]
    said = _join_alternatives([str(one) for one in topologies])
    advice = ordering.advise_order(wish.hosts, topologies, workloads, wish.repeats)
    return create_campaign(
        team=team,
        user=user,
        name=name or f"{wish.host_names}: {said}"[:200],
        question=f"Which is best on {wish.host_names}: {said}?",
        hosts=wish.hosts,
        topologies=topologies,
        workloads=workloads,
        repeats=wish.repeats,
        order=advice.order,
    )


def _join_alternatives(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _comparison_page(
    request: HttpRequest,
    form: CompareForm,
    choices: Sequence[HostChoice],
    chosen: ChosenHosts | None,
    fittings: Sequence[FittedTopology],
    wish: Comparison | None,
) -> HttpResponse:
    found, refused = None, ""
    if wish:
        try:
            found = _estimate_comparison(wish)
        except ValidationError as error:
            refused = " ".join(error.messages)
    ticked = form["layouts"].value() or []
    context = {
        "form": form,
        "choices": choices,
        "chosen": chosen,
        "offers": [LayoutCard(one, one.shape.slug in ticked) for one in fittings],
        "matters": workload_goals.WORKLOAD_GOALS.values(),
        "estimate": found,
        "refused": refused,
        "comparison": wish,
    }
    part = ""
    if request.htmx:  # type: ignore[attr-defined]
        part = "#compare-dock" if request.method == "POST" else "#compare-form"
    return render(request, PAGE + part, context)
