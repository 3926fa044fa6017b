"""The form of a topology: a name, and one block of fields per layer, made from its driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict

from agents import registry
from agents.plans.chain import WORDS
from agents.protocols import Layer
from benchlab.topologies import stage_forms
from benchlab.topologies.models import OnDegraded, Topology
from benchlab.topologies.stage_forms import DisksForm, StageForms
from benchlab.web.driver_forms import DriverForm

COMMON_ROLES = ("ssd", "hdd", "nvme")


class NameForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Topology
        fields = ["name", "description", "measure_resync", "on_degraded"]
        widgets = {"description": forms.Textarea(attrs={"rows": 2})}

    def __init__(self, *given: Any, **fields: Any) -> None:
        super().__init__(*given, **fields)
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
        given = {group["use"]: group for group in entry.get("devices", ())}
        none = {"count": 0} if given else None
        self.disks = [
            DisksForm(
                data, prefix=f"{prefix}-{use}", use=use, what=what, initial=given.get(use, none)
            )
            for use, what in self.driver.USES.items()
        ]

    @property
    def stands_on(self) -> str:
        return WORDS[self.driver.WANTS]

    @property
    def gives(self) -> str:
        return WORDS[self.driver.GIVES]

    def is_valid(self) -> bool:
        return all([self.options.is_valid(), *[form.is_valid() for form in self.disks]])

    def entry(self) -> dict[str, Any]:
        groups = [
            {"use": form.use, **form.cleaned_data}
            for form in self.disks
            if form.cleaned_data["count"]
        ]
        return {"kind": self.kind, "options": self.options.chosen()[0], "devices": groups}

    def typed(self) -> dict[str, Any]:
        """What was typed so far as an entry, right or wrong: for drawing the form again."""
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


def rearranged(post: QueryDict) -> tuple[list[LayerForms], list[StageForms]] | None:
    """Layers and stages after a button such as add or up; None when the form was submitted to be saved."""
    layers = from_post(post)
    entries = [layer.typed() for layer in layers]
    growths = [stage.typed() for stage in stage_forms.from_post(post, layers)]
    if (kind := post.get("add")) in registry.all_layers():
        entries.append({"kind": kind})
    elif (number := _number(post.get("remove"), entries)) is not None:
        del entries[number]
        growths = stage_forms.without(growths, number + 1)
    elif (number := _number(post.get("up"), entries)) is not None and number + 1 < len(entries):
        entries[number : number + 2] = entries[number + 1], entries[number]
        growths = stage_forms.swapped(growths, number + 1)
    elif (number := _number(post.get("grow"), entries)) is not None:
        growths.append({"layer": number + 1})
    elif (number := _number(post.get("drop"), growths)) is not None:
        del growths[number]
    else:
        return None
    moved = from_stack(entries)
    return moved, stage_forms.from_entries(growths, moved)


def _number(text: str | None, entries: Sequence[Any]) -> int | None:
    if text is None or not text.isdecimal() or int(text) >= len(entries):
        return None
    return int(text)
