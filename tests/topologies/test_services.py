"""Topologies are completed and checked: what cannot stand is refused in words, every preset stands."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from agents.drivers import registry
from benchlab.topologies import services, stack_boxes
from benchlab.topologies.host_shapes import PRESETS

RAW = {"kind": "raw", "options": {}, "devices": [{"use": "data", "role": "ssd", "count": 1}]}
FILESYSTEM = {"kind": "filesystem", "options": {"type": "ext4"}, "devices": []}
DIRECTORY = {"kind": "directory"}


def with_disks(**fields: object) -> dict[str, object]:
    return {**RAW, "devices": [{"use": "data", "role": "ssd", "count": 1, **fields}]}


def test_options_are_completed():
    stack = services.checked_stack([RAW, FILESYSTEM])
    assert stack[1]["options"]["type"] == "ext4"
    assert "mount_options" in stack[1]["options"]
    assert stack[0]["devices"] == RAW["devices"]


@pytest.mark.parametrize(
    ("stack", "says"),
    [
        ([], "needs at least one layer"),
        ([{"kind": "tape"}], "Layer 1: there is no layer named 'tape'; known: "),
        ([FILESYSTEM], r"Layer 1 \(File system\) needs a volume, add a layer"),
        (
            [DIRECTORY, FILESYSTEM],
            r"Layer 2 \(File system\) needs a volume, but layer 1 \(Scratch directory\) "
            "gives a mounted directory",
        ),
        (
            [RAW, {**FILESYSTEM, "options": {"type": "fat"}}],
            r"Layer 2 \(File system\): type: 'fat'",
        ),
        (
            [RAW, {**FILESYSTEM, "options": {"typ": "xfs"}}],
            r"Layer 2 \(File system\): there is no option 'typ'; known: type, ",
        ),
        (
            [RAW, {"kind": "filesystem", "option": {"type": "xfs"}}],
            r"Layer 2 \(File system\) has no 'option': a layer is devices, kind, options\.",
        ),
        ([{**RAW, "devices": []}], r"Layer 1 \(Raw disk\) takes data \(the disk\)"),
        ([{**DIRECTORY, "devices": RAW["devices"]}], "takes no disks; it got"),
        ([with_disks(count=0)], "takes 1 to 256 disks, not 0"),
        ([with_disks(count="1")], "takes 1 to 256 disks, not '1'"),
        ([with_disks(role="My SSD!")], "'My SSD!' is not a role"),
        ([with_disks(role=None)], "None is not a role"),
    ],
)
def test_a_stack_that_cannot_stand_is_refused_in_words(stack, says):
    with pytest.raises(ValidationError, match=says):
        services.checked_stack(stack)


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_every_preset_stands(preset):
    assert services.checked_stack(preset.stack)


def test_the_picture_has_the_top_layer_first():
    boxes = stack_boxes.stack_boxes(services.checked_stack([RAW, FILESYSTEM]))
    assert [box.label for box in boxes] == ["File system", "Raw disk"]
    assert boxes[0].options == (("type", "ext4"),)
    assert [(d.role, d.count, d.use) for d in boxes[1].disks] == [("ssd", 1, "data")]


def test_the_summary_reads_bottom_up():
    assert stack_boxes.summary([RAW, FILESYSTEM]) == "ssd × 1 › Raw disk › File system"


def test_a_layer_that_is_gone_is_still_drawn():
    assert (
        stack_boxes.stack_boxes([{"kind": "tape", "options": {}}])[0].label
        == "tape (unknown layer)"
    )
    assert "tape" not in registry.all_layers()
