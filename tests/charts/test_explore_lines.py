"""Explore, without a page: lines, points, ratios and looks recomputed by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from statistics import median
from typing import Any

import pytest

from benchlab.charts.explore import draw, exploration, factors, lines
from benchlab.charts.explore.exploration import ExploreChart
from benchlab.charts.explore.factors import Axes
from benchlab.charts.palette import COLOURS
from benchlab.charts.queries import Group, Sample

UNITS = {"iops": "op/s", "lat.mean": "s"}


BARE: dict[str, Any] = {
    "campaign": 1,
    "campaign_name": "c",
    "topology": 1,
    "topology_name": "top 1",
    "host": 1,
    "host_name": "h1",
    "workload": 1,
    "workload_name": "w",
    "tool": "fio",
    "rest": "",
    "options": {"rw": "randread", "bs": "4k"},
}


def group(topology: int, values: dict[int, list[tuple[float, float]]], **more) -> Group:
    """`values`: {depth: (op/s, s) of each repeat}."""
    given = BARE | {"topology": topology, "topology_name": f"top {topology}"} | more
    samples = tuple(
        Sample(1000 * topology + 10 * depth + nth, 0, nth, depth, {"iops": a, "lat.mean": b})
        for depth, repeats in values.items()
        for nth, (a, b) in enumerate(repeats, start=1)
    )
    return Group(**given, samples=samples, units=UNITS)


ONE = group(1, {1: [(100.0, 0.01), (120.0, 0.008), (50.0, 0.02)], 4: [(300.0, 0.013)]})
TWO = group(2, {1: [(200.0, 0.005), (300.0, 0.003)]})


def test_a_point_is_the_median_of_its_runs():
    first, second = lines.build_lines([ONE, TWO], Axes("outstanding", "iops", "topology"), UNITS)
    assert [(p.at[0].key, p.y) for p in first.points] == [(1, 100.0), (4, 300.0)]
    assert [(p.at[0].key, p.y) for p in second.points] == [(1, 250.0)]
    assert first.points[0].nearest == 1011
    assert (first.label, second.label) == ("top 1", "top 2")
    told = lines.line_statistics(first, "y")
    # Over its four runs, not over its two medians.
    assert told == lines.Statistics(50.0, median([100.0, 120.0, 50.0, 300.0]), 300.0, 300.0)


def test_two_metrics_are_drawn_a_point_per_depth():
    [line] = lines.build_lines([ONE], Axes("iops", "lat.mean"), UNITS)
    assert [(p.x, p.y) for p in line.points] == [(100.0, 0.01), (300.0, 0.013)]


def test_a_ratio_is_drawn_only_where_both_have_the_point():
    found = lines.build_lines([ONE, TWO], Axes("outstanding", "iops"), UNITS)
    over = lines.ratio_lines(found, found[1])
    assert [[p.y for p in line.points] for line in over] == [[100.0 / 250.0], [1.0]]
    assert over[0].points[0].values == (0.4, 120.0 / 250.0, 0.2)
    assert lines.ratio_to_baseline(found[0], lines.medians_by_level(found[1])) == (
        0.4,
        found[1].points[0].at,
    )
    assert lines.ratio_to_baseline(found[0], {}) is None


def test_what_is_measured_apart_is_never_one_line():
    """Another workload, host or size of block is another line, whatever the axes are."""
    other = group(1, {1: [(7.0, 1.0)]}, workload=2, workload_name="w2")
    far = group(1, {1: [(8.0, 1.0)]}, host=2, host_name="h2")
    for axes in (Axes("outstanding", "iops"), Axes("iops", "lat.mean", "topology", "host")):
        assert len(lines.build_lines([ONE, other, far], axes, UNITS)) == 3
    # ... unless that is the axis: then it is what a line goes over, a line for each depth.
    over = lines.build_lines([ONE, far], Axes("host", "iops"), UNITS)
    assert [[p.at[0].text for p in line.points] for line in over] == [["h1", "h2"], ["h1"]]


def sized(size: str, *repeats: tuple[float, float]) -> Group:
    options = {"rw": "randread", "bs": size}
    return group(1, {2: list(repeats)}, rest=f"bs {size}", options=options, varied_options=("bs",))


def test_a_swept_option_is_an_axis_in_the_order_of_its_sizes():
    some = [sized("128k", (3.0, 1.0)), sized("4k", (1.0, 1.0)), sized("64k", (2.0, 1.0))]
    [line] = lines.build_lines(some, Axes("param.bs", "iops"), UNITS)
    assert [p.at[0].text for p in line.points] == ["4 KiB", "64 KiB", "128 KiB"]
    assert [p.at[0].number for p in line.points] == [4096.0, 65536.0, 131072.0]
    assert len(lines.build_lines(some, Axes("outstanding", "iops"), UNITS)) == 3


def test_who_is_shown_beside_a_line_does_not_change_its_id():
    alone = lines.build_lines([ONE], Axes("outstanding", "iops", "topology", "host"), UNITS)
    beside = lines.build_lines(
        [ONE, TWO, sized("64k", (1.0, 1.0))], Axes("iops", "lat.mean"), UNITS
    )
    assert alone[0].id in {line.id for line in beside}
    assert len({line.id for line in beside}) == 3


def many(count: int, hosts: int = 1):
    some = [
        group(n + 1, {1: [(n, 1.0)], 2: [(n + 1.0, 1.0)]}, host=h, host_name=f"h{h}")
        for h in range(hosts)
        for n in range(count // hosts)
    ]
    axes = Axes("outstanding", "iops", "topology", "host")
    return lines.build_lines(some, axes, UNITS), axes


def test_ten_lines_have_ten_looks_and_fifty_have_fifty():
    for count, hosts in ((10, 1), (10, 2), (50, 1), (50, 5), (300, 1)):
        found, axes = many(count, hosts)
        assert len(found) == count
        assert len(set(exploration.explore_styles(found, axes).values())) == count


def test_the_colour_is_the_topology_and_the_dash_the_host():
    found, axes = many(12, 2)
    styles = exploration.explore_styles(found, axes)
    for part, name, size in (("topology", "colour", 6), ("host", "dash", 2)):
        pairs = {(line.levels[part].key, getattr(styles[line.id], name)) for line in found}
        assert len(pairs) == size == len({look for _, look in pairs})
    assert [styles[line.id].colour for line in found[::2]] == list(COLOURS[:6])


def chart(found, axes, **more) -> ExploreChart:
    x, y = (None if n == "outstanding" else lines.quantity(n, UNITS) for n in (axes.x, axes.y))
    return ExploreChart("t", axes, found, exploration.explore_styles(found, axes), x, y, **more)


LONG = "md RAID 5 of 3 SSD, 512 KiB chunks, bitmap internal · vm-09 · block size 64 KiB"


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (4, ["md RAID 5 of 3 SSD, 512 KiB chunks, bitmap internal · vm-09 ·", "block size 64 KiB"]),
        (50, ["md RAID 5 of 3 SSD, 512 KiB", "chunks, bitmap internal · vm-09…"]),
    ],
)
def test_a_heading_of_small_multiples_has_two_lines_and_is_told_whole(count, shown):
    """They were cut at 32 letters, so that layouts that differ at the end of their names were all called the same."""
    found, _ = many(count)
    found[0] = replace(found[0], label=LONG)
    axes = Axes("outstanding", "iops", "topology", "host", "", factors.EACH)
    heading, other, *_ = draw.build_explore_figure(chart(found, axes))["layout"]["annotations"]
    assert heading["text"] == f"<b>{'<br>'.join(shown)}</b>" and heading["hovertext"] == LONG
    assert other["text"] == f"<b>{found[1].label}</b>"


def test_few_lines_of_one_panel_have_their_names_at_their_ends():
    for count, hosts, shown in ((3, 1, 3), (6, 2, 6), (7, 1, 0)):
        found, axes = many(count, hosts)
        figure = draw.build_explore_figure(chart(found, axes))
        named = [one["name"] for one in figure["layout"]["annotations"]]
        assert named == [f"end: {line.id}" for line in found[:shown]]
    found, _ = many(3)
    axes = Axes("outstanding", "iops", "topology", "host", "", factors.EACH)
    headings = draw.build_explore_figure(chart(found, axes))["layout"]["annotations"]
    assert not any("name" in one for one in headings)


def test_headings_on_two_lines_have_room():
    found, _ = many(9)
    axes = Axes("outstanding", "iops", "topology", "host", "", factors.EACH)
    short = draw.build_explore_figure(chart(found, axes))["layout"]
    found[0] = replace(found[0], label=LONG)
    long = draw.build_explore_figure(chart(found, axes))["layout"]
    for higher in (long["height"] - short["height"], long["margin"]["t"] - short["margin"]["t"]):
        assert higher == draw.HEADING_PX


def test_small_multiples_share_one_scale_and_a_grey_crowd():
    found, _ = many(50)
    axes = Axes("outstanding", "iops", "topology", "host", "", factors.EACH)
    figure = draw.build_explore_figure(chart(found, axes))
    layout = figure["layout"]
    panels = [name for name in layout if name.startswith("xaxis")]
    assert len(panels) == 50
    assert all(layout[n].get("matches") == n[0] for n in layout if re.fullmatch(r"[xy]axis\d+", n))
    grey = [trace for trace in figure["data"] if trace["line"]["color"] == draw.BACKGROUND_COLOUR]
    assert len(grey) == 50
    assert [v for v in grey[0]["y"] if v is not None].__len__() == 49 * 2
    coloured = [trace for trace in figure["data"] if trace["line"]["color"] in COLOURS]
    assert [trace["y"] for trace in coloured] == [[n, n + 1.0] for n in range(50)]
    rights = [layout[name]["domain"][1] for name in panels[:3]]
    assert all(end < layout[n]["domain"][0] for end, n in zip(rights, panels[1:4], strict=True))


def test_all_lines_are_told_at_one_depth_in_the_order_of_their_values():
    layout = draw.build_explore_figure(chart([], Axes("outstanding", "iops")))["layout"]
    assert "No run here measured IOPS" in layout["annotations"][0]["text"]
    found, axes = many(3)
    layout = draw.build_explore_figure(chart(found, axes))["layout"]
    assert (layout["hovermode"], layout["hoversort"]) == ("x unified", "value descending")


def test_a_metric_by_two_parameters_is_a_heat_map():
    some = [sized("4k", (10.0, 1.0), (30.0, 1.0), (11.0, 1.0)), sized("64k", (2.0, 1.0))]
    axes = Axes("outstanding", "param.bs", "iops")
    found = lines.build_lines(some, axes, UNITS)
    iops = lines.quantity("iops", UNITS)
    figure = draw.build_explore_figure(
        ExploreChart("t", axes, found, exploration.explore_styles(found, axes), None, None, iops)
    )
    [panel] = figure["data"]
    assert panel["type"] == "heatmap"
    assert (panel["x"], panel["y"], panel["z"]) == (["2"], ["4 KiB", "64 KiB"], [[11.0], [2.0]])


def test_percentiles_are_drawn_as_told_and_their_cdf_is_the_same_turned():
    units = dict.fromkeys(["clat.p50", "clat.p99.9", "read.clat.p90", "clat.mean"], "s")
    values = {"clat.p50": 0.001, "clat.p99.9": 0.02, "read.clat.p90": 0.005, "read.iops": 5.0}
    some = [Group(**{**BARE, "samples": tuple(
        Sample(n, 0, n, 4, {name: v * n for name, v in values.items()}) for n in (1, 2, 3)
    )})]  # fmt: skip
    [line] = lines.build_lines(some, Axes("percentile", "clat.ranks"), units)
    # 90 is of the reads alone, and reads are all there was.
    assert [(p.at[0].text, p.y) for p in line.points] == [("p50", 0.002), ("p90", 0.01), ("p99.9", 0.04)]  # fmt: skip
    [turned] = lines.build_lines(some, Axes("clat.ranks", "percentile"), units)
    assert [(p.x, p.at[0].text) for p in turned.points] == [(p.y, p.at[0].text) for p in line.points]  # fmt: skip
    asked = lines.needed_metrics(Axes("percentile", "clat.ranks"), units)
    assert asked >= {"clat.p50", "read.clat.p90", "clat.p99.9", "write.iops"}
    assert line.run_count == 3
    assert lines.offered_percentiles(units) == ["clat.ranks", "read.clat.ranks"]
    assert lines.build_lines([ONE], Axes("percentile", "clat.ranks"), UNITS) == []
