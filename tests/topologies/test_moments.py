"""The moment at which a run measures: its code, its words, its place in time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchlab.topologies.moments import Moment, describe_moment, measured_moments, parse_moment


@given(st.builds(Moment, st.integers(0, 9999), st.booleans()))
def test_every_moment_comes_back_from_its_code(moment):
    assert parse_moment(moment.code) == moment


@pytest.mark.parametrize("code", ["during", "after-0", "after-01", "1-after", "before", "after-1 "])
def test_what_no_run_has_is_refused(code):
    with pytest.raises(ValueError, match="is not a stage"):
        parse_moment(code)


def test_moments_come_in_the_order_of_time():
    found = measured_moments([{"during": True}, {"during": False}], measure_resync=True)
    assert [m.code for m in found] == ["resync", "", "during-1", "after-1", "after-2"]
    assert sorted(found, key=lambda m: m.time_order) == found
    assert [m.grown for m in found] == [0, 0, 0, 1, 2]
    assert measured_moments([], measure_resync=False) == [Moment()]


def test_as_built_is_named_by_what_stands_beside_it():
    assert describe_moment("", ["", "during-1", "after-1"]) == "before growth"
    assert describe_moment("", ["", "resync"]) == "after the first resync"
    assert describe_moment("", [""]) == ""
    assert describe_moment("during-2", [""]) == "during growth 2"
    assert describe_moment("resync", []) == "during the first resync"
