"""A dead disk: the rest of a layout is taken down, and the guard allows it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agents import registry, stack
from agents.blank import not_blank
from agents.chain import LayerSpec, Wanted
from agents.contracts import Step
from agents.facts.model import BlockDevice, HostFacts, Signature
from agents.gone import forgotten, gone, without
from agents.guard import refusals
from agents.layers._names import lvm_uuid_of
from tests.agents.made_up import LAYOUT, claim, disk, host, spare

TOOLS = {n.program: "1" for kind in registry.all_layers().values() for n in kind.NEEDS}
SDB, SDC = (disk(f"sd{letter}", n, size=4 << 30) for n, letter in enumerate("bc", start=1))
POOL = spare(SDB, SDC, role="ssd")
PV = Signature("LVM2_member", 0, "", lvm_uuid_of(LAYOUT, "pv", "data", "/dev/sdb"))
MD = Signature("linux_raid_member", 0, f"any:{LAYOUT}")
MD_FACTS: dict[str, Any] = {
    "members": {"sdb": f"md {LAYOUT}"},
    "md_members": ["sdb"],
    "md_arrays": [{"name": "md127", "state": "active", "level": "raid1",
                   "members": [{"device": "sdb", "number": 0}]}],
}  # fmt: skip
LVM_FACTS: dict[str, Any] = {
    "members": {"sdb": f"lvm {LAYOUT}"},
    "dm_tables": [f"{LAYOUT}-data: 0 8 striped 2 8 8:16 0 8:32 0"],
}
VOLUME = {"path": f"/dev/mapper/{LAYOUT}-data", "type": "lvm", "majmin": "253:0"}
DM = disk("dm-0", 9, serial="", parents=["sdb", "sdc"], **VOLUME)
ARRAY = disk("md127", 8, type="raid1", path="/dev/md127", links=[f"/dev/md/{LAYOUT}"], serial="", majmin="9:127",
             parents=["sdb"])  # fmt: skip


def plan(kind: str, **options: Any) -> stack.StackPlan:
    spec = LayerSpec(kind, options, (Wanted("data", "ssd", 2),))
    return stack.plan((spec,), LAYOUT, host(SDB, SDC, tools=TOOLS), POOL.values())


def left(signature: Signature, on_it: BlockDevice, **facts: Any) -> HostFacts:
    """Of a layout on two disks, when the second one is dead."""
    alive = replace(SDB, holders=(on_it.name,), signatures=(signature,))
    return host(alive, on_it, tools=TOOLS, **facts)


@pytest.mark.parametrize(
    ("made", "facts"),
    [(plan("lvm"), left(PV, DM, **LVM_FACTS)), (plan("md", level=1), left(MD, ARRAY, **MD_FACTS))],
    ids=["lvm", "md"],
)
def test_what_is_left_is_taken_down_without_the_dead_disk(made, facts):
    lost = gone(made.claims, facts)
    facts = forgotten(facts, lost)
    assert [claim.node for claim in lost] == ["/dev/sdc"]
    steps = without(stack.teardown(made, facts), lost)
    assert [said for step in steps for said in refusals(step, facts, POOL, LAYOUT)] == []
    assert any("/dev/sdb" in step.argv for step in steps)
    assert not any("/dev/sdc" in str(word) for step in steps for word in step.argv)
    said = not_blank(made.claims, facts, LAYOUT)
    assert any(text.startswith("/dev/sdc") and "is not on this host" in text for text in said)


def test_steps_of_a_dead_disk_alone_are_left_out_and_those_of_none_stay():
    both, dead = claim(SDB), claim(SDC)
    steps = [Step(("a",), "", destroys=(both, dead)), Step(("b",), "", destroys=(dead,)), Step(("c",), "")]  # fmt: skip
    assert [(step.argv, step.destroys) for step in without(steps, [dead])] == [
        (("a",), (both,)), (("c",), ()),
    ]  # fmt: skip


def test_a_disk_with_another_name_is_not_gone():
    renamed = replace(SDC, name="sdz", path="/dev/sdz")
    assert gone([claim(SDC)], host(SDB, renamed)) == ()


def test_only_names_that_nobody_has_are_forgotten():
    """Another disk may have come, and have the name now: what stands on it stands on it."""
    facts = host(SDB, replace(SDC, serial="another"), DM, tools=TOOLS)
    assert forgotten(facts, gone([claim(SDC)], facts)) == facts
    assert forgotten(facts, []) == facts
    [volume] = [d for d in forgotten(host(SDB, DM), [claim(SDC)]).devices if d.name == "dm-0"]
    assert volume.parents == ("sdb",)


def test_a_command_that_names_the_dead_disk_is_refused_still():
    both = Step(("wipefs", "/dev/sdb", "/dev/sdc"), "", destroys=(claim(SDB), claim(SDC)))
    [step] = without([both], [claim(SDC)])
    assert any("names /dev/sdc" in said for said in refusals(step, host(SDB), POOL, LAYOUT))
