"""The builder's buttons: what each makes of a stack, and where the disks are then."""

from __future__ import annotations

import pytest

from benchlab.topologies import stack_edits
from benchlab.topologies.inspection import inspect_stack
from tests.topologies.drafts import EXAMPLE, built, disks, kinds, of_host


def test_raw_first_is_no_dead_end():
    """A layer that comes to lie under it takes its disks; nothing has to be typed again."""
    stack = built("add 0 raw", "disks 0 data 1", "add 0 lvm", "disks 0 data 4", "add 2 filesystem")
    assert kinds(stack) == ["lvm", "raw", "filesystem"]
    assert [disks(entry) for entry in stack] == [{"data": ("hdd", 4)}, {}, {}]
    assert inspect_stack(stack, EXAMPLE).valid


def test_raw_alone_can_be_measured_as_it_is():
    assert inspect_stack(built("add 0 raw"), EXAMPLE).valid


def test_up_is_up():
    stack = built("add 0 lvm", "add 1 filesystem")
    moved = stack_edits.apply_edit(stack_edits.StackEdit("move", 0, (1,)), stack, EXAMPLE)
    assert kinds(moved) == ["filesystem", "lvm"]
    back = stack_edits.apply_edit(stack_edits.StackEdit("move", 1, (0,)), moved, EXAMPLE)
    assert (kinds(back), disks(back[0])) == (kinds(stack), disks(stack[0]))


def test_the_disks_stay_at_the_bottom():
    stack = built("add 0 md", "add 1 lvm")
    assert (disks(stack[0]), disks(stack[1])) == ({"data": ("hdd", 4)}, {})
    removed = stack_edits.apply_edit(stack_edits.StackEdit("remove", 0), stack, EXAMPLE)
    assert (kinds(removed), disks(removed[0])) == (["lvm"], {"data": ("hdd", 4)})


def test_a_layer_takes_no_more_of_them_than_it_can():
    stack = built("add 0 lvm", "add 1 raw", "remove 0")
    assert disks(stack[0]) == {"data": ("hdd", 1)}


def test_a_cache_takes_a_fast_disk_of_its_own():
    stack = built("add 0 lvm", "add 1 lvm_cache", shelf=of_host(hdd=3, ssd=1))
    assert disks(stack[0]) == {"data": ("hdd", 3)}
    assert disks(stack[1]) == {"cache": ("ssd", 1)}
    assert disks(built("add 0 bcache", shelf=of_host(ssd=4, hdd=2))[0]) == {
        "backing": ("hdd", 1),
        "cache": ("ssd", 1),
    }


def test_exchanged_it_stands_on_the_same_disks():
    stack = built("add 0 lvm", "disks 0 data 5", "exchange 0 md")
    assert (kinds(stack), disks(stack[0])) == (["md"], {"data": ("hdd", 5)})


def test_an_option_is_set_as_what_it_is():
    stack = built("add 0 md", "set 0 level 6", "set 0 assume_clean True", "set 0 bitmap none")
    assert stack[0]["options"] == {"level": 6, "assume_clean": True, "bitmap": "none"}
    assert built("add 0 md", "set 0 assume_clean False")[0]["options"] == {"assume_clean": False}


@pytest.mark.parametrize(
    "text",
    [
        "", "save", "add", "add 0", "add 1 raw", "add x raw", "add 0 tape", "add -1 raw", "remove 0",
        "remove \u0663", "move 0 0", "disks 0 data 1", "set 0 a b", "add 0 raw 1", "exchange 0 raw",
        "add 99999999999999999999 raw",
    ],
)  # fmt: skip
def test_what_is_no_button_of_an_empty_stack(text):
    assert stack_edits.parse_edit(text, 0) is None


@pytest.mark.parametrize("text", ["move 0 1", "disks 0 data 1000", "disks 0 data -1", "remove 1"])
def test_what_is_no_button_of_one_layer(text):
    assert stack_edits.parse_edit(text, 1) is None


@pytest.mark.parametrize("text", ["set 0 tape 1", "disks 0 tape 1"])
def test_what_the_layer_has_not_changes_nothing(text):
    assert built("add 0 raw", text) == built("add 0 raw")


def test_a_button_is_sent_as_it_is_read():
    for text in ("add 0 raw", "move 1 0", "set 0 scheduler ", "set 0 cipher a:b", "disks 1 data 3"):
        act = stack_edits.parse_edit(text, 2)
        assert act is not None and str(act) == text


def test_the_order_tells_where_each_came_from():
    told = {
        text: stack_edits.order_after(stack_edits.parse_edit(text, 3), 3)
        for text in ("add 1 raw", "remove 0", "move 2 0")
    }
    assert told == {
        "add 1 raw": [0, None, 1, 2],
        "remove 0": [1, 2],
        "move 2 0": [2, 0, 1],
    }
    assert stack_edits.order_after(stack_edits.parse_edit("disks 0 data 2", 3), 3) == [0, 1, 2]


@pytest.mark.parametrize("typed", ["", "x", "-1", "1.5", "\u0663", None, "1e3", "10000"])
def test_what_is_no_count_counts_nothing(typed):
    assert stack_edits.parse_count(typed) == 0
