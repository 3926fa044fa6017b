# SPDX-License-Identifier: Apache-2.0
"""A driver's Options dataclass becomes a Django form: agents know nothing of Django, so this one place maps.

int and float fields with unit B take sizes as people write them (4k, 1GiB); tuples take one item a line. In a form made
for a sweep every plain option takes several values, separated by spaces.
"""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from agents import options as driver_options
from agents.contracts import OptionsError

SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
SCALE = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
Spec = dataclasses.Field[Any]


def parse_option(text: str, kind: type, unit: str = "") -> Any:
    """One option value from text. Raises ValidationError naming the text."""
    try:
        if kind is int and unit == "B" and (match := SIZE.fullmatch(text)):
            return round(float(match[1]) * 1024 ** SCALE[match[2].lower()])
        return kind(text)
    except ValueError:
        expected = {
            int: "a size (4k, 1GiB)" if unit == "B" else "a whole number",
            float: "a number",
        }
        raise ValidationError(f"{text!r} is not {expected[kind]}.") from None


def option_text(value: Any, unit: str = "") -> str:
    """The text that `parse` turns into this value again."""
    if unit == "B" and isinstance(value, int) and value:
        for power, prefix in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
            if value % 1024**power == 0:
                return f"{value // 1024**power}{prefix}"
    return str(value)


class ValuesField(forms.CharField):
    """One value or several; cleaned to a list, empty when nothing was typed."""

    def __init__(self, *, kind: type, unit: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kind, self.unit = kind, unit

    def to_python(self, value: Any) -> Any:
        words = re.split(r"[\s,]+", (value or "").strip())
        return [parse_option(word, self.kind, self.unit) for word in words if word]

    def validate(self, value: Any) -> None:
        if self.required and not value:
            raise ValidationError(self.error_messages["required"], code="required")

    def run_validators(self, value: Any) -> None:
        """Each value was checked when it was parsed; limits are the driver's to check."""


class ValueField(ValuesField):
    """Exactly one value, in the same notation."""

    def to_python(self, value: Any) -> Any:
        text = (value or "").strip()
        return [parse_option(text, self.kind, self.unit)] if text else []


class LinesField(forms.CharField):
    widget = forms.Textarea(attrs={"rows": 2})

    def to_python(self, value: Any) -> Any:
        return [line.strip() for line in (value or "").splitlines() if line.strip()]

    def run_validators(self, value: Any) -> None:
        """Lines are the driver's to check."""


class DriverForm(forms.Form):
    """The options of one driver. `initial` takes option values; `sweep` lets most options take several."""

    def __init__(
        self,
        options: type[Any],
        data: Mapping[str, Any] | None = None,
        *,
        prefix: str,
        initial: Mapping[str, Any] | None = None,
        sweep: bool = False,
    ) -> None:
        super().__init__(data, prefix=prefix)
        self.options_class = options
        self.sweep = sweep
        kinds = typing.get_type_hints(options)
        self.specs = {spec.name: spec for spec in dataclasses.fields(options)}
        for spec in self.specs.values():
            self.fields[spec.name] = _form_field(spec, kinds[spec.name], sweep)
            option_value = (initial or {}).get(spec.name, _default_value(spec))
            self.initial[spec.name] = _initial_value(spec, option_value, sweep)

    def options_and_sweep(self) -> tuple[dict[str, Any], dict[str, list[Any]]]:
        """(options, sweep) of a valid form: what has several values is the sweep, what was left empty is left out."""
        options: dict[str, Any] = {}
        sweep: dict[str, list[Any]] = {}
        for name, value in self.cleaned_data.items():
            if not isinstance(self.fields[name], ValuesField):
                options[name] = value
            elif len(value) == 1:
                options[name] = value[0]
            elif value:
                sweep[name] = value
        return options, sweep

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if not self.errors and not self.sweep:
            try:
                driver_options.build_options(self.options_class, self.options_and_sweep()[0])
            except OptionsError as error:
                self.add_driver_error(str(error))
        return cleaned

    def add_driver_error(self, text: str) -> None:
        """Put the driver's own words at the option that they name."""
        name, colon, _ = text.partition(":")
        self.add_error(name if colon and name in self.fields else None, text)


def _form_field(spec: Spec, kind: Any, sweep: bool) -> forms.Field:
    meta = spec.metadata
    unit = meta.get("unit", "")
    common: dict[str, Any] = {
        "label": option_label(spec.name, unit),
        "help_text": meta.get("help", ""),
    }
    common["required"] = _default_value(spec) is dataclasses.MISSING
    if kind is bool:
        return forms.BooleanField(**{**common, "required": False})
    if typing.get_origin(kind) is tuple:
        common["help_text"] = f"{common['help_text']} (one a line)".strip()
        if meta.get("multiline"):
            common["widget"] = _text_area()
        return LinesField(**common)
    if meta.get("multiline"):
        common["widget"] = _text_area()
        return forms.CharField(**common)
    if choices := meta.get("choices"):
        if not sweep:
            # A browser sends text; the driver's own check wants its kind.
            choice_texts = [(c, option_text(c, unit)) for c in choices]
            return forms.TypedChoiceField(choices=choice_texts, coerce=kind, **common)
        common["help_text"] = f"{common['help_text']}: {', '.join(map(str, choices))}".lstrip(": ")
    if kind is str and not sweep:
        return forms.CharField(**common)
    return (ValuesField if sweep else ValueField)(kind=kind, unit=unit, **common)


def _text_area() -> forms.Textarea:
    return forms.Textarea(attrs={"rows": 6, "spellcheck": "false"})


def _initial_value(spec: Spec, value: Any, sweep: bool) -> Any:
    if value is dataclasses.MISSING:
        return None
    if isinstance(value, bool) or value is None:
        return value
    if spec.metadata.get("choices") and not sweep:
        # one of a list, whatever the list calls it
        return value
    if isinstance(value, list | tuple):
        # A list is a sweep's values; a tuple option holds lines.
        lines = "tuple" in str(spec.type)
        return ("\n" if lines else " ").join(
            option_text(v, spec.metadata.get("unit", "")) for v in value
        )
    return option_text(value, spec.metadata.get("unit", ""))


def _default_value(spec: Spec) -> Any:
    if spec.default_factory is not dataclasses.MISSING:
        return spec.default_factory()
    return spec.default


def option_label(name: str, unit: str) -> str:
    words = name.removesuffix("_s").replace("_", " ")
    return f"{words} ({unit})" if unit and unit != "B" else words
