"""Layers that fit between two: over all drivers, nothing is offered that is then refused, and there is no dead end."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest

from agents.drivers import registry
from agents.plans import chain
from benchlab.topologies import services
from benchlab.topologies.inspection import (
    all_offers,
    driver_summary,
    inspect_stack,
    specs_of,
)
from benchlab.topologies.stack_edits import StackEdit, apply_edit, needs_options
from tests.topologies.drafts import EXAMPLE, built

KINDS = sorted(registry.all_layers())


@cache
def standing(kind: str) -> tuple[dict, ...]:
    """The smallest stack with this layer on top in which nothing is wrong."""
    for below in ((), *((other,) for other in KINDS)):
        stack = built(*(f"add {at} {one}" for at, one in enumerate((*below, kind))))
        wrong = inspect_stack(stack, EXAMPLE).wrong
        if not wrong or (wrong[-1].layer == len(stack) and needs_options(kind)):
            return tuple(stack)
    raise AssertionError(f"{kind} stands on nothing")


def said(stack) -> list[dict]:
    """As it is saved: what a person has yet to write is written."""
    return [
        {"kind": spec.kind, "options": dict(spec.options), "devices": groups(spec)}
        for spec in specs_of(stack)
    ]


def groups(spec) -> list[dict]:
    return [{"use": one.use, "role": one.role, "count": one.count} for one in spec.devices]


def pairs():
    """Every driver on every other on which it stands."""
    for lower, upper in product(KINDS, KINDS):
        stack = [*standing(lower)]
        stack = apply_edit(StackEdit("add", len(stack), (upper,)), stack, EXAMPLE)
        if not [one for one in chain.troubles(specs_of(stack)) if not one.unfinished]:
            yield stack


@pytest.mark.parametrize("kind", KINDS)
def test_every_layer_stands_on_something_that_is_offered(kind):
    stack = [*standing(kind)]
    for at in range(len(stack)):
        offered = {one.kind for one in all_offers(stack[:at], EXAMPLE)[at].found}
        assert stack[at]["kind"] in offered, stack


@pytest.mark.one_in(2)
def test_nothing_is_offered_between_any_two_that_is_then_refused():
    tried = 0
    for stack in pairs():
        before = inspect_stack(stack, EXAMPLE)
        for gap in all_offers(stack, EXAMPLE):
            for offer in gap.found:
                after = apply_edit(offer.act, stack, EXAMPLE)
                now = inspect_stack(after, EXAMPLE)
                own = now.trouble_at(gap.at + 1)
                filled_in = needs_options(offer.kind)
                assert own is None or filled_in, (stack, offer, own)
                assert len(now.wrong) <= len(before.wrong) + filled_in, (stack, offer, now.wrong)
                troubles = [one for one in chain.troubles(specs_of(after)) if not one.unfinished]
                assert troubles == [], (stack, offer)
                if not now.missing and not now.wrong:
                    assert services.checked_stack(said(after)), (stack, offer)
                tried += 1
    assert tried > 500


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_finished_can_be(kind):
    """On whatever stands there is an offer, or one more on it, with which a tool can work."""
    stack = [*standing(kind)]
    now = inspect_stack(stack, EXAMPLE)
    if not now.missing:
        return
    found = [offer for offer in all_offers(stack, EXAMPLE)[-1].found if not offer.then]
    assert found, f"{kind} is a dead end"
    assert inspect_stack(apply_edit(found[0].act, stack, EXAMPLE), EXAMPLE).valid


def test_every_layer_is_offered_or_refused_in_words():
    for gap in all_offers(built("add 0 lvm", "add 1 filesystem"), EXAMPLE):
        named = {one.label for one in gap.found}
        refused = " ".join(gap.refused)
        for driver in registry.all_layers().values():
            assert driver.LABEL in named or driver.LABEL in refused


def test_between_a_volume_and_a_file_system():
    stack = built("add 0 lvm", "add 1 filesystem")
    middle = all_offers(stack, EXAMPLE)[1]
    assert {"lvm_cache", "dm_crypt", "bcache", "tuning"} <= {one.kind for one in middle.found}
    said = " ".join(middle.refused)
    assert "ZFS file system, ZFS volume must have a zpool below" in said
    assert "zpool would give a zpool, but File system above it needs a volume" in said
    assert "md RAID cannot be made of it: RAID 5 needs 2 members at least, there are 1" in said
    assert [one.kind for one in all_offers(stack, EXAMPLE)[2].found] == ["manual", "tuning"]


def test_what_leads_on_says_so():
    bottom = {one.kind: one.then for one in all_offers([], EXAMPLE)[0].found}
    assert bottom["zpool"] == bottom["partition"] == "then needs a layer on top"
    assert bottom["raw"] == bottom["lvm"] == bottom["directory"] == ""
    assert not {"filesystem", "zfs", "lvm_cache"} & set(bottom)


def test_each_driver_says_what_it_is():
    for kind, driver in registry.all_layers().items():
        assert 8 < len(driver_summary(driver)) < 150, kind
    assert driver_summary(registry.layer("md")) == "Linux software RAID (md)"
    assert driver_summary(registry.layer("bcache")) == "A fast disk caches one or more slow ones"
