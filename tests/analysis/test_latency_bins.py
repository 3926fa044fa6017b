"""Counts of I/Os by how long they took: what is read off them is what counting the I/Os themselves gives."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.outputs import fio_log
from agents.outputs.fio_model import Latencies
from agents.tools import _fio_metrics
from benchlab.analysis.latency_bins import (
    CELLS,
    Bins,
    bins_of_cells,
    cell_edge,
    count_cells,
    merge_bins,
)

ONE = Bins((1e-6, 2e-6, 8e-6), (2e-6, 4e-6, 16e-6), (6, 3, 1))
Many = st.lists(st.integers(1, 10**11), min_size=1, max_size=60)  # ns


def binned(samples: list[int], wide: float = 1.1) -> Bins:
    """As a tool might: each bin by so many times as wide as the last."""
    found: dict[int, int] = {}
    for ns in samples:
        at = math.floor(math.log(ns, wide))
        found[at] = found.get(at, 0) + 1
    kept = sorted(found)
    return Bins(
        tuple(wide**at / 1e9 for at in kept),
        tuple(wide ** (at + 1) / 1e9 for at in kept),
        tuple(found[at] for at in kept),
    )


def test_shares_are_told_at_edges_and_stay_where_nothing_was():
    assert ONE.cumulative_shares() == [
        (1e-6, 0.0), (2e-6, 0.6), (4e-6, 0.9), (8e-6, 0.9), (16e-6, 1.0),
    ]  # fmt: skip


def test_a_percentile_lies_in_the_bin_at_which_it_is_reached():
    assert ONE.percentile_bin(50) == ONE.percentile_bin(60) == (1e-6, 2e-6)
    assert ONE.percentile_bin(60.1) == ONE.percentile_bin(90) == (2e-6, 4e-6)
    assert ONE.percentile_bin(99) == ONE.percentile_bin(100) == (8e-6, 16e-6)


@given(Many)
def test_no_io_is_lost_on_the_way_to_a_chart(samples: list[int]) -> None:
    bins = binned(samples)
    assert sum(count_cells(bins).values()) == bins.total == len(samples)
    assert bins_of_cells(count_cells(bins)).total == len(samples)
    assert bins.cumulative_shares()[-1][1] == pytest.approx(1.0)


@given(Many, Many)
def test_runs_together_are_as_if_one_had_counted(first: list[int], second: list[int]) -> None:
    """Whatever bins each was counted in, a cell has what began in it."""
    both = merge_bins([binned(first), binned(second, 1.02)])
    assert both.total == len(first) + len(second)
    assert count_cells(both) == count_cells(binned(first)) + count_cells(binned(second, 1.02))


def test_cells_are_an_eighth_of_a_doubling_and_touch():
    assert cell_edge(CELLS + 3) == pytest.approx(2 * cell_edge(3))
    assert all(cell_edge(at) < cell_edge(at + 1) for at in range(-5, 300))
    assert count_cells(bins_of_cells(count_cells(ONE))) == count_cells(ONE)


def test_a_latency_of_nothing_has_its_place():
    assert count_cells(Bins((0.0,), (1e-9,), (4,))).total() == 4


@given(
    st.dictionaries(st.integers(64, 64 + 24 * 64), st.integers(1, 10**6), min_size=1, max_size=400)
)
def test_at_the_edge_of_a_cell_the_share_is_what_fio_counted(hits: dict[int, int]) -> None:
    """As it prints them or merged, none of its bins reaches over an edge: nothing is off by as much as one."""
    printed = {f"{fio_log.middle(at):.0f}": count for at, count in hits.items()}
    found = _fio_metrics.histogram("clat", Latencies(1, 0, 0, 0, 0, printed, 1e9))
    counted = bins_of_cells(count_cells(Bins(found.lows, found.highs, found.counts)))
    for end, share in counted.cumulative_shares():
        below = sum(count for at, count in hits.items() if fio_log.middle(at) < end * 1e9 - 1e-3)
        assert share == pytest.approx(below / sum(hits.values()), abs=1e-12)
