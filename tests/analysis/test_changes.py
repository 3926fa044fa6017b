"""Steps in histories: t against scipy's, the table against its script, and simulated truth (docs/analysis.md, 5)."""

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
    find_unusual,
    hampel,
    largest_t,
    robust_z,
)
from benchlab.testing import profiles
from tests.analysis.noise_of_curves import allowed, dice, many
from tests.analysis.noise_of_histories import builds, history

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
    cleaned = hampel(logs)
    assert cleaned[4] == pytest.approx(log(100), abs=0.01)
    assert np.array_equal(np.delete(cleaned, 4), np.delete(logs, 4))
    assert hampel(logs[:8]) is not None and np.array_equal(hampel(logs[:8]), logs[:8])


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
    """docs/analysis.md: 0.01, 0.05 and 0.01 per 100 runs."""
    drawn, histories = dice(f"clean {noise}"), many(700)
    false = sum(len(find_changes(history(100, noise, drawn))) for _ in range(histories))
    print(f"noise {noise:.0%}: {false} changes in {histories} histories of 100 runs")
    assert false <= allowed(0.03, histories)


@pytest.mark.draws
@pytest.mark.parametrize(
    ("step", "noise", "least"), [(0.05, 0.02, 0.85), (0.05, 0.05, 0.15), (0.10, 0.02, 0.92), (0.10, 0.05, 0.82)]
)  # fmt: skip
def test_steps_are_found(step, noise, least):
    """docs/analysis.md: 95, 30, 97 and 97 %, of 60 runs with the step in the middle."""
    drawn, histories = dice(f"steps {step} {noise}"), many(420)
    found = sum(
        any(abs(one.at - 30) <= 3 for one in find_changes(history(60, noise, drawn, step=step)))
        for _ in range(histories)
    )
    print(f"{step:.0%} at noise {noise:.0%}: found {found} of {histories}")
    assert histories - found <= allowed(1 - least, histories)


def alarms(values, layouts):
    """True when looking again after each second run, from the 20th on, ever confirms a change."""
    looks = range(20, len(values) + 1, 2)
    return any(any(one.confirmed for one in find_changes(values[:n], layouts[:n])) for n in looks)


@pytest.mark.draws
@pytest.mark.parametrize(
    ("noise", "luck", "build", "most"), [(0.05, 0.0, 1, 0.12), (0.02, 0.02, 3, 0.05), (0.02, 0.02, 10, 0.05)]
)  # fmt: skip
def test_looking_again_and_again_seldom_alarms(noise, luck, build, most):
    """docs/analysis.md: 12 % of clean histories of 100 runs.

    Builds that differ by 2 % would alarm in 33 % (three runs each) and 78 % (ten), were runs held against each other.
    """
    drawn, histories = dice(f"looks {luck} {build}"), many(140)
    found = sum(
        alarms(history(100, noise, drawn, luck=luck, build=build), builds(100, build))
        for _ in range(histories)
    )
    print(f"luck {luck:.0%}, {build} a build: {found} of {histories} histories alarm")
    assert found <= allowed(most, histories)


@pytest.mark.draws
def test_a_step_of_lucky_builds_is_confirmed_soon():
    """10 %, three runs a build that differ by 2 %: most within 15 runs."""
    drawn, histories = dice("delay"), many(140)
    soon = 0
    for _ in range(histories):
        values = history(90, 0.02, drawn, luck=0.02, build=3, step=0.10)[: 45 + 15]
        soon += any(one.confirmed for one in find_changes(values, builds(60, 3)))
    print(f"{soon} of {histories} within 15 runs")
    assert histories - soon <= allowed(0.25, histories)


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
