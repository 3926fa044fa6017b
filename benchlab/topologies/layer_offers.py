# SPDX-License-Identifier: Apache-2.0
"""Layers that fit between two others, and why the rest does not. Pure: each is tried, none is offered that fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agents.drivers import registry
from agents.drivers.protocols import Layer
from agents.plans.chain import WORDS
from benchlab.topologies.inspection import Inspection, Stack, inspect_after, inspect_stack
from benchlab.topologies.size_estimates import DiskSupply, needs_options, plainness
from benchlab.topologies.stack_edits import StackEdit


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


def gap_offers(stack: Stack, at: int, shelf: DiskSupply) -> GapOffers:
    """Offers for one gap."""
    return _gap_offers(stack, at, inspect_stack(stack, shelf), shelf)


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
