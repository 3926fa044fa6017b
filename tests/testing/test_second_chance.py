"""A run of real pytest calls: which failures stand, which pass on a second try, and what exploration prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from benchlab.testing import command, report
from benchlab.testing.profiles import CI, SEED
from benchlab.up.bootstrap import ROOT

CONFTEST = """
from tests import failures, seeding
def pytest_configure(config):
    seeding.register(config)
    failures.register(config)
"""
HEAD = """
import pytest
from pathlib import Path
def fails_once(name):
    if not (before := Path(name)).exists():
        before.touch()
        raise AssertionError("a click came too early")
"""
FLAKY = """
@pytest.mark.browser
@pytest.mark.parametrize("n", range({tests}))
def test_page(n): fails_once(f"page-{{n}}")
"""
STEADY = """
@pytest.mark.browser
def test_good_page(): pass
"""
# Each fails once and would pass the second time, but it stands.
STANDS = """
@pytest.mark.rig
@pytest.mark.no_second_chance
def test_guard(): fails_once("guard")

def prove_blank(name):
    from tests.rig.blank import assert_unchanged
    class Answer:
        stdout = ""
    class Host:
        def ssh(self, *argv):
            fails_once(name)
            return Answer
    assert_unchanged(Host(), "")

@pytest.mark.rig
def test_blank(): prove_blank("blank")

def test_parser(): fails_once("parser")

@pytest.fixture
def blank_at_last():
    yield
    prove_blank("blank at last")

@pytest.mark.rig
def test_then_not_blank(blank_at_last): fails_once("then")

@pytest.fixture
def stops_late():
    yield
    fails_once("late")

@pytest.mark.rig
def test_not_blank_then_late(stops_late): prove_blank("blank at first")
"""
MARKS = ("browser", "rig", "no_second_chance")

Run = Callable[..., tuple[bool, list[str]]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd) -> Run:
    """Runs these tests as `manage.py test`, without its stores; whether it is green, and the lines printed."""
    stored = {**os.environ, "BENCHLAB_STATE": str(tmp_path), "PYTHONPATH": str(ROOT)}
    stored |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command, "stores", lambda: nullcontext(stored))
    monkeypatch.setattr("benchlab.testing.guardian.watching", lambda env: nullcontext())
    (tmp_path / "pytest.toml").write_text(f"[pytest]\nmarkers = {list(MARKS)}\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)

    def run(tests: str, minutes: float = 0.0) -> tuple[bool, list[str]]:
        (tmp_path / "test_it.py").write_text(HEAD + tests)
        options = command.Options(CI, 7, minutes, False, False, None, ("test_it.py",))
        green = command.explore(options) if minutes else command.run_profile(options, False)
        return green, capfd.readouterr().out.splitlines()

    return run


def test_a_page_that_passes_the_second_time_is_flaky_and_green(run):
    green, lines = run(FLAKY.format(tests=1) + STEADY)
    assert green
    assert lines[-2:] == [
        "FLAKY test_it.py::test_page[0]: AssertionError: a click came too early",
        "2 passed, 0 failed, 0 skipped",
    ]


def test_more_flaky_tests_than_a_green_run_may_have_are_not_tried_again(run):
    green, lines = run(FLAKY.format(tests=report.MOST_FLAKY + 1))
    assert not green
    assert lines[-1] == "0 passed, 4 failed, 0 skipped"
    assert not any(line.startswith("FLAKY") for line in lines)


def test_a_page_that_fails_twice_has_failed(run):
    green, lines = run("@pytest.mark.browser\ndef test_page(): assert 1 == 2\n")
    assert not green
    assert lines[-4:] == [
        "FAILED test_it.py::test_page",
        "  assert 1 == 2",
        "  python3 manage.py test --ci --seed 7 test_it.py::test_page",
        "0 passed, 1 failed, 0 skipped",
    ]


def test_guard_blank_proof_and_parser_get_no_second_chance(run):
    green, lines = run(STANDS + FLAKY.format(tests=1))
    assert not green
    names = [line for line in lines if re.match(r"(FAILED|FLAKY) [^ ]+$|FLAKY", line)]
    assert set(names) == {
        "FAILED test_it.py::test_guard",
        "FAILED test_it.py::test_blank",
        "FAILED test_it.py::test_parser",
        "FAILED test_it.py::test_then_not_blank",
        "FAILED test_it.py::test_not_blank_then_late",
        "FLAKY test_it.py::test_page[0]: AssertionError: a click came too early",
    }
    assert lines[-1] == "1 passed, 7 failed, 0 skipped"


def test_a_group_that_crashes_is_red(run):
    green, lines = run("import os\ndef test_crash(): os._exit(3)\n")
    assert not green
    assert "FAILED chosen" in lines[-4:] and lines[-1].endswith("1 failed, 0 skipped")


DRAWN = """
from benchlab.testing import profiles
from hypothesis import given, strategies as st
def test_seed(): assert profiles.seed() == 0
@given(st.integers())
def test_steady(n): pass
"""
SLEEPS = "import time\ndef test_first(): assert False\ndef test_long(): time.sleep(600)\n"


class Clock:
    """Each seed that is drawn takes two minutes."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def new_seed(self) -> int:
        self.now += 120.0
        return int(self.now)


def test_exploration_draws_seeds_and_prints_what_repeats_a_failure(run, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(command, "time", clock)
    monkeypatch.setattr(command, "new_seed", clock.new_seed)
    green, lines = run(DRAWN, minutes=5.0)
    assert not green
    rounds = [line for line in lines if line.startswith("Round ")]
    assert rounds == [
        f"Round {n}, profile ci, seed {seed}" for n, seed in ((1, 120), (2, 240), (3, 360))
    ]
    summary = lines[next(n for n, line in enumerate(lines) if "every failure" in line) :]
    assert [line for line in summary if "manage.py" in line] == [
        f"  python3 manage.py test --ci --seed {seed} test_it.py::test_seed" for seed in (120, 240)
    ]


@pytest.mark.slow
@pytest.mark.one_in(1)
def test_exploration_ends_with_its_time_and_keeps_what_failed(run):
    begun = time.monotonic()
    green, lines = run(SLEEPS, minutes=0.25)
    assert not green and time.monotonic() - begun < 60
    assert "FAILED test_it.py::test_first" in lines


INPUTS = """
import os, secrets, uuid, random
import pytest
from hypothesis import given, strategies as st
@pytest.mark.parametrize("n", range(2))
def test_keys(n):
    print("INPUT", n, secrets.token_hex(4), uuid.uuid4(), os.urandom(4), secrets.choice(range(99)))
@given(st.text(), st.integers(), st.sets(st.text()))
def test_property(text, number, words):
    print("INPUT", repr(text), number, words)
"""


def inputs(place: Path, seed: int, *words: str) -> list[str]:
    env = {
        **os.environ,
        **command.seeded(CI, seed),
        "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    argv = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "_hypothesis_pytestplugin", *words]
    done = subprocess.run(argv, env=env, cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return re.findall("INPUT.*", done.stdout)


def test_the_same_seed_gives_the_same_inputs_whatever_else_runs(tmp_path):
    (tmp_path / "pytest.toml").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(INPUTS)
    (tmp_path / "test_before.py").write_text("CONSTANT = 987654321\ndef test_before(): pass\n")
    whole = inputs(tmp_path, 7)
    assert len(set(whole[:2])) == 2 and len(whole) > 20
    assert inputs(tmp_path, 7, "test_it.py") == whole
    assert inputs(tmp_path, 7, "test_it.py::test_property") == whole[2:]
    other = inputs(tmp_path, 8)
    assert not set(other[:2]) & set(whole[:2]) and other[2:] != whole[2:]
    assert SEED in os.environ


@pytest.mark.parametrize(
    "words",
    [("--seed", "-1"), ("--seed", str(2**31)), ("--explore", "--seed", "7"), ("--minutes", "5"),
     ("--explore", "--minutes", "0"), ("--explore", "--ci")],
)  # fmt: skip
def test_options_that_cannot_be_are_refused(words, capsys):
    with pytest.raises(SystemExit):
        command.parse(words)
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "alone"),
    [
        (("tests/agents", "-k", "raw"), True),
        (("tests/agents/test_guard.py::test_a",), True),
        (("tests/agents", "tests/runs"), False),
        (("-k", "raw"), False),
        ((), False),
    ],
)
def test_only_tests_of_drivers_need_no_stores(words, alone):
    assert command.only_drivers(words) == alone
