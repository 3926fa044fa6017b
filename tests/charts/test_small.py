"""Small charts: where their lines and ticks are, held against a calculation by hand."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from benchlab.charts import sparkline
from benchlab.charts.palette import COLOURS, LINE_DASHES, MARKERS, Style
from benchlab.charts.sparkline import PLOT_BOTTOM, PLOT_LEFT, PLOT_RIGHT, PLOT_TOP, SetUp

BLUE = Style(COLOURS[0], "solid", "circle")
RED = Style(COLOURS[1], LINE_DASHES[1], "square")


def places(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", path)]


def test_lines_are_where_their_values_are():
    chart = sparkline.build_sparkline(
        [SetUp("raw", BLUE, {1: 1000.0, 4: 2000.0, 16: 4000.0})], "iops", "op/s"
    )
    assert chart is not None
    [line] = chart.lines
    middle = (PLOT_LEFT + PLOT_RIGHT) / 2
    high = PLOT_BOTTOM - PLOT_TOP
    assert places(line.path) == [
        (PLOT_LEFT, pytest.approx(PLOT_BOTTOM - high / 4, abs=0.06)),
        (middle, pytest.approx(PLOT_BOTTOM - high / 2, abs=0.06)),
        (PLOT_RIGHT, PLOT_TOP),
    ]
    assert line.marks.count("M") == 3 and (line.css, line.dash) == ("s1", "")
    assert [tick.text for tick in chart.y_ticks] == ["0", "2 k", "4 k"]
    assert [(tick.text, float(tick.at)) for tick in chart.x_ticks] == [
        ("1", PLOT_LEFT),
        ("4", middle),
        ("16", PLOT_RIGHT),
    ]
    assert (
        chart.description
        == "IOPS over outstanding I/Os. raw: 1 k IOPS at 1, 2 k IOPS at 4, 4 k IOPS at 16."
    )


def test_the_knee_is_ringed_where_it_is_known():
    sets = [SetUp("a", BLUE, {1: 1.0, 4: 2.0, 16: 2.0}, knee=4), SetUp("b", RED, {1: 1.0, 4: 1.0})]
    chart = sparkline.build_sparkline(sets, "iops", "op/s")
    assert chart is not None
    first, second = chart.lines
    [at] = re.findall(r"M([\d.]+) ", first.ring)
    assert float(at) == (PLOT_LEFT + PLOT_RIGHT) / 2 and second.ring == ""
    assert "2 IOPS at 16, knee at 4; b: 1 IOPS at 1, 1 IOPS at 4." in chart.description


def test_ten_depths_leave_room_between_their_numbers():
    depths = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
    chart = sparkline.build_sparkline(
        [SetUp("raw", BLUE, dict.fromkeys(depths, 1.0))], "iops", "op/s"
    )
    assert chart is not None
    at = [float(tick.at) for tick in chart.x_ticks]
    assert (
        chart.x_ticks[-1].text == "32"
        and min(b - a for a, b in pairwise(at)) >= sparkline.MIN_TICK_GAP
    )


@pytest.mark.parametrize("most", [0.00123, 0.9, 1.0, 9.99, 10.0, 463.0, 45507.0, 2.5e9])
def test_the_axis_ends_just_above_the_largest(most):
    values = sparkline._axis_values(most)
    assert values[0] == 0 and values[-2] < most <= values[-1] * (1 + 1e-9)
    assert 2 <= len(values) <= sparkline.VALUE_TICKS + 2


def test_without_a_sweep_they_are_bars():
    sets = [SetUp("SSD", BLUE, {0: 45507.0}), SetUp("zpool", RED, {0: 7313.0})]
    chart = sparkline.build_sparkline(sets, "one.fsync.ops", "op/s")
    assert chart is not None and not chart.lines
    assert [(bar.label, bar.css, bar.share, bar.value) for bar in chart.bars] == [
        ("SSD", "s1", "100.0", "45.5 k fsyncs/s"),
        ("zpool", "s2", "16.1", "7.31 k fsyncs/s"),
    ]
    assert chart.description == "fsync, one write. SSD: 45.5 k fsyncs/s; zpool: 7.31 k fsyncs/s."


@pytest.mark.parametrize("value", [0.0])
def test_nothing_done_is_a_bar_of_no_length(value):
    chart = sparkline.build_sparkline([SetUp("a", BLUE, {0: value})], "iops", "op/s")
    assert chart is not None and chart.bars[0].share == "0.0"
    assert sparkline.build_sparkline([SetUp("a", BLUE, {})], "iops", "op/s") is None
    flat = sparkline.build_sparkline([SetUp("a", BLUE, {1: value, 2: value})], "iops", "op/s")
    assert flat is not None and places(flat.lines[0].path)[0] == (PLOT_LEFT, PLOT_BOTTOM)


def test_a_set_up_without_a_depth_is_no_line_beside_curves():
    sets = [SetUp("a", BLUE, {1: 1.0, 2: 2.0}), SetUp("b", RED, {0: 1.0})]
    chart = sparkline.build_sparkline(sets, "iops", "op/s")
    assert chart is not None and [line.label for line in chart.lines] == ["a"]


def test_every_marker_and_dash_of_the_palette_can_be_drawn():
    assert set(sparkline.MARKS) == set(MARKERS)
    for dash in LINE_DASHES[1:]:
        chart = sparkline.build_sparkline(
            [SetUp("a", Style(COLOURS[6], dash, "x"), {1: 1.0, 2: 2.0})], "iops", "op/s"
        )
        assert chart is not None
        assert re.fullmatch(r"[\d ]+", chart.lines[0].dash) and chart.lines[0].css == "s7"
