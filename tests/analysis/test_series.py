"""Summaries leave the unknown out."""

from __future__ import annotations

from benchlab.analysis.series import round_significant, summarize

NAN = float("nan")


def test_summary_leaves_unknown_out():
    found = summarize([1.0, NAN, 3.0])
    assert found is not None
    assert (found.n, found.minimum, found.mean, found.maximum) == (2, 1.0, 2.0, 3.0)
    assert summarize([NAN, NAN]) is None
    assert summarize([]) is None


def test_rounded_keeps_five_digits_and_marks_the_unknown():
    assert round_significant([123456.7, 0.000123456, -1.0, 0.0, NAN]) == [
        123460.0,
        0.00012346,
        -1.0,
        0.0,
        None,
    ]
    assert round_significant([]) == []
