# SPDX-License-Identifier: Apache-2.0
"""The form of a topology: a name, and one block of fields per layer, made from its driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict

from agents.drivers import registry
from agents.drivers.protocols import Layer
from agents.plans.chain import WORDS
from benchlab.topologies.models import OnDegraded, Topology
from benchlab.topologies.stack_edits import parse_count
from benchlab.topologies.stage_forms import DisksForm
from benchlab.web.driver_forms import DriverForm

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


class LayerForms:
    """One layer's forms: its driver's options, and its disks by use."""

    def __init__(
        self,
        number: int,
        kind: str,
        data: Mapping[str, Any] | None = None,
        entry: Mapping[str, Any] | None = None,
    ) -> None:
        self.number, self.kind = number, kind
        self.driver: Layer[Any] = registry.layer(kind)
        prefix = f"layer{number}"
        entry = entry or {}
        self.options = DriverForm(
            self.driver.Options, data, prefix=prefix, initial=entry.get("options")
        )
        groups = {group["use"]: group for group in entry.get("devices", ())}
        none = {"count": 0} if "devices" in entry else None
        self.disks = [
            DisksForm(
                data, prefix=f"{prefix}-{use}", use=use, what=what, initial=groups.get(use, none)
            )
            for use, what in self.driver.USES.items()
        ]

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
        return [
            form
            for form in self.disks
            if not parse_count(form["count"].value())
            and not form.errors
            and not self._is_required(form)
        ]

    def _is_required(self, form: DisksForm) -> bool:
        return form.what.least > 0 and not (self.driver.REQUIRES == "devices" and self.number)

    def is_valid(self) -> bool:
        return all([self.options.is_valid(), *[form.is_valid() for form in self.disks]])

    def entry(self) -> dict[str, Any]:
        groups = [
            {"use": form.use, **form.cleaned_data}
            for form in self.disks
            if form.cleaned_data["count"]
        ]
        return {
            "kind": self.kind,
            "options": self.options.options_and_sweep()[0],
            "devices": groups,
        }

    def typed(self) -> dict[str, Any]:
        """Entry as typed so far, right or wrong: for drawing the form again."""
        options = {name: self.options[name].value() for name in self.options.fields}
        groups = [
            {"use": form.use, "role": form["role"].value(), "count": form["count"].value()}
            for form in self.disks
        ]
        return {"kind": self.kind, "options": options, "devices": groups}


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
