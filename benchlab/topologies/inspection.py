# SPDX-License-Identifier: Apache-2.0
"""Inspection of a stack while it is built: its faults with remedies of one click, and the layers that fit. Pure.

Each remedy and each layer is tried: one that does not help, or does not fit, is not offered.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.drivers import registry
from agents.drivers.protocols import Layer
from agents.plans import chain
from agents.plans.chain import IS_VOLUME, WORDS, ChainFault, LayerSpec, stands_on
from benchlab.topologies.stack_edits import (
    DiskSupply,
    SizeEstimate,
    StackEdit,
    apply_edit,
    estimate_sizes,
    gives_below,
    group_count,
    is_fast_role,
    main_use,
    needs_options,
    placeholder_options,
    plainness,
)
from benchlab.web.driver_forms import option_label, option_text

Stack = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Inspection:
    """Result of an inspection.

    `wrong`: layers that cannot stand on what is below them; where all can, those that cannot be made (`unmade`).

    `missing`: nothing is wrong so far, and a layer on top is missing.
    """

    wrong: tuple[ChainFault, ...]
    missing: ChainFault | None
    reckoned: SizeEstimate
    unmade: bool = False

    @property
    def valid(self) -> bool:
        return not (self.wrong or self.missing)

    @property
    def score(self) -> int:
        """Score, the lower the better; 0 if the stack can be built.

        Layers on a wrong base count most, a missing top layer least.
        """
        return (2 if self.unmade else 4 * len(self.wrong)) + bool(self.missing)

    def trouble_at(self, layer: int) -> ChainFault | None:
        """Trouble of one layer, from 1."""
        return next((trouble for trouble in self.wrong if trouble.layer == layer), None)


def inspect_stack(stack: Stack, shelf: DiskSupply) -> Inspection:
    """Inspect a stack: whether its layers can stand on each other and, if they can, whether they can be made."""
    specs = specs_of(stack)
    troubles = list(chain.troubles(specs))
    missing = next((trouble for trouble in troubles if trouble.unfinished), None)
    wrong = [trouble for trouble in troubles if not trouble.unfinished]
    reckoned = estimate_sizes(specs, shelf)
    unmade = bool(reckoned.error and not wrong)
    if unmade:
        label = registry.layer(specs[reckoned.layer - 1].kind).LABEL
        text = f"layer {reckoned.layer} ({label}): {reckoned.error}"
        wrong.append(ChainFault(reckoned.layer, text))
    return Inspection(tuple(wrong), None if wrong else missing, reckoned, unmade)


def specs_of(stack: Stack) -> list[LayerSpec]:
    """Layers of the stack. An option that nobody wrote yet has a placeholder; a use without disks is left out."""
    return chain.specs(
        {
            "kind": entry["kind"],
            "options": {
                **placeholder_options(registry.layer(entry["kind"])),
                **entry.get("options", {}),
            },
            "devices": [
                {**group, "count": group_count(group)}
                for group in entry.get("devices", ())
                if group_count(group)
            ],
        }
        for entry in stack
    )


def inspect_after(act: StackEdit, stack: Stack, shelf: DiskSupply) -> Inspection:
    """Inspect the stack as it would be after the edit."""
    return inspect_stack(apply_edit(act, stack, shelf), shelf)


@dataclass(frozen=True, slots=True)
class LayerOffer:
    """A layer that fits. `then`: what it still needs then; "" where a tool could work on the stack."""

    kind: str
    label: str
    says: str
    act: StackEdit
    then: str = ""


@dataclass(frozen=True, slots=True)
class GapOffers:
    """Offers for one gap. `at`: where a layer would lie, from 0. `refused`: why the others do not fit, in words."""

    at: int
    found: tuple[LayerOffer, ...]
    refused: tuple[str, ...] = ()


def all_offers(stack: Stack, shelf: DiskSupply) -> list[GapOffers]:
    """Offers for each gap, the lowest first: between the disks and the bottom layer, …, on top."""
    now = inspect_stack(stack, shelf)
    return [_gap_offers(stack, at, now, shelf) for at in range(len(stack) + 1)]


def _gap_offers(stack: Stack, at: int, now: Inspection, shelf: DiskSupply) -> GapOffers:
    fitting: list[LayerOffer] = []
    reasons: dict[str, list[str]] = {}
    for kind, driver in registry.all_layers().items():
        act = StackEdit("add", at, (kind,))
        then = inspect_after(act, stack, shelf)
        if why := _why_not(driver, kind, stack, at, now, then):
            reasons.setdefault(why, []).append(driver.LABEL)
        else:
            fitting.append(
                LayerOffer(kind, driver.LABEL, driver_summary(driver), act, _open_need(kind, then))
            )
    fitting.sort(key=_offer_order)
    refused = (f"{', '.join(labels)} {why}" for why, labels in reasons.items())
    return GapOffers(at, tuple(fitting), tuple(refused))


def _offer_order(offer: LayerOffer) -> tuple[bool, bool, tuple[int, int, str]]:
    """Key to sort offers by: what can be measured at once first, what only sets something last."""
    driver = registry.layer(offer.kind)
    return bool(offer.then), driver.PROVIDES == "same", plainness(driver)


def _why_not(
    driver: Layer[Any], kind: str, stack: Stack, at: int, now: Inspection, then: Inspection
) -> str:
    """Reason to print after the layer's name; "" if it fits, that is, it is right itself and makes nothing worse."""
    own = then.trouble_at(at + 1)
    if own is None and then.score // 2 <= now.score // 2:
        return ""
    if own and then.unmade:
        if needs_options(kind):
            return ""
        return f"cannot be made of it: {then.reckoned.error}"
    if own:
        return f"must have {WORDS[driver.REQUIRES]} below"
    worse = then.wrong[-1]
    above = registry.layer(stack[max(worse.layer - 2, 0)]["kind"])
    if then.unmade:
        return f"would not suit {above.LABEL} above it: {then.reckoned.error}"
    return f"would give {WORDS[driver.PROVIDES]}, but {above.LABEL} above it needs {WORDS[above.REQUIRES]}"


def _open_need(kind: str, then: Inspection) -> str:
    if then.missing:
        return "then needs a layer on top"
    return "then says what it sets" if needs_options(kind) else ""


def driver_summary(driver: Layer[Any]) -> str:
    """First sentence of the driver on itself."""
    text = " ".join((driver.__doc__ or "").split()).partition(". ")[0].rstrip(".")
    head, _, rest = text.partition(": ")
    return f"{rest[:1].upper()}{rest[1:]}" if head == driver.LABEL else text


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
    driver = registry.layer(stack[at]["kind"])
    groups = {group["use"]: group for group in stack[at].get("devices", ())}
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
