"""Words in a plot have room: names at the ends of lines keep apart, notes lie on no line."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import isclose, log10
from typing import Any

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchlab.charts import curve, label_places
from benchlab.charts.label_places import (
    LINE_PX,
    Box,
    Plot,
    Scale,
    end_offsets,
    find_room_near,
    shorten_labels,
    spread_apart,
)
from benchlab.charts.line_analysis import Choice
from benchlab.charts.palette import COLOURS, INKS
from tests.charts.test_figures import ARTICLE, group

GAP = 14.0
pixels = st.floats(0, 400, allow_nan=False)


@given(st.lists(pixels, min_size=1, max_size=8))
def test_names_keep_apart_in_their_order_and_inside(wanted):
    found = spread_apart(wanted, GAP, 0, 400)
    rising = sorted(range(len(wanted)), key=lambda at: wanted[at])
    placed = [found[at] for at in rising]
    assert all(b - a >= GAP - 1e-6 for a, b in pairwise(placed))
    assert min(found) >= -1e-6 and max(found) <= 400 + 1e-6


@given(st.lists(st.integers(1, 20), min_size=1, max_size=8, unique=True))
def test_names_that_have_room_stay(steps):
    wanted = [18.0 * step for step in steps]
    assert spread_apart(wanted, GAP, 0, 400) == pytest.approx(wanted)


def test_equal_ends_are_spread_around_their_middle():
    assert spread_apart([100.0, 100.0, 300.0, 100.0], GAP, 0, 400) == [86.0, 100.0, 300.0, 114.0]


@given(pixels, pixels, pixels, pixels, pixels, pixels)
def test_a_stretch_crosses_a_box_where_one_of_its_points_is_inside(x, y, a, b, c, d):
    box = Box(x, y, x + 60, y + GAP)
    steps = [n / 500 for n in range(501)]
    inner = [(a + (c - a) * n, b + (d - b) * n) for n in steps]
    if any(x < p < x + 60 and y < q < y + GAP for p, q in inner):
        assert box.crossed((a, b), (c, d))
    near_it = any(x - 2 < p < x + 62 and y - 2 < q < y + GAP + 2 for p, q in inner)
    assert near_it or not box.crossed((a, b), (c, d))


def scales(top: float = 10.0) -> tuple[Scale, Scale]:
    return Scale.fit([1, 16], 480, log=True), Scale.fit([0, top], 230, log=False, zero=True)


def test_a_scale_goes_there_and_back():
    for scale in scales():
        for value in (1.0, 3.7, 10.0):
            assert isclose(scale.from_pixel(scale.to_pixel(value)), value)
    assert scales()[1].to_pixel(0) == 0 and scales()[1].to_pixel(10) < 230


def test_a_note_lies_on_no_line_and_next_to_its_own():
    """Two lines that cross behind the middle one of three points."""
    x, y = scales()
    first, second = ([1, 4, 16], [1.0, 5.0, 9.0]), ([1, 4, 16], [4.0, 5.2, 8.9])
    plot = Plot.from_lines(x, y, [first, second])
    for own in (0, 1):
        at, position, box = find_room_near(plot, own, "no knee yet")
        assert plot.has_room(box) and position
        point = plot.lines[own][at]
        assert not plot.crosses_between(
            (point[0], point[1] + (0.5 if box.bottom > point[1] else -0.5)),
            ((box.left + box.right) / 2, (box.bottom + box.top) / 2),
            own,
        )
        other = find_room_near(plot, own, "no knee yet", [box])
        assert other is None or not other[2].meets(box)
    assert find_room_near(plot, 0, "no knee yet" * 9) is None  # there is no room for so many words


def test_a_line_within_others_has_no_note():
    x, y = scales()
    plot = Plot.from_lines(x, y, [([1, 16], [level, level]) for level in (4.8, 5.0, 5.2)])
    assert find_room_near(plot, 1, "flat") is None
    assert find_room_near(plot, 0, "flat")[1].startswith("bottom") and find_room_near(
        plot, 2, "flat"
    )[1].startswith("top")


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["LVM", "raw"], ["LVM", "raw"]),
        (
            ["md RAID 5 of 3 SSD, 512 KiB chunks, xfs", "md RAID 5 of 4 SSD, 512 KiB chunks, xfs"],
            ["3", "4"],
        ),
        (
            ["LVM stripe of 2 SSD, 64 KiB · vm-09", "LVM stripe of 2 SSD, 64 KiB · vm-12"],
            ["vm-09", "vm-12"],
        ),
        (
            ["md RAID 5 of 3 SSD, 512 KiB chunks", "raw HDD"],
            ["md RAID 5 of 3 SSD, 512 KiB…", "raw HDD"],
        ),
        (["a" * 40 + " x", "a" * 40 + " y"], ["x", "y"]),
        (["a" * 40 + "x", "a" * 40 + "y"], []),
        (["same", "same"], []),
        (
            ["a very long name with words", "a very long name with words in it"],
            ["words", "words in it"],
        ),
    ],
)
def test_short_names_differ(names, shown):
    assert shorten_labels(names) == shown


@given(st.lists(st.text("ab ,·", min_size=1, max_size=60), min_size=1, max_size=6))
def test_short_names_are_short_and_none_is_another(names):
    found = shorten_labels(names)
    assert all(0 < len(one) <= label_places.MAX_NAME_LETTERS for one in found)
    assert len(set(found)) == len(found) and len(found) in (0, len(names))


def test_a_line_that_ends_early_is_named_where_no_line_runs():
    x, y = scales()
    long, crossed, free = ([1, 16], [5.0, 5.0]), ([1, 4], [5.0, 5.1]), ([1, 4], [9.0, 9.0])
    found = end_offsets(Plot.from_lines(x, y, [long, crossed, free]), ["long", "crossed", "free"])
    assert found == [0.0, None, 0.0]


def test_no_name_lies_on_another():
    """One line ends left of the furthest, so near to it that its name would run into that one's."""
    x, y = scales()
    lines = [([1, 16], [5.0, 5.0]), ([1, 13], [5.6, 5.2])]
    assert end_offsets(Plot.from_lines(x, y, lines, 80), ["furthest", "second"])[1] is None


def test_names_too_far_from_their_lines_are_left_out():
    x, y = scales()
    plot = Plot.from_lines(x, y, [([1, 16], [5.0, 5.0])] * 9)
    assert end_offsets(plot, ["name"] * 9) == [None] * 9
    assert None not in end_offsets(Plot(x, y, plot.lines[:5]), ["name"] * 5)


def named(figure: dict[str, Any], axis: str) -> list[dict[str, Any]]:
    return [
        one
        for one in figure["layout"].get("annotations", [])
        if one["name"].startswith(label_places.END_PREFIX) and one["yref"] == axis
    ]


def lines(count: int) -> list[Any]:
    """Lines that end near each other."""
    made = [
        group(n + 1, depths={d: rate * (1 + n / 40) for d, rate in ARTICLE.items()})
        for n in range(count)
    ]
    plain = {"iops", "bandwidth", "lat.mean"}
    return [
        replace(
            line,
            samples=tuple(
                replace(one, values={k: v for k, v in one.values.items() if k in plain})
                for one in line.samples
            ),
        )
        for line in made
    ]


@pytest.mark.parametrize("count", range(2, 7))
def test_two_to_six_lines_have_their_names_at_their_ends(count):
    figure = curve.build_curve_figure("C", lines(count), Choice())
    go.Figure(figure)
    for axis, log in (("y", False), ("y2", True)):
        found = named(figure, axis)
        assert [one["text"] for one in found] == [f"T{n + 1}" for n in range(count)]
        drawn = [one for one in figure["data"] if one["yaxis"] == axis]
        ends = [one["y"][-1] for one in drawn if one.get("mode") == "lines+markers"]
        assert [one["y"] for one in found] == [log10(end) if log else end for end in ends]
        assert [one["x"] for one in found] == [log10(16)] * count
        every = [value for one in drawn for value in one["y"] if value]
        scale = Scale.fit(every, curve.TWO_PANELS_PX * curve.PANEL_SHARE, log=log, zero=True)
        places = sorted(scale.to_pixel(e) + o["yshift"] for e, o in zip(ends, found, strict=True))
        assert all(b - a > LINE_PX - 0.2 for a, b in pairwise(places))
        assert [one["font"]["color"] for one in found] == list(INKS.values())[:count]


@pytest.mark.parametrize("count", [1, 7, 12])
def test_one_line_and_many_have_none(count):
    assert named(curve.build_curve_figure("C", lines(count), Choice()), "y") == []


def test_a_panel_with_several_lines_of_one_has_none():
    figure = curve.build_curve_figure("C", [group(1), group(2)], Choice(kind="clat"))
    assert len(named(figure, "y")) == 2 and named(figure, "y2") == []


def test_no_note_of_a_chart_lies_on_a_line():
    """They stood above the last point on the left, across whatever line was there."""
    rates = [{depth: factor * depth for depth in ARTICLE} for factor in (400.0, 450.0, 500.0)]
    figure = curve.build_curve_figure(
        "C", [group(n + 1, depths=one) for n, one in enumerate(rates)], Choice()
    )
    notes = [one for one in figure["data"] if one.get("text") == ["no knee yet"]]
    assert len(notes) > 1
    x = Scale.fit(ARTICLE, label_places.MIN_PLOT_PX, log=True)
    every = [rate for one in rates for rate in one.values()]
    y = Scale.fit(every, curve.TWO_PANELS_PX * curve.PANEL_SHARE, log=False, zero=True)
    plot = Plot.from_lines(x, y, [(list(one), list(one.values())) for one in rates])
    for one in notes:
        own = next(n for n, line in enumerate(rates) if line[one["x"][0]] == one["y"][0])
        at, position, box = find_room_near(plot, own, "no knee yet")
        if (list(ARTICLE)[at], position) == (one["x"][0], one["textposition"]):
            assert plot.has_room(box)


def test_every_series_has_its_ink():
    assert list(INKS) == list(COLOURS)
