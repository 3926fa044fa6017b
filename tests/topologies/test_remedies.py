"""A fault is told with what would mend it, and each remedy mends it."""

from __future__ import annotations

from typing import Any

import pytest

from benchlab.topologies.inspection import fewer_disks, find_faults, inspect_stack
from benchlab.topologies.stack_edits import apply_edit
from tests.topologies.drafts import EXAMPLE, TIB, built, of_host

DISK = [{"use": "data", "role": "hdd", "count": 1}]
CASES: dict[str, tuple[list[dict[str, Any]], str, str]] = {
    "upside down": (
        [{"kind": "filesystem", "devices": []}, {"kind": "raw", "devices": DISK}],
        "Layer 1 (File system) needs a volume, add a layer below that provides one.",
        "Move File system above Raw disk",
    ),
    "on nothing": (
        [{"kind": "filesystem", "devices": []}],
        "Layer 1 (File system) needs a volume, add a layer below that provides one.",
        "Add Raw disk below it",
    ),
    "no place for a cache": (
        [*built("add 0 raw"), {"kind": "lvm_cache", "devices": [{**DISK[0], "use": "cache"}]}],
        "Layer 2 (LVM cache) needs a logical volume, but layer 1 (Raw disk) gives a volume.",
        "Remove LVM cache",
    ),
    "one disk too many": (
        [{"kind": "raw", "devices": [{**DISK[0], "count": 4}]}],
        "Layer 1 (Raw disk) takes data (the disk): 1 to 1 disks, not 4.",
        "Use 1 hdd for data",
    ),
    "or a stripe of them": (
        [{"kind": "raw", "devices": [{**DISK[0], "count": 4}]}],
        "Layer 1 (Raw disk) takes data (the disk): 1 to 1 disks, not 4.",
        "Make it LVM",
    ),
    "disks beside a volume": (
        [*built("add 0 lvm"), {"kind": "raw", "devices": DISK}],
        "Layer 2 (Raw disk) has data disks of its own, but a logical volume is below it.",
        "Use a logical volume below",
    ),
    "too few members": (
        [{"kind": "md", "options": {"level": 6}, "devices": [{**DISK[0], "count": 3}]}],
        "Layer 1 (md RAID): RAID 6 needs 4 members at least, there are 3.",
        "Use 4 hdd for data",
    ),
    "or another level": (
        [{"kind": "md", "options": {"level": 6}, "devices": [{**DISK[0], "count": 3}]}],
        "Layer 1 (md RAID): RAID 6 needs 4 members at least, there are 3.",
        "Set level to 5",
    ),
    "stripes that do not come out": (
        [{"kind": "lvm", "options": {"stripes": 3}, "devices": [{**DISK[0], "count": 4}]}],
        "Layer 1 (LVM): 4 disk(s) cannot hold a striped volume 3 wide: use as many disks as it is wide,"
        " or a multiple of that.",
        "Set stripes to 0",
    ),
    "nothing on a pool": (
        built("add 0 zpool"),
        "Layer 1 (zpool) gives a zpool; a tool needs a volume or a mounted directory.",
        "Put ZFS file system on top",
    ),
    "tuning that sets nothing": (
        built("add 0 raw", "add 1 tuning"),
        "Layer 2 (Tuning): nothing to set: set an option, or remove the layer.",
        "Remove Tuning",
    ),
    "several volumes": (
        built("add 0 bcache", "disks 0 backing 3"),
        "",
        "Use 1 hdd for backing",
    ),
    "too large": (
        [{"kind": "lvm", "options": {"size": 90 * TIB}, "devices": DISK}],
        "",
        "Set size to 0",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_has_a_remedy_that_mends_it(case):
    stack, says, remedy = CASES[case]
    now = inspect_stack(stack, EXAMPLE)
    assert not now.valid
    first = find_faults(stack, EXAMPLE)[0]
    assert says in first.says
    assert remedy in [one.says for one in first.remedies]
    for one in first.remedies:
        assert inspect_stack(apply_edit(one.act, stack, EXAMPLE), EXAMPLE).score < now.score, one


def test_what_stands_needs_none():
    assert find_faults(built("add 0 lvm", "add 1 filesystem"), EXAMPLE) == []
    assert find_faults([], EXAMPLE) == []


def test_all_that_is_wrong_is_said_at_once():
    stack = [
        {"kind": "filesystem", "devices": []},
        *built("add 0 raw"),
        {"kind": "zfs", "devices": []},
    ]
    assert [one.layer for one in find_faults(stack, EXAMPLE)] == [1, 2, 3]


def test_a_stack_is_cut_down_to_a_hosts_disks():
    shelf = of_host(hdd=2)
    stack = built("add 0 lvm", "disks 0 data 6", "add 1 filesystem")
    remedy = fewer_disks(stack, "hdd", 2, shelf)
    assert remedy is not None and remedy.says == "Make it 2 hdd"
    assert inspect_stack(apply_edit(remedy.act, stack, shelf), shelf).valid
    assert (
        fewer_disks(stack, "hdd", 0, shelf) is None and fewer_disks(stack, "ssd", 1, shelf) is None
    )
    raid6 = built("add 0 md", "set 0 level 6", "disks 0 data 6")
    assert fewer_disks(raid6, "hdd", 2, shelf) is None  # it would be none any more
