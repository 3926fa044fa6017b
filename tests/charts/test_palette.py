"""Colour is the layout and dash the host wherever a line is drawn, and no two of a chart look alike."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from django.conf import settings
from hypothesis import given
from hypothesis import strategies as st

from benchlab.charts.palette import (
    COLOURS,
    DARK,
    INKS,
    LINE_DASHES,
    MARKERS,
    Place,
    assign_styles,
    dark_swaps,
    fill_patterns,
)
from benchlab.charts.queries import Group, assign_style_places, line_styles
from benchlab.charts.request_params import Filter

places = st.lists(
    st.builds(Place, st.integers(0, 49), st.integers(0, 8), st.integers(-1, 20)),
    min_size=1,
    max_size=60,
    unique=True,
)


def look(found: Place) -> tuple[str, str]:
    """Colour and dash that its place alone asks for."""
    return COLOURS[found.layout % len(COLOURS)], LINE_DASHES[found.host % len(LINE_DASHES)]


@given(places)
def test_no_two_lines_look_alike(found):
    assert len(set(assign_styles(found))) == len(found)


@pytest.mark.parametrize("layouts", range(1, 11))
@pytest.mark.parametrize("hosts", range(1, 5))
def test_colour_is_the_layout_and_dash_the_host(layouts, hosts):
    """Ten lines have ten looks, and forty forty; grey is the seventh layout's, when other colours have run out."""
    found = [Place(layout, host) for layout in range(layouts) for host in range(hosts)]
    drawn = assign_styles(found)
    assert len(set(drawn)) == len(found)
    assert [(style.colour, style.dash) for style in drawn] == [look(place) for place in found]
    used = {style.colour for style in drawn}
    assert len(used) == min(layouts, len(COLOURS)) and (COLOURS[-1] in used) == (layouts >= 7)


@pytest.mark.parametrize("more", range(2, 7))
def test_what_else_differs_is_the_marker(more):
    found = [
        Place(layout, host, n) for layout in range(4) for host in range(2) for n in range(more)
    ]
    drawn = assign_styles(found)
    assert [(style.colour, style.dash) for style in drawn] == [look(place) for place in found]
    assert [style.marker for style in drawn] == [MARKERS[place.more] for place in found]


def test_a_marker_that_means_something_stays_where_dashes_mean_nothing():
    """The eighth layout, whose colour is the first's again, under two block sizes."""
    found = [Place(layout, 0, n) for layout in range(8) for n in range(2)]
    drawn = assign_styles(found)
    assert len(set(drawn)) == len(found)
    assert [style.marker for style in drawn] == [MARKERS[place.more] for place in found]


def test_more_lines_than_looks_are_drawn_all_the_same():
    assert len(assign_styles([Place()] * 400)) == 400
    assert len(set(assign_styles([Place()] * 336))) == 7 * 6 * 8


def test_bars_of_one_colour_are_filled_differently():
    drawn = assign_styles([Place(layout, host) for layout in range(2) for host in range(3)])
    assert len({*zip([one.colour for one in drawn], fill_patterns(drawn), strict=True)}) == 6
    assert fill_patterns(drawn)[0] == fill_patterns(drawn)[3] == ""


@given(places)
def test_the_order_on_the_page_does_not_matter(found):
    assert assign_styles(found) == assign_styles(found[::-1])[::-1]


def line(topology: int, host: int = 1, **more) -> Group:
    one = Group(1, "C", topology, f"T{topology}", host, f"H{host}", 1, "W", "fio", "")
    return replace(one, **more)


def test_a_layout_keeps_its_colour_in_a_chart_that_has_others_not():
    """Another workload was measured on the second and third layout and the second host alone."""
    page = assign_style_places(
        [line(t, h) for t in (3, 5, 8) for h in (1, 2)] + [line(5, 2, workload=2)]
    )
    whole, alone = line_styles(page[:6]), line_styles(page[6:])
    assert [style.colour for style in whole[::2]] == list(COLOURS[:3])
    assert [style.dash for style in whole[:2]] == list(LINE_DASHES[:2])
    assert alone == [whole[3]]


def test_moments_and_campaigns_of_a_layout_share_its_colour_and_dash_and_differ_in_marker():
    for several in (
        [line(1, stage=stage) for stage in ("", "during-1", "after-1")],
        [line(1, campaign=campaign, workload=campaign) for campaign in (1, 2, 3)],
        [line(1, rest=rest) for rest in ("block size 4 KiB", "block size 64 KiB", "no")],
        [line(1, condition=condition) for condition in ("", "degraded")],
    ):
        drawn = line_styles(several)
        assert len({(style.colour, style.dash) for style in drawn}) == 1
        assert len({style.marker for style in drawn}) == len(several)


def test_what_has_no_result_yet_has_its_colour_already():
    before = assign_style_places([line(5)], awaited=[(3, 1), (5, 1)])
    after = assign_style_places([line(3), line(5)])
    assert line_styles(before) == line_styles(after)[1:]


def test_who_chooses_layouts_gets_the_first_colours():
    page = assign_style_places([line(t) for t in range(1, 11)])
    some = Filter(topologies=frozenset({2, 9}), workloads=frozenset({1}))
    assert [style.colour for style in line_styles(some.select_styled(page))] == list(COLOURS[:2])
    assert [one.style_places for one in Filter(workloads=frozenset({1})).select_styled(page)] == [
        one.style_places for one in page
    ]


def test_dark_pages_swap_both_ways_of_writing_a_colour():
    assert dark_swaps()["#0072b2"] == "#3d8fe0"
    assert not set(dark_swaps()) & set(dark_swaps().values())  # they are made one after the other
    assert dark_swaps()["rgba(0,114,178,"] == "rgba(61,143,224,"


def lab(colour: str) -> tuple[float, float, float]:
    """CIE L*a*b* of an sRGB colour, white point D65."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    r, g, b = (((c + 0.055) / 1.055) ** 2.4 if c > 0.04045 else c / 12.92 for c in parts)
    x = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047
    y = 0.2126 * r + 0.7152 * g + 0.0722 * b
    z = (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883
    x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def luminance(colour: str) -> float:
    """Of WCAG 2.2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize(("least", "of"), [(3, COLOURS), (4.5, INKS.values())])
@pytest.mark.parametrize("page", ["light", "dark"])
def test_series_and_words_about_them_are_seen_on_either_page(page, least, of):
    css = (Path(settings.BASE_DIR) / "static" / "benchlab.css").read_text()
    for surface in ("surface", "bg"):
        pair = re.search(rf"--{surface}: light-dark\((#\w+), (#\w+)\)", css).groups()
        for colour in of:
            shown = dark_swaps()[colour] if page == "dark" else colour
            dark, light = sorted(map(luminance, (shown, pair[page == "dark"])))
            assert (light + 0.05) / (dark + 0.05) >= least, (colour, surface)


@pytest.mark.parametrize("page", ["light", "dark"])
def test_any_two_colours_are_told_apart(page):
    """In the dark two blues were 5 apart, which nobody sees between thin lines; on white they are 26."""
    shown = [dark_swaps().get(colour, colour) if page == "dark" else colour for colour in COLOURS]
    assert min(math.dist(lab(a), lab(b)) for a, b in combinations(shown, 2)) > 25


def test_series_of_the_stylesheet_and_of_figures_are_the_same():
    """The charts' colours come by JSON, those of the page by tokens."""
    tokens = re.findall(
        r"--s\d: light-dark\((#\w+), (#\w+)\)",
        (Path(settings.BASE_DIR) / "static" / "benchlab.css").read_text(),
    )
    assert tokens == [(colour, DARK[colour]) for colour in COLOURS]
