"""The matrix gives every cell once for each repeat, in an order that the seed decides."""

from __future__ import annotations

from collections import Counter
from itertools import groupby, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchlab.campaigns.matrix import (
    AS_WRITTEN,
    MAX_RUNS,
    RANDOM_BLOCKS,
    Cell,
    Factors,
    MatrixError,
    count_runs,
    layout_builds,
    run_cells,
    sweep_points,
)
from benchlab.topologies.moments import Moment

# Orders in which each layout is built once; test_abba.py has the other
ONCE = (
    RANDOM_BLOCKS,
    AS_WRITTEN,
)
ids = st.lists(st.integers(1, 50), min_size=1, max_size=3, unique=True).map(tuple)
sweeps = st.dictionaries(
    st.sampled_from(["iodepth", "bs", "rw"]),
    st.lists(st.integers(1, 256), min_size=1, max_size=3, unique=True),
    max_size=2,
)
workloads = st.lists(
    st.tuples(st.integers(1, 50), sweeps), min_size=1, max_size=3, unique_by=lambda pair: pair[0]
).map(tuple)
factors = st.builds(Factors, ids, ids, workloads, st.integers(1, 4))
seeds = st.integers(0, 2**63 - 1)


def key(cell: Cell) -> tuple[object, ...]:
    point = tuple(sorted(cell.point.items()))
    return cell.host, cell.topology, cell.workload, point, cell.repeat


@given(factors, st.sampled_from(ONCE), seeds)
def test_every_cell_comes_once_and_the_count_is_right(factors, order, seed):
    made = Counter(key(cell) for cell in run_cells(factors, order, seed))
    assert set(made.values()) == {1}
    assert len(made) == count_runs(factors)


@given(factors, seeds)
def test_the_seed_decides_the_order(factors, seed):
    assert list(run_cells(factors, RANDOM_BLOCKS, seed)) == list(
        run_cells(factors, RANDOM_BLOCKS, seed)
    )


@given(factors, st.sampled_from(ONCE), seeds)
def test_a_layout_is_built_once_and_every_repeat_is_a_block(factors, order, seed):
    made = list(run_cells(factors, order, seed))
    blocks = [block for block, _ in groupby(made, lambda c: (c.host, c.topology, c.repeat))]
    expected = [
        (host, topology, repeat)
        for host, topology, _ in layout_builds(factors, order, seed)
        for repeat in range(1, factors.repeats + 1)
    ]
    assert blocks == expected


@given(factors, seeds)
def test_one_more_repeat_leaves_the_earlier_blocks_alone(factors, seed):
    more = Factors(factors.hosts, factors.topologies, factors.workloads, factors.repeats + 1)
    kept = [cell for cell in run_cells(more, RANDOM_BLOCKS, seed) if cell.repeat <= factors.repeats]
    assert kept == list(run_cells(factors, RANDOM_BLOCKS, seed))


def test_as_written_is_as_written():
    wanted = Factors((2, 1), (7,), ((3, {"iodepth": [4, 1]}),), repeats=2)
    assert [(c.host, c.repeat, c.point["iodepth"]) for c in run_cells(wanted, AS_WRITTEN, 0)] == [
        (2, 1, 4), (2, 1, 1), (2, 2, 4), (2, 2, 1), (1, 1, 4), (1, 1, 1), (1, 2, 4), (1, 2, 1),
    ]  # fmt: skip


def test_random_blocks_are_shuffled_anew_for_each_repeat():
    wanted = Factors((1,), (1,), ((1, {"iodepth": list(range(1, 9))}),), repeats=3)
    made = list(run_cells(wanted, RANDOM_BLOCKS, 42))
    orders = {
        tuple(c.point["iodepth"] for c in block) for _, block in groupby(made, lambda c: c.repeat)
    }
    assert len(orders) == 3


def test_the_order_of_a_seed_never_changes():
    """Frozen: a stored seed must give the same order with every later version."""
    wanted = Factors((1, 2), (3,), ((4, {"iodepth": [1, 2, 4, 8]}),), repeats=1)
    assert [(c.host, c.point["iodepth"]) for c in run_cells(wanted, RANDOM_BLOCKS, 17)] == [
        (2, 1), (2, 2), (2, 8), (2, 4), (1, 1), (1, 2), (1, 4), (1, 8),
    ]  # fmt: skip


def test_no_sweep_is_one_point():
    assert sweep_points({}) == [{}]


def test_a_sweep_over_two_options_is_their_product():
    assert sweep_points({"bs": ["4k", "8k"], "iodepth": [1, 2]}) == [
        {"bs": "4k", "iodepth": 1},
        {"bs": "4k", "iodepth": 2},
        {"bs": "8k", "iodepth": 1},
        {"bs": "8k", "iodepth": 2},
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (((), (1,), ((1, {}),)), "hosts: choose at least one"),
        (((1, 1), (1,), ((1, {}),)), "hosts: 1 is listed twice"),
        (((1,), (2, 2), ((1, {}),)), "topologies: 2 is listed twice"),
        (((1,), (1,), ((5, {}), (5, {"a": [1]}))), "workloads: 5 is listed twice"),
        (((1,), (1,), ((5, {"iodepth": [1, 2, 1]}),)), "the sweep of iodepth: 1 is listed twice"),
        (((1,), (1,), ((5, {"iodepth": []}),)), "the sweep of iodepth is empty"),
        (((1,), (1,), ((5, {}),), 0), "repeats: 0 is below 1"),
        (((1,), (1,), ((5, {}),), MAX_RUNS + 1), f"{MAX_RUNS + 1} runs are more than"),
    ],
)
def test_factors_that_make_no_matrix_are_refused(arguments, says):
    with pytest.raises(MatrixError, match=says):
        Factors(*arguments)


def test_true_and_one_are_two_values():
    assert Factors((1,), (1,), ((1, {"direct": [True, 1]}),)).repeats == 3


def test_an_unknown_order_is_refused():
    with pytest.raises(MatrixError, match="'sideways' is not one of"):
        list(run_cells(Factors((1,), (1,), ((1, {}),)), "sideways", 0))


GROWS = {7: [Moment(0, True), Moment(), Moment(1, True), Moment(1)]}


@pytest.mark.parametrize("order", ONCE)
def test_moments_follow_each_other_and_what_is_short_has_no_repeats(order):
    given = Factors((1,), (7,), ((3, {"iodepth": [1, 2, 4]}),), 3, GROWS)
    made = list(run_cells(given, order, 5))
    blocks = [(code, repeat) for (code, repeat), _ in groupby(made, _block)]
    base = [("", 1), ("", 2), ("", 3)]
    after = [("after-1", 1), ("after-1", 2), ("after-1", 3)]
    assert blocks == [("resync", 1), *base, ("during-1", 1), *after]
    assert all(Counter(map(_block, made))[block] == 3 for block in blocks)
    assert count_runs(given) == len(made) == 24


def _block(cell: Cell) -> tuple[str, int]:
    return cell.moment.code, cell.repeat


def test_a_stage_leaves_the_order_of_what_comes_before_it_as_it_was():
    plain = Factors((1,), (7,), ((3, {"iodepth": [1, 2, 4, 8, 16]}),), 2)
    grows = Factors((1,), (7,), plain.workloads, 2, GROWS)
    as_built = [cell for cell in run_cells(grows, RANDOM_BLOCKS, 5) if cell.moment == Moment()]
    assert as_built == list(run_cells(plain, RANDOM_BLOCKS, 5))


SCHEDULERS = ("none", "mq-deadline", "kyber", "bfq")
swept = st.builds(
    Factors,
    ids,
    ids,
    workloads,
    st.integers(1, 3),
    schedulers=st.lists(st.sampled_from(SCHEDULERS), min_size=1, max_size=3, unique=True).map(
        tuple
    ),
)


@given(swept, st.sampled_from(ONCE), seeds)
def test_every_point_comes_with_each_scheduler_in_every_block(factors, order, seed):
    made = list(run_cells(factors, order, seed))
    assert len(made) == count_runs(factors)
    for _, block in groupby(made, lambda c: (c.host, c.topology, c.repeat)):
        by_point: dict[object, list[str]] = {}
        for cell in block:
            assert cell.point["scheduler"] == cell.scheduler
            where = cell.workload, tuple(sorted(cell.tool_point.items()))
            by_point.setdefault(where, []).append(cell.scheduler)
        assert all(sorted(asked) == sorted(factors.schedulers) for asked in by_point.values())


@given(factors, st.sampled_from(ONCE), seeds)
def test_without_schedulers_nothing_is_another_run_than_before(factors, order, seed):
    assert all(
        not cell.scheduler and cell.tool_point == cell.point
        for cell in run_cells(factors, order, seed)
    )


def test_schedulers_are_mixed_with_the_other_points():
    wanted = Factors((1,), (1,), ((1, {"iodepth": [1, 4]}),), 20, schedulers=("none", "kyber"))
    orders = [
        tuple((cell.scheduler, cell.tool_point["iodepth"]) for cell in block)
        for _, block in groupby(run_cells(wanted, RANDOM_BLOCKS, 7), lambda cell: cell.repeat)
    ]
    assert len(set(orders)) > 10, "each block has an order of its own"
    changes = [sum(a[0] != b[0] for a, b in pairwise(order)) for order in orders]
    assert sum(one > 1 for one in changes) > len(orders) / 3, "and schedulers take turns within it"
    first = list(run_cells(wanted, AS_WRITTEN, 1))[:4]
    assert [(c.scheduler, c.tool_point["iodepth"]) for c in first] == [
        ("none", 1), ("none", 4), ("kyber", 1), ("kyber", 4),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("schedulers", "sweep", "said"),
    [
        (("none", "none"), {}, "schedulers: none is listed twice"),
        (("none",), {"scheduler": ["a"]}, "workload 3: it sweeps an option scheduler of its own"),
    ],
)
def test_schedulers_that_make_no_matrix(schedulers, sweep, said):
    with pytest.raises(MatrixError, match=said):
        Factors((1,), (1,), ((3, sweep),), schedulers=schedulers)
