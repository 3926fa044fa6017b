"""Stacks: which disks are picked, what the fingerprint notices, and the way through JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from agents.contracts import OptionsError, PlanError
from agents.plans import applied_part, stack
from agents.plans.applied_part import what_is_destroyed
from agents.plans.chain import DiskRequest, LayerSpec, assign_source_disks
from agents.plans.layout_faults import relocated
from agents.safety.guard import refusals
from tests.agents.made_up import disk, host, mounted, spare

RAW = LayerSpec("raw", {}, (DiskRequest("data", "ssd"),))
XFS = LayerSpec("filesystem", {"type": "xfs"})
SDB, SDC = disk("sdb", 1), disk("sdc", 2)


def plan(specs, *devices, role="ssd", pool=None, **facts):
    devices = devices or (SDB, SDC)
    pool = spare(*devices, role=role).values() if pool is None else pool
    return stack.plan_stack(specs, "bl17", host(*devices, **facts), pool)


def test_raw_and_xfs_make_one_plan():
    made = plan([RAW, XFS])
    assert [s.argv[0] for s in made.steps] == [
        "wipefs",
        "sh",
        "udevadm",
        "mkfs.xfs",
        "udevadm",
        "mkdir",
        "mount",
    ]
    assert made.target.mount == "/mnt/benchlab/bl17" and made.target.volume == "/dev/sdb"
    assert [claim.node for claim in made.claims] == ["/dev/sdb"]


def test_udev_is_waited_for_once_where_two_layers_keep_it_from_their_disks():
    """LVM makes its volumes' nodes with udev itself; a cache takes the group, and another disk; mkfs takes the volume,
    and then udev is waited for anyway.
    """
    lvm = LayerSpec("lvm", {}, (DiskRequest("data", "ssd"),))
    cache = LayerSpec("lvm_cache", {}, (DiskRequest("cache", "ssd"),))
    disks = (disk("sdb", 1, size=1 << 30), disk("sdc", 2, size=1 << 30))
    words = [
        [step.argv[0] for step in layer.steps] for layer in plan([lvm, cache, XFS], *disks).layers
    ]
    assert "udevadm" not in words[0] + words[1] and words[2][:2] == ["mkfs.xfs", "udevadm"]
    assert plan([lvm], *disks).steps[-1].argv[0] == "udevadm"
    assert plan([lvm, cache], *disks).steps[-1].argv[0] == "udevadm"
    assert [layer.steps[-1].argv[0] for layer in plan([lvm, XFS], *disks).layers] == [
        "lvcreate",
        "mount",
    ]


def test_the_layer_above_knows_all_disks_below():
    assert [c.node for c in plan([RAW, XFS]).layers[1].target.devices["below"]] == ["/dev/sdb"]


def test_disks_are_picked_by_identity_not_by_name():
    """So that a reboot that renames them changes nothing."""
    first, second = disk("sdb", 1, serial="B"), disk("sdc", 2, serial="A")
    assert plan([RAW], first, second).claims[0].identity == "serial:A"
    assert plan([RAW], second, first).claims[0].identity == "serial:A"


def test_a_short_role_is_named():
    with pytest.raises(PlanError, match=r"layer 1 \(raw\): data needs 1 hdd.*has 0 spare"):
        plan([replace(RAW, devices=(DiskRequest("data", "hdd"),))])


@pytest.mark.parametrize("change", [{"size": 5}, {"model": "Y"}])
def test_a_disk_that_is_not_as_confirmed_is_no_candidate(change):
    pool = [replace(s, **change) for s in spare(SDB, role="ssd").values()]
    with pytest.raises(PlanError, match="has 0 spare"):
        plan([RAW], pool=pool)


def test_twins_are_no_candidates():
    twin = disk("sdc", 2, serial="SN-sdb")
    with pytest.raises(PlanError, match="has 0 spare"):
        plan([RAW], SDB, twin)


@pytest.mark.parametrize(
    ("specs", "said"),
    [
        ([], "one layer at least"),
        ([XFS], r"layer 1 .* needs a volume, add a layer"),
        ([RAW, RAW], "has data disks of its own, but a volume is below"),
        ([RAW, XFS, XFS], "needs a volume, but layer 2"),
        (
            [replace(RAW, devices=(DiskRequest("log", "ssd"),))],
            "disks for 'log'; its uses are data",
        ),
        ([replace(XFS, devices=(DiskRequest("data", "ssd"),))], "needs a volume"),
        ([replace(RAW, devices=())], r"takes data \(the disk\): 1 to 1 disks, not 0"),
    ],
)
def test_layers_that_do_not_fit_are_refused(specs, said):
    with pytest.raises(PlanError, match=said):
        plan(specs)


def test_an_unknown_kind_or_option_is_said():
    with pytest.raises(OptionsError, match="no layer named 'raid99'"):
        plan([LayerSpec("raid99")])
    with pytest.raises(OptionsError, match="colour"):
        plan([replace(RAW, options={"colour": "red"})])


@pytest.mark.parametrize(
    "changed",
    [
        replace(SDB, signatures=disk("x", signatures=[{"type": "ext4"}]).signatures),
        replace(SDB, mounts=("/data",)),
        replace(SDB, holders=("dm-0",)),
        replace(SDB, swap=True),
    ],
)
def test_the_fingerprint_notices_what_happened_to_a_disk(changed):
    assert plan([RAW], changed).fingerprint != plan([RAW], SDB).fingerprint


def test_the_fingerprint_notices_options_and_partitions():
    part = disk("sdb1", 9, type="part", serial="", parents=["sdb"])
    prints = {
        plan([RAW]).fingerprint,
        plan([replace(RAW, options={"discard": True})]).fingerprint,
        plan([RAW], SDB, part, pool=spare(SDB, role="ssd").values()).fingerprint,
    }
    assert len(prints) == 3


def test_the_fingerprint_does_not_care_for_other_disks_or_schedulers():
    busy = replace(SDC, mounts=("/x",), serial="Z")
    calm = replace(SDB, scheduler="kyber")
    assert plan([RAW], calm, busy).fingerprint == plan([RAW]).fingerprint


def test_teardown_goes_top_down():
    made = plan([RAW, XFS])
    up = replace(SDB, signatures=disk("x", signatures=[{"type": "xfs"}]).signatures)
    there = host(
        up, mounts=[{"source": "/dev/sdb", "target": "/mnt/benchlab/bl17", "fstype": "xfs"}]
    )
    assert [s.argv[0] for s in stack.teardown_stack(made, there)] == [
        "umount",
        "sh",
        "wipefs",
        "udevadm",
        "wipefs",
        "sh",
        "udevadm",
    ]
    again = [s.argv[0] for s in stack.teardown_stack(made, host(SDB))]
    assert again == ["sh", "wipefs", "sh", "udevadm"]


def test_verify_looks_at_the_highest_layer_so_far():
    made = plan([RAW, XFS])
    assert stack.verify_stack(made, host(SDB), upto=1) == []
    assert stack.verify_stack(made, host(SDB)) == [
        "filesystem: /mnt/benchlab/bl17 is mounted 0 times, not once"
    ]
    mount = mounted("/dev/sdb", "/mnt/benchlab/bl17")
    labelled = disk("sdb", signatures=[{"type": "xfs", "label": "bl17"}])
    there = host(labelled)
    assert stack.verify_stack(made, replace(there, mounts=(*there.mounts, mount))) == []


def test_a_plan_survives_json():
    made = plan([RAW, XFS])
    assert applied_part.from_json(json.loads(json.dumps(applied_part.to_json(made)))) == made


def test_a_broken_stored_plan_is_said():
    with pytest.raises(PlanError, match="stored plan cannot be read"):
        applied_part.from_json({"name": "bl17", "layers": [{}], "fingerprint": ""})


def test_what_is_destroyed_lists_partitions_too():
    part = disk(
        "sdb1",
        9,
        type="part",
        serial="",
        parents=["sdb"],
        signatures=[{"type": "ext4", "label": "home"}],
    )
    old = disk("sdb", signatures=[{"type": "gpt"}])
    [found] = what_is_destroyed(
        plan([RAW], old, part, pool=spare(old, role="ssd").values()), host(old, part)
    )
    assert found.holds == ("sdb: gpt", "sdb1: ext4 'home'")
    assert (found.model, found.serial, found.size) == ("Model X", "SN-sdb", 1 << 30)


def test_a_directory_needs_no_disk():
    made = plan([LayerSpec("directory")])
    assert made.claims == () and made.target.mount == "/var/tmp/benchlab/bl17"


LVM = LayerSpec("lvm", {"type": "linear"}, (DiskRequest("data", "ssd", 2),))


def swapped(*devices):
    """The same disks after a reboot that gave each the other's name."""
    names = [(d.name, d.path) for d in devices]
    return [replace(d, name=n, path=p) for d, (n, p) in zip(devices, reversed(names), strict=True)]


@pytest.mark.parametrize("specs", [[RAW, XFS], [LVM, XFS]], ids=["raw", "lvm"])
def test_a_layout_is_taken_down_on_its_own_disks_whatever_their_names_are_now(specs):
    made = plan(specs)
    now = host(*swapped(SDB, SDC))
    there = relocated(made, now)
    where = {claim.identity: claim.node for claim in there.claims}
    other = {"/dev/sdb": "/dev/sdc", "/dev/sdc": "/dev/sdb"}
    assert where == {claim.identity: other[claim.node] for claim in made.claims}
    spares = spare(SDB, SDC)
    steps = stack.teardown_stack(there, now)
    assert steps and not [text for step in steps for text in refusals(step, now, spares, "bl17")]
    assert {c.node for step in steps for c in step.destroys} == set(where.values())
    assert relocated(made, host(SDB, SDC)) is made


def test_a_disk_that_is_gone_or_doubled_keeps_its_old_name():
    made = plan([RAW])
    for found in ([SDC], [replace(SDB, name="sdx", path="/dev/sdx"), SDB]):
        assert relocated(made, host(*found)) is made


def test_a_source_that_tells_its_disks_gives_each_layer_its_own():
    stripe = [
        LayerSpec("lvm", {}, (DiskRequest("data", "hdd", 2),)),
        LayerSpec("lvm_cache", {}, (DiskRequest("cache", "ssd"),)),
    ]
    told = {"hdd": ["sdb", "sdc", "sdd"], "ssd": ["dfa"]}
    assert assign_source_disks(stripe, told) == [{"data": ("sdb", "sdc")}, {"cache": ("dfa",)}]
    assert assign_source_disks([*stripe, stripe[0]], told) == [
        {"data": ("sdb", "sdc")},
        {"cache": ("dfa",)},
        {},
    ], "one is left"
    assert assign_source_disks(stripe, {}) == [{}, {}]
    mirror = LayerSpec("zpool", {}, (DiskRequest("data", "hdd"), DiskRequest("data", "ssd")))
    assert assign_source_disks([mirror], told) == [{"data": ("sdb", "dfa")}]
