# SPDX-License-Identifier: Apache-2.0
"""Faults of a stack, with remedies of one click. Pure: each remedy is tried; one that does not help is not offered."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agents.drivers import registry
from agents.drivers.protocols import Layer
from agents.plans.chain import IS_VOLUME, WORDS, ChainFault, stands_on
from benchlab.topologies.acts import Act, count, given, main_use
from benchlab.topologies.looked_at import Looked, Stack, after, look
from benchlab.topologies.reckoned import Shelf, is_fast, plainness
from benchlab.web.driver_forms import option_label as option_label
from benchlab.web.driver_forms import option_text

# remedies of one trouble
MOST = 4
# of one kind among them
ALIKE = 2
# disks up to which counts are tried
WIDEST = 24


@dataclass(frozen=True, slots=True)
class Remedy:
    says: str
    act: Act


@dataclass(frozen=True, slots=True)
class Wrong:
    """`layer`: from 1; 0 where there is none."""

    layer: int
    says: str
    remedies: tuple[Remedy, ...] = ()


def wrong(stack: Stack, shelf: Shelf, looked: Looked | None = None) -> list[Wrong]:
    """All that is wrong, each with what would mend it; else what is missing on top; [] where it can be built."""
    now = looked or look(stack, shelf)
    troubles = now.wrong or ((now.missing,) if now.missing and stack else ())
    return [
        Wrong(one.layer, _sentence(one.message), _remedies(stack, one, now, shelf))
        for one in troubles
    ]


def _sentence(said: str) -> str:
    return f"{said[:1].upper()}{said[1:].rstrip('.')}."


def _remedies(stack: Stack, trouble: ChainFault, now: Looked, shelf: Shelf) -> tuple[Remedy, ...]:
    """Those that help most first; of equal ones in the order in which a person would try them."""
    tried: list[tuple[int, int, Remedy]] = []
    # By word, of those after which nothing is wrong: more of them need not be tried
    enough = Counter[str]()
    for place, remedy in enumerate(_candidates(stack, trouble)):
        if enough[remedy.act.word] == ALIKE:
            continue
        score = after(remedy.act, stack, shelf).score
        if score < now.score:
            tried.append((score, place, remedy))
            enough[remedy.act.word] += not score
    found: list[Remedy] = []
    for _, _, remedy in sorted(tried, key=lambda one: one[:2]):
        if sum(one.act.word == remedy.act.word for one in found) < ALIKE:
            found.append(remedy)
    return tuple(found[:MOST])


def _candidates(stack: Stack, trouble: ChainFault) -> Iterator[Remedy]:
    at = trouble.layer - 1
    if trouble.unfinished:
        yield from _adding(at + 1, "Put {} on top")
        return
    yield from _moving(stack, at)
    yield from _counting(stack, at)
    yield from _setting(stack, at)
    if not stands_on(registry.layer(stack[at]["kind"]), given(stack[:at])):
        yield from _adding(at, "Add {} below it")
    yield from _exchanging(stack, at)
    if len(stack) > 1:
        yield Remedy(f"Remove {_label(stack, at)}", Act("remove", at))


def _label(stack: Stack, at: int) -> str:
    return registry.layer(stack[at]["kind"]).LABEL


def _moving(stack: Stack, at: int) -> Iterator[Remedy]:
    for to, words in ((at - 1, "below"), (at + 1, "above")):
        if 0 <= to < len(stack):
            says = f"Move {_label(stack, at)} {words} {_label(stack, to)}"
            yield Remedy(says, Act("move", at, (to,)))


def _counting(stack: Stack, at: int) -> Iterator[Remedy]:
    """Other numbers of disks, the nearest first."""
    driver, groups = registry.layer(stack[at]["kind"]), _groups(stack[at])
    below = given(stack[:at])
    for use, means in driver.USES.items():
        now = count(groups.get(use, {}))
        if use == main_use(driver) and below in IS_VOLUME:
            if now:
                yield Remedy(f"Use {WORDS[below]} below", Act("disks", at, (use, 0)))
            continue
        near = sorted(range(means.least, min(means.most, WIDEST) + 1), key=lambda n: abs(n - now))
        for number in near:
            if number != now:
                yield Remedy(_taking(number, use, groups.get(use)), Act("disks", at, (use, number)))


def _taking(number: int, use: str, group: Mapping[str, Any] | None) -> str:
    if not number:
        return f"Use no disk for {use}"
    role = group["role"] if group and group.get("role") else f"disk{'s' * (number > 1)}"
    return f"Use {number} {role} for {use}"


def _groups(entry: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {group["use"]: group for group in entry.get("devices", ())}


def _setting(stack: Stack, at: int) -> Iterator[Remedy]:
    """Options back to what they are by default, then their other choices."""
    entry = stack[at]
    driver = registry.layer(entry["kind"])
    given_options = entry.get("options", {})
    specs = [spec for spec in dataclasses.fields(driver.Options) if "tuple" not in str(spec.type)]
    for spec in specs:
        now = given_options.get(spec.name, spec.default)
        if spec.default is not dataclasses.MISSING and now != spec.default:
            yield _set(at, spec, spec.default)
    for spec in specs:
        now = given_options.get(spec.name, spec.default)
        for choice in spec.metadata.get("choices", ()):
            if choice not in (now, spec.default):
                yield _set(at, spec, choice)


def _set(at: int, spec: dataclasses.Field[Any], value: Any) -> Remedy:
    unit = spec.metadata.get("unit", "")
    text = option_text(value, unit)
    return Remedy(
        f"Set {option_label(spec.name, unit)} to {text or 'nothing'}",
        Act("set", at, (spec.name, value)),
    )


def _adding(at: int, words: str) -> Iterator[Remedy]:
    for kind, driver in _plain_first():
        yield Remedy(words.format(driver.LABEL), Act("add", at, (kind,)))


def _plain_first() -> list[tuple[str, Layer[Any]]]:
    return sorted(registry.all_layers().items(), key=lambda one: plainness(one[1]))


def _exchanging(stack: Stack, at: int) -> Iterator[Remedy]:
    """Another layer on the same disks."""
    here = registry.layer(stack[at]["kind"])
    for kind, driver in _plain_first():
        if driver is not here and main_use(here) and main_use(driver):
            yield Remedy(f"Make it {driver.LABEL}", Act("exchange", at, (kind,)))


def shorten(stack: Stack, role: str, there: int, shelf: Shelf) -> Remedy | None:
    """The stack with only so many disks of a role, where one group takes them all and it can be built of those."""
    places = [
        (at, group)
        for at, entry in enumerate(stack)
        for group in entry.get("devices", ())
        if group["role"] == role and count(group)
    ]
    if len(places) != 1 or not there:
        return None
    [(at, group)] = places
    act = Act("disks", at, (group["use"], there))
    words = f"Make it {there} {role}" if is_fast(role) or there != 1 else f"Make it one {role}"
    return Remedy(words, act) if after(act, stack, shelf).valid else None
