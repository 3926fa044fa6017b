"""The same line looks the same wherever it is drawn, and no two on a page look alike."""

from __future__ import annotations

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
    assert dark_swaps()["#0072b2"] == "#4aa8e0"
    assert dark_swaps()["rgba(0,114,178,"] == "rgba(74,168,224,"
