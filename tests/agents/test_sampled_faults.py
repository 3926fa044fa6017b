"""A fault that came and went while a run went on: by its samples, with how long it was there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agents.contracts import Frame
from agents.facts.health import Health
from agents.facts.model import Zpool
from agents.plans import layout_faults
from agents.plans.chain import LayerSpec
from agents.samplers import bcache, dm_cache, mdstat, zpool
from tests.agents.test_health import BCACHE, CACHED, EXT4, LVM, MD, ZPOOL, plan, seen

FINE = """Personalities : [raid1]
md127 : active raid1 ubdd[1] ubdc[0]
      523264 blocks super 1.2 [2/2] [UU]

unused devices: <none>
"""
FAILED = FINE.replace("ubdc[0]", "ubdc[0](F)").replace("[2/2] [UU]", "[2/1] [_U]")
REMOVED = FINE.replace(" ubdc[0]", "").replace("[2/2] [UU]", "[2/1] [_U]")
RECOVERS = FINE.replace(
    "[2/2] [UU]\n",
    "[2/1] [_U]\n      [=>....]  recovery = 7.3% (38400/523264) finish=0.2min speed=38400K/sec\n",
)
CHECKED = FINE.replace(
    "[UU]\n", "[UU]\n      [=>....]  check = 7.3% (38400/523264) finish=0.2min speed=38400K/sec\n"
)


def spells(made: Any, path: str, texts: list[str], after: Health, **more: Any) -> list[str]:
    frames = [Frame(100.0 + at, {path: text} if text else {}) for at, text in enumerate(texts)]
    return [one.sentence for one in layout_faults.fault_spans(made, frames, after, **more)]


def of_array(texts: list[str], **more: Any) -> list[str]:
    return spells(plan(MD, EXT4), mdstat.FILES[0], texts, seen("md_fine"), **more)


def test_a_member_that_came_back_within_a_run_is_told_with_how_long_it_was_away():
    texts = [FINE] * 10 + [FAILED] * 2 + [REMOVED] * 5 + [RECOVERS] * 10 + [FINE] * 34
    assert of_array(texts) == [
        "md: ubdc has failed in md127, for 2 s of 60 s",
        "md: ubdc is not in md127, for 5 s of 60 s",
        "md: md127 runs with 1 of 2 members, for 10 s of 60 s",
    ]


def test_what_was_so_all_the_time_is_told_once_by_the_looks():
    texts = [FINE] * 2 + [FAILED] * 8
    assert of_array(texts, expected_faults=["md: ubdc has failed in md127"]) == []
    after = seen("md_failed")
    assert spells(plan(MD, EXT4), mdstat.FILES[0], texts, after) == []


def test_a_check_that_begins_in_a_run_is_told_and_a_resync_that_it_measures_is_not():
    assert of_array([FINE, CHECKED, FINE]) == ["md: check of bl17 goes on, for 1 s of 2 s"]
    assert of_array([CHECKED, CHECKED, FINE], growing=True) == []
    assert of_array([RECOVERS, RECOVERS, FINE], growing=True) == []
    assert of_array([REMOVED, REMOVED, FINE], growing=True) == [
        "md: ubdc is not in md127, for 1 s of 2 s"
    ]


def test_a_run_in_order_has_no_fault_and_one_without_samples_neither():
    assert of_array([FINE] * 5) == [] and of_array([]) == []
    assert of_array(["", FINE, ""]) == []


def test_a_leg_of_lvm_that_came_back_is_told():
    named = "/sys/block/dm-0/dm/name bl17-data\nuptime 12.34\n"
    status = "bl17-data: 0 1048576 raid raid1 2 %s 1048576/1048576 idle 0 0 -\n"
    texts = [named + status % state for state in ("AA", "AD", "Aa", "AA", "AA")]
    assert spells(plan(LVM, EXT4), dm_cache.STATUS.file_key, texts, seen("lvm_fine")) == [
        "lvm: leg 2 of 2 of bl17-data has failed, for 1 s of 4 s",
        "lvm: leg 2 of 2 of bl17-data is not in sync, for 1 s of 4 s",
    ]


def test_what_a_command_printed_last_may_be_cut_and_proves_nothing():
    after = seen("lvm_fine")
    texts = [
        "bl17-data: 0 1048576 raid raid1 2 AA 1/1 idle 0 0 -\n",
        "bl17-data: 0 1 raid\n",
        "bl17\n",
    ]
    assert spells(plan(LVM, EXT4), dm_cache.STATUS.file_key, texts, after) == []
    cached = replace(after, mapped={"bl17-data": ("0", "1", "writecache", "0", "1", "1", "0")})
    assert (
        spells(plan(*CACHED), dm_cache.STATUS.file_key, ["", "uptime 1\n", "bl17-data: 0"], cached)
        == []
    )


def test_a_pool_that_was_degraded_for_a_while_is_told():
    made, (path,) = plan(ZPOOL, LayerSpec("zvol", {"size": 64 << 20})), zpool.FILES
    states = ["ONLINE\n", "DEGRADED\n", "DEGRADED\n", "ONLINE\n"]
    names = {"/dev/ubdc": "ubdc", "/dev/ubdd": "ubdd"}
    after = Health(names=names, sound=frozenset({"bl17"}))
    where = path.replace("*", "bl17")
    assert spells(made, where, states, after) == ["zpool: bl17 is DEGRADED, for 2 s of 3 s"]
    still = Health(
        names=names, pools={"bl17": Zpool("bl17", "DEGRADED")}, pool_message="a disk is away"
    )
    assert spells(made, where, states[1:3], still) == []
    assert spells(made, path.replace("*", "other"), states, after) == []


def test_a_cache_that_was_detached_for_a_while_is_told():
    made = plan(BCACHE, EXT4)
    backing, cache = (claim.node for claim in made.claims)
    names = {node: node.removeprefix("/dev/") for node in (backing, cache)}
    runs = {"bcache/running": "1", "bcache/state": "dirty"}
    after = replace(seen("md_fine"), names=names, values={names[backing]: runs})
    state, running = (path.replace("*", names[backing]) for path in bcache.FILES[-2:])
    for away, said in (("no cache\n", "'no cache'"), (None, "''")):
        files = [{state: text, running: "1\n"} if text else {} for text in ("clean\n", away, "clean\n")]  # fmt: skip
        frames = [Frame(float(at), one) for at, one in enumerate(files)]
        (spell,) = layout_faults.fault_spans(made, frames, after)
        assert spell.sentence == (
            f"bcache: {backing} does not run with its cache (state {said}), for 1 s of 2 s"
        )


def test_samples_of_a_host_without_any_of_it_are_not_read_again():
    assert not layout_faults.any_sampled(b"@ 1\n# /proc/stat\n cpu 1\n.\n")
    files = [*mdstat.FILES, *bcache.FILES[-2:], *zpool.FILES, dm_cache.STATUS.file_key]
    for name in (one.replace("*", "sdb") for one in files):
        assert layout_faults.any_sampled(f"@ 1\n# {name}\n x\n.\n".encode()), name
