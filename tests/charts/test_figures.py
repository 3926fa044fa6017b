"""Figures are valid Plotly, and say what they show."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from math import log10

import plotly.graph_objects as go
import pytest

from benchlab.charts import (
    curve,
    device_figures,
    latency_against_iops,
    line_analysis,
    palette,
    repeat_dots,
    sampled_tracks,
    tables,
)
from benchlab.charts import figure as figures
from benchlab.charts.line_analysis import Choice
from benchlab.charts.queries import Group, Sample, without_depth
from benchlab.charts.sampled_tracks import Track, rows_from_tracks
from tests.analysis.noise_of_curves import DEPTHS, PUBLISHED
from tests.charts import made

ARTICLE = dict(zip((1, 2, 4, 8, 16), (1683.0, 3327.0, 5095.0, 5101.0, 5099.0), strict=True))


def group(
    topology: int = 1, repeats: int = 3, depths: dict[int, float] = ARTICLE, rest: str = ""
) -> Group:
    samples = tuple(
        Sample(
            run=100 * repeat + depth,
            attempt=1,
            repeat=repeat,
            outstanding=depth,
            values=values(iops, depth),
        )
        for depth, iops in depths.items()
        for repeat in range(1, repeats + 1)
    )
    return Group(1, "C", topology, f"T{topology}", 1, "H", 1, "W", "fio", rest, samples=samples)


def values(iops: float, depth: int) -> dict[str, float]:
    latency = {
        f"clat.{name}": 0.9 * depth / iops * k
        for name, k in (("mean", 1), ("p50", 0.9), ("p99", 3), ("p99.9", 8))
    }
    return {"iops": iops, "bandwidth": iops * 4096, "lat.mean": depth / iops, **latency}


def named(figure, name):
    return [
        trace for trace in figure["data"] if trace.get("name") == name and "lines" in trace["mode"]
    ]


def rings_of(figure):
    return [t for t in figure["data"] if t.get("marker", {}).get("symbol") == "circle-open"]


def test_one_line_shows_all_latencies_and_its_knee():
    figure = curve.build_curve_figure("C", [group()], Choice())
    go.Figure(figure)
    medians = [trace for trace in figure["data"] if "lines+markers" in trace["mode"]]
    assert [trace["yaxis"] for trace in medians] == ["y", "y2"]
    assert medians[1]["y"] == [depth / iops for depth, iops in ARTICLE.items()]
    (ring,) = rings_of(figure)
    assert (ring["x"], ring["y"]) == ([4], [5095.0])
    # Repeats are equal here
    assert (ring["error_x"]["array"], ring["error_x"]["arrayminus"]) == (
        [0],
        [0],
    )
    assert figure["layout"]["xaxis"]["tickvals"] == [1, 2, 4, 8, 16]
    assert "IOPS" in figure["layout"]["title"]["text"]
    assert figure["layout"]["yaxis2"]["title"]["text"] == "Total latency (s)"


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (
            group(repeats=2),
            "about 4 outstanding, from there on 5.1 k IOPS, within 0.1 %;"
            " from two repeats per depth (three are needed to draw it)",
        ),
        (
            group(depths={1: 1683.0, 4: 5095.0}),
            "unknown, as it takes at least 4 depths with IOPS",
        ),
        (replace(group(), over=False), "not before the campaign is over"),
        (
            group(depths=dict.fromkeys(ARTICLE, 500.0)),
            "none, flat from the first depth on; capped at 500 IOPS from 1 to 16, within 0.1 %",
        ),
        (
            group(depths={depth: 400.0 * depth for depth in ARTICLE}),
            "not reached, measure deeper",
        ),
    ],
)
def test_no_knee_is_drawn_that_is_not_known(one, words):
    assert rings_of(curve.build_curve_figure("C", [one], Choice())) == []
    assert line_analysis.curve_answer_text(one) == words
    assert ":" not in words, "a label with a colon stands before it"
    assert not any(point.knee for point in tables.curve_points([one]))


def published(name, repeats=3):
    line = group(depths=dict(zip(DEPTHS, PUBLISHED[name], strict=True)), repeats=repeats)
    return line if repeats < 3 else noisy_line(line, 0.01)


@pytest.mark.parametrize(
    ("name", "repeats", "words"),
    [
        (
            "Samsung 860 Pro, cache off",
            3,
            "16 outstanding, from there on 5.67 k IOPS, within 0.5 %",
        ),
        (
            "Intel S4610, test 1",
            1,
            "about 16 outstanding (between 8 and 16, 95 %), from there on 69.6 k IOPS, within 0.2 %;"
            " from one repeat per depth (three are needed to draw it)",
        ),
    ],
)
def test_a_knee_where_the_cap_begins_is_one_statement(name, repeats, words):
    assert line_analysis.curve_answer_text(published(name, repeats)) == words


def test_a_cap_that_hides_the_knee_says_so():
    """Repeats at 16 as low as those at 1: the cap is certain, the rise up to it is not."""
    line = noisy({1: 90.0, 2: 95.0, 4: 99.0, 8: 100.0, 16: 150.0, 32: 150.0, 64: 150.0}, 0.30)
    words = "capped at 145 IOPS from 16 on; add depths below 16 to see where it bends"
    assert line_analysis.curve_answer_text(line) == words


def marks(figure, name):
    return [t for t in figure["data"] if t.get("name") == name]


def noted(figure):
    return [one["text"] for one in figure["layout"]["annotations"] if one["yref"] == "y"]


def test_an_uncertain_knee_is_a_stretch_of_the_curve():
    """The last doubling gains 11 %, with repeats that differ by 20 %: a knee at 16, or none yet."""
    line = noisy({1: 100.0, 2: 195.0, 4: 370.0, 8: 640.0, 16: 900.0, 32: 1000.0}, 0.10)
    known = line_analysis.curve_answer(line).knee
    assert known.uncertain and known.beyond
    figure = curve.build_curve_figure("C", [line], Choice())
    go.Figure(figure)
    (stretch,) = marks(figure, curve.UNCERTAIN_NAME)
    assert (stretch["x"], stretch["y"]) == ([16, 32], [900.0, 1000.0]) and stretch["showlegend"]
    assert rings_of(figure) == []
    words = "uncertain, perhaps 16 or deeper than was measured; measure deeper"
    assert line_analysis.curve_answer_text(line) == words


def noisy(depths, noise):
    return noisy_line(group(depths=depths), noise)


def noisy_line(line, noise):
    changed = line.samples
    for repeat, factor in ((1, 1 - noise), (3, 1 + noise)):
        changed = tuple(
            replace(s, values=values(s.values["iops"] * factor, s.outstanding))
            if s.repeat == repeat
            else s
            for s in changed
        )
    return replace(line, samples=changed)


def test_flat_and_not_reached_are_said_on_the_chart():
    flat, steep = (
        group(1, depths=dict.fromkeys(ARTICLE, 500.0)),
        group(2, depths={depth: 400.0 * depth for depth in ARTICLE}),
    )
    figure = curve.build_curve_figure("C", [flat, steep], Choice())
    go.Figure(figure)
    assert noted(figure) == ["T1 · flat", "T2 · no knee yet"]
    alone = curve.build_curve_figure("C", [flat], Choice())
    assert noted(alone) == ["flat"]


def test_a_cap_and_a_fall_are_drawn():
    falling = noisy({1: 100.0, 2: 200.0, 4: 400.0, 8: 390.0, 16: 330.0, 32: 280.0}, 0.01)
    figure = curve.build_curve_figure("C", [group(), replace(falling, topology=2)], Choice())
    go.Figure(figure)
    (rule,) = marks(figure, curve.CAP_NAME)
    assert rule["x"] == [4, 16] and rule["y"] == [pytest.approx(5098 * 1.03, rel=1e-3)] * 2
    (fall,) = marks(figure, curve.COLLAPSE_NAME)
    assert (fall["x"], fall["text"]) == ([32], ["−30 %"])
    assert "falls past 4, by 30 % at 32" in line_analysis.curve_answer_text(falling)


def test_fewer_than_three_repeats_draw_nothing_of_the_whole_curve_but_a_cap():
    figure = curve.build_curve_figure("C", [group(repeats=1)], Choice())
    assert rings_of(figure) == [] and noted(figure) == []
    assert len(marks(figure, curve.CAP_NAME)) == 1


@pytest.mark.parametrize(("count", "rows"), [(1, 1), (3, 1), (12, 12)])
def test_a_legend_takes_its_room_below_the_plot(count, rows):
    """Twelve long names left a plot 100 pixels high."""
    name = "T{}" if count < 12 else "md RAID 5 of 3 SSD, 512 KiB chunks, bitmap internal, xfs, {}"
    two = [replace(group(n, repeats=1), topology_name=name.format(n)) for n in range(count)]
    layout = curve.build_curve_figure(
        "C", [replace(one, samples=one.samples[:2]) for one in two], Choice()
    )["layout"]
    assert layout["height"] == curve.AROUND_PX + curve.TWO_PANELS_PX + (rows - 1) * figures.ROW_PX
    assert layout["legend"]["maxheight"] > rows * figures.ROW_PX
    assert layout["title"]["y"] == pytest.approx(1 - 24 / layout["height"])


def test_latency_against_iops_has_littles_law_for_each_depth():
    choice = Choice(against="latency")
    figure = latency_against_iops.build_latency_against_iops("C", [group(1), group(2)], choice)
    go.Figure(figure)
    little, *lines = figure["data"]
    assert little["name"] == latency_against_iops.LITTLE_NAME
    assert [one["name"] for one in lines] == ["T1", "T2"]
    assert lines[0]["x"] == list(ARTICLE.values())
    assert lines[0]["y"] == [depth / iops for depth, iops in ARTICLE.items()]
    assert [text.strip() for text in lines[0]["text"]] == ["1", "2", "4", "8", "16"]
    on_the_law = [x * y for x, y in zip(little["x"], little["y"], strict=True) if x]
    assert on_the_law == pytest.approx([d for depth in ARTICLE for d in (depth, depth)])


@pytest.mark.parametrize(
    "choice",
    [
        Choice(against="latency", kind="clat", statistics=("p99",)),
        Choice(against="latency", operation="read"),
    ],
)
def test_little_is_about_all_io_and_mean_total_latency_only(choice):
    figure = latency_against_iops.build_latency_against_iops("C", [group()], choice)
    go.Figure(figure)
    assert marks(figure, latency_against_iops.LITTLE_NAME) == []
    assert "in flight" not in json.dumps(figure)


def test_what_was_in_flight_is_of_each_run_and_not_of_two_medians():
    """8 in flight in each of three runs, 21.6 in the fourth; the product of the medians is 13.2, of none of them."""
    runs = {1: (1000, 0.008), 2: (4000, 0.002), 3: (8000, 0.001), 4: (9000, 0.0024)}
    samples = tuple(
        replace(
            group().samples[0],
            run=run,
            repeat=run,
            outstanding=8,
            values={"iops": a, "lat.mean": b},
        )
        for run, (a, b) in runs.items()
    )
    alone = replace(samples[0], run=9, outstanding=1)
    line = replace(group(), samples=(alone, *samples))
    _, text = latency_against_iops.build_latency_against_iops("C", [line], Choice())["data"][-1][
        "hovertext"
    ]
    assert "6 k IOPS" in text and "2.2 ms" in text and "in flight: 8.0" in text


def spoilt(one: Group, run: int, factor: float) -> Group:
    """One run's rate is another."""
    samples = tuple(
        replace(s, values={**s.values, "iops": s.values["iops"] * factor}) if s.run == run else s
        for s in one.samples
    )
    return replace(one, samples=samples)


def test_repeats_that_differ_are_marked():
    """Repeat 2 at 8 outstanding, 3.7 times slower."""
    one = spoilt(group(), 208, 1 / 3.7)
    figure = curve.build_curve_figure("C", [one, group(2)], Choice())
    go.Figure(figure)
    (beam,) = [trace for trace in figure["data"] if trace.get("name") == curve.DIFFER_NAME]
    assert beam["x"] == [8, 8, None]
    assert beam["y"] == [pytest.approx(5101 / 3.7), 5101.0, None]
    assert beam["text"] == ["", "3.7\u00a0×", ""] and beam["showlegend"]
    points = tables.curve_points([one, group(2)])
    assert [(p.label, p.outstanding) for p in points if p.repeat_ratio] == [("T1", 8)]


def lines(count: int, apart: float = 0.25) -> list[Group]:
    """Lines of which each is by such a share above the one before."""
    return [
        group(n + 1, depths={d: rate * (1 + apart) ** n for d, rate in ARTICLE.items()})
        for n in range(count)
    ]


@pytest.mark.parametrize("count", range(2, 7))
def test_two_to_six_lines_have_their_names_at_their_ends(count):
    figure = curve.build_curve_figure("C", lines(count), Choice(statistics=("mean",)))
    go.Figure(figure)
    for axis, log in (("y", False), ("y2", True)):
        names = [one for one in figure["layout"]["annotations"] if one["yref"] == axis]
        assert [one["text"] for one in names] == [f"T{n + 1}" for n in range(count)]
        assert [one["name"] for one in names] == [f"end: T{n + 1}" for n in range(count)]
        drawn = [t for t in figure["data"] if t["yaxis"] == axis]
        ends = [t["y"][-1] for t in drawn if t.get("mode") == "lines+markers"]
        assert [one["y"] for one in names] == [log10(end) if log else end for end in ends]
        assert [one["x"] for one in names] == [log10(16)] * count
        assert [one["font"]["color"] for one in names] == list(palette.INKS.values())[:count]


@pytest.mark.parametrize(("count", "apart"), [(1, 0.25), (7, 0.25), (12, 0.25), (6, 0.0)])
def test_one_line_and_many_and_lines_that_end_at_one_place_have_none(count, apart):
    assert noted(curve.build_curve_figure("C", lines(count, apart), Choice())) == []


def test_names_of_lines_that_end_close_together_keep_apart():
    figure = curve.build_curve_figure("C", lines(3, 0.001), Choice())
    places = [one["y"] for one in figure["layout"]["annotations"] if one["yref"] == "y"]
    top = max(lines(3, 0.001)[-1].samples, key=lambda one: one.values["iops"]).values["iops"]
    gap = figures.NAME_GAP * top
    assert [b - a for a, b in pairwise(places)] == pytest.approx([gap, gap])


def test_lines_of_one_name_are_drawn_each_with_its_own_numbers():
    """Two topologies may have one name."""
    one, two = (replace(line, topology_name="T") for line in lines(2))
    figure = curve.build_curve_figure("C", [one, two], Choice())
    medians = [t for t in figure["data"] if t["yaxis"] == "y" and t["mode"] == "lines+markers"]
    assert [t["y"][0] for t in medians] == [ARTICLE[1], ARTICLE[1] * 1.25]
    assert [(t["name"], t["showlegend"]) for t in medians] == [("T", True), ("T", True)]


def test_a_panel_with_several_lines_of_one_has_no_names():
    figure = curve.build_curve_figure("C", lines(2), Choice(kind="clat"))
    assert {one["yref"] for one in figure["layout"]["annotations"]} == {"y"}


def test_every_series_has_its_ink():
    assert list(palette.INKS) == list(palette.COLOURS)


def test_bars_whose_repeats_differ_are_marked():
    two = [spoilt(group(1, depths={0: 500.0}), 200, 3.7), group(2, depths={0: 300.0})]
    figure = repeat_dots.build_bar_figure("C", two, Choice("iops"))
    go.Figure(figure)
    (beam,) = [trace for trace in figure["data"] if trace.get("name") == curve.DIFFER_NAME]
    assert beam["x"] == [500.0, pytest.approx(1850.0)] and beam["y"] == ["T1", "T1"]
    assert "repeats differ" in figure["layout"]["title"]["subtitle"]["text"]
    assert [p.repeat_ratio for p in tables.curve_points(two)] == [pytest.approx(3.7), None]


def test_three_repeats_have_a_band_and_two_have_none():
    chosen = Choice(kind="clat")
    filled = [
        trace
        for trace in curve.build_curve_figure("C", [group()], chosen)["data"]
        if trace.get("fill")
    ]
    assert len(filled) == 5
    two = curve.build_curve_figure("C", [group(repeats=2)], Choice())
    assert not [trace for trace in two["data"] if trace.get("fill")]
    assert "too few for a band" in two["layout"]["title"]["subtitle"]["text"]


def test_every_point_leads_to_its_run():
    figure = curve.build_curve_figure("C", [group(repeats=1)], Choice())
    points = next(
        trace for trace in figure["data"] if trace["mode"] == "markers" and "customdata" in trace
    )
    assert points["customdata"][0] == ["/runs/101/"]
    assert "run 101" in points["text"][0]


def test_several_lines_show_mean_and_p99_and_differ_in_colour():
    figure = curve.build_curve_figure("C", [group(1), group(2)], Choice(kind="clat"))
    go.Figure(figure)
    assert {trace["legendgroup"] for trace in figure["data"]} == {
        "T1",
        "T2",
        f"mark: {curve.KNEE_NAME}",
        f"mark: {curve.CAP_NAME}",
    }
    lines = [t for t in figure["data"] if t["legendgroup"] in ("T1", "T2")]
    legend = [trace for trace in lines if trace["showlegend"]]
    assert len({trace["line"]["color"] for trace in legend}) == 2


@pytest.mark.parametrize(
    "choice",
    [
        Choice("bandwidth"),
        Choice(kind="clat", statistics=("p99",)),
        Choice(kind="slat"),
        Choice(operation="read"),
    ],
)
def test_choices_make_valid_figures(choice):
    go.Figure(curve.build_curve_figure("C", [group()], choice))


@pytest.mark.parametrize(
    "axis",
    ["iodepth", "numjobs", "outstanding_ios", "workers", "threads", "async_backlog", "outstanding"],
)
def test_a_sweep_over_what_makes_the_outstanding_ios_is_one_line(axis):
    """Of every tool, ours and those of imports: else each of its points is a line of its own."""
    assert without_depth({axis: 4, "block_size": 8192}) == {"block_size": 8192}
    assert without_depth({"iodepth": 4, "numjobs": 2}) == {"numjobs": 2}


def test_nothing_measured_says_so():
    figure = curve.build_curve_figure("C", [], Choice())
    assert "No IOPS" in figure["layout"]["annotations"][0]["text"]
    go.Figure(figure)


def test_bars_for_workloads_without_a_sweep():
    figure = repeat_dots.build_bar_figure(
        "C", [group(1, depths={0: 500.0}), group(2, depths={0: 300.0})], Choice("bandwidth")
    )
    go.Figure(figure)
    assert [trace["type"] for trace in figure["data"]] == ["bar", "scatter", "bar", "scatter"]


def tracks(seconds: int = 30) -> list[Track]:
    times = [float(at) for at in range(seconds)]
    found = [Track("dm-0", "read.iops", "op/s", times, [400.0] * seconds)]
    found += [Track(name, "read.iops", "op/s", times, [200.0] * seconds) for name in ("sdb", "sdc")]
    found += [Track("sda", "read.iops", "op/s", times, [0.0] * seconds)]
    found += [Track("sdb", "util", "1", times, [0.5] * seconds)]
    return [
        *found,
        Track("", "cpu.user", "1", times, [0.25] * seconds),
        Track("cpu0", "cpu.user", "1", times, [1.0] * seconds),
    ]


def test_devices_stand_below_their_volume_and_idle_ones_are_named():
    figure = device_figures.build_device_figure("run 1", rows_from_tracks(tracks()), made.facts(2))
    go.Figure(figure)
    legend = [trace["name"] for trace in figure["data"] if trace["showlegend"]]
    assert [name.strip() for name in legend] == [
        "bl1-data (dm-0, lvm)",
        "└ sdb (INTEL SSDSC2BB48)",
        "└ sdc (INTEL SSDSC2BB48)",
    ]
    assert "Idle and not drawn: sda" in figure["layout"]["title"]["subtitle"]["text"]
    util = [trace for trace in figure["data"] if trace["yaxis"] == "y2"]
    assert util[0]["y"][0] == 50.0


def test_every_draws_the_idle_too():
    figure = device_figures.build_device_figure(
        "run 1", rows_from_tracks(tracks()), made.facts(2), every=True
    )
    assert any("sda" in trace["name"] for trace in figure["data"])


def test_long_series_are_thinned_and_the_chart_says_so():
    figure = device_figures.build_device_figure("run 1", rows_from_tracks(tracks(5000)), {})
    assert len(figure["data"][0]["x"]) <= 2 * sampled_tracks.DEFAULT_PIXELS
    assert "thinned" in figure["layout"]["title"]["subtitle"]["text"]


def test_cpu_is_that_of_the_whole_host():
    figure = device_figures.build_cpu_figure("run 1", rows_from_tracks(tracks()))
    go.Figure(figure)
    assert [trace["y"][0] for trace in figure["data"]] == [25.0]


def test_what_held_the_cpu_back_is_drawn_over_it_where_the_host_tells():
    held = [
        Track("", metric, "1", (1.0, 2.0), values)
        for metric, values in (("cpu.speed", (1.0, 0.5)), ("cpu.heat", (0.0, 1.0)), ("cpu.quota", (0.0, 0.0)))
    ]  # fmt: skip
    figure = device_figures.build_cpu_figure("run 1", rows_from_tracks([*tracks(), *held]))
    go.Figure(figure)
    drawn = {trace["name"]: trace for trace in figure["data"]}
    assert drawn["clock, of its highest"]["y"] == [100.0, 50.0]
    assert drawn["throttled for heat"]["y"] == [0.0, 100.0] and "quota used up" not in drawn
    assert [name for name, trace in drawn.items() if "stackgroup" in trace] == ["user"]


def test_no_samples_say_so():
    assert device_figures.build_device_figure("run 1", [], {})["data"] == []
    assert device_figures.build_cpu_figure("run 1", [])["data"] == []


@pytest.mark.parametrize(
    "numbers", [[142e-6, 178e-6], [1e-3], [1e-3, 1.01e-3], [3.0, 4.9], [2.0, 2.0], [0.0]]
)
def test_a_log_axis_has_two_ticks_in_sight_however_close_its_numbers_are(numbers):
    axis = figures.log_axis("Latency", "s", numbers)
    low, high = (10**end for end in axis["range"])
    assert sum(low < tick < high for tick in axis["tickvals"]) >= 2
    assert all(low < number < high for number in numbers if number)


def test_a_log_axis_of_numbers_far_apart_is_fitted_by_plotly():
    assert "range" not in figures.log_axis("Latency", "s", [1e-4, 1e-2])
