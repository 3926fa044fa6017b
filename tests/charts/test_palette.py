"""The same line looks the same wherever it is drawn, and no two on a page look alike."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchlab.charts.palette import COLOURS, dark_swaps, styles

identities = st.lists(
    st.tuples(
        st.integers(1, 50),
        st.integers(1, 9),
        st.integers(1, 9),
        st.sampled_from(["", "bs 64k"]),
        st.just((0, True)),
    ),
    min_size=1,
    max_size=40,
    unique=True,
)


@given(identities)
def test_no_two_lines_look_alike(found):
    looks = styles(found)
    assert len({(look.colour, look.marker) for look in looks.values()}) == len(found)
    if len(found) <= len(COLOURS):
        assert len({look.colour for look in looks.values()}) == len(found)


def test_a_colour_whose_markers_are_all_taken_gives_way():
    """Lines that all want one colour: with chance alone it is rare that more than eight do."""
    found = [(7 * number + 1, 7, 1, "", (0, True)) for number in range(40)]
    looks = styles(found)
    assert len({(look.colour, look.marker) for look in looks.values()}) == len(found)


@given(identities)
def test_the_order_on_the_page_does_not_matter(found):
    assert styles(found) == styles(found[::-1])


def test_a_topology_keeps_its_colour_under_another_workload():
    at = (0, True)
    one = styles([(1, 1, 1, "", at), (2, 1, 1, "", at)])
    other = styles([(1, 1, 2, "", at), (2, 1, 2, "", at)])
    assert [look.colour for look in one.values()] == [look.colour for look in other.values()]


def test_the_moments_of_a_line_share_its_colour_and_differ_in_dash_and_marker():
    found = styles([(1, 1, 1, "", (0, True)), (1, 1, 1, "", (1, False)), (1, 1, 1, "", (1, True))])
    assert len({look.colour for look in found.values()}) == 1
    assert len({look.dash for look in found.values()}) == 3
    assert len({look.marker for look in found.values()}) == 3


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


@pytest.mark.parametrize("page", ["light", "dark"])
def test_any_two_colours_are_told_apart(page):
    """In the dark two blues were 5 apart, which nobody sees between thin lines; on white they are 26."""
    shown = [dark_swaps().get(colour, colour) if page == "dark" else colour for colour in COLOURS]
    assert min(math.dist(lab(a), lab(b)) for a, b in combinations(shown, 2)) > 25
