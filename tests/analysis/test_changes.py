"""Steps and drifts in histories: t against scipy's, the table against its script, simulated truth."""

from __future__ import annotations

import json
from math import log

import numpy as np
import pytest
from scipy.stats import ttest_ind

from benchlab.analysis import make_critical_values as maker
from benchlab.analysis.changes import (
    LEAST_SIDE,
    critical_t,
    find_changes,
    find_drift,
    find_unusual,
    inflation,
    largest_t,
    replace_outliers,
    robust_z,
)
from benchlab.testing import profiles
from tests.analysis.noise_of_curves import allowed, dice, many
from tests.analysis.noise_of_histories import autocorrelated, builds, history

TABLE = json.loads(maker.FILE.read_text())
# And what chance may add
RUNS, SDS = (2_000, 3) if profiles.profile() == profiles.QUICK else (40_000, 2)


@pytest.mark.draws
def test_the_largest_t_is_the_largest_of_all_splits():
    rows = dice("largest t").normal(size=(20, 17))
    found = zip(*largest_t(rows), strict=True)
    for row, (at, t) in zip(rows, found, strict=True):
        every = {
            split: abs(ttest_ind(row[:split], row[split:]).statistic)
            for split in range(LEAST_SIDE, 17 - LEAST_SIDE + 1)
        }
        assert at == max(every, key=lambda split: every[split])
        assert t == pytest.approx(every[at])


def test_a_step_without_noise_is_no_division_by_zero():
    rows = np.array([[1.0] * 4 + [2.0] * 4, [1.0] * 8])
    at, t = largest_t(rows)
    assert at[0] == 4 and t[0] > 1e6
    assert t[1] == 0


def test_the_table_is_what_its_script_makes():
    """Each length has a seed of its own: by day some are made again, by night all."""
    assert (TABLE["seed"], TABLE["series"], tuple(TABLE["alphas"])) == (
        maker.SEED, maker.SERIES, maker.ALPHAS,
    )  # fmt: skip
    assert [int(length) for length in TABLE["critical"]] == maker.lengths()
    tried = maker.lengths() if profiles.profile() == profiles.FULL else (6, 12)
    for length in tried:
        assert TABLE["critical"][str(length)] == maker.critical_values(length)


@pytest.mark.draws
@pytest.mark.parametrize("length", [6, 22, 60, 200])
def test_critical_values_are_passed_by_chance_as_seldom_as_they_say(length):
    """Normal series, none of them those of the table; also of a length between two of the table's."""
    series = 2000
    _, t = largest_t(dice(f"critical {length}").normal(size=(series, length)))
    assert (t > critical_t(length)).sum() <= series * 0.002 + 3 * np.sqrt(series * 0.002)
    assert critical_t(5000) == critical_t(maker.LONGEST)


def test_a_lone_bad_run_is_replaced_and_the_first_of_a_step_is_not():
    logs = np.log([100.0, 101, 99, 100, 50, 100, 99, 101, 100, 80, 81, 80, 79, 80, 80])
    cleaned = replace_outliers(logs)
    assert cleaned[4] == pytest.approx(log(100), abs=0.01)
    assert np.array_equal(np.delete(cleaned, 4), np.delete(logs, 4))
    assert replace_outliers(logs[:8]) is not None and np.array_equal(
        replace_outliers(logs[:8]), logs[:8]
    )


def by_hand(after):
    return [100.0, 101.0, 99.0, 100.0, 102.0, 98.0, 100.0, 101.0, *after]


def test_a_change_has_where_and_how_much():
    (found,) = find_changes(by_hand([80.0, 81.0, 79.0, 80.0, 80.0, 82.0, 79.0]))
    assert (found.at, found.before, found.after) == (8, 100.0, 80.0)
    assert found.ratio == pytest.approx(0.8) and found.confirmed


@pytest.mark.parametrize("after", [4, 5])
def test_a_young_change_is_possible_only(after):
    (found,) = find_changes(by_hand([80.0, 81.0, 79.0, 80.0, 80.0, 82.0, 79.0][:after]))
    assert found.at == 8 and not found.confirmed


def test_runs_of_one_build_confirm_no_change():
    """Ten runs, all on one layout that was built once: its luck, perhaps."""
    values = by_hand([80.0, 81.0, 79.0, 80.0, 80.0, 82.0, 79.0, 80.0, 81.0, 80.0])
    (found,) = find_changes(values, [0, 0, 1, 1, 2, 2, 3, 3, *[4] * 10])
    assert found.at == 8 and not found.confirmed


@pytest.mark.parametrize("values", [[], [1.0], [5.0] * 40, by_hand([99.0, 98.0] * 6)])
def test_no_change(values):
    assert find_changes(values) == []


@pytest.mark.draws
@pytest.mark.parametrize("noise", [0.02, 0.05, 0.10])
def test_clean_histories_seldom_change(noise):
    """0.002, 0.01 and 0 per 100 runs."""
    drawn, histories = dice(f"clean {noise}"), many(700)
    false = sum(len(find_changes(history(100, noise, drawn))) for _ in range(histories))
    print(f"noise {noise:.0%}: {false} changes in {histories} histories of 100 runs")
    assert false <= allowed(0.03, histories)


@pytest.mark.draws
@pytest.mark.parametrize(
    ("step", "noise", "least"), [(0.05, 0.02, 0.85), (0.05, 0.05, 0.15), (0.10, 0.02, 0.92), (0.10, 0.05, 0.82)]
)  # fmt: skip
def test_steps_are_found(step, noise, least):
    """94, 26, 100 and 88 %, possible ones included, of 60 runs with the step in the middle."""
    drawn, histories = dice(f"steps {step} {noise}"), many(420)
    found = sum(
        any(abs(one.at - 30) <= 3 for one in find_changes(history(60, noise, drawn, step=step)))
        for _ in range(histories)
    )
    print(f"{step:.0%} at noise {noise:.0%}: found {found} of {histories}")
    assert histories - found <= allowed(1 - least, histories)


@pytest.mark.draws
@pytest.mark.parametrize(
    ("step", "noise", "rho", "least"), [(0.10, 0.05, 0.0, 0.85), (0.20, 0.05, 0.5, 0.90)]
)
def test_steps_are_confirmed(step, noise, rho, least):
    """87 and 92 %, of 100 runs with the step in the middle, where a line resembles it most."""
    drawn, histories = dice(f"confirmed {step} {rho}"), many(420)
    found = sum(
        any(
            change.confirmed and abs(change.at - 50) <= 4
            for change in find_changes(history(100, noise, drawn, step=step, rho=rho))
        )
        for _ in range(histories)
    )
    print(f"{step:.0%} at noise {noise:.0%}, rho {rho}: confirmed {found} of {histories}")
    assert histories - found <= allowed(1 - least, histories)


def alarms(values, layouts):
    """True when looking again after each second run, from the 20th on, ever confirms a change."""
    looks = range(20, len(values) + 1, 2)
    return any(any(one.confirmed for one in find_changes(values[:n], layouts[:n])) for n in looks)


@pytest.mark.draws
@pytest.mark.parametrize(
    ("noise", "build", "more"),
    [
        (0.05, 1, {}),
        (0.05, 1, {"rho": 0.5}),
        (0.05, 1, {"rho": 0.8}),
        (0.03, 1, {"drift": 0.10}),
        (0.02, 3, {"luck": 0.02}),
        (0.02, 10, {"luck": 0.02}),
    ],
)
def test_looking_again_and_again_seldom_alarms(noise, build, more):
    """At most 5 % of histories of 100 runs without a step. docs/analysis.md has each cell."""
    drawn, histories = dice(f"looks {build} {more}"), many(140)
    found = sum(
        alarms(history(100, noise, drawn, build=build, **more), builds(100, build))
        for _ in range(histories)
    )
    print(f"{more}, {build} a build: {found} of {histories} histories alarm")
    assert found <= allowed(0.05, histories)


@pytest.mark.draws
def test_a_step_of_lucky_builds_is_possible_at_once_and_confirmed_soon():
    """20 %, three runs a build that differ by 2 %: most within 15 runs."""
    drawn, histories = dice("delay"), many(140)
    confirmed = possible = 0
    for _ in range(histories):
        values = history(90, 0.02, drawn, luck=0.02, build=3, step=0.20)[: 45 + 15]
        changes = find_changes(values, builds(60, 3))
        possible += any(abs(change.at - 45) <= 3 for change in changes)
        confirmed += any(change.confirmed for change in changes)
    print(f"of {histories} within 15 runs: {confirmed} confirmed, {possible} seen")
    assert histories - confirmed <= allowed(0.25, histories)
    assert histories - possible <= allowed(0.03, histories)


def drifts(values):
    return find_drift(values, [], find_changes(values)) is not None


@pytest.mark.draws
@pytest.mark.parametrize(
    ("noise", "more"),
    [
        (0.05, {}),
        (0.05, {"rho": 0.5}),
        (0.05, {"rho": 0.8}),
        (0.05, {"step": 0.10}),
        (0.02, {"step": 0.05}),
    ],
)
def test_few_histories_are_said_to_drift_that_do_not(noise, more):
    """0 to 0.2 %."""
    drawn, histories = dice(f"no drift {noise} {more}"), many(700)
    false = sum(drifts(history(100, noise, drawn, **more)) for _ in range(histories))
    print(f"{more}: {false} of {histories} histories drift")
    assert false <= allowed(0.02, histories)


@pytest.mark.draws
@pytest.mark.parametrize(
    ("noise", "drift", "rho", "least"), [(0.03, 0.10, 0.0, 0.85), (0.05, 0.20, 0.0, 0.95)]
)
def test_drifts_are_found(noise, drift, rho, least):
    """92 and 98 %. docs/analysis.md has more."""
    drawn, histories = dice(f"drift {noise} {drift}"), many(420)
    found = sum(drifts(history(100, noise, drawn, drift=drift, rho=rho)) for _ in range(histories))
    print(f"{drift:.0%} at noise {noise:.0%}: found {found} of {histories}")
    assert histories - found <= allowed(1 - least, histories)


def test_a_drift_has_both_ends():
    values = [100 * 0.99**run * (1.01 if run % 2 else 0.99) for run in range(30)]
    drift = find_drift(values, [], find_changes(values))
    assert drift is not None and drift.begin == 0
    assert (drift.before, drift.after) == pytest.approx((100, 100 * 0.99**29), rel=0.01)
    assert find_drift([100.0] * 30, [], []) is None


def halved_then_falling(share):
    """30 calm runs, and 30 at half that each lose so much of the one before."""
    calm = [100.0 * (1.01 if run % 2 else 0.99) for run in range(30)]
    return [*calm, *(0.5 * value * (1 - share) ** run for run, value in enumerate(calm))]


def test_a_drift_after_a_change_begins_with_it():
    values = halved_then_falling(0.003)
    changes = find_changes(values)
    drift = find_drift(values, [], changes)
    assert [(change.at, change.confirmed) for change in changes] == [(30, True)]
    assert drift is not None
    assert drift.begin == 30
    assert drift.ratio == pytest.approx(0.997**29, abs=0.01)


def test_a_steep_drift_after_a_step_does_not_hide_it():
    (change,) = find_changes(halved_then_falling(0.01))
    assert (change.at, change.confirmed) == (30, False)


def test_two_bad_runs_in_a_row_hide_no_step():
    values = [*[100.0, 101.0, 99.0] * 7, *[80.0, 81.0, 79.0] * 7]
    values[10:12] = [50.0, 51.0]
    values[22] = 40.0
    (change,) = find_changes(values)
    assert (change.at, change.confirmed) == (21, True)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8])
def test_the_inflation_is_that_of_the_mean_of_a_first_order_process(rho):
    rest = autocorrelated(20_000, rho, np.random.default_rng(3))
    assert inflation(rest, 1, 0.0) == pytest.approx((1 + rho) / (1 - rho), rel=0.1)
    assert inflation(rest, 1, 1.5) > inflation(rest, 1, 0.0)
    assert inflation(np.zeros(9), 1, 1.5) == 1


@pytest.mark.draws
@pytest.mark.one_in(2)
@pytest.mark.parametrize("past", [10, 11, 12, 19, 20, 50])
def test_a_clean_run_is_seldom_unusual(past):
    """At most 1 in 100, whatever is behind it: each limit where it begins to hold, and before the next."""
    drawn, runs, most = dice(f"unusual {past}"), RUNS, 0.01
    rows = 0.05 * drawn.normal(size=(runs, past + 1))
    verdicts = [robust_z(row[:-1], float(row[-1])) for row in rows]
    false = sum(limit is not None and z > limit for z, limit in verdicts)
    print(f"{past} past runs: {false} of {runs}")
    assert false <= most * runs + SDS * np.sqrt(runs * most)


@pytest.mark.draws
def test_a_run_that_lost_a_fifth_stands_out():
    """docs/analysis.md: 75 % at noise 5 %."""
    drawn = dice("fifth")
    rows = 0.05 * drawn.normal(size=(400, 21))
    looks = (robust_z(row[:-1], float(row[-1] + log(0.8))) for row in rows)
    found = sum(z > limit for z, limit in looks)
    assert found >= 0.60 * 400


def test_unusual_is_silent_below_ten_and_counts_from_the_last_change():
    values = by_hand([100.0, 99.0, 101.0, 60.0])
    (one,) = find_unusual(values, [])
    assert (one.at, one.past) == (11, 11) and one.z > 5
    assert find_unusual(values[2:], []) == []
    calm = by_hand([80.0, 81.0, 79.0, 80.0, 80.0, 82.0, 79.0, 80.0])
    assert find_unusual(calm, find_changes(calm)) == []


def test_a_capped_disk_is_not_held_to_its_own_tenth_of_a_percent():
    values = [5099.0, 5100.0] * 8 + [5106.0]
    assert find_unusual(values, []) == []
    assert [one.at for one in find_unusual([*values[:-1], 4900.0], [])] == [16]
