"""Every workload preset, by its tool's own driver: each point builds, has a job, and is what its text says."""

from __future__ import annotations

from itertools import pairwise

import pytest

from agents import options
from agents.contracts import Target
from agents.drivers import registry
from benchlab.campaigns import matrix
from benchlab.campaigns.workload_presets import ALL_PRESETS, PRESETS, Preset, presets_by_group

GIB = 1 << 30
MOUNT = Target("bl1", mount="/mnt/bl1", size=100 * GIB)
VOLUME = Target("bl1", volume="/dev/mapper/bl1-d", size=100 * GIB)


@pytest.fixture(autouse=True)
def real_tools(monkeypatch, toys):
    from agents import tools

    monkeypatch.setattr(registry, "all_tools", lambda: registry.load_drivers(tools))


@pytest.mark.parametrize("preset", ALL_PRESETS, ids=PRESETS)
def test_every_point_builds_and_has_a_job(preset: Preset) -> None:
    tool = registry.tool(preset.tool)
    whole_disk = preset.options.get("size") == 0
    for point in matrix.sweep_points(preset.sweep):
        built = options.build_options(tool.Options, {**preset.options, **point})
        job = tool.build_job(built, VOLUME if whole_disk else MOUNT)
        assert 0 < job.expected_s <= job.timeout_s


@pytest.mark.parametrize(
    ("slug", "points", "outstanding"),
    [
        ("randread-4k", 9, [1, 2, 4, 8, 16, 32, 64, 128, 256]),
        ("randwrite-4k", 9, [1, 2, 4, 8, 16, 32, 64, 128, 256]),
        ("article-002", 5, [1, 2, 4, 8, 16]),
        ("article-004-read", 5, [64, 32, 16, 8, 4]),
        ("article-004-write", 5, [64, 32, 16, 8, 4]),
        ("oltp", 7, [1, 2, 4, 8, 16, 32, 64]),
        ("snia-iops", 56, [32] * 56),
        ("sysbench-rndrw", 5, [1, 2, 4, 8, 16]),
        ("postgresql-wal", 1, [1]),
    ],
)
def test_the_sweeps_are_the_curves(slug: str, points: int, outstanding: list[int]) -> None:
    preset = PRESETS[slug]
    tool = registry.tool(preset.tool)
    found = [
        tool.outstanding_ios(options.build_options(tool.Options, {**preset.options, **point}))
        for point in matrix.sweep_points(preset.sweep)
    ]
    assert (len(found), found) == (points, outstanding)


def test_the_dd_of_article_000_is_its_command_line() -> None:
    tool = registry.tool("dd")
    built = options.build_options(tool.Options, PRESETS["article-000-dd"].options)
    words = tool.build_job(built, MOUNT).argv[5:]
    assert "obs=4096" in words and "count=1024000" in words
    assert "oflag=sync,nonblock,noatime,nocache" in words
    assert not any(word.startswith(("bs=", "ibs=")) for word in words)


def test_a_wal_write_is_synced_each_time() -> None:
    tool = registry.tool("fio")
    built = options.build_options(tool.Options, PRESETS["postgresql-wal"].options)
    job = tool.build_job(built, MOUNT).inputs["job.fio"].decode()
    assert {"fdatasync=1", "bs=8192", "rw=write", "direct=0"} <= set(job.splitlines())


def test_snia_has_seven_mixes_and_eight_sizes() -> None:
    sweep = PRESETS["snia-iops"].sweep
    assert sweep["rwmixread"] == [100, 95, 65, 50, 35, 5, 0]
    assert [size / 1024 for size in sweep["block_size"]] == [1024, 128, 64, 32, 16, 8, 4, 0.5]


def test_headings_come_once_and_in_order() -> None:
    groups = presets_by_group(registry.all_tools())
    headings = [heading for heading, _ in groups]
    assert len(set(headings)) == len(headings)
    assert [preset for _, found in groups for preset in found] == list(ALL_PRESETS)
    assert len(PRESETS) == len(ALL_PRESETS) == len({preset.name for preset in ALL_PRESETS})


def test_presets_of_a_tool_that_is_not_there_are_left_out() -> None:
    found = [preset.tool for _, presets in presets_by_group({"fio"}) for preset in presets]
    assert found and set(found) == {"fio"}
    assert all(
        one != other for one, other in pairwise(name for name, _ in presets_by_group({"fio"}))
    )
