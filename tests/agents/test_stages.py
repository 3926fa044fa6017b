"""Layers that grow: which disks a stage takes, who follows and when, what the fingerprint covers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from agents.contracts import OptionsError, PlanError, Progress
from agents.plans import applied_part, stack
from agents.plans.chain import DiskRequest, LayerSpec, StageSpec, stage_specs
from tests.agents.growing import toy
from tests.agents.made_up import disk, host, spare

__all__ = ["toy"]

pytestmark = pytest.mark.usefixtures("toy")
DISKS = tuple(disk(f"sd{letter}", n) for n, letter in enumerate("bcdef", start=1))
GIB = 1 << 30
TOY = LayerSpec("toy", {}, (DiskRequest("data", "ssd", 2),))
XFS = LayerSpec("filesystem", {"type": "xfs"})
ONE_MORE = StageSpec(1, {}, (DiskRequest("data", "ssd", 1),))


def plan(*specs, stages=(ONE_MORE,), devices=DISKS):
    return stack.plan_stack(
        specs, "bl17", host(*devices), spare(*devices, role="ssd").values(), tuple(stages)
    )


def nodes(made, stage):
    return [claim.node for claim in made.layers_after(stage)[0].target.devices["data"]]


def test_every_stage_takes_disks_that_nobody_else_has():
    made = plan(TOY, stages=[ONE_MORE, ONE_MORE])
    assert nodes(made, 0) == ["/dev/sdb", "/dev/sdc"]
    assert nodes(made, 1) == ["/dev/sdb", "/dev/sdc", "/dev/sdd"]
    assert nodes(made, 2) == ["/dev/sdb", "/dev/sdc", "/dev/sdd", "/dev/sde"]
    assert [stage.grow[0].argv for stage in made.stages] == [
        ("toy", "grow", "/dev/sdd"),
        ("toy", "grow", "/dev/sde"),
    ]
    assert len(made.claims) == 4


def test_too_few_disks_for_a_stage_are_said_before_anything_is_built():
    with pytest.raises(PlanError, match=r"stage 2: data needs 1 ssd.*has 0 spare"):
        plan(TOY, stages=[ONE_MORE, ONE_MORE], devices=DISKS[:3])


def test_layers_above_follow_after_the_growing_ones_own_commands():
    made = plan(TOY, XFS)
    [stage] = made.stages
    assert [step.argv for step in stage.follow] == [("xfs_growfs", "/mnt/benchlab/bl17")]
    assert [step.argv[0] for step in stage.steps] == ["toy", "xfs_growfs"]
    assert {claim.node for claim in stage.follow[0].destroys} == {
        "/dev/sdb",
        "/dev/sdc",
        "/dev/sdd",
    }
    assert made.layers_after(1)[1].target.size == 3 * GIB


def test_what_tools_work_on_has_its_old_size_until_the_growth_is_over():
    made = plan(TOY)
    assert [made.target_at(0).size, made.target_at(1).size] == [2 * GIB, 3 * GIB]
    growing = made.target_at(1, growing=True)
    assert growing.size == 2 * GIB and len(growing.devices["data"]) == 3


def test_what_a_layer_kept_stays_and_its_growth_adds_to_it():
    made = plan(TOY)
    assert dict(made.layers_after(1)[0].target.kept) == {"made": "yes", "grown": "yes"}
    assert stack.verify_stack(made, host(*DISKS)) == ["toy: looked for 2 disks, kept ['made']"]
    [said] = stack.verify_stack(made, host(*DISKS), stage=1)
    assert said == "toy: looked for 3 disks, kept ['grown', 'made']"


def test_teardown_knows_the_disks_of_every_stage():
    [step] = stack.teardown_stack(plan(TOY), host(*DISKS))
    assert step.argv == ("toy", "destroy", "/dev/sdb", "/dev/sdc", "/dev/sdd")


def test_the_fingerprint_covers_the_stages_commands_and_disks():
    with_backup = replace(ONE_MORE, options={"backup": True})
    used = replace(DISKS[2], mounts=("/data",))
    prints = {
        plan(TOY, stages=()).fingerprint,
        plan(TOY).fingerprint,
        plan(TOY, stages=[with_backup]).fingerprint,
        plan(TOY, stages=[ONE_MORE, ONE_MORE]).fingerprint,
        plan(TOY, devices=(*DISKS[:2], used, *DISKS[3:])).fingerprint,
    }
    assert len(prints) == 5


def test_a_plan_with_stages_survives_json():
    made = plan(TOY, XFS, stages=[ONE_MORE, ONE_MORE])
    assert applied_part.from_json(json.loads(json.dumps(applied_part.to_json(made)))) == made


def test_a_plan_of_before_there_were_stages_can_be_read():
    data = applied_part.to_json(plan(TOY, stages=()))
    del data["stages"]
    assert applied_part.from_json(data).stages == ()


def test_what_is_awaited_is_told_by_the_layer():
    made = plan(TOY)
    assert stack.awaited(made, host(*DISKS), 1) == []
    working = replace(host(*DISKS), members={"sdb": "toy works 0.25"})
    assert stack.awaited(made, working, 1) == [Progress("reshape of bl17", 0.25, 120.0)]


def test_a_volume_that_did_not_grow_is_said():
    made = plan(TOY, XFS)
    array = disk("md127", 9, path="/dev/md/bl17", type="raid5", size=2 * GIB)
    before = host(*DISKS, array)
    [said] = stack.not_grown(made, 1, before, before)
    assert said == f"/dev/md/bl17 has {2 * GIB} B, no more than before it grew"
    assert stack.not_grown(made, 1, before, host(*DISKS, replace(array, size=3 * GIB))) == []
    assert stack.not_grown(made, 1, before, host(*DISKS)) == ["/dev/md/bl17 is not there any more"]


@pytest.mark.parametrize(
    ("specs", "stage", "said"),
    [
        ([TOY], StageSpec(2), "stage 1: there is no layer 2"),
        ([TOY, XFS], StageSpec(2), "stage 1: File system cannot grow"),
        ([TOY], StageSpec(1, {}, (DiskRequest("log", "ssd"),)), "stage 1: 1 disks for 'log'"),
        ([TOY], StageSpec(1, {}, (DiskRequest("data", "ssd", 0),)), "stage 1: 0 disks for 'data'"),
        ([TOY, LayerSpec("raw"), XFS], ONE_MORE, "stage 1: Raw disk above it cannot follow"),
    ],
)
def test_stages_that_cannot_be_are_refused(specs, stage, said):
    with pytest.raises(PlanError, match=said):
        plan(*specs, stages=[stage])


def test_an_unknown_option_of_a_growth_is_said():
    with pytest.raises(OptionsError, match="colour"):
        plan(TOY, stages=[StageSpec(1, {"colour": "red"})])


def test_stored_stages_become_specs_and_other_keys_are_left_out():
    given = {"layer": 1, "options": {}, "during": True,
             "devices": [{"use": "data", "role": "ssd", "count": 1}]}  # fmt: skip
    assert stage_specs([given]) == [ONE_MORE]
