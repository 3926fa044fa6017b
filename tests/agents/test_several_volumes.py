"""bcache with several backing disks gives several volumes: for a layer that joins them, not for a tool."""

from __future__ import annotations

import pytest

from agents.contracts import PlanError
from agents.plans import stack
from agents.plans.chain import DiskRequest, LayerSpec
from tests.agents import made_up

DISKS = [made_up.disk(name, number) for number, name in enumerate(("sdb", "sdc", "sdd"), start=1)]


def bcache(backings: int) -> LayerSpec:
    return LayerSpec("bcache", {}, (DiskRequest("backing", "", backings), DiskRequest("cache", "")))


def plan(*specs: LayerSpec) -> stack.StackPlan:
    return stack.plan_stack(specs, "bl17", made_up.host(*DISKS), made_up.spare(*DISKS).values())


def test_md_joins_them():
    made = plan(bcache(2), LayerSpec("md", {"level": 0}))
    create = next(step.argv for step in made.layers[1].steps if step.argv[0] == "mdadm")
    assert create[-2:] == ("/dev/bcache/by-label/bl17-1", "/dev/bcache/by-label/bl17-2")
    assert made.target.volume == "/dev/md/bl17"


def test_a_tool_cannot_work_on_two():
    with pytest.raises(PlanError, match="bcache gives 2 volumes here"):
        plan(bcache(2))


def test_a_file_system_cannot_lie_on_two():
    with pytest.raises(PlanError, match="layer 2"):
        plan(bcache(2), LayerSpec("filesystem", {}))


def test_one_volume_is_too_few_members_for_an_array():
    with pytest.raises(PlanError, match="RAID 0 needs 2 members at least, there are 1"):
        plan(bcache(1), LayerSpec("md", {"level": 0}))
