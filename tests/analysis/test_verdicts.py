"""Verdicts of two sweeps by hand: what is said, with which ratio and interval, why, and what would decide it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import exp, inf, log, nan, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t

from benchlab.analysis import rankings
from benchlab.analysis.designs import TAU, Order, design
from benchlab.analysis.differences import discoveries
from benchlab.analysis.factors import complete_submatrix, factor_effects
from benchlab.analysis.fits import fit, moderated
from benchlab.analysis.rankings import (
    MOST_COMPARED,
    Decision,
    compare_with,
    compared_pairs,
    decide_all,
    largest_p,
    rank_set_ups,
)
from benchlab.analysis.repeats import repeats_for_mean, repeats_to_decide
from benchlab.analysis.verdicts import Conclusion, compare_sweeps
from benchlab.testing.profiles import examples
from benchlab.verdicts.matrix import BUILT, FACTORS, notable_effects

TURNS, ABBA, APART = (
    design(order) for order in (Order.INTERLEAVED, Order.ABBA, Order.ONE_AFTER_OTHER)
)
SPREAD = (0.99, 1.0, 1.01)


def sweep(*values, spread=SPREAD):
    """2^n outstanding: so many repeats around each value, in another order at each depth."""
    return {
        2**n: {b: value * spread[(b + n) % len(spread)] for b in range(len(spread))}
        for n, value in enumerate(values)
    }


def test_faster_and_slower_are_each_others_mirror():
    slow, fast = sweep(100, 200, 300, 400), sweep(130, 260, 390, 520)
    one, two = compare_sweeps(slow, fast, TURNS), compare_sweeps(fast, slow, TURNS)
    assert (one.curve.conclusion, two.curve.conclusion) == (Conclusion.FASTER, Conclusion.SLOWER)
    assert one.curve.ratio == pytest.approx(1.3) == 1 / two.curve.ratio
    assert {point.conclusion for point in one.points.values()} == {Conclusion.FASTER}
    assert one.points[4].values == pytest.approx((300, 390), rel=1e-3)
    assert one.points[4].low < 1.3 < one.points[4].high
    assert one.points[4].repeats == (3, 3)


@pytest.mark.parametrize("design_", [ABBA, APART])
def test_ranks_decide_where_a_run_is_far_off(design_):
    """A stripe and a cache of a real campaign: one of four cache runs at 702 of 2,390 IOPS, all above the stripe's."""
    stripe = {16: {1: 500.0, 2: 510.0, 3: 495.0, 4: 505.0}}
    cache = {16: {1: 2390.0, 2: 702.0, 3: 2410.0, 4: 2350.0}}
    curve = compare_sweeps(stripe, cache, design_).curve
    assert curve.conclusion == Conclusion.FASTER and curve.p == pytest.approx(2 / 70)
    assert curve.low <= 702 / 510 and curve.high >= 2410 / 495
    assert "size open" in curve.reason


@pytest.mark.parametrize("wild", [490.0, 520.0])
def test_ranks_do_not_decide_where_runs_overlap_or_nearly(wild):
    stripe = {16: {1: 500.0, 2: 510.0, 3: 495.0, 4: 505.0}}
    cache = {16: {1: 2390.0, 2: wild, 3: 2410.0, 4: 2350.0}}
    assert compare_sweeps(stripe, cache, ABBA).curve.conclusion == Conclusion.UNKNOWN


def test_the_numbers_have_the_ratio_that_is_told():
    """Whatever the repeats: who divides one by the other finds it, which of medians is not so."""
    dice = np.random.default_rng(2)
    first, second = (
        {depth: dict(enumerate(dice.lognormal(3, 0.3, 3))) for depth in (1, 2, 4)} for _ in range(2)
    )
    for point in compare_sweeps(first, second, TURNS).points.values():
        assert point.values[1] / point.values[0] == pytest.approx(point.ratio)


def test_of_latency_less_is_better():
    found = compare_sweeps(sweep(1, 2, 3), sweep(2, 4, 6), TURNS, lower_is_better=True)
    assert found.curve.conclusion == Conclusion.SLOWER
    assert found.curve.ratio == pytest.approx(2)


def test_equals_are_called_so_unless_they_were_built_one_after_the_other():
    equal = sweep(100, 200, 300, 400)
    assert compare_sweeps(equal, equal, TURNS).curve.conclusion == Conclusion.NONE
    apart = compare_sweeps(equal, equal, APART).curve
    assert (apart.conclusion, apart.within) == (Conclusion.SMALL, "10 %")
    assert apart.reason == (
        "built one after the other: at most 10 % apart (95 %); more repeats would not decide: build in turns (ABBA), "
        "which can show differences of 5 % or more"
    )


def test_one_repeat_is_not_enough_and_its_ratio_is_shown_all_the_same():
    """Article 003's bcache: one run of each."""
    for order in (TURNS, ABBA, APART):
        found = compare_sweeps({8: {1: 146.0}}, {8: {1: 381.0}}, order).curve
        assert (found.conclusion, found.low, found.high, found.more_repeats) == (
            Conclusion.UNKNOWN,
            None,
            None,
            3,
        )
        assert found.ratio == pytest.approx(381 / 146)
        assert "does not show how much runs vary" in found.reason


def test_one_repeat_of_a_sweep_decides_only_where_both_took_turns():
    """The depths are the repeats then; each point alone says nothing."""
    slow, fast = (
        sweep(*values, spread=(1.0,)) for values in ((100, 200, 300, 400), (150, 302, 449, 601))
    )
    found = compare_sweeps(slow, fast, TURNS)
    assert found.curve.conclusion == Conclusion.FASTER
    assert {point.conclusion for point in found.points.values()} == {Conclusion.UNKNOWN}
    assert compare_sweeps(slow, fast, APART).curve.conclusion == Conclusion.UNKNOWN


def test_one_that_overtakes():
    found = compare_sweeps(sweep(100, 200, 300, 400), sweep(80, 160, 360, 520), TURNS)
    assert (found.curve.conclusion, found.crossings) == (Conclusion.OVERTAKES, (4,))
    assert found.curve.reason == "overtakes at depth 4"
    back = compare_sweeps(sweep(80, 160, 360, 520), sweep(100, 200, 300, 400), TURNS)
    assert back.curve.reason == "is overtaken at depth 4"
    twice = compare_sweeps(sweep(100, 200, 300), sweep(80, 260, 200), TURNS)
    assert twice.curve.reason == "faster at 2 outstanding, slower at 1 and 4"


def test_repeats_that_disagree_name_nothing():
    wild = sweep(100, 200, 300, 400)
    wild[4] = {0: 300.0, 1: 150.0, 2: 600.0}
    found = compare_sweeps(sweep(100, 200, 300, 400), wild, TURNS).points[4]
    assert found.conclusion == Conclusion.UNKNOWN
    assert found.reason.startswith("repeats disagree")


def test_only_common_depths_are_compared_each_with_its_own_repeats():
    first, second = sweep(100, 200, 300, 400), sweep(130, 260, 390, 520, 600)
    del second[1], second[4][0]
    found = compare_sweeps(first, second, TURNS)
    assert (list(found.points), found.left_out) == ([2, 4, 8], (1, 16))
    assert found.points[4].repeats == (2, 3)
    assert found.curve.repeats == (2, 3)


@pytest.mark.parametrize("second", [{}, {1: {1: 0.0}}, {1: {}}])
def test_nothing_to_compare(second):
    found = compare_sweeps({1: {1: 5.0}}, second, TURNS)
    assert (found.points, found.curve, found.left_out) == ({}, None, (1,))


def test_equal_numbers_without_any_noise_stay_finite():
    flat = {1: {1: 5.0, 2: 5.0, 3: 5.0}, 2: {1: 9.0, 2: 9.0, 3: 9.0}}
    found = compare_sweeps(flat, flat, TURNS)
    assert found.curve.ratio == 1 and 0.99 < found.curve.low <= 1 <= found.curve.high < 1.01


VALUES = st.floats(1e-9, 1e12) | st.sampled_from([0.0, inf, nan, 1.0, -1.0])
CELLS = st.dictionaries(st.integers(1, 4), VALUES, max_size=4)
SWEEPS = st.dictionaries(st.sampled_from([0, 1, 2, 8]), CELLS, max_size=4)


@settings(max_examples=examples(5000))
@given(SWEEPS, SWEEPS, st.sampled_from(list(Order)), st.booleans())
def test_whatever_was_measured_there_is_an_answer(first, second, order, lower):
    found = compare_sweeps(first, second, design(order), lower_is_better=lower)
    said = [*found.points.values(), *([found.curve] if found.curve else [])]
    assert set(found.points) | set(found.left_out) == first.keys() | second.keys()
    for one in said:
        assert 0 < one.ratio < inf
        assert one.reason
        if one.low is not None:
            assert one.low <= one.ratio <= one.high
        if one.conclusion in (Conclusion.FASTER, Conclusion.SLOWER):
            assert (one.conclusion == Conclusion.FASTER) == ((one.ratio > 1) != lower)
            assert abs(log(one.ratio)) >= log(1.05) - 1e-9
        if one.conclusion == Conclusion.NONE:
            assert order in (Order.INTERLEAVED, Order.ABBA) and 1 / 1.05 <= one.ratio <= 1.05
        if one.repeats[0] < 2 and order != Order.INTERLEAVED:
            assert not one.decided or one is found.curve


@settings(max_examples=examples(5000))
@given(SWEEPS, SWEEPS, st.sampled_from(list(Order)))
def test_who_is_faster_does_not_hang_on_who_is_named_first(first, second, order):
    one = compare_sweeps(first, second, design(order)).curve
    two = compare_sweeps(second, first, design(order)).curve
    if one is None:
        assert two is None
        return
    assert one.ratio == pytest.approx(1 / two.ratio)
    mirror = {Conclusion.FASTER: Conclusion.SLOWER, Conclusion.SLOWER: Conclusion.FASTER}
    assert two.conclusion == mirror.get(one.conclusion, one.conclusion)


def test_tau_is_in_the_interval():
    """One depth, three repeats, no noise to speak of: t of the degrees of tau times tau is all there is."""
    calm = sweep(100.0, spread=(0.9999, 1.0, 1.0001))
    point = compare_sweeps(calm, calm, APART).curve
    df = 12
    reach = t.ppf(0.975, df) * sqrt(0.05**2 + 2 * 0.001**2 / 3)
    assert log(point.high) == pytest.approx(reach, rel=0.02)


def test_tau_is_learned_from_ten_rebuilt_pairs():
    """(2 x 0.025^2 + 10 x 0.04^2) / 12 = 0.0379^2 a build; two visits of each share its luck out."""
    builds = [0.04**2] * 10
    assert design(Order.ABBA, builds[:9]).tau == 0.025
    learned = design(Order.ABBA, builds)
    assert learned.tau == pytest.approx(0.037914, rel=1e-3) and learned.learned == 10
    assert design(Order.ABBA, builds, visits=4).tau == pytest.approx(learned.tau / sqrt(2))
    apart = design(Order.ONE_AFTER_OTHER, builds)
    assert apart.tau == pytest.approx(learned.tau * sqrt(2)) and not apart.may_say_none
    assert design(Order.INTERLEAVED, builds).tau == 0


def test_what_was_learned_takes_no_drift_away():
    """Equal builds of one afternoon say nothing of the drift between set-ups that were measured one after the other."""
    alike = [0.0] * 40
    assert design(Order.ONE_AFTER_OTHER, alike).tau == design(Order.UNTOLD, alike).tau == 0.05
    assert design(Order.ONE_AFTER_OTHER, alike).learned == 0
    assert design(Order.ABBA, alike).tau == design(Order.ABBA, [-0.001] * 40).tau == 0.01


def test_discoveries_by_hand():
    """p sorted .01 .02 .03 .2 of four: x 4/1, 4/2, 4/3, 4/4; each at most the next larger one's."""
    found = discoveries(np.array([[0.03, 0.01, np.nan, 0.2, 0.02]]))
    assert found[0] == pytest.approx([0.04, 0.04, np.nan, 0.2, 0.04], nan_ok=True)


def test_noise_is_moderated_towards_the_sweeps():
    """Alike beyond what chance makes unlike: near one noise. Far apart: each near its own. Each set-up for itself."""
    freedom = np.full((1, 2, 4), 4.0)
    quiet, loud = [4.0, 4.1, 3.9, 4.0], [400.0, 410.0, 390.0, 400.0]
    noise, df = moderated(np.array([[quiet, loud]]), freedom)
    assert noise[0, 0] == pytest.approx([1.0] * 4, rel=0.02)
    assert noise[0, 1] == pytest.approx([100.0] * 4, rel=0.02)
    assert df[0] == pytest.approx(np.full((2, 4), 12.0))
    unlike = [4.0, 400.0, 0.04, 4e4]
    noise, df = moderated(np.array([[unlike, unlike]]), freedom)
    assert noise[0, 0, 3] > 5e3 and noise[0, 0, 2] < 0.2 and (df < 6).all()


def test_blocks_that_share_a_shift_cancel():
    dice = np.random.default_rng(1)
    logs = dice.normal(0, 0.01, (1, 2, 5, 4)) + np.array([0.0, 0.5, -0.5, 0.2])
    assert fit(logs, blocks=True).noise.max() < 2e-3 < fit(logs, blocks=False).noise.min()


def test_a_noisy_set_up_lends_a_quiet_one_nothing():
    """10 repeats of 3 % and 2 of 12 %: each has its own noise, and the curve's error is that of the second."""
    dice = np.random.default_rng(3)
    logs = dice.normal(0, 1, (1, 2, 7, 10)) * np.array([0.03, 0.12])[None, :, None, None]
    logs[:, 1, :, 2:] = np.nan
    found = fit(logs, blocks=True)
    assert np.sqrt(found.noise[0].mean(axis=1)) == pytest.approx([0.03, 0.12], rel=0.4)


def test_repeats_needed_by_hand():
    """Two cells of (95, 100, 105): sd of ln 0.0501, t(.975, 4) = 2.776; (2.776 x 0.0501 / ln 1.05)^2 = 8.1."""
    cells = [[95.0, 100.0, 105.0]] * 2
    assert repeats_for_mean(cells, 0.05) == 9
    assert repeats_for_mean(cells, 0.5) == 3
    assert repeats_for_mean([[50.0, 100.0, 200.0]], 0.05) is None
    assert repeats_for_mean([[100.0], [200.0]], 0.05) == 3


def test_repeats_to_decide_by_hand():
    """n = repeats x (se (t + 0.84) / wanted)^2: 3 x (0.05 x (2.228 + 0.84) / 0.1)^2 = 7.06."""
    assert repeats_to_decide(0.1, 0.05, 10, 3, 0.0) == 8
    assert repeats_to_decide(0.0, 0.2, 10, 3, 0.0) is None
    assert repeats_to_decide(0.1, 0.05, 10, 3, 0.05) is None
    assert repeats_to_decide(0.5, 0.1, 0, 1, 0.05) == 3


def test_the_coverage_of_repeats_needed():
    """docs/analysis.md: 94.3 to 100 % of means lie within +-x; noise 10 %, +-5 %: median 19."""
    dice, seed = np.random.default_rng(5), 5
    asked, inside = [], 0
    for _ in range(400):
        cells = np.exp(dice.normal(0, 0.1, (7, 5)))
        wanted = repeats_for_mean(cells.tolist(), 0.05)
        if wanted:
            asked.append(wanted)
            more = np.concatenate([np.log(cells[0]), dice.normal(0, 0.1, wanted - 5)])
            inside += abs(more.mean()) <= log(1.05)
    print("seed", seed, "median", np.median(asked), "inside", inside / len(asked))
    assert 17 <= np.median(asked) <= 20
    assert inside >= 0.94 * len(asked)


def ranked(sweeps, baseline, designs, **more):
    """The order of these alone."""
    decisions = decide_all(sweeps, baseline, designs, **more)
    against = compare_with(baseline, sweeps, designs, **more)
    return rank_set_ups(decisions, against, baseline, largest_p([decisions]), **more)


def test_places_are_shared_by_what_cannot_be_told_apart():
    sweeps = [sweep(100, 200, 300), sweep(200, 400, 600), sweep(201, 398, 603), sweep(50, 100, 150)]
    designs = {(a, b): TURNS for a in range(4) for b in range(a + 1, 4)}
    found = ranked(sweeps, 0, designs)
    assert [(one.name, one.place) for one in found][2:] == [(0, 3), (3, 4)]
    assert [one.place for one in found] == [1, 1, 3, 4]
    assert [one.against is None for one in found] == [False, False, True, False]
    of_latency = ranked(sweeps, 0, designs, lower_is_better=True)
    assert [one.name for one in of_latency][:2] == [3, 0]


def test_places_of_very_many_follow_from_the_baseline(monkeypatch):
    """Only pairs with it are compared, and what is slower than it is slower than what is faster than it."""
    monkeypatch.setattr(rankings, "MOST_COMPARED", 3)
    sweeps = [sweep(*(rate * depth for depth in (1, 2, 3))) for rate in (30, 130, 100, 200, 50)]
    designs = {(a, b): TURNS for a in range(5) for b in range(a + 1, 5)}
    found = ranked(sweeps, 2, designs)
    assert [one.name for one in found] == [3, 1, 2, 4, 0]
    assert [one.place for one in found] == [1, 1, 3, 4, 4]


def test_somebody_is_first_where_depths_go_round():
    """Of three set-ups that share one depth each, every one is better than another."""
    first, second, third = (
        {depth: {b: rate * SPREAD[b] for b in range(3)} for depth, rate in rates.items()}
        for rates in ({1: 100, 2: 200}, {1: 200, 4: 100}, {2: 100, 4: 200})
    )
    found = ranked([first, second, third], 0, {(0, 1): TURNS, (0, 2): TURNS, (1, 2): TURNS})
    assert [one.place for one in found] == [1, 1, 1]


@pytest.mark.parametrize("rates", [(100,), (100, 200, 300)])
def test_a_verdict_has_the_word_that_its_place_has(rates):
    """What many comparisons make a matter of chance is undecided at a single depth as well."""
    sweeps = [sweep(*rates), sweep(*(1.2 * rate for rate in rates))]
    decisions = decide_all(sweeps, 0, {(0, 1): TURNS})
    against = compare_with(0, sweeps, {(0, 1): TURNS})
    p = against[1].curve.p
    decided = rank_set_ups({(0, 1): Decision(1, 2 * p)}, against, 0, 2 * p)
    assert [(one.name, one.place) for one in decided] == [(1, 1), (0, 2)]
    assert decided[0].against.curve.conclusion == Conclusion.FASTER
    open_ = rank_set_ups(decisions, against, 0, p / 2)
    assert [one.place for one in open_] == [1, 1]
    [undecided] = [one.against for one in open_ if one.against]
    assert undecided.curve.conclusion in (Conclusion.UNKNOWN, Conclusion.SMALL)
    if len(rates) == 1:
        assert [*undecided.points.values()] == [undecided.curve]


@pytest.mark.parametrize("order", [Order.INTERLEAVED, Order.ABBA, Order.UNTOLD])
@pytest.mark.parametrize("repeats", [1, 2, 5])
def test_many_pairs_are_decided_as_one_is(order, repeats):
    """A ranking fits all pairs at once; a verdict fits its own."""
    dice, number = np.random.default_rng(6), 12
    sweeps = [
        {
            2**d: dict(enumerate(dice.lognormal(7 + dice.choice([0, 0, 0.2, 3]), 0.05, repeats)))
            for d in range(dice.integers(1, 6))
        }
        for _ in range(number)
    ]
    visits = tuple((n, n // 2) for n in range(repeats))
    one = replace(design(order), visits=(visits, visits) if order == Order.ABBA else None)
    designs = {(a, b): one for a in range(number) for b in range(a + 1, number)}
    for lower in (False, True):
        decisions = decide_all(sweeps, 0, designs, lower_is_better=lower)
        assert len(decisions) == len(designs)
        for (a, b), decision in decisions.items():
            curve = compare_sweeps(sweeps[a], sweeps[b], one, lower_is_better=lower).curve
            signs = {Conclusion.FASTER: 1, Conclusion.SLOWER: -1}
            assert decision.sign == signs.get(curve.conclusion, 0)
            assert decision.p == pytest.approx(curve.p)


def test_pairs_of_very_many_set_ups_grow_with_their_number_only():
    assert len(compared_pairs(MOST_COMPARED, 3)) == MOST_COMPARED * (MOST_COMPARED - 1) / 2
    pairs = compared_pairs(MOST_COMPARED + 1, 3)
    assert len(pairs) == MOST_COMPARED
    assert all(first < second and 3 in (first, second) for first, second in pairs)


def test_equal_set_ups_share_the_first_place_however_many():
    """Eight of them in four workloads: at most 5 % of campaigns name a difference or a place of its own."""
    dice, seed, campaigns, told = np.random.default_rng(7), 7, 60, 0
    designs = {(a, b): design(Order.ABBA) for a in range(8) for b in range(a + 1, 8)}
    for _ in range(campaigns):
        loads = [
            [
                {2**d: dict(enumerate(dice.lognormal(7, 0.05, 4))) for d in range(4)}
                for _ in range(8)
            ]
            for _ in range(4)
        ]
        families = [decide_all(sweeps, 0, designs) for sweeps in loads]
        told += largest_p(families) > 0
    print("seed", seed, "told", told, "of", campaigns)
    assert told <= 0.05 * campaigns + 3


def test_places_are_by_depths_that_all_have():
    """At 64 c does 3 times a, and b, which was measured there only, 2 times; over all depths c does 1.78 times."""
    a = sweep(100, 200, 300, 400, 500, 600, 600)
    c = sweep(
        *(
            v * k
            for v, k in zip(
                (100, 200, 300, 400, 500, 600, 600), (1.6,) * 4 + (1.7, 1.7, 3), strict=True
            )
        )
    )
    b = {64: sweep(*[1200] * 7)[64]}
    designs = {(x, y): TURNS for x in range(3) for y in range(x + 1, 3)}
    for sweeps, names in (([a, b, c], [2, 1, 0]), ([a, c, b], [1, 2, 0])):
        found = ranked(sweeps, 0, designs)
        assert [(one.name, one.place) for one in found] == list(zip(names, (1, 2, 3), strict=True))
    slower = ranked([a, b, c], 0, designs, lower_is_better=True)
    assert [one.name for one in slower] == [0, 1, 2]


def test_without_a_depth_that_all_have_who_has_most_comes_first():
    """b at 64 only, d at 1 only: what they do there stands behind what was measured over all."""
    a, c = sweep(100, 200, 300), sweep(150, 300, 450)
    b, d = {4: sweep(*[600] * 3)[4]}, {1: sweep(250)[1]}
    designs = {(x, y): TURNS for x in range(4) for y in range(x + 1, 4)}
    found = ranked([a, b, c, d], 0, designs)
    assert [one.name for one in found] == [2, 0, 3, 1]


def matrix(value):
    """{(layout, workload): {repeat: value}}, three of each; what a repeat adds is another thing in each cell."""
    return {
        (a, b): {n: value(a, b) * SPREAD[(n + len(a) + len(b)) % 3] for n in range(3)}
        for a in ("plain", "cached")
        for b in ("read", "write")
    }


def test_main_effects_by_hand():
    """Cached is twice plain everywhere: sqrt 2 above the mean of both, and nothing else is to tell."""
    found = factor_effects(
        ("layout", "workload"), matrix(lambda a, b: 200 if a == "cached" else 100)
    )
    by = {tuple(one.levels.items()): one for one in found.main}
    cached = by[("layout", "cached"),]
    assert cached.ratio == pytest.approx(sqrt(2)) and cached.significant
    assert cached.low < sqrt(2) < cached.high
    assert by[("workload", "read"),].ratio == pytest.approx(1)
    assert not any(one.significant for one in found.interactions)


def test_an_interaction_by_hand():
    """The cache doubles reads and does nothing to writes: ln 2 / 4 either way of each pair."""
    found = factor_effects(
        ("layout", "workload"), matrix(lambda a, b: 200 if (a, b) == ("cached", "read") else 100)
    )
    pairs = {tuple(one.levels.values()): one for one in found.interactions}
    assert pairs["cached", "read"].ratio == pytest.approx(exp(log(2) / 4))
    assert pairs["plain", "read"].ratio == pytest.approx(exp(-log(2) / 4))
    assert all(one.significant for one in pairs.values())


def test_effects_need_a_whole_matrix_and_say_nothing_of_one_repeat():
    cells = matrix(lambda a, b: 100)
    single = {key: {0: values[0]} for key, values in cells.items()}
    assert all(
        one.low is None and not one.significant for one in factor_effects(("a", "b"), single).main
    )
    del cells["plain", "read"]
    assert factor_effects(("a", "b"), cells) is None
    assert factor_effects(("a", "b"), {("plain", "read"): {0: 1.0}}) is None


def test_the_part_without_gaps_by_hand():
    """Three layouts, two schedulers, two points; c lacks both cells with none: half of c, a third of none."""
    there = {(a, b, p) for a in "abc" for b in ("mq", "none") for p in "xy"}
    assert complete_submatrix(there) == (there, ())
    there -= {("c", "none", "x"), ("c", "none", "y")}
    kept, [gap] = complete_submatrix(there)
    assert kept == {place for place in there if place[0] != "c"}
    assert (gap.factor, gap.level, gap.lacks) == (0, "c", {1: ("none",)})
    assert (gap.missing, gap.total) == (2, 4)


def test_of_two_halves_the_later_factor_goes():
    """Of two layouts a half is missing of b and of none alike: layouts are what was asked for."""
    there = {(a, b, p) for a in "ab" for b in ("mq", "none") for p in "xy"}
    kept, [gap] = complete_submatrix(there - {("b", "none", "x"), ("b", "none", "y")})
    assert kept == {(a, "mq", p) for a in "ab" for p in "xy"}
    assert (gap.factor, gap.level, gap.lacks) == (1, "none", {0: ("b",)})


def test_a_cell_alone_takes_its_point():
    there = {(a, b, p) for a in "abc" for b in ("mq", "none") for p in "wxyz"}
    kept, [gap] = complete_submatrix(there - {("b", "none", "z")})
    assert len(kept) == 18 and (gap.factor, gap.level, gap.lacks) == (2, "z", {})
    assert (gap.cell, gap.missing, gap.total) == (("b", "none", "z"), 1, 6)
    assert complete_submatrix([]) == (set(), ())


def test_false_effects_are_few():
    """Three layouts, four workloads, three repeats, nothing but noise: 5 % of tables name anything."""
    dice, seed, told, tables = np.random.default_rng(8), 8, 0, 300
    for _ in range(tables):
        noise = dice.choice([0.05, 0.1, 0.2])
        cells: dict[tuple[str, ...], dict[int, float]] = {
            (str(a), str(b)): dict(enumerate(np.exp(dice.normal(0, noise, 3))))
            for a in range(3)
            for b in range(4)
        }
        found = factor_effects(("layout", "workload"), cells)
        told += any(one.significant for one in found.main)
    print("seed", seed, "told", told, "of", tables)
    assert told <= 0.08 * tables


def test_effects_of_unlike_noise_are_few():
    """Equal layouts, one of them four times as noisy: few tables name an effect, main or interaction (5 % each)."""
    dice, seed, tables = np.random.default_rng(12), 12, 400
    told = 0
    for _ in range(tables):
        cells: dict[tuple[str, ...], dict[int, float]] = {
            (a, str(b)): dict(enumerate(np.exp(dice.normal(0, noise, repeats))))
            for a, noise, repeats in (("stripe", 0.03, 10), ("mirror", 0.03, 3), ("cache", 0.12, 2))
            for b in range(4)
        }
        found = factor_effects(("layout", "workload"), cells)
        told += any(one.significant for one in (*found.main, *found.interactions))
    print("seed", seed, "told", told, "of", tables)
    assert told <= 0.08 * tables


def test_what_a_visit_shares_is_in_the_error_of_its_layout():
    """Blocks of one layout are 30 % apart, all workloads alike: its effect is no more certain than they are."""
    shift = {"plain": (0.0, 0.0, 0.0), "cached": (0.0, 0.6, 1.2)}
    cells: dict[tuple[str, ...], dict[int, float]] = {
        (a, b): {n: 100 * exp(shift[a][n] + 0.01 * (n + m) % 3) for n in range(3)}
        for a in shift
        for m, b in enumerate(("read", "write"))
    }
    found = factor_effects(("layout", "workload"), cells)
    assert not any(one.significant for one in found.main if "layout" in one.levels)


def drifting(dice, levels, points=4, repeats=3):
    """Logs (levels, points, repeats) of equals, level after level, in randomised blocks, with noise and drift."""
    slots = [
        (level, point, repeat)
        for level in range(levels)
        for repeat in range(repeats)
        for point in dice.permutation(points)
    ]
    time = np.linspace(0, 1, len(slots))
    wave = np.sin(2 * np.pi * (dice.uniform(0.5, 3) * time + dice.random()))
    logs = dice.choice([0.02, 0.05, 0.1, 0.2]) * dice.normal(size=len(slots))
    logs += dice.uniform(-0.1, 0.1) * time + dice.uniform(0, 0.05) * wave
    logs += np.where(dice.random(len(slots)) < 0.02, np.log(0.5), 0)
    found = np.empty((levels, points, repeats))
    found[tuple(np.array(slots).T)] = logs
    return found


@pytest.mark.parametrize("levels", [2, 3, 5])
def test_drift_is_no_effect_of_what_follows_each_other(levels):
    """Equal levels, four points, three repeats: at most 5 % of matrices name an effect that the factor is in.

    The factors take turns. Each is named about as seldom, else the arithmetic is not the same for all.
    """
    seed, tables = 9, 500
    dice = np.random.default_rng(seed)
    named_by: Counter[str] = Counter()
    factors = ["Layout", "Settings", "Host", "Moment"]
    for number in range(tables):
        cells, factor = {}, factors[number % len(factors)]
        axis = FACTORS.index(factor)
        for (level, point), repeats in zip(
            np.ndindex(levels, 4), drifting(dice, levels).reshape(-1, 3), strict=True
        ):
            key = ["x"] * len(FACTORS)
            key[axis], key[-1] = f"level {level}", f"point {point}"
            cells[tuple(key)] = dict(enumerate(np.exp(repeats)))
        named_by[factor] += bool(
            notable_effects(factor_effects(FACTORS, cells, TAU[Order.ONE_AFTER_OTHER], BUILT))
        )
    print("seed", seed, levels, "levels: named", dict(named_by), "of", tables)
    assert named_by.total() <= 0.05 * tables
    assert max(named_by.values()) <= 0.07 * tables / len(factors)
