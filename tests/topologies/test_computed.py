"""Sizes, stripes and alignment while a stack is built: the drivers' own figures, on a host's disks or example ones."""

from __future__ import annotations

import pytest

from agents.drivers import registry
from agents.plans.chain import specs
from agents.plans.fits import Disk, example
from benchlab.topologies import canvas
from benchlab.topologies.host_shapes import PRESETS
from benchlab.topologies.inspection import all_offers, inspect_stack, specs_of
from benchlab.topologies.stack_edits import DiskSupply, estimate_sizes, good_count, needs_options
from tests.topologies.drafts import EXAMPLE, TIB, built, of_host

SMALL = "set 1 size 34359738368"  # LVM's caches have a million chunks at most
CACHED = ("add 0 lvm", "disks 0 data 4", "add 1 lvm_cache", "add 2 filesystem")


def row(stack, label, shelf=EXAMPLE):
    return next(one for one in canvas.layer_rows(inspect_stack(stack, shelf)) if one.label == label)


def test_a_stripe_of_four_is_four_times_a_disk_less_a_mib_each():
    placed = estimate_sizes(specs_of(built("add 0 lvm", "disks 0 data 4")), EXAMPLE).placed
    extents = (4 * 10**12 - 2**20) // 2**22
    assert placed[0].gives.size == 4 * extents * 2**22
    assert (placed[0].gives.stripe_unit, placed[0].gives.stripe_count) == (64 << 10, 4)


def test_rows_from_the_top_down_and_the_disks_last():
    rows = canvas.layer_rows(inspect_stack(built(*CACHED), EXAMPLE))
    assert [one.label for one in rows] == ["File system", "LVM cache", "LVM", "hdd, each", "ssd"]
    assert [one.size for one in rows] == ["14.6 TiB", "14.6 TiB", "14.6 TiB", "3.64 TiB", "931 GiB"]
    assert rows[2].stripe == "256 KiB (4 × 64 KiB)"


@pytest.mark.parametrize(
    ("more", "label", "css", "words"),
    [
        (("add 1 filesystem",), "File system", "good", "4 × 64 KiB"),
        (("add 1 filesystem", "set 1 type btrfs"), "File system", "good", "as below"),
        (("add 1 lvm_cache", SMALL, "set 1 chunk_size 524288"), "LVM cache", "good", "2 full stripes"),
        (("add 1 lvm_cache", SMALL, "set 1 chunk_size 65536"), "LVM cache", "good", "4 fill a stripe"),
        (("add 1 lvm_cache", SMALL, "set 1 chunk_size 98304"), "LVM cache", "warn", "96 KiB cuts stripes of 256 KiB"),
        (("add 1 raw",), "Raw disk", "good", "as below"),
        ((), "LVM", "", ""),
    ],
)  # fmt: skip
def test_each_layer_is_held_against_the_stripe_below(more, label, css, words):
    stack = built("add 0 lvm", "disks 0 data 4", *more)
    assert row(stack, label).aligned == canvas.Alignment(css, words)


def test_a_hosts_own_disks_are_reckoned_with_and_what_it_lacks_is_like_its_last():
    shelf = of_host(hdd=2)
    assert row(built("add 0 lvm", "disks 0 data 2", shelf=shelf), "LVM", shelf).size == "4 TiB"
    assert row(built("add 0 lvm", "disks 0 data 3", shelf=shelf), "LVM", shelf).size == "6 TiB"
    assert row(built("add 0 lvm", "disks 0 data 2"), "LVM").size == "7.28 TiB"


def test_what_is_wrong_has_no_size_and_what_is_below_has():
    stack = built("add 0 lvm", "disks 0 data 3", "set 0 stripes 2", "add 1 filesystem")
    assert canvas.layer_rows(inspect_stack(stack, EXAMPLE)) == []
    stack = [*built("add 0 lvm"), {"kind": "zfs", "devices": []}]
    assert [one.label for one in canvas.layer_rows(inspect_stack(stack, EXAMPLE))] == [
        "LVM",
        "hdd, each",
    ]


def test_the_sum_says_what_is_left_of_the_disks():
    total = canvas.usable_size(
        inspect_stack(built("add 0 md", "disks 0 data 4", "add 1 filesystem"), EXAMPLE)
    )
    assert total == canvas.UsableSize("10.9 TiB", "14.6 TiB", "75 %")
    total = canvas.usable_size(inspect_stack(built(*CACHED), EXAMPLE))
    assert total == canvas.UsableSize("14.6 TiB", "14.6 TiB", "100 %", "1 cache disk")
    assert canvas.usable_size(inspect_stack(built("add 0 directory"), EXAMPLE)) is None
    assert canvas.usable_size(inspect_stack(built("add 0 zpool"), EXAMPLE)) is None


def test_a_layers_facts_name_its_cache():
    looked = inspect_stack(built(*CACHED), EXAMPLE)
    assert canvas.layer_facts(looked, 1) == [
        ("Gives", "a logical volume, 14.6 TiB"),
        ("Full stripe", "256 KiB (4 × 64 KiB)"),
    ]
    assert ("Cache", "1 disk, 931 GiB") in canvas.layer_facts(looked, 2)
    assert canvas.layer_facts(inspect_stack([{"kind": "zfs", "devices": []}], EXAMPLE), 1) == []


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_every_preset_can_be_built_on_example_disks(preset):
    looked = inspect_stack(preset.stack, EXAMPLE)
    assert looked.valid, looked.wrong


@pytest.mark.parametrize("kind", sorted(registry.all_layers()))
def test_only_what_a_person_has_yet_to_say_cannot_be_made_at_once(kind):
    assert needs_options(kind) == (kind in {"tuning", "reported"})


def test_a_layer_is_given_as_many_disks_as_it_makes_one_thing_of():
    counts = {kind: good_count(kind) for kind in ("lvm", "md", "bcache", "raw")}
    assert counts == {"lvm": 4, "md": 4, "bcache": 1, "raw": 1}


def test_an_example_host_has_its_disks_in_the_order_of_their_names():
    facts, spares = example([Disk(f"hdd{n}", "hdd", TIB) for n in range(12)])
    assert [one.identity for one in spares] == sorted(one.identity for one in spares)
    assert facts.devices[11].name == "hdd11" and facts.devices[11].queue["nr_requests"]


def test_tuning_is_reckoned_with_settings_that_a_host_may_have():
    stack = built("add 0 raw", "add 1 tuning", "set 1 scheduler bfq", "set 1 governor performance")
    stack[1]["options"]["sysctls"] = ["vm.dirty_ratio=5", "fs.xfs.xfssyncd_centisecs=500"]
    assert inspect_stack(stack, EXAMPLE).valid


def drawn(stack, shelf=EXAMPLE):
    return canvas.draw_stack(stack, inspect_stack(stack, shelf), all_offers(stack, shelf))


def test_the_drawing_is_nested_with_the_disks_at_the_bottom_and_the_cache_beside():
    shelf = of_host(hdd=4, ssd=1)
    found = drawn(built(*CACHED, shelf=shelf), shelf)
    top = found.level
    assert (top.label, top.below.label, top.below.below.label) == (
        "File system",
        "LVM cache",
        "LVM",
    )
    assert [slot.name for slot in top.below.below.disks[0].slots] == ["hd0", "hd1", "hd2", "hd3"]
    assert [one.use for one in top.below.risers] == ["cache"] and top.below.risers[0].fast
    assert (top.gap.says, found.top.says) == (
        "between LVM cache and File system",
        "on top of File system",
    )
    assert top.below.below.gap.says == "below LVM"
    assert (found.target, found.size) == ("files in a directory of their own", "8 TiB")


def test_disks_are_added_and_taken_away_within_what_the_layer_takes():
    [data] = drawn(built("add 0 lvm", "disks 0 data 2")).level.disks
    assert (str(data.more), str(data.fewer)) == ("disks 0 data 3", "disks 0 data 1")
    [data] = drawn(built("add 0 raw")).level.disks
    assert (data.more, data.fewer) == (None, None)
    [data] = drawn(built("add 0 md", "disks 0 data 2")).level.disks
    assert data.fewer is None


def test_a_pools_log_stands_beside_its_disks():
    stack = built("add 0 zpool", "disks 0 log 1", "disks 0 cache 1", "add 1 zfs")
    pool = drawn(stack).level.below
    assert [one.use for one in pool.disks] == ["data"]
    assert [one.use for one in pool.risers] == ["log", "cache"]


def test_an_empty_stack_is_drawn_as_a_place_to_begin():
    found = drawn([])
    assert (
        found.level is None and found.top.says == "at the bottom" and found.target == "nothing yet"
    )


def test_specs_of_a_draft_leave_out_uses_without_disks():
    stack = [{"kind": "lvm", "devices": [{"use": "data", "role": "hdd", "count": "x"}]}]
    assert specs_of(stack) == specs([{"kind": "lvm", "options": {}, "devices": []}])
    assert isinstance(DiskSupply().roles.main, str)
