"""The workloads of a comparison: ready workloads with the times, depths and sizes that were asked for."""

from __future__ import annotations

import pytest

from benchlab.campaigns.what_matters import MATTERS, MIB, TIMES, work


@pytest.mark.parametrize("matter", MATTERS.values(), ids=lambda one: one.slug)
@pytest.mark.parametrize("time", TIMES.values(), ids=lambda one: one.slug)
def test_each_matter_is_workloads_with_those_times(matter, time):
    found = work(matter, time, [1, 8], 100 * MIB)
    assert len(found) == len(matter.workloads)
    for one in found:
        if one.tool == "fio":
            told = one.options["runtime_s"], one.options["ramp_s"], one.options["size"]
            assert told == (time.runtime_s, time.ramp_s, 50 * MIB)
            assert one.sweep == {"iodepth": [1, 8]} and "depths 1 to 8" in one.name
        else:
            assert one.options["seconds"] == time.each_s


def test_a_large_layout_has_the_presets_own_size():
    [one, _] = work(MATTERS["random"], TIMES["usual"], [4], 1 << 50)
    assert one.options["size"] == 1 << 30 and one.name.endswith("1,024 MiB, depth 4")


def test_a_size_that_is_not_known_changes_nothing():
    assert work(MATTERS["random"], TIMES["usual"], [4], 0)[0].options["size"] == 1 << 30


def test_a_file_is_never_nothing():
    assert work(MATTERS["random"], TIMES["usual"], [4], MIB)[0].options["size"] == MIB
