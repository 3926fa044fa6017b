"""A night's run that was interrupted goes on behind what has passed; other sources begin anew."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchlab.testing import journal
from benchlab.up.bootstrap import ROOT

TESTS = """
import os, pytest
@pytest.fixture
def breaks():
    yield
    assert "MENDED" in os.environ
def test_one(): pass
def test_two(): assert "MENDED" in os.environ
def test_three(breaks): pass
@pytest.mark.parametrize("n", range(4))
def test_four(n): pass
"""
CONFTEST = "from tests import passing\ndef pytest_configure(config): passing.register(config)\n"


@pytest.mark.slow
@pytest.mark.one_in(1)
@pytest.mark.parametrize("processes", [0, 2])
def test_what_passed_is_left_out_and_what_failed_is_not(tmp_path, processes):
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    place, before = tmp_path / "journal", tmp_path / "before"

    def run(**more: str) -> str:
        before.write_text("".join(f"{line}\n" for line in journal.read_journal(place)))
        env = (
            os.environ
            | {"PYTHONPATH": str(ROOT), journal.JOURNAL: str(place), journal.BEFORE: str(before)}
            | more
        )
        plugins = [
            word
            for name in ("django", "schemathesis", "playwright")
            for word in ("-p", f"no:{name}")
        ]
        argv = [sys.executable, "-m", "pytest", "-q", *plugins, "-n", str(processes), str(tmp_path)]
        return subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True).stdout

    assert "1 failed, 6 passed, 1 error" in run()
    assert len(journal.read_journal(place)) == 5
    assert "2 passed" in run(MENDED="1")
    assert len(journal.read_journal(place)) == 7


def test_a_journal_is_of_its_sources(tmp_path):
    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", "-C", str(tmp_path), *who, *words], check=True, capture_output=True)

    git("init", "-q")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-qm", "a")
    first = journal.open_for(tmp_path)
    journal.note(first, "tests/test_a.py::test_a", 1.5)
    assert journal.read_journal(journal.open_for(tmp_path)) == {"tests/test_a.py::test_a": 1.5}
    (tmp_path / "a").write_text("2")
    second = journal.open_for(tmp_path)
    assert second != first and not journal.read_journal(second) and not first.exists()
    journal.note(second, "tests/test_b.py::test_b", 0.1)
    assert not journal.read_journal(journal.open_for(tmp_path, anew=True))


def test_outside_of_git_there_is_one_journal(tmp_path):
    assert journal.commit(tmp_path) == ""
    assert journal.open_for(tmp_path) == journal.open_for(tmp_path)


def test_a_line_that_was_cut_short_runs_again(tmp_path):
    place = tmp_path / "full"
    place.write_text("tests/a.py::test[x\ty]\t1.25\ntests/b.py::test_b\t3")
    assert journal.read_journal(place) == {"tests/a.py::test[x\ty]": 1.25}
