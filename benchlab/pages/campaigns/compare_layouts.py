# SPDX-License-Identifier: Apache-2.0
"""Compare layouts: the short way to a campaign. Hosts, two to four layouts sized to their disks, and what matters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from django import forms
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Exists, OuterRef, Prefetch
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render

from agents.drivers import registry
from benchlab.campaigns import estimates, workload_presets
from benchlab.campaigns.estimates import Estimate, estimate
from benchlab.campaigns.models import Campaign, Workload
from benchlab.campaigns.services import Selection, find_or_create_workload
from benchlab.engine.checks import previews
from benchlab.engine.checks.previews import FittedTopology
from benchlab.engine.new_runs import create_campaign
from benchlab.hosts.models import Device, Host
from benchlab.hosts.spare_disks import Mark, disk_marks
from benchlab.pages.shared import get_or_post
from benchlab.runs.models import Layout
from benchlab.topologies.canvas import option_summary
from benchlab.topologies.host_shapes import CHOSEN_AT_FIRST, FAST_ROLES
from benchlab.web.texts import parse_row_id

Person = AbstractBaseUser | AnonymousUser
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
    """A host as it is offered. `unavailable`: why it cannot be chosen."""

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
    def marks(self) -> list[Mark]:
        return disk_marks(self.devices)

    @property
    def _roles(self) -> Counter[str]:
        return previews.common_disks([(self.host, self.devices)])

    @property
    def description(self) -> str:
        return f"{self.host} ({self.unavailable})" if self.unavailable else str(self.host)


def _role_counts(roles: Counter[str]) -> str:
    return ", ".join(f"{n} {role}" for role, n in roles.most_common())


@dataclass(frozen=True, slots=True)
class ChosenHosts:
    """The first host, and those on which the same is measured as well; `candidates`: who could be among these."""

    first: HostChoice
    others: Sequence[HostChoice]
    candidates: Sequence[HostChoice]

    @property
    def choices(self) -> list[HostChoice]:
        return [self.first, *self.others]

    @property
    def places(self) -> list[tuple[Host, Sequence[Device]]]:
        return [(choice.host, choice.devices) for choice in self.choices]

    @property
    def spares(self) -> str:
        """Spare disks that each of them has, in words."""
        return _role_counts(previews.common_disks(self.places))


def _layout_card(fitting: FittedTopology, ticked: Collection[str]) -> dict[str, object]:
    """A layout with its layers, the top one first, each with what says most of it, and as many disks as fit."""
    drivers = [
        (registry.layer(layer["kind"]), layer["options"]) for layer in reversed(fitting.shape.stack)
    ]
    classes = [
        "use ssd" if role in FAST_ROLES else "use"
        for role, number in fitting.shape.wants.items()
        for _ in range(number)
    ]
    return {
        "fitting": fitting,
        "ticked": fitting.shape.slug in ticked,
        "layers": [
            ", ".join((driver.LABEL, *option_summary(driver, options)[:2]))
            for driver, options in drivers
        ],
        "disk_classes": classes[:MAX_DRAWN_DISKS],
    }


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

    def __init__(self, fittings: Sequence[FittedTopology], data: Mapping[str, Any] | None) -> None:
        """Without `data` it is as if the form's first values had been sent."""
        buildable = [(fit.shape.slug, fit.shape.name) for fit in fittings if not fit.error]
        if data is None:
            data = {name: field.initial for name, field in self.base_fields.items()}
            data["layouts"] = [slug for slug, _ in buildable[:CHOSEN_AT_FIRST]]
            data["matters"] = next(iter(workload_presets.WORKLOAD_GOALS))
        super().__init__(data)
        layouts = self.fields["layouts"]
        assert isinstance(layouts, forms.MultipleChoiceField)
        layouts.choices = buildable

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

    @classmethod
    def from_form(
        cls, form: CompareForm, chosen: ChosenHosts, fittings: Sequence[FittedTopology]
    ) -> Comparison:
        values = form.cleaned_data
        ticked = [fitting for fitting in fittings if fitting.shape.slug in values["layouts"]]
        works = workload_presets.goal_workloads(
            workload_presets.WORKLOAD_GOALS[values["matters"]],
            workload_presets.RUN_LENGTHS[values["time"]],
            values["depths"],
            min(fitting.size for fitting in ticked),
        )
        return cls([choice.host for choice in chosen.choices], ticked, works, values["repeats"])

    @property
    def disk_count(self) -> int:
        return len({disk for fitting in self.fittings for disk in fitting.disks})

    @property
    def host_names(self) -> str:
        return ", ".join(host.name for host in self.hosts)

    def estimate(self) -> Estimate:
        """Estimate the cost of rows that need not be stored. Raises ValidationError."""
        topologies = [fitting.topology for fitting in self.fittings if fitting.topology]
        workloads = [
            Workload(pk=-number, team=self.hosts[0].team, **asdict(work))
            for number, work in enumerate(self.works, start=1)
        ]
        selection = Selection(self.hosts, topologies, workloads, self.repeats)
        return estimate(selection, estimates.RECOMMENDED)

    @transaction.atomic
    def create_campaign(self, user: Person, name: str) -> Campaign:
        """Raises ValidationError; then nothing was stored."""
        team = self.hosts[0].team
        topologies = [previews.find_or_create_topology(fitting, user) for fitting in self.fittings]
        workloads = [
            find_or_create_workload(team=team, user=user, **asdict(work)) for work in self.works
        ]
        *first, last = map(str, topologies)
        alternatives = f"{', '.join(first)} or {last}"
        selection = Selection(self.hosts, topologies, workloads, self.repeats)
        return create_campaign(
            team=team,
            user=user,
            name=name or f"{self.host_names}: {alternatives}"[:200],
            question=f"Which is best on {self.host_names}: {alternatives}?",
            hosts=self.hosts,
            topologies=topologies,
            workloads=workloads,
            repeats=self.repeats,
            order=estimates.advise_order(selection).order,
        )


@get_or_post
def compare_layouts(request: HttpRequest) -> HttpResponse:
    """GET with ?host= offers that host's layouts, with ?also= those that fit further ones, too; POST estimates, and
    with `create` makes the campaign."""
    posted = request.method == "POST"
    parameters = request.POST if posted else request.GET
    choices = _host_choices(request.user)
    chosen = _choose_hosts(choices, parameters.get("host", ""), parameters.getlist("also"))
    fittings = previews.fit_topologies(chosen.places) if chosen else []
    form = CompareForm(fittings, parameters if posted else None)
    if posted and (lost := _lost_hosts_message(choices, chosen, parameters)):
        form.add_error(None, lost)
    comparison, estimated, refused = None, None, ""
    if chosen and form.is_valid():
        comparison = Comparison.from_form(form, chosen, fittings)
    if "create" in request.POST and comparison:
        try:
            campaign = comparison.create_campaign(request.user, form.cleaned_data["name"])
            return redirect("campaign-detail", campaign.pk)
        except ValidationError as error:
            form.add_error(None, ValidationError(error.messages))
    if comparison:
        try:
            estimated = comparison.estimate()
        except ValidationError as error:
            refused = " ".join(error.messages)
    ticked = form["layouts"].value() or []
    context = {
        "form": form,
        "choices": choices,
        "chosen": chosen,
        "offers": [_layout_card(fitting, ticked) for fitting in fittings],
        "matters": workload_presets.WORKLOAD_GOALS.values(),
        "estimate": estimated,
        "refused": refused,
        "comparison": comparison,
    }
    part = ""
    if request.htmx:  # type: ignore[attr-defined]
        part = "#compare-dock" if posted else "#compare-form"
    return render(request, PAGE + part, context)


def _host_choices(user: Person) -> list[HostChoice]:
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
    if not available:
        return None
    by_id = {str(choice.host.pk): choice for choice in available}
    first = by_id.get(host_id, available[0])
    candidates = [
        choice
        for choice in available
        if choice is not first and choice.host.team_id == first.host.team_id and choice.spare_count
    ]
    others = [choice for choice in candidates if str(choice.host.pk) in also]
    return ChosenHosts(first, others, candidates)


def _lost_hosts_message(
    choices: Sequence[HostChoice], chosen: ChosenHosts | None, parameters: QueryDict
) -> str:
    """Sentence on hosts that were chosen and are not now, as one that does not answer any more: never are others taken
    for them. Empty: all of them are. One that the person does not see is left out.
    """
    now = {str(choice.host.pk) for choice in chosen.choices} if chosen else set()
    requested = {parameters.get("host", ""), *parameters.getlist("also")}
    lost = [choice.description for choice in choices if str(choice.host.pk) in requested - now]
    if lost:
        return (
            f"Not chosen any more: {', '.join(lost)}."
            " Look at the hosts above, and at the layouts: they fit those."
        )
    first = str(chosen.first.host.pk) if chosen else ""
    return "" if parameters.get("host") in (None, "", first) else "That host is not there any more."
