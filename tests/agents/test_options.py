"""Words about options that a driver does not know."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from agents import options
from agents.contracts import OptionsError
from agents.drivers import registry

CASES = Path(__file__).parents[1] / "cases"
DRIVERS: list[Any] = [*registry.all_layers().values(), *registry.all_tools().values()]
EVERY = [
    (f"{driver.__name__}.{name}", getattr(driver, name))
    for driver in DRIVERS
    for name in ("Options", "Grow")
    if hasattr(driver, name)
]


@pytest.mark.parametrize(("name", "kind"), EVERY, ids=[name for name, _ in EVERY])
def test_an_unknown_option_is_told_the_known_ones(name, kind):
    with pytest.raises(OptionsError) as raised:
        options.build_options(kind, {"strypes": 1, "zork": 2})
    known = ", ".join(field.name for field in dataclasses.fields(kind)) or "none"
    assert str(raised.value) == f"there is no option 'strypes' and no 'zork'; known: {known}"


@pytest.mark.parametrize("given", [None, 7, ["level"], [["level", 5]], "level", {7: 1}])
def test_what_is_no_object_is_refused_too(given):
    with pytest.raises(OptionsError):
        options.build_options(registry.layer("raw").Options, given)


def described(kind: Any) -> str:
    """Each field with its default and its bounds, without what people read."""
    lines = []
    for field in dataclasses.fields(kind):
        default = "required"
        if field.default is not dataclasses.MISSING:
            default = repr(field.default)
        elif field.default_factory is not dataclasses.MISSING:
            default = repr(field.default_factory())
        bounds = {key: value for key, value in field.metadata.items() if key != "help"}
        lines.append("  ".join([field.name, default, *(f"{k}={v!r}" for k, v in bounds.items())]))
    return "".join(f"  {line}\n" for line in lines)


def test_defaults_and_bounds_of_every_driver(accepted):
    """A default that changes makes other runs of what people saved: read the diff, then --accept."""
    text = "".join(f"{name}\n{described(kind)}" for name, kind in EVERY)
    accepted(CASES / "options.txt", text)


@dataclasses.dataclass
class Part:
    size: int = 0


@dataclasses.dataclass
class Whole:
    part: Part


def test_an_unknown_option_within_another_is_refused():
    assert options.build_options(Whole, {"part": {"size": 7}}) == Whole(Part(7))
    with pytest.raises(OptionsError, match="zise"):
        options.build_options(Whole, {"part": {"zise": 7}})
