"""The part of a plan that was ever begun, and which disks are not what a person saw: no other disk is taken down."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.facts.model import Signature
from agents.plans import plan_fingerprint, stack
from agents.plans.applied_part import own_claims, reached
from agents.plans.chain import DiskRequest, LayerSpec, StageSpec
from tests.agents.growing import toy
from tests.agents.made_up import disk, host, spare

__all__ = ["toy"]

pytestmark = pytest.mark.usefixtures("toy")
DISKS = tuple(disk(f"sd{letter}", n) for n, letter in enumerate("bcdef", start=1))
TOY = LayerSpec("toy", {}, (DiskRequest("data", "ssd", 2),))
CACHED = LayerSpec("bcache", {}, (DiskRequest("cache", "ssd", 1),))
XFS = LayerSpec("filesystem", {"type": "xfs"})
ONE_MORE = StageSpec(1, {}, (DiskRequest("data", "ssd", 1),))
SEEN = host(*DISKS)


def plan(*specs, stages=(ONE_MORE, ONE_MORE)):
    return stack.plan_stack(specs, "bl17", SEEN, spare(*DISKS, role="ssd").values(), tuple(stages))


def ids(*letters: str) -> set[str]:
    return {f"serial:SN-sd{letter}" for letter in letters}


def claimed(made) -> set[str]:
    return {claim.identity for claim in made.claims}


def test_stages_that_never_began_are_left_out():
    made = plan(TOY)
    assert claimed(reached(made, ids("b", "c"))) == ids("b", "c")
    assert claimed(reached(made, ids("b", "c", "d"))) == ids("b", "c", "d")
    assert reached(made, ids("b", "c", "d", "e")) == made
    [step] = stack.teardown_stack(reached(made, ids("b", "c")), SEEN)
    assert step.argv == ("toy", "destroy", "/dev/sdb", "/dev/sdc")


def test_a_layer_whose_disks_nobody_touched_is_left_out_with_all_above():
    made = plan(LayerSpec("lvm", {}, (DiskRequest("data", "ssd", 2),)), CACHED, XFS, stages=())
    whole = reached(made, ids("b", "c", "d"))
    assert whole == made
    assert [layer.spec.kind for layer in reached(made, ids("b", "c")).layers] == ["lvm"]
    nothing = reached(made, set())
    assert (nothing.layers, nothing.claims, stack.teardown_stack(nothing, SEEN)) == ((), (), [])
    assert stack.not_restored(nothing, SEEN) == []


def test_layers_without_disks_of_their_own_stay():
    made = plan(TOY, XFS, stages=())
    assert reached(made, ids("b", "c")) == made
    assert {claim.identity for claim in own_claims(made.layers[0])} == ids("b", "c")
    assert own_claims(made.layers[1]) == ()


def test_what_came_onto_a_disk_since_is_a_change_and_what_went_is_none():
    claims = plan(TOY).claims
    precious = replace(DISKS[2], signatures=(Signature("ext4", 1080, "precious"),))
    later = host(*DISKS[:2], precious, *DISKS[3:])
    assert [c.node for c in plan_fingerprint.changed_claims(claims, SEEN, later)] == ["/dev/sdd"]
    assert plan_fingerprint.changed_claims(claims, later, later) == [], "it was agreed to"
    assert plan_fingerprint.changed_claims(claims, later, SEEN) == [], "blank now"
    assert plan_fingerprint.changed_claims(claims, SEEN, host(*DISKS[:2])) == [], (
        "the guard tells who is gone"
    )
    assert plan_fingerprint.changed_claims(claims, None, SEEN) == []
    assert [c.node for c in plan_fingerprint.changed_claims(claims, None, later)] == ["/dev/sdd"]


def test_what_cannot_be_read_any_more_is_a_change():
    unread = replace(DISKS[2], signatures_known=False)
    found = plan_fingerprint.changed_claims(
        plan(TOY).claims, SEEN, host(*DISKS[:2], unread, *DISKS[3:])
    )
    assert [claim.node for claim in found] == ["/dev/sdd"]
