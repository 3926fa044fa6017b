"""Volumes stand above what they are made of."""

from __future__ import annotations

from benchlab.charts.device_stacks import order_devices
from tests.charts import made


def test_a_volume_stands_above_its_disks():
    placed = order_devices({"sdb", "sdc", "dm-0", "sda"}, made.facts(disks=2))
    assert [(one.name, one.depth) for one in placed] == [
        ("dm-0", 0),
        ("sdb", 1),
        ("sdc", 1),
        ("sda", 0),
    ]
    assert placed[0].label == "bl1-data (dm-0, lvm)"
    assert placed[1].indented == "└ sdb (INTEL SSDSC2BB48)"


def test_a_device_that_is_not_drawn_leaves_no_gap():
    placed = order_devices({"sda"}, made.facts())
    assert [(one.name, one.depth) for one in placed] == [("sda", 0)]


def test_devices_unknown_to_the_facts_come_last():
    assert [one.name for one in order_devices({"nvme0n1", "sdb"}, made.facts(1))] == [
        "sdb",
        "nvme0n1",
    ]
    assert [one.label for one in order_devices({"vdb"}, {})] == ["vdb"]


def test_a_disk_below_two_volumes_is_drawn_once():
    facts = {
        "devices": [
            {"name": "dm-0", "parents": ["sdb"], "holders": []},
            {"name": "dm-1", "parents": ["sdb"], "holders": []},
            {"name": "sdb", "parents": [], "holders": ["dm-0", "dm-1"]},
        ]
    }
    assert [one.name for one in order_devices({"dm-0", "dm-1", "sdb"}, facts)] == [
        "dm-0",
        "sdb",
        "dm-1",
    ]
