"""The unit that a rate counts, told alike in a finding's sentence, beside its numbers and in tables."""

from __future__ import annotations

import pytest

from benchlab.analysis.formats import rate, shown_unit
from benchlab.analysis.set_ups import figure_amount
from benchlab.web.units import si

SAID = [
    ("iops", "682 IOPS"),
    ("read.iops", "682 IOPS"),
    ("one.fsync.ops", "682 fsyncs/s"),
    ("one.fsync_writethrough.ops", "682 fsyncs/s"),
    ("two.fdatasync.ops", "682 fdatasyncs/s"),
    ("fsync.ops", "682 fsyncs/s"),  # sysbench's
    ("flush.iops", "682 flushes/s"),
    ("one.open_sync.ops", "682 ops/s"),
    ("create.ops", "682 ops/s"),
]


@pytest.mark.parametrize(("name", "says"), SAID)
def test_a_rate_is_told_by_what_it_counts(name, says):
    assert si(682.0, shown_unit(name, "op/s")) == says
    assert rate(682.0, shown_unit(name, "op/s")) == says


def test_a_prefix_does_not_stick_to_a_word():
    assert si(12_300.0, "fsyncs/s") == "12.3 k fsyncs/s"
    assert rate(12_300.0, "fsyncs/s") == "12.3 k fsyncs/s"
    assert rate(12_300.0, "op/s") == "12.3 k IOPS"
    assert rate(12_300.0) == "12.3 kB/s"


def test_only_rates_have_such_words():
    assert shown_unit("one.fsync.latency", "s") == "s"
    assert shown_unit("", "op/s") == "op/s"


def test_set_ups_are_compared_in_them():
    assert figure_amount(682.0, "one.fsync.ops") == "682 fsyncs/s"
    assert figure_amount(40.5e6, "bandwidth") == "40.5 MB/s"
