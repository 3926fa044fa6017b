"""The workloads of a comparison: ready workloads with the times, depths and sizes that were asked for."""

from __future__ import annotations

import pytest

from benchlab.campaigns.workload_presets import (
    MIB_BYTES,
    RUN_LENGTHS,
    WORKLOAD_GOALS,
    goal_workloads,
)


@pytest.mark.parametrize("matter", WORKLOAD_GOALS.values(), ids=lambda one: one.slug)
@pytest.mark.parametrize("time", RUN_LENGTHS.values(), ids=lambda one: one.slug)
def test_each_matter_is_workloads_with_those_times(matter, time):
    found = goal_workloads(matter, time, [1, 8], 100 * MIB_BYTES)
    assert len(found) == len(matter.workloads)
    for one in found:
        if one.tool == "fio":
            told = one.options["runtime_s"], one.options["ramp_s"], one.options["size"]
            assert told == (time.runtime_s, time.ramp_s, 50 * MIB_BYTES)
            assert one.sweep == {"iodepth": [1, 8]} and "depths 1 to 8" in one.name
        else:
            assert one.options["seconds"] == time.each_s


def test_a_large_layout_has_the_presets_own_size():
    [one, _] = goal_workloads(WORKLOAD_GOALS["random"], RUN_LENGTHS["usual"], [4], 1 << 50)
    assert one.options["size"] == 1 << 30 and one.name.endswith("1,024 MiB, depth 4")


def test_a_size_that_is_not_known_changes_nothing():
    assert (
        goal_workloads(WORKLOAD_GOALS["random"], RUN_LENGTHS["usual"], [4], 0)[0].options["size"]
        == 1 << 30
    )


def test_a_file_is_never_nothing():
    [read, _] = goal_workloads(WORKLOAD_GOALS["random"], RUN_LENGTHS["usual"], [4], MIB_BYTES)
    assert read.options["size"] == MIB_BYTES
