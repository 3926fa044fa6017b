# SPDX-License-Identifier: Apache-2.0
"""A stack as the builder draws it: nested from the top down, disks at the bottom, places to add between. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.contracts import Claim
from agents.drivers import registry
from agents.drivers.protocols import Layer
from agents.plans.chain import IS_VOLUME
from benchlab.topologies.acts import Act, count, given, main_use
from benchlab.topologies.looked_at import Looked, Stack
from benchlab.topologies.offers import Offers
from benchlab.topologies.reckoned import is_fast
from benchlab.topologies.wanted import MOST_DEVICES
from benchlab.web.driver_forms import option_label as option_label
from benchlab.web.driver_forms import option_text
from benchlab.web.units import format_size

# disks of a group that are boxes with their size; of more each is a mark
DRAWN = 8
MARKED = 48
# options on a layer's box
TOLD = 3


@dataclass(frozen=True, slots=True)
class Slot:
    """A disk."""

    name: str
    size: str


@dataclass(frozen=True, slots=True)
class Disks:
    """Those of one use of a layer. `more` and `fewer`: acts that change their number; None where there is none."""

    use: str
    says: str
    role: str
    count: int
    slots: tuple[Slot, ...]
    marks: range
    more: Act | None
    fewer: Act | None

    @property
    def fast(self) -> bool:
        return is_fast(self.role)

    @property
    def each(self) -> str:
        """Their size, where they are drawn as marks."""
        sizes = dict.fromkeys(slot.size for slot in self.slots if slot.size)
        return " to ".join((*list(sizes)[:1], *list(sizes)[1:][-1:]))


@dataclass(frozen=True, slots=True)
class Gap:
    """A place where a layer may be added. `at`: where it would come to lie, from 0."""

    at: int
    says: str
    offers: Offers


@dataclass(frozen=True, slots=True)
class Level:
    """A layer with all that is beneath it. `at`: from 0. `risers`: disks of its own beside what it stands on."""

    at: int
    label: str
    says: str
    size: str
    css: str
    wrong: str
    gap: Gap
    disks: tuple[Disks, ...]
    risers: tuple[Disks, ...]
    below: Level | None

    @property
    def number(self) -> int:
        return self.at + 1


@dataclass(frozen=True, slots=True)
class Canvas:
    """`top`: the gap between the tools and the top layer. `target`: what the tools work on, in words."""

    top: Gap
    level: Level | None
    target: str
    size: str


def draw(stack: Stack, looked: Looked, offers: Sequence[Offers]) -> Canvas:
    level = None
    for at in range(len(stack)):
        level = _level(stack, at, looked, offers[at], level)
    gap = Gap(len(stack), _between(stack, len(stack)), offers[len(stack)])
    return Canvas(gap, level, _target(stack, looked), _size(looked, len(stack)))


def _level(stack: Stack, at: int, looked: Looked, offers: Offers, below: Level | None) -> Level:
    entry = stack[at]
    driver = registry.layer(entry["kind"])
    wrong = looked.at(at + 1)
    groups = list(_groups(stack, at, driver, looked))
    main = main_use(driver)
    beside = tuple(one for one in groups if below or one.use != main)
    return Level(
        at=at,
        label=driver.LABEL,
        says=" · ".join(told(driver, entry.get("options", {}))),
        size=_size(looked, at + 1),
        css=_css(driver),
        wrong=wrong.message if wrong else "",
        gap=Gap(at, _between(stack, at), offers),
        disks=tuple(one for one in groups if one not in beside),
        risers=beside,
        below=below,
    )


def _css(driver: Layer[Any]) -> str:
    """The colour of its edge: a file system, a cache, a setting, or any other volume."""
    if driver.PROVIDES == "mount":
        return "k-fs"
    if driver.PROVIDES == "same":
        return "k-set"
    return "k-cache" if driver.USES.get("cache") and driver.USES["cache"].least else "k-vol"


def _between(stack: Stack, at: int) -> str:
    """Position of a gap, in words."""
    labels = [registry.layer(entry["kind"]).LABEL for entry in stack]
    if not labels:
        return "at the bottom"
    if at == len(labels):
        return f"on top of {labels[-1]}"
    if not at:
        return f"below {labels[0]}"
    return f"between {labels[at - 1]} and {labels[at]}"


def told(driver: Layer[Any], options: Mapping[str, Any]) -> list[str]:
    """Its options in short: what differs from the default first, then what says something anyway."""
    changed: list[str] = []
    rest: list[str] = []
    for spec in dataclasses.fields(driver.Options):
        value = options.get(spec.name, spec.default)
        if value in ("", [], (), None, False, 0, -1) or value is dataclasses.MISSING:
            continue
        words = _words(spec, value)
        (rest if value == spec.default else changed).append(words)
    return [*changed, *rest][:TOLD]


def _words(spec: dataclasses.Field[Any], value: Any) -> str:
    unit = spec.metadata.get("unit", "")
    if value is True:
        return option_label(spec.name, "")
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    if unit == "B" and isinstance(value, int):
        return f"{option_label(spec.name, '')} {format_size(value)}"
    return f"{option_label(spec.name, '')} {option_text(value)}"


def _groups(stack: Stack, at: int, driver: Layer[Any], looked: Looked) -> Iterator[Disks]:
    """Those that it takes, and those that it must take and has not."""
    here = {group["use"]: group for group in stack[at].get("devices", ())}
    below = given(stack[:at])
    main = main_use(driver)
    for use, means in driver.USES.items():
        group = here.get(use, {})
        number = count(group)
        stands = use == main and driver.REQUIRES == "devices" and below in (*IS_VOLUME, "parts")
        if not number and (stands or not means.least):
            continue
        claims = looked.reckoned.disks(at + 1, use)
        role = str(group.get("role", ""))
        yield Disks(
            use=use,
            says=means.purpose,
            role=role,
            count=number,
            slots=tuple(_slots(role, number, claims)),
            marks=range(min(number, MARKED)),
            more=Act("disks", at, (use, number + 1))
            if number < min(means.most, MOST_DEVICES)
            else None,
            fewer=Act("disks", at, (use, number - 1)) if number > max(means.least, 1) else None,
        )


def _slots(role: str, number: int, claims: Sequence[Claim]) -> Iterator[Slot]:
    for at in range(number):
        claim = claims[at] if at < len(claims) else None
        name = claim.node.rpartition("/")[2] if claim else f"{role}{at + 1}"
        yield Slot(name, format_size(claim.size) if claim else "")


def _size(looked: Looked, number: int) -> str:
    """Size that a layer (from 1) gives; "" where it is not known."""
    placed = looked.reckoned.placed
    if not 0 < number <= len(placed) or (looked.wrong and looked.wrong[0].layer <= number):
        return ""
    given_size = placed[number - 1].gives.size
    return format_size(given_size) if given_size else ""


def _target(stack: Stack, looked: Looked) -> str:
    if not stack:
        return "nothing yet"
    if not looked.valid:
        return "no volume or file system yet"
    gives = looked.reckoned.placed[-1].gives
    if gives.mount:
        return "files in a directory of their own"
    alone = registry.layer(stack[-1]["kind"]).LABEL
    return f"the volume itself, as {alone} gives it: no file system between"
