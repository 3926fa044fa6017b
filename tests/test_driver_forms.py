"""Options dataclasses as forms: every driver that exists, and each kind of field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from agents import options
from agents.contracts import OptionsError
from agents.drivers import registry
from benchlab.web.driver_forms import DriverForm, option_text, parse_option


@dataclass(frozen=True)
class Options:
    needed: int
    size: int = field(default=4096, metadata={"unit": "B", "minimum": 512})
    factor: float = 0.5
    mode: str = field(default="a", metadata={"choices": ("a", "b")})
    name: str = ""
    fast: bool = True
    words: tuple[str, ...] = ()
    text: str = field(default="", metadata={"multiline": True})

    def __post_init__(self) -> None:
        if self.needed == 13:
            raise OptionsError("needed: 13 brings bad luck")
        if self.needed == 14:
            raise OptionsError("these options do not fit")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("512", 512),
        ("4k", 4096),
        ("4KiB", 4096),
        ("1.5g", 3 << 29),
        ("10GB", 10 << 30),
        ("2T", 2 << 40),
    ],
)
def test_sizes_are_read_as_people_write_them(text, value):
    assert parse_option(text, int, "B") == value


@pytest.mark.parametrize("value", [0, 1, 512, 4096, 5000, 1 << 20, 3 << 29, 10 << 30])
def test_a_size_that_is_shown_reads_back(value):
    assert parse_option(option_text(value, "B"), int, "B") == value


@pytest.mark.parametrize(
    ("text", "kind", "unit", "says"),
    [
        ("4q", int, "B", "'4q' is not a size"),
        ("four", int, "", "'four' is not a whole number"),
        ("1.5", int, "s", "'1.5' is not a whole number"),
        ("x", float, "", "'x' is not a number"),
    ],
)
def test_what_is_no_value_is_named(text, kind, unit, says):
    with pytest.raises(ValidationError, match=says):
        parse_option(text, kind, unit)


def form(data: dict[str, str], **kwargs) -> DriverForm:
    return DriverForm(Options, {f"o-{k}": v for k, v in data.items()}, prefix="o", **kwargs)


def test_one_value_each():
    made = form({
        "needed": "3", "size": "8k", "mode": "b", "words": " x \n\ny=1\n", "text": "a\nb",
    })  # fmt: skip
    assert made.is_valid(), made.errors
    assert made.options_and_sweep() == (
        {
            "needed": 3, "size": 8192, "mode": "b", "name": "", "fast": False,
            "words": ["x", "y=1"], "text": "a\nb",
        },
        {},
    )  # fmt: skip


def test_several_values_are_a_sweep():
    made = form({"needed": "1, 2 4", "size": "4k 1MiB", "mode": "a b", "factor": "1"}, sweep=True)
    assert made.is_valid(), made.errors
    chosen, sweep = made.options_and_sweep()
    assert sweep == {"needed": [1, 2, 4], "size": [4096, 1 << 20], "mode": ["a", "b"]}
    assert chosen == {"factor": 1.0, "fast": False, "words": [], "text": ""}


@pytest.mark.parametrize(
    ("data", "where", "says"),
    [
        ({"mode": "a"}, "needed", "This field is required."),
        ({"needed": "1 2", "mode": "a"}, "needed", "'1 2' is not a whole number."),
        ({"needed": "1", "mode": "a", "size": "100"}, "size", "size: 100 is below 512"),
        ({"needed": "13", "mode": "a"}, "needed", "needed: 13 brings bad luck"),
        ({"needed": "14", "mode": "a"}, "__all__", "these options do not fit"),
        ({"needed": "1", "mode": "c"}, "mode", "Select a valid choice. c is not"),
    ],
)
def test_what_is_wrong_is_said_at_its_option(data, where, says):
    made = form(data)
    assert not made.is_valid()
    assert str(made.errors[where][0]).startswith(says)


def test_initial_values_are_shown_so_that_they_read_back():
    made = DriverForm(
        Options, prefix="o", sweep=True,
        initial={"needed": [1, 2], "size": [4096, 5000], "words": ["a b", "c"]},
    )  # fmt: skip
    shown = {name: made[name].value() for name in ("needed", "size", "words", "factor", "fast")}
    assert shown == {
        "needed": "1 2", "size": "4KiB 5000", "words": "a b\nc", "factor": "0.5", "fast": True,
    }  # fmt: skip


DRIVERS: dict[str, Any] = {**registry.all_layers(), **registry.all_tools()}


# What has no default is for a person to say.
SAID: dict[str, dict[str, Any]] = {
    "manual": {"instructions": "Pull the cable\nof port 3"},
    "reported": {"target": "/data [ext4]"},
}


@pytest.mark.parametrize("name", DRIVERS)
def test_every_driver_with_its_defaults_goes_through_its_form(name):
    driver, said = DRIVERS[name], SAID.get(name, {})
    empty = DriverForm(driver.Options, prefix="o", initial=said)
    data = {f"o-{name}": empty[name].value() for name in empty.fields}
    made = DriverForm(
        driver.Options, {k: v for k, v in data.items() if v not in (None, False)}, prefix="o"
    )
    assert made.is_valid(), made.errors
    assert options.build_options(driver.Options, made.options_and_sweep()[0]) == driver.Options(
        **said
    )


@pytest.mark.parametrize("name", SAID)
def test_what_has_no_default_must_be_said(name):
    made = DriverForm(DRIVERS[name].Options, {}, prefix="o")
    assert set(made.errors) == set(SAID[name])
