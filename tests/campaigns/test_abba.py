"""The order ABBA: layouts take turns on their disks, in whole blocks, so that a steady drift is no difference."""

from __future__ import annotations

from collections import Counter
from itertools import groupby, pairwise
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchlab.analysis.designs import Order
from benchlab.campaigns.estimates import order_design
from benchlab.campaigns.matrix import (
    ABBA,
    AS_WRITTEN,
    RANDOM_BLOCKS,
    Factors,
    MatrixError,
    Sweep,
    count_runs,
    divide_repeats,
    layout_builds,
    run_cells,
    visits_of_order,
)
from benchlab.topologies.moments import Moment
from tests.campaigns.test_matrix import ids, key, seeds, workloads

SWEEP: tuple[tuple[int, Sweep], ...] = ((3, {"iodepth": [1, 2, 4, 8]}), (4, {}))
GROWS = {7: [Moment(0, True), Moment(), Moment(1, True), Moment(1)]}


@st.composite
def turns(draw) -> Factors:
    visits = draw(st.integers(2, 4))
    repeats = draw(st.integers(visits, 6))
    return Factors(draw(ids), draw(ids), draw(workloads), repeats, visits=visits)


def letters(factors: Factors, seed: int) -> str:
    """The builds of its one host as letters, by when a topology comes first."""
    built = [build.topology for build in layout_builds(factors, ABBA, seed)]
    names = {topology: chr(65 + n) for n, topology in enumerate(dict.fromkeys(built))}
    return "".join(names[topology] for topology in built)


@pytest.mark.parametrize(
    ("topologies", "visits", "says"),
    [(2, 2, "ABBA"), (3, 2, "ABCCBA"), (2, 3, "ABBAAB"), (2, 4, "ABBAABBA"), (1, 2, "AA")],
)
def test_every_round_is_the_reverse_of_the_one_before(topologies, visits, says):
    ours = tuple(range(1, topologies + 1))
    for seed in range(20):
        assert letters(Factors((1,), ours, SWEEP, visits, visits=visits), seed) == says


@given(turns(), seeds)
def test_each_host_sees_its_topologies_in_turns(factors, seed):
    """Whatever other hosts do meanwhile."""
    for host in factors.hosts:
        mine = [(b.topology, b.visit) for b in layout_builds(factors, ABBA, seed) if b.host == host]
        rounds = [[t for t, visit in mine if visit == n] for n in range(1, factors.visits + 1)]
        assert [visit for _, visit in mine] == sorted(visit for _, visit in mine)
        for before, after in pairwise(rounds):
            assert after == before[::-1]


def cell_build(cell) -> tuple[int, int, int]:
    return cell.host, cell.topology, cell.visit


@given(turns(), seeds)
def test_every_cell_comes_once_in_whole_blocks(factors, seed):
    made = list(run_cells(factors, ABBA, seed))
    assert set(Counter(map(key, made)).values()) == {1}
    assert len(made) == count_runs(factors)
    # One visit after the other, and in each its blocks with every point of every workload.
    builds = [build for build, _ in groupby(made, cell_build)]
    assert builds == layout_builds(factors, ABBA, seed)
    blocks = [block for block, _ in groupby(made, lambda cell: (*cell_build(cell), cell.repeat))]
    pairs = len(factors.hosts) * len(factors.topologies)
    assert len(blocks) == len(set(blocks)) == pairs * factors.repeats
    in_one = len(made) // len(blocks)
    assert set(Counter((*cell_build(cell), cell.repeat) for cell in made).values()) == {in_one}


@given(turns(), seeds)
def test_a_block_is_as_it_would_be_were_the_layout_built_once(factors, seed):
    once = Factors(factors.hosts, factors.topologies, factors.workloads, factors.repeats)

    def blocks(made):
        found: dict[object, list[object]] = {}
        for cell in made:
            at = (cell.host, cell.topology, cell.repeat)
            found.setdefault(at, []).append((cell.workload, cell.point))
        return found

    assert blocks(run_cells(factors, ABBA, seed)) == blocks(run_cells(once, RANDOM_BLOCKS, seed))


@pytest.mark.parametrize(
    ("repeats", "visits", "each"),
    [(2, 2, [1, 1]), (3, 2, [2, 1]), (5, 2, [3, 2]), (6, 2, [3, 3]), (7, 3, [3, 2, 2]), (3, 1, [3])],
)  # fmt: skip
def test_repeats_are_divided_in_whole_blocks_the_first_visits_get_what_is_left(
    repeats, visits, each
):
    found = divide_repeats(repeats, visits)
    assert list(map(len, found)) == each
    assert [n for part in found for n in part] == list(range(1, repeats + 1))


@pytest.mark.parametrize("repeats", [2, 4, 6, 10])
def test_a_steady_drift_cancels_where_each_visit_measures_as_many(repeats):
    """The middle of all places is the same for all layouts; one after the other it never is."""
    for seed in range(10):
        made = list(run_cells(Factors((1,), (1, 2, 3), SWEEP, repeats, visits=2), ABBA, seed))
        blocks = [topology for (topology, _), _ in groupby(made, lambda c: (c.topology, c.repeat))]
        middle = {t: mean(n for n, one in enumerate(blocks) if one == t) for t in (1, 2, 3)}
        assert len(set(middle.values())) == 1, (seed, middle)


def test_an_odd_number_of_repeats_leaves_a_little_of_a_drift():
    made = run_cells(Factors((1,), (1, 2), SWEEP, 5, visits=2), ABBA, 0)
    blocks = [topology for (topology, _), _ in groupby(made, lambda c: (c.topology, c.repeat))]
    middle = [mean(n for n, one in enumerate(blocks) if one == t) for t in (1, 2)]
    assert abs(middle[0] - middle[1]) == 1  # of ten blocks; one after the other it is five


@pytest.mark.parametrize("seed", range(3))
def test_workloads_on_one_layout_are_interleaved_in_every_block(seed):
    """In each order: what is compared on one layout is measured in the same blocks."""
    for order, visits in ((RANDOM_BLOCKS, 1), (AS_WRITTEN, 1), (ABBA, 2)):
        factors = Factors((1,), (1, 2), SWEEP, 4, visits=visits)
        for _, block in groupby(run_cells(factors, order, seed), lambda c: (c.topology, c.repeat)):
            assert Counter(cell.workload for cell in block) == {3: 4, 4: 1}


@pytest.mark.parametrize("order", [RANDOM_BLOCKS, ABBA])
def test_in_a_block_no_workload_always_comes_first(order):
    factors = Factors((1,), (1,), SWEEP, 60, visits=visits_of_order(order, None))
    blocks = [list(block) for _, block in groupby(run_cells(factors, order, 1), lambda c: c.repeat)]
    places = Counter([cell.workload for cell in block].index(4) for block in blocks)
    assert set(places) == {0, 1, 2, 3, 4}, "the one point of the second workload stands anywhere"


def test_every_visit_has_every_moment_and_what_is_short_has_one_block_in_each():
    factors = Factors((1,), (7, 8), SWEEP, 3, GROWS, visits=2)
    made = list(run_cells(factors, ABBA, 5))
    assert len(made) == count_runs(factors)
    for visit, mine in ((1, [1, 2]), (2, [3])):
        in_visit = [cell for cell in made if (cell.topology, cell.visit) == (7, visit)]
        blocks = [(c, n) for (c, n), _ in groupby(in_visit, lambda c: (c.moment.code, c.repeat))]
        base, after = [("", n) for n in mine], [("after-1", n) for n in mine]
        assert blocks == [("resync", visit), *base, ("during-1", visit), *after]
    assert set(Counter((*key(cell), cell.moment.code) for cell in made).values()) == {1}


@pytest.mark.parametrize(
    ("repeats", "visits", "says"),
    [
        (1, 2, "repeats: 1 cannot be divided over 2 visits of each layout"),
        (3, 4, "repeats: 3 cannot be divided over 4 visits of each layout"),
        (3, 0, "visits: 0 is below 1"),
    ],
)
def test_visits_without_a_repeat_are_refused(repeats, visits, says):
    with pytest.raises(MatrixError, match=says):
        Factors((1,), (1, 2), SWEEP, repeats, visits=visits)


def test_visits_are_of_the_order_alone():
    assert (
        visits_of_order(ABBA, None),
        visits_of_order(ABBA, 3),
        visits_of_order(RANDOM_BLOCKS, None),
    ) == (2, 3, 1)
    with pytest.raises(
        MatrixError, match="more than one visit of each layout needs the order abba"
    ):
        visits_of_order(AS_WRITTEN, 2)
    with pytest.raises(MatrixError, match="the order abba builds each layout at least 2 times"):
        visits_of_order(ABBA, 1)
    with pytest.raises(MatrixError, match="needs the order abba"):
        layout_builds(Factors((1,), (1, 2), SWEEP, 2, visits=2), RANDOM_BLOCKS, 0)


def test_the_order_of_a_seed_never_changes():
    """Frozen: a stored seed must give the same order with every later version."""
    wanted = Factors((1,), (5, 6), ((4, {"iodepth": [1, 2, 4]}),), 2, visits=2)
    told = [
        (c.topology, c.visit, c.repeat, c.point["iodepth"]) for c in run_cells(wanted, ABBA, 17)
    ]
    assert told == [
        (6, 1, 1, 1), (6, 1, 1, 4), (6, 1, 1, 2), (5, 1, 1, 1), (5, 1, 1, 4), (5, 1, 1, 2),
        (5, 2, 2, 4), (5, 2, 2, 2), (5, 2, 2, 1), (6, 2, 2, 1), (6, 2, 2, 2), (6, 2, 2, 4),
    ]  # fmt: skip


def test_a_campaigns_design():
    assert order_design(ABBA, 2) == Order.ABBA
    assert order_design(RANDOM_BLOCKS, 2) == order_design(AS_WRITTEN, 2) == Order.ONE_AFTER_OTHER
    assert order_design(RANDOM_BLOCKS, 1) == Order.INTERLEAVED
