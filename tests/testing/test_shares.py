"""The mark `one_in`: in a run of a whole profile some cases of a test, by night and for who names them all."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchlab.testing import profiles
from benchlab.up.bootstrap import ROOT

CONFTEST = """
from tests import shares

def pytest_collection_modifyitems(config, items):
    shares.draw(config, items)
"""
TESTS = """
import pytest

@pytest.mark.one_in(3)
@pytest.mark.parametrize("n", range(12))
def test_of_many(n): pass

@pytest.mark.parametrize("n", range(5))
def test_of_all(n): pass

@pytest.mark.slow
@pytest.mark.parametrize("n", range(6))
def test_of_slow(n): pass

@pytest.mark.one_in(1)
@pytest.mark.slow
def test_of_disks(): pass

@pytest.mark.slow
@pytest.mark.rig
@pytest.mark.parametrize("n", range(2))
def test_of_hosts(n): pass
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_some.py").write_text(TESTS)
    names = ("one_in", "slow", "rig")
    (tmp_path / "pytest.toml").write_text(f"[pytest]\nmarkers = {json.dumps(names)}\n")
    return tmp_path


def told(place: Path, profile: str, seed: int) -> list[str]:
    env = {
        **os.environ,
        profiles.PROFILE: profile,
        profiles.SEED: str(seed),
        "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # a second each
    }
    argv = [sys.executable, "-m", "pytest", "-q", "--collect-only", str(place)]
    done = subprocess.run(argv, env=env, cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_a_run_takes_a_share_of_the_cases_by_its_seed(place):
    first = told(place, profiles.CI, 1)
    counts = Counter(re.findall(r"of_\w+", "\n".join(first)))
    assert counts == {"of_many": 4, "of_all": 5, "of_slow": 3, "of_disks": 1, "of_hosts": 2}
    assert told(place, profiles.CI, 1) == first
    assert any(told(place, profiles.QUICK, seed) != first for seed in range(2, 5))
    assert len(told(place, profiles.FULL, 1)) == 26
