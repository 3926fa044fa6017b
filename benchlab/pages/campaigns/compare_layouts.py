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
from benchlab.campaigns import ordering, what_matters
from benchlab.campaigns.estimate import Estimate, estimate
from benchlab.campaigns.models import Campaign, Workload
from benchlab.campaigns.services import find_or_create_workload
from benchlab.engine import fitting
from benchlab.engine.fitting import Fitting
from benchlab.engine.new_campaign import create_campaign
from benchlab.hosts.disk_marks import Mark, marks
from benchlab.hosts.models import Device, Host
from benchlab.runs.models import Layout
from benchlab.topologies.canvas import told
from benchlab.topologies.sized import FAST, TICKED
from benchlab.web.row_ids import row_id

# layouts of one comparison
LEAST, MOST = 2, 4
MOST_DEPTHS, DEEPEST = 12, 1024
# disks of a card
MOST_DRAWN = 24
# Even ones: layouts that take turns are built in two visits, and each visit measures equally often.
REPEATS = {1: "1, to try", 4: "4, enough for an interval", 6: "6", 10: "10, for small differences"}
PAGE = "campaigns/compare_layouts.html"


@dataclass(frozen=True, slots=True)
class Choice:
    """A host as it is offered. `shut`: why it cannot be chosen."""

    host: Host
    devices: Sequence[Device]
    busy: bool
    shut: str

    @property
    def spare(self) -> int:
        return self._roles.total()

    @property
    def spares(self) -> str:
        """ "11 hdd, 1 ssd"."""
        return _counted(self._roles) or "none is spare"

    @property
    def place(self) -> tuple[Host, Sequence[Device]]:
        return self.host, self.devices

    @property
    def marks(self) -> list[Mark]:
        return marks(self.devices)

    @property
    def _roles(self) -> Counter[str]:
        return Counter(one.role for one in self.devices if one.spare and one.present)


def _counted(roles: Counter[str]) -> str:
    return ", ".join(f"{n} {role}" for role, n in roles.most_common())


@dataclass(frozen=True, slots=True)
class Chosen:
    """The first host, and those on which the same is measured as well; `may_join`: who could be among these."""

    first: Choice
    also: Sequence[Choice] = ()
    may_join: Sequence[Choice] = ()

    @property
    def every(self) -> list[Choice]:
        return [self.first, *self.also]

    @property
    def hosts(self) -> list[Host]:
        return [one.host for one in self.every]

    @property
    def spares(self) -> str:
        """Spare disks that each of them has, in words."""
        return _counted(fitting.common(one.place for one in self.every))


@dataclass(frozen=True, slots=True)
class Offer:
    """A layout as a card."""

    it: Fitting
    ticked: bool

    @property
    def layers(self) -> list[str]:
        """The top one first, each with what says most of it."""
        stack = reversed(self.it.shape.stack)
        return [_in_short(registry.layer(one["kind"]), one["options"]) for one in stack]

    @property
    def marks(self) -> list[str]:
        """Classes of its disks, as many as fit a card."""
        wants = self.it.shape.wants.items()
        found = ["use ssd" if role in FAST else "use" for role, n in wants for _ in range(n)]
        return found[:MOST_DRAWN]


def _in_short(driver: Layer[Any], options: Mapping[str, Any]) -> str:
    return ", ".join((driver.LABEL, *told(driver, options)[:2]))


class CompareForm(forms.Form):
    """Form of all that is chosen beside the host; the layouts' names are those of `fittings`."""

    layouts = forms.MultipleChoiceField(
        error_messages={"required": f"Tick {LEAST} to {MOST} layouts."}
    )
    matters = forms.ChoiceField(
        choices=[(one.slug, one.name) for one in what_matters.MATTERS.values()]
    )
    repeats = forms.TypedChoiceField(
        choices=list(REPEATS.items()),
        coerce=int,
        initial=4,
        help_text="Even: layouts that take turns are built twice, and measured equally often each time",
    )
    time = forms.ChoiceField(
        label="Time a point",
        choices=[(one.slug, one.says) for one in what_matters.TIMES.values()],
        initial="usual",
    )
    depths = forms.CharField(
        label="Outstanding I/Os",
        max_length=100,
        initial=", ".join(map(str, what_matters.DEPTHS)),
    )
    name = forms.CharField(
        required=False, max_length=200, help_text="Empty: the host and what is compared"
    )

    def __init__(self, fittings: Sequence[Fitting], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offered = self.fields["layouts"]
        assert isinstance(offered, forms.MultipleChoiceField)
        offered.choices = [(one.shape.slug, one.shape.name) for one in fittings if not one.error]

    def clean_layouts(self) -> list[str]:
        chosen = list(dict.fromkeys(self.cleaned_data["layouts"]))
        if not LEAST <= len(chosen) <= MOST:
            raise ValidationError(f"Tick {LEAST} to {MOST} layouts, not {len(chosen)}.")
        return chosen

    def clean_depths(self) -> list[int]:
        words = self.cleaned_data["depths"].replace(",", " ").split()
        numbers = {row_id(word) for word in words}
        found = sorted(number for number in numbers if number is not None)
        if len(found) < len(numbers):
            raise ValidationError("Give whole numbers, separated by commas: 1, 2, 4.")
        if not found or found[0] < 1 or found[-1] > DEEPEST or len(found) > MOST_DEPTHS:
            raise ValidationError(f"Give 1 to {MOST_DEPTHS} numbers from 1 to {DEEPEST}.")
        return found


@dataclass(frozen=True, slots=True)
class Wish:
    """Wish of the form: nothing of it is stored yet. The hosts are of one team."""

    hosts: list[Host]
    fittings: list[Fitting]
    works: list[what_matters.Work]
    repeats: int

    @property
    def disks(self) -> int:
        return len(frozenset[tuple[int, str]]().union(*(one.disks for one in self.fittings)))

    @property
    def names(self) -> str:
        return ", ".join(host.name for host in self.hosts)


@require_http_methods(["GET", "POST"])
def compare_layouts(request: HttpRequest) -> HttpResponse:
    """GET with ?host= offers that host's layouts, with ?also= those that fit further ones, too; POST estimates, and
    with `create` makes the campaign."""
    given = request.POST if request.method == "POST" else request.GET
    choices = _choices(request.user)
    chosen = _chosen(choices, given.get("host", ""), given.getlist("also"))
    fittings = fitting.of([one.place for one in chosen.every]) if chosen else []
    form = CompareForm(fittings, given if request.method == "POST" else None)
    if not form.is_bound:
        ticked = [one.shape.slug for one in fittings if not one.error][:TICKED]
        form.initial.update(layouts=ticked, matters=next(iter(what_matters.MATTERS)))
        form = CompareForm(fittings, _initial(form))
    if request.method == "POST" and (lost := _lost(choices, chosen, given)):
        form.add_error(None, lost)
    wish = _wish(form, chosen, fittings) if chosen and form.is_valid() else None
    if "create" in request.POST and wish:
        try:
            return redirect("campaign-detail", _create(request, wish, form.cleaned_data["name"]).pk)
        except ValidationError as error:
            form.add_error(None, ValidationError(error.messages))
    return _shown(request, form, choices, chosen, fittings, wish)


def _initial(form: CompareForm) -> dict[str, Any]:
    return {name: form.get_initial_for_field(field, name) for name, field in form.fields.items()}


def _choices(user: AbstractBaseUser | AnonymousUser) -> list[Choice]:
    holding = Layout.objects.holding().filter(host=OuterRef("pk"))
    rows = (
        Host.objects.for_user(user)
        .filter(access=Host.Access.SSH)
        .select_related("team")
        .annotate(busy=Exists(holding))
        .prefetch_related(Prefetch("devices", Device.objects.order_by("name")))
    )
    found = [Choice(row, list(row.devices.all()), row.busy, _shut(row)) for row in rows]
    return sorted(found, key=lambda one: (bool(one.shut), one.spare == 0, one.host.name))


def _shut(host: Host) -> str:
    if not host.host_key:
        return "its host key is not confirmed yet"
    if host.trouble:
        return host.trouble_text or "it does not answer"
    return "" if host.seen_at else "it was not read yet"


def _chosen(choices: Sequence[Choice], asked: str, also: Sequence[str]) -> Chosen | None:
    """The host that was asked for, else the first with spare disks, else the first; and further ones of its team."""
    there = [one for one in choices if not one.shut]
    first = next((one for one in there if str(one.host.pk) == asked), there[0] if there else None)
    if first is None:
        return None
    join = [one for one in there if one.host.team_id == first.host.team_id and one.spare]
    others = [one for one in join if one is not first]
    return Chosen(first, [one for one in others if str(one.host.pk) in also], others)


def _lost(choices: Sequence[Choice], chosen: Chosen | None, given: QueryDict) -> str:
    """Sentence on hosts that were chosen and are not now, as one that does not answer any more: never are others taken
    for them. Empty: all of them are. One that the person does not see is left out.
    """
    now = {str(host.pk) for host in chosen.hosts} if chosen else set()
    asked = {given.get("host", ""), *given.getlist("also")}
    lost = [one for one in choices if str(one.host.pk) in asked - now]
    if lost:
        said = [f"{one.host} ({one.shut})" if one.shut else str(one.host) for one in lost]
        return f"Not chosen any more: {', '.join(said)}. Look at the hosts above, and at the layouts: they fit those."
    first = str(chosen.first.host.pk) if chosen else ""
    return "" if given.get("host") in (None, "", first) else "That host is not there any more."


def _wish(form: CompareForm, chosen: Chosen, fittings: Sequence[Fitting]) -> Wish:
    told = form.cleaned_data
    ticked = [one for one in fittings if one.shape.slug in told["layouts"]]
    smallest = min(one.size for one in ticked)
    matter, time = what_matters.MATTERS[told["matters"]], what_matters.TIMES[told["time"]]
    works = what_matters.work(matter, time, told["depths"], smallest)
    return Wish(chosen.hosts, ticked, works, told["repeats"])


def _estimated(wish: Wish) -> Estimate:
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
def _create(request: HttpRequest, wish: Wish, name: str) -> Campaign:
    """Raises ValidationError; then nothing was stored."""
    team, user = wish.hosts[0].team, request.user
    topologies = [fitting.stored(one, user) for one in wish.fittings]
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
    said = _or([str(one) for one in topologies])
    advice = ordering.advise(wish.hosts, topologies, workloads, wish.repeats)
    return create_campaign(
        team=team,
        user=user,
        name=name or f"{wish.names}: {said}"[:200],
        question=f"Which is best on {wish.names}: {said}?",
        hosts=wish.hosts,
        topologies=topologies,
        workloads=workloads,
        repeats=wish.repeats,
        order=advice.order,
    )


def _or(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _shown(
    request: HttpRequest,
    form: CompareForm,
    choices: Sequence[Choice],
    chosen: Chosen | None,
    fittings: Sequence[Fitting],
    wish: Wish | None,
) -> HttpResponse:
    found, refused = None, ""
    if wish:
        try:
            found = _estimated(wish)
        except ValidationError as error:
            refused = " ".join(error.messages)
    ticked = form["layouts"].value() or []
    context = {
        "form": form,
        "choices": choices,
        "chosen": chosen,
        "offers": [Offer(one, one.shape.slug in ticked) for one in fittings],
        "matters": what_matters.MATTERS.values(),
        "estimate": found,
        "refused": refused,
        "wish": wish,
    }
    part = ""
    if request.htmx:  # type: ignore[attr-defined]
        part = "#compare-dock" if request.method == "POST" else "#compare-form"
    return render(request, PAGE + part, context)
