"""Tests that a profile draws: all of it by night; by day few that prove each thing, the same for the same seed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from benchlab.testing import profiles

CASES = ["lvm", "lvm cache", "md", "md lvm", "raw", "zpool zvol", "zpool"]


@pytest.fixture(params=profiles.PROFILES)
def profile(request, monkeypatch) -> str:
    monkeypatch.setenv(profiles.PROFILE, request.param)
    monkeypatch.setenv(profiles.SEED, "7")
    return request.param


def draw(seed: int, monkeypatch, quick: int = 2, more: int = 1) -> list[str]:
    monkeypatch.setenv(profiles.SEED, str(seed))
    return profiles.drawn("stacks", CASES, quick=quick, more=more, proves=str.split)


def test_night_tries_everything_and_day_a_part(profile, monkeypatch):
    night = profile == profiles.FULL
    assert (draw(1, monkeypatch) == CASES) == night
    counts = {
        profiles.FULL: [4000, 60, 10],
        profiles.CI: [160, 20, 10],
        profiles.QUICK: [80, 10, 10],
    }
    assert [profiles.examples(n) for n in (4000, 60, 10)] == counts[profile]


@pytest.mark.parametrize("seed", range(20))
def test_ci_proves_each_thing_and_keeps_the_order(monkeypatch, seed):
    monkeypatch.setenv(profiles.PROFILE, profiles.CI)
    found = draw(seed, monkeypatch)
    assert {thing for case in found for thing in case.split()} == {
        thing for case in CASES for thing in case.split()
    }
    assert found == [case for case in CASES if case in found]
    assert len(found) < len(CASES)


def test_over_some_seeds_every_case_is_tried(monkeypatch):
    for profile in (profiles.QUICK, profiles.CI):
        monkeypatch.setenv(profiles.PROFILE, profile)
        assert {case for seed in range(60) for case in draw(seed, monkeypatch)} == set(CASES)


def test_a_share_is_one_in_so_many_and_by_night_all(profile, monkeypatch):
    tried: Counter[str] = Counter()
    sizes = set()
    for seed in range(300):
        monkeypatch.setenv(profiles.SEED, str(seed))
        found = profiles.share("pages", CASES, 3)
        assert found == [case for case in CASES if case in found]
        sizes.add(len(found))
        tried.update(found)
    every = 300 if profile == profiles.FULL else 100
    assert sizes == ({len(CASES)} if profile == profiles.FULL else {2, 3})
    assert set(tried) == set(CASES) and all(abs(n - every) < 35 for n in tried.values())


def test_of_a_single_one_a_share_is_all_of_it_now_and_then(monkeypatch):
    monkeypatch.setenv(profiles.PROFILE, profiles.CI)
    times = 0
    for seed in range(300):
        monkeypatch.setenv(profiles.SEED, str(seed))
        times += len(profiles.share("the page", ["one"], 3))
    assert 65 < times < 135


def test_each_case_is_dealt_to_one_hand_and_by_night_to_all(profile, monkeypatch):
    met: dict[str, set[str]] = {"one": set(), "other": set()}
    for seed in range(20):
        monkeypatch.setenv(profiles.SEED, str(seed))
        hands = profiles.dealt("ways", set(CASES), ("one", "other"))
        assert hands["one"] | hands["other"] == set(CASES)
        if profile == profiles.FULL:
            assert hands["one"] == hands["other"]
        else:
            assert not hands["one"] & hands["other"] and min(map(len, hands.values())) == 3
        for hand, cases in hands.items():
            met[hand] |= cases
    assert met == {"one": set(CASES), "other": set(CASES)}


def test_the_same_seed_draws_the_same_whatever_else_is_drawn(monkeypatch):
    monkeypatch.setenv(profiles.PROFILE, profiles.QUICK)
    one = draw(3, monkeypatch)
    profiles.random_for("something else").random()
    assert draw(3, monkeypatch) == one != draw(4, monkeypatch)


def test_a_profile_that_there_is_not_is_named(monkeypatch):
    monkeypatch.setenv(profiles.PROFILE, "weekly")
    with pytest.raises(ValueError, match="BENCHLAB_TESTS=weekly: there are quick, ci, full"):
        profiles.profile()


@pytest.mark.parametrize("profile", [profiles.QUICK, profiles.CI])
def test_quick_and_ci_have_the_stored_seed(monkeypatch, profile):
    monkeypatch.setenv(profiles.PROFILE, profile)
    monkeypatch.delenv(profiles.SEED)
    assert profiles.seed() == profiles.STORED_SEED


def test_full_draws_a_seed_that_its_processes_inherit(monkeypatch):
    monkeypatch.setenv(profiles.PROFILE, profiles.FULL)
    monkeypatch.delenv(profiles.SEED)
    drawn = profiles.seed()
    script = "from benchlab.testing import profiles; print(profiles.seed())"
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ, capture_output=True, text=True
    )
    assert done.stdout.strip() == str(drawn) != str(profiles.STORED_SEED)
