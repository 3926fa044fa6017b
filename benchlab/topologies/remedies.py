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
from benchlab.topologies.inspection import Inspection, Stack, inspect_after, inspect_stack
from benchlab.topologies.size_estimates import DiskSupply, is_fast_role, plainness
from benchlab.topologies.stack_edits import StackEdit, gives_below, group_count, main_use
from benchlab.web.driver_forms import option_label as option_label
from benchlab.web.driver_forms import option_text

# remedies of one trouble
MAX_REMEDIES = 4
# of one kind among them
MAX_OF_KIND = 2
# disks up to which counts are tried
MAX_TRIED_DISKS = 24


@dataclass(frozen=True, slots=True)
class Remedy:
    says: str
    act: StackEdit


@dataclass(frozen=True, slots=True)
class Fault:
    """`layer`: from 1; 0 where there is none."""

    layer: int
    says: str
    remedies: tuple[Remedy, ...] = ()


def find_faults(stack: Stack, shelf: DiskSupply, looked: Inspection | None = None) -> list[Fault]:
    """All faults, each with its remedies; else what is missing on top; [] where the stack can be built."""
    now = looked or inspect_stack(stack, shelf)
    troubles = now.wrong or ((now.missing,) if now.missing and stack else ())
    return [
        Fault(trouble.layer, _sentence(trouble.message), _remedies(stack, trouble, now, shelf))
        for trouble in troubles
    ]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _remedies(
    stack: Stack, trouble: ChainFault, now: Inspection, shelf: DiskSupply
) -> tuple[Remedy, ...]:
    """Remedies that help most first; equal ones in the order in which a person would try them."""
    tried: list[tuple[int, int, Remedy]] = []
    # By word, of those after which nothing is wrong: more of them need not be tried
    enough = Counter[str]()
    for place, remedy in enumerate(_candidates(stack, trouble)):
        if enough[remedy.act.word] == MAX_OF_KIND:
            continue
        score = inspect_after(remedy.act, stack, shelf).score
        if score < now.score:
            tried.append((score, place, remedy))
            enough[remedy.act.word] += not score
    chosen: list[Remedy] = []
    for _, _, remedy in sorted(tried, key=lambda other: other[:2]):
        if sum(other.act.word == remedy.act.word for other in chosen) < MAX_OF_KIND:
            chosen.append(remedy)
    return tuple(chosen[:MAX_REMEDIES])


def _candidates(stack: Stack, trouble: ChainFault) -> Iterator[Remedy]:
    at = trouble.layer - 1
    if trouble.unfinished:
        yield from _add_remedies(at + 1, "Put {} on top")
        return
    yield from _move_remedies(stack, at)
    yield from _count_remedies(stack, at)
    yield from _option_remedies(stack, at)
    if not stands_on(registry.layer(stack[at]["kind"]), gives_below(stack[:at])):
        yield from _add_remedies(at, "Add {} below it")
    yield from _exchange_remedies(stack, at)
    if len(stack) > 1:
        yield Remedy(f"Remove {_layer_label(stack, at)}", StackEdit("remove", at))


def _layer_label(stack: Stack, at: int) -> str:
    return registry.layer(stack[at]["kind"]).LABEL


def _move_remedies(stack: Stack, at: int) -> Iterator[Remedy]:
    for to, words in ((at - 1, "below"), (at + 1, "above")):
        if 0 <= to < len(stack):
            text = f"Move {_layer_label(stack, at)} {words} {_layer_label(stack, to)}"
            yield Remedy(text, StackEdit("move", at, (to,)))


def _count_remedies(stack: Stack, at: int) -> Iterator[Remedy]:
    """Remedies by another number of disks, the nearest number first."""
    driver, groups = registry.layer(stack[at]["kind"]), _groups_by_use(stack[at])
    below = gives_below(stack[:at])
    for use, means in driver.USES.items():
        now = group_count(groups.get(use, {}))
        if use == main_use(driver) and below in IS_VOLUME:
            if now:
                yield Remedy(f"Use {WORDS[below]} below", StackEdit("disks", at, (use, 0)))
            continue
        near = sorted(
            range(means.least, min(means.most, MAX_TRIED_DISKS) + 1), key=lambda n: abs(n - now)
        )
        for number in near:
            if number != now:
                yield Remedy(
                    _count_text(number, use, groups.get(use)), StackEdit("disks", at, (use, number))
                )


def _count_text(number: int, use: str, group: Mapping[str, Any] | None) -> str:
    if not number:
        return f"Use no disk for {use}"
    role = group["role"] if group and group.get("role") else f"disk{'s' * (number > 1)}"
    return f"Use {number} {role} for {use}"


def _groups_by_use(entry: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {group["use"]: group for group in entry.get("devices", ())}


def _option_remedies(stack: Stack, at: int) -> Iterator[Remedy]:
    """Remedies that set options to their defaults, then those that set their other choices."""
    entry = stack[at]
    driver = registry.layer(entry["kind"])
    given_options = entry.get("options", {})
    specs = [spec for spec in dataclasses.fields(driver.Options) if "tuple" not in str(spec.type)]
    for spec in specs:
        now = given_options.get(spec.name, spec.default)
        if spec.default is not dataclasses.MISSING and now != spec.default:
            yield _option_remedy(at, spec, spec.default)
    for spec in specs:
        now = given_options.get(spec.name, spec.default)
        for choice in spec.metadata.get("choices", ()):
            if choice not in (now, spec.default):
                yield _option_remedy(at, spec, choice)


def _option_remedy(at: int, spec: dataclasses.Field[Any], value: Any) -> Remedy:
    unit = spec.metadata.get("unit", "")
    text = option_text(value, unit)
    return Remedy(
        f"Set {option_label(spec.name, unit)} to {text or 'nothing'}",
        StackEdit("set", at, (spec.name, value)),
    )


def _add_remedies(at: int, words: str) -> Iterator[Remedy]:
    for kind, driver in _plain_first():
        yield Remedy(words.format(driver.LABEL), StackEdit("add", at, (kind,)))


def _plain_first() -> list[tuple[str, Layer[Any]]]:
    return sorted(registry.all_layers().items(), key=lambda item: plainness(item[1]))


def _exchange_remedies(stack: Stack, at: int) -> Iterator[Remedy]:
    """Remedies by another layer on the same disks."""
    current = registry.layer(stack[at]["kind"])
    for kind, driver in _plain_first():
        if driver is not current and main_use(current) and main_use(driver):
            yield Remedy(f"Make it {driver.LABEL}", StackEdit("exchange", at, (kind,)))


def fewer_disks(stack: Stack, role: str, available: int, shelf: DiskSupply) -> Remedy | None:
    """The stack with only so many disks of a role, where one group takes them all and it can be built of those."""
    places = [
        (at, group)
        for at, entry in enumerate(stack)
        for group in entry.get("devices", ())
        if group["role"] == role and group_count(group)
    ]
    if len(places) != 1 or not available:
        return None
    [(at, group)] = places
    act = StackEdit("disks", at, (group["use"], available))
    words = (
        f"Make it {available} {role}"
        if is_fast_role(role) or available != 1
        else f"Make it one {role}"
    )
    return Remedy(words, act) if inspect_after(act, stack, shelf).valid else None
