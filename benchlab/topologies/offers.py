# SPDX-License-Identifier: Apache-2.0
"""Layers that fit between two others, and why the rest does not. Pure: each is tried, none is offered that fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agents.drivers import registry
from agents.drivers.protocols import Layer
from agents.plans.chain import WORDS
from benchlab.topologies.acts import Act
from benchlab.topologies.looked_at import Looked, Stack, after, look
from benchlab.topologies.reckoned import Shelf, needs_words, plainness


@dataclass(frozen=True, slots=True)
class Offer:
    """A layer that fits. `then`: what it still needs then; "" where a tool could work on the stack."""

    kind: str
    label: str
    says: str
    act: Act
    then: str = ""


@dataclass(frozen=True, slots=True)
class Offers:
    """Of one gap: `at` is where a layer would come to lie, from 0. `refused`: why the others do not fit, in words."""

    at: int
    found: tuple[Offer, ...]
    refused: tuple[str, ...] = ()


def all_offers(stack: Stack, shelf: Shelf) -> list[Offers]:
    """Of each gap, the lowest first: between the disks and the bottom layer, …, on top."""
    now = look(stack, shelf)
    return [_of(stack, at, now, shelf) for at in range(len(stack) + 1)]


def offers(stack: Stack, at: int, shelf: Shelf) -> Offers:
    """Of one gap."""
    return _of(stack, at, look(stack, shelf), shelf)


def _of(stack: Stack, at: int, now: Looked, shelf: Shelf) -> Offers:
    found: list[Offer] = []
    reasons: dict[str, list[str]] = {}
    for kind, driver in registry.all_layers().items():
        act = Act("add", at, (kind,))
        then = after(act, stack, shelf)
        if why := _why_not(driver, kind, stack, at, now, then):
            reasons.setdefault(why, []).append(driver.LABEL)
        else:
            found.append(Offer(kind, driver.LABEL, says(driver), act, _needs(kind, then)))
    found.sort(key=_place)
    refused = (f"{', '.join(labels)} {why}" for why, labels in reasons.items())
    return Offers(at, tuple(found), tuple(refused))


def _place(offer: Offer) -> tuple[bool, bool, tuple[int, int, str]]:
    """Key to sort offers by: what can be measured at once first, what only sets something last."""
    driver = registry.layer(offer.kind)
    return bool(offer.then), driver.PROVIDES == "same", plainness(driver)


def _why_not(
    driver: Layer[Any], kind: str, stack: Stack, at: int, now: Looked, then: Looked
) -> str:
    """To be said after its name; "" where it fits: nothing becomes worse, and it itself is right."""
    own = then.at(at + 1)
    if own is None and then.score // 2 <= now.score // 2:
        return ""
    if own and then.unmade:
        if needs_words(kind):
            return ""
        return f"cannot be made of it: {then.reckoned.error}"
    if own:
        return f"must have {WORDS[driver.REQUIRES]} below"
    worse = then.wrong[-1]
    above = registry.layer(stack[max(worse.layer - 2, 0)]["kind"])
    if then.unmade:
        return f"would not suit {above.LABEL} above it: {then.reckoned.error}"
    return f"would give {WORDS[driver.PROVIDES]}, but {above.LABEL} above it needs {WORDS[above.REQUIRES]}"


def _needs(kind: str, then: Looked) -> str:
    if then.missing:
        return "then needs a layer on top"
    return "then says what it sets" if needs_words(kind) else ""


def says(driver: Layer[Any]) -> str:
    """First sentence of the driver on itself."""
    text = " ".join((driver.__doc__ or "").split()).partition(". ")[0].rstrip(".")
    head, _, rest = text.partition(": ")
    return f"{rest[:1].upper()}{rest[1:]}" if head == driver.LABEL else text
