# SPDX-License-Identifier: Apache-2.0
"""The form of a topology: a name, and one block of fields per layer and stage, made from its driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.http import QueryDict

from agents.contracts import Use
from agents.drivers import protocols, registry
from agents.drivers.protocols import Growable, Layer
from agents.plans.chain import WORDS
from benchlab.topologies import services
from benchlab.topologies.models import MAX_DEVICES, OnDegraded, Topology
from benchlab.topologies.stack_edits import parse_count
from benchlab.web.driver_forms import DriverForm
from benchlab.web.texts import parse_row_id

COMMON_ROLES = ("ssd", "hdd", "nvme")


class NameForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Topology
        fields = ["name", "description", "measure_resync", "on_degraded"]
        widgets = {"description": forms.Textarea(attrs={"rows": 2})}

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self.fields["on_degraded"].required = False

    def clean_on_degraded(self) -> str:
        return self.cleaned_data["on_degraded"] or OnDegraded.STOP


class DisksForm(forms.Form):
    """Form of the disks that one use of a layer takes; 0 when it has none of its own."""

    role = forms.CharField(
        max_length=32,
        initial="ssd",
        validators=[
            RegexValidator(
                rf"\A{services.ROLE.pattern}\Z",
                "Use a short word such as ssd or hdd, in lower case.",
            )
        ],
    )
    count = forms.IntegerField(min_value=0, max_value=MAX_DEVICES)

    def __init__(self, *args: Any, use: str, what: Use, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.use, self.what = use, what
        self.fields["count"].initial = what.least
        self.fields["role"].widget.attrs["list"] = "roles"
        self.fields["role"].label = f"{use}: role of the disks"
        self.fields["count"].label = f"{use}: how many"
        self.fields["role"].help_text = what.purpose


class DuringForm(forms.Form):
    during = forms.BooleanField(
        required=False,
        label="Measure while it lasts too",
        help_text="Each point once, until the kernel has finished; points that come too late are skipped.",
    )


class DriverForms:
    """Forms of a layer or a stage: options made from its driver, and its disks by use."""

    def __init__(
        self,
        prefix: str,
        options: type[Any],
        uses: Mapping[str, Use],
        data: Mapping[str, Any] | None,
        entry: Mapping[str, Any],
        first_count: int | None,
        other_count: int | None,
    ) -> None:
        """Counts: disks of a use, the first or another one, that `entry` has none for; None: as the driver has it."""
        self.options = DriverForm(options, data, prefix=prefix, initial=entry.get("options"))
        groups = {group["use"]: group for group in entry.get("devices", ())}
        counts = [first_count] + [other_count] * len(uses)
        self.disks = [
            DisksForm(
                data,
                prefix=f"{prefix}-{use}",
                use=use,
                what=what,
                initial=groups.get(use, None if count is None else {"count": count}),
            )
            for (use, what), count in zip(uses.items(), counts, strict=False)
        ]

    def is_valid(self) -> bool:
        # Validate every form, even after one with errors, to show all errors at once.
        results = [form.is_valid() for form in (self.options, *self.disks)]
        return all(results)

    def entry(self) -> dict[str, Any]:
        groups = [
            {"use": form.use, **form.cleaned_data}
            for form in self.disks
            if form.cleaned_data["count"]
        ]
        return {"options": self.options.options_and_sweep()[0], "devices": groups}

    def typed(self) -> dict[str, Any]:
        """Entry as typed so far, right or wrong: for drawing the form again."""
        options = {name: self.options[name].value() for name in self.options.fields}
        groups = [
            {"use": form.use, "role": form["role"].value(), "count": form["count"].value()}
            for form in self.disks
        ]
        return {"options": options, "devices": groups}


class LayerForms(DriverForms):
    def __init__(
        self,
        number: int,
        kind: str,
        data: Mapping[str, Any] | None = None,
        entry: Mapping[str, Any] | None = None,
    ) -> None:
        self.number, self.kind = number, kind
        self.driver: Layer[Any] = registry.layer(kind)
        entry = entry or {}
        count = 0 if "devices" in entry else None
        prefix, options, uses = f"layer{number}", self.driver.Options, self.driver.USES
        super().__init__(prefix, options, uses, data, entry, count, count)

    @property
    def stands_on(self) -> str:
        return WORDS[self.driver.REQUIRES]

    @property
    def gives(self) -> str:
        return WORDS[self.driver.PROVIDES]

    @property
    def shown_disks(self) -> list[DisksForm]:
        """Uses for which the layer must have disks, or has some."""
        return [form for form in self.disks if form not in self.further_disks]

    @property
    def further_disks(self) -> list[DisksForm]:
        """Uses that may be left out, as they are; and that of the disks in whose place it stands on a volume."""
        on_volume = self.driver.REQUIRES == "devices" and self.number
        return [
            form
            for form in self.disks
            if not parse_count(form["count"].value())
            and not form.errors
            and (on_volume or not form.what.least)
        ]

    def entry(self) -> dict[str, Any]:
        return {"kind": self.kind, **super().entry()}

    def typed(self) -> dict[str, Any]:
        return {"kind": self.kind, **super().typed()}


def from_stack(stack: Sequence[Mapping[str, Any]]) -> list[LayerForms]:
    return [LayerForms(n, entry["kind"], entry=entry) for n, entry in enumerate(stack)]


def from_post(post: QueryDict) -> list[LayerForms]:
    """The layers of a submitted form. Raises ValidationError for a kind that does not exist."""
    kinds = post.getlist("kind")
    if unknown := [kind for kind in kinds if kind not in registry.all_layers()]:
        raise ValidationError(f"There is no layer named {unknown[0]!r}.")
    return [LayerForms(number, kind, data=post) for number, kind in enumerate(kinds)]


def typed_as_data(layer: LayerForms) -> dict[str, Any]:
    """Content of the layer's fields, as a browser would send it."""
    fields = [field for form in (layer.options, *layer.disks) for field in form]
    values = {field.html_name: field.value() for field in fields}
    return {name: value for name, value in values.items() if value is not None}


def bind_form(layer: LayerForms) -> LayerForms:
    """Bind the layer's forms for validation. Forms that nobody submitted are bound to their content."""
    if layer.options.is_bound:
        return layer
    return LayerForms(layer.number, layer.kind, data=typed_as_data(layer))


def understood_entry(layer: LayerForms) -> dict[str, Any]:
    """Valid part of the layer's entry: wrong options keep their defaults, groups without disks are left out."""
    checked = bind_form(layer)
    options = checked.options.options_and_sweep()[0] if checked.options.is_valid() else {}
    groups = [
        {"use": form.use, "role": form["role"].value() or "", "count": count}
        for form in checked.disks
        if (count := parse_count(form["count"].value()))
    ]
    return {"kind": layer.kind, "options": options, "devices": groups}


class HasKind(Protocol):
    kind: str


class StageForms(DriverForms):
    """Forms of a stage, with `during` where it takes time."""

    def __init__(
        self,
        number: int,
        layer: int,
        driver: Growable[Any, Any],
        kind: str,
        data: Mapping[str, Any] | None = None,
        entry: Mapping[str, Any] | None = None,
    ) -> None:
        self.number, self.layer, self.driver = number, layer, driver
        entry = entry or {}
        prefix, first_count = f"stage{number}", 0 if entry.get("devices") else 1
        super().__init__(prefix, driver.Grow, driver.USES, data, entry, first_count, 0)
        self.during = DuringForm(data, prefix=prefix, initial={"during": entry.get("during")})
        if registry.implements(kind, protocols.BackgroundWork) is None:
            del self.during.fields["during"]

    def is_valid(self) -> bool:
        return all([super().is_valid(), self.during.is_valid()])

    def entry(self) -> dict[str, Any]:
        during = self.during.cleaned_data.get("during", False)
        return {"layer": self.layer, **super().entry(), "during": during}

    def typed(self) -> dict[str, Any]:
        during = bool(self.during.fields and self.during["during"].value())
        return {"layer": self.layer, **super().typed(), "during": during}


def from_entries(
    stages: Sequence[Mapping[str, Any]], layers: Sequence[HasKind]
) -> list[StageForms]:
    """Forms for stored or typed stages; a stage whose layer cannot grow is left out."""
    return list(_stage_forms([(entry["layer"], entry) for entry in stages], layers))


def stages_from_post(post: QueryDict, layers: Sequence[HasKind]) -> list[StageForms]:
    """Forms for the stages of a submitted form; a stage whose layer is missing or cannot grow is left out."""
    numbers = [parse_row_id(word) or 0 for word in post.getlist("stage_layer")]
    return list(_stage_forms([(layer, None) for layer in numbers], layers, post))


def _stage_forms(
    stages: Sequence[tuple[int, Mapping[str, Any] | None]],
    layers: Sequence[HasKind],
    data: QueryDict | None = None,
) -> Iterator[StageForms]:
    for number, (layer, entry) in enumerate(stages):
        kind = layers[layer - 1].kind if 1 <= layer <= len(layers) else None
        if kind and (driver := registry.implements(kind, protocols.Growable)):
            yield StageForms(number, layer, driver, kind, data=data, entry=entry)


def move_stages(
    stages: Sequence[dict[str, Any]], order: Sequence[int | None]
) -> list[dict[str, Any]]:
    """The stages when the layers lie in this order of their places before (from 0): each goes with its layer."""
    places = {was: now for now, was in enumerate(order, start=1) if was is not None}
    return [
        stage | {"layer": places[stage["layer"] - 1]}
        for stage in stages
        if stage["layer"] - 1 in places
    ]


def growable(layers: Sequence[HasKind]) -> list[tuple[int, str]]:
    """Pairs (number from 0, label) of the layers that can grow."""
    return [
        (number, driver.LABEL)
        for number, layer in enumerate(layers)
        if (driver := registry.implements(layer.kind, protocols.Growable))
    ]
