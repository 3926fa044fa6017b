"""Faults of a layout: real looks of tests/cases/health (Linux 6.1, User Mode Linux), and what is made up from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.contracts import AgentError, Part, Reason
from agents.facts import health
from agents.facts.health import Health
from agents.facts.model import MdArray, MdMember
from agents.layers import md
from agents.plans import layout_faults, stack
from agents.plans.chain import DiskRequest, LayerSpec
from tests.agents.local_shell import LocalShell
from tests.agents.made_up import disk, host, spare

CASES = Path(__file__).parent.parent / "cases" / "health"
BOTH = (DiskRequest("data", "ssd", 2),)
EXT4 = LayerSpec("filesystem", {"type": "ext4"})
MD = LayerSpec("md", {"level": 1}, BOTH)
LVM = LayerSpec("lvm", {"type": "mirror"}, BOTH)
RAW = LayerSpec("raw", {}, (DiskRequest("data", "ssd"),))
ZPOOL = LayerSpec("zpool", {"layout": "mirror"}, BOTH)
BCACHE = LayerSpec("bcache", {}, (DiskRequest("backing", "ssd"), DiskRequest("cache", "ssd")))
CACHED = (
    LayerSpec("lvm", {}, (DiskRequest("data", "ssd"),)),
    LayerSpec("lvm_cache", {}, (DiskRequest("cache", "ssd"),)),
)
STACKS = {"md": [MD, EXT4], "lvm": [LVM, EXT4], "btrfs": [RAW, LayerSpec("filesystem", {"type": "btrfs"})],
          "xfs": [RAW, LayerSpec("filesystem", {"type": "xfs"})]}  # fmt: skip


def plan(*specs: LayerSpec) -> stack.StackPlan:
    disks = [disk("ubdc", 1), disk("ubdd", 2)]
    return stack.plan_stack(specs, "bl17", host(*disks), spare(*disks, role="ssd").values())


def seen(case: str) -> Health:
    return health.parse_health((CASES / f"{case}.out").read_bytes(), "bl17")


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("md_fine", []),
        ("md_failed", ["md: ubdc has failed in md127"]),
        (
            "md_ro",
            [
                "md: ubdc is not in md127",
                "filesystem: /mnt/benchlab/bl17 has become read-only",
            ],
        ),
        ("lvm_fine", []),
        ("lvm_failed", ["lvm: leg 2 of 2 of bl17-data has failed"]),
        ("btrfs_fine", []),
        ("xfs_shutdown", []),  # the kernel's log alone says it
    ],
)
def test_no_layer_hides_what_ails_those_below_it(case, said):
    assert layout_faults.stack_faults(plan(*STACKS[case.split("_")[0]]), seen(case)) == said


def test_the_log_tells_of_our_devices_and_only_of_what_is_new():
    now = seen("xfs_shutdown")
    lines = now.kernel_errors(["/dev/ubdc"], 0.0)
    assert len(lines) == 2 and lines[0] == "XFS (ubdc): User initiated shutdown received."
    assert now.kernel_errors(["/dev/ubdc"], now.log_end) == []
    assert now.kernel_errors(["/dev/ubdd", "/dev/ubd"], 0.0) == []


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        ("blk_update_request: I/O error, dev sdb, sector 8 op 0x1:(WRITE)", True),
        ("Buffer I/O error on dev dm-1, logical block 0, async page read", True),
        ("Buffer I/O error on dev dm-12, logical block 0, async page read", False),
        ("I/O error, dev sdb1, sector 8", True),
        ("I/O error, dev sdba, sector 8", False),
        ("I/O error, dev nvme0n1p2, sector 8", True),
    ],
)
def test_a_line_is_of_a_device_or_its_partition(line, ours):
    now = Health(
        names={"/dev/sdb": "sdb", "/dev/nvme0n1": "nvme0n1"},
        holders={"sdb": frozenset({"dm-1"})},
        log=(health.KernelError(5.0, line),),
    )
    assert bool(now.kernel_errors(now.names, 4.0)) is ours


def test_a_disk_that_is_gone_or_offline_is_named():
    fine, made = seen("md_fine"), plan(MD, EXT4)
    gone = replace(fine, names={k: v for k, v in fine.names.items() if k != "/dev/ubdd"})
    assert "/dev/ubdd is gone" in layout_faults.stack_faults(made, gone)
    for key, value, said in (("device/state", "offline", "offline"), ("ro", "1", "read-only"),
                             ("size", "0", "gone")):  # fmt: skip
        values = {**fine.values, "ubdd": {**fine.values["ubdd"], key: value}}
        assert layout_faults.stack_faults(made, replace(fine, values=values)) == [
            f"/dev/ubdd is {said}"
        ]


def array(fine: Health, **given: Any) -> Health:
    return replace(fine, arrays=(replace(fine.arrays[0], **given),))


def test_an_array_in_its_first_resync_is_in_order_and_a_short_one_is_not():
    fine, made = seen("md_fine"), plan(MD, EXT4)
    assert layout_faults.stack_faults(made, array(fine, action="resync", up=1)) == []
    failed = (MdMember("ubdc", 0), MdMember("ubdd", 1, "F"))
    short = array(fine, up=1, members=failed)
    assert layout_faults.stack_faults(made, short) == ["md: ubdd has failed in md127"]
    assert layout_faults.stack_faults(made, array(fine, state="broken")) == [
        "md: md127 is broken, not active"
    ]
    assert layout_faults.stack_faults(made, replace(fine, arrays=(MdArray("md5", "active"),))) == [
        "md: /dev/md/bl17 is not there any more"
    ]


def test_a_spare_that_was_taken_is_told():
    fine = seen("md_fine")
    wish = LayerSpec(
        "md", {"level": 1}, (DiskRequest("data", "ssd", 2), DiskRequest("spare", "ssd"))
    )
    disks = [disk("ubdc", 1), disk("ubdd", 2), disk("ubde", 3)]
    made = stack.plan_stack([wish], "bl17", host(*disks), spare(*disks, role="ssd").values())
    names = {**fine.names, "/dev/ubde": "ubde"}
    members = (MdMember("ubdc", 0, "F"), MdMember("ubdd", 1), MdMember("ubde", 2))
    now = replace(array(fine, members=members), names=names)
    assert layout_faults.stack_faults(made, now) == [
        "md: ubdc has failed in md127",
        "md: md127 has 0 spares, not 1",
    ]


def test_verify_says_it_in_the_same_words():
    """So that a topology that measures on is not stopped by a whole look."""
    now = seen("md_failed")
    parts = [Part("/dev/ubdc", 1), Part("/dev/ubdd", 1)]
    whole = md.wrong_members(now.arrays[0], parts, [], host(disk("ubdc", 1), disk("ubdd", 2)))
    assert [f"md: {one}" for one in whole] == layout_faults.stack_faults(plan(MD), now)


DEGRADED = b"""  pool: bl17
 state: DEGRADED
status: One or more devices has been removed by the administrator.
\tSufficient replicas exist for the pool to continue functioning in a
\tdegraded state.
action: Online the device using zpool online' or replace the device with
\t'zpool replace'.
config:

\tNAME           STATE     READ WRITE CKSUM
\tbl17           DEGRADED     0     0     0
\t  mirror-0     DEGRADED     0     0     0
\t    /dev/ubdc1 ONLINE       0     0     0
\t    /dev/ubdd1 REMOVED      0     0     0

errors: No known data errors
"""


def with_pool(printed: bytes, exit_code: int = 0) -> Health:
    """The look at a pool, in the midst of a real one."""
    whole = (CASES / "md_fine.out").read_bytes()
    part = b"=77 begin zpool\n" + printed + b"\n=77 end %d\ncannot open\n=77 done\n" % exit_code
    return health.parse_health(whole.replace(b"=77 begin log", part + b"=77 begin log"), "bl17")


def test_a_pool_is_in_order_or_says_what_is_not():
    made = plan(ZPOOL, LayerSpec("zvol", {"size": 64 << 20}))
    assert layout_faults.stack_faults(made, with_pool(b"pool 'bl17' is healthy\n")) == []
    [said] = layout_faults.stack_faults(made, with_pool(DEGRADED))
    assert said == "zpool: bl17: /dev/ubdd1 is REMOVED"
    errors = DEGRADED.replace(b"REMOVED  ", b"ONLINE   ")
    [said] = layout_faults.stack_faults(made, with_pool(errors))
    assert said.startswith("zpool: bl17 is DEGRADED: One or more devices has been removed")
    small = errors.replace(b"DEGRADED", b"ONLINE").replace(
        b"has been removed by", b"use a non-native block size"
    )
    assert layout_faults.stack_faults(made, with_pool(small)) == []
    assert "not there any more" in layout_faults.stack_faults(made, with_pool(b"", 1))[0]


def test_a_cache_that_was_detached_is_told():
    made = plan(BCACHE, EXT4)
    backing, cache = (claim.node for claim in made.claims)
    fine = seen("xfs_shutdown")
    names = {node: node.removeprefix("/dev/") for node in (backing, cache)}
    runs = {"bcache/running": "1", "bcache/state": "dirty"}
    values = {names[backing]: runs, names[cache]: {"bcache/io_errors": "0"}}
    now = replace(fine, names=names, values=values)
    assert layout_faults.stack_faults(made, now) == []
    alone = {**values, names[backing]: {**runs, "bcache/state": "no cache"}}
    assert layout_faults.stack_faults(made, replace(now, values=alone)) == [
        f"bcache: {backing} does not run with its cache (state 'no cache')"
    ]
    errors = {**values, names[cache]: {"bcache/io_errors": "3"}}
    assert layout_faults.stack_faults(made, replace(now, values=errors)) == [
        f"bcache: {cache} had 3 I/O errors"
    ]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("0 1 cache 8 14/2048 128 5/512 9 0 9 0 0 0 0 1 writeback 2 migration_threshold 2048 smq 0 rw -", ""),
        ("0 1 cache 8 14/2048 128 5/512 9 0 9 0 0 0 0 1 writeback 0 smq 0 ro needs_check", "needs a check"),
        ("0 1 cache Fail", "has failed"),
        ("0 1 writecache 0 100 90 0", ""),
        ("0 1 writecache 1 100 90 0", "has failed"),
        ("", "not active any more"),
    ],
)  # fmt: skip
def test_a_cache_of_lvm_that_failed_is_told(status, said):
    made = plan(*CACHED)
    now = replace(seen("md_fine"), mapped={"bl17-data": tuple(status.split())} if status else {})
    found = layout_faults.stack_faults(made, now)
    assert bool(found) is bool(said) and said in "".join(found)


def test_errors_that_btrfs_counted_are_told():
    whole = (CASES / "btrfs_fine.out").read_bytes()
    now = health.parse_health(whole.replace(b"write_io_errs    0", b"write_io_errs    7"))
    assert layout_faults.stack_faults(plan(*STACKS["btrfs"]), now) == [
        "filesystem: /dev/ubdc: write_io_errs is 7"
    ]


def test_one_command_looks_at_this_machine():
    now = health.read_health(LocalShell(), ["/dev/null", "/dev/no/such"], "/mnt/none", "nopool")
    assert now.boot_id and now.mounts and now.names == {"/dev/null": "null"}


def test_a_look_that_was_cut_off_is_refused():
    with pytest.raises(AgentError, match="truncated") as raised:
        health.parse_health((CASES / "md_fine.out").read_bytes()[:-20])
    assert raised.value.reason is Reason.BAD_FACTS
