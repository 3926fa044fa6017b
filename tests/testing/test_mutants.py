"""`manage.py bench mutants`: where it changes a source, and which tests it asks."""

from __future__ import annotations

import shutil

import pytest

from benchlab.up.bootstrap import ROOT
from tests.bench import bench_mutants, mutations
from tests.bench.bench_mutants import Recorded

PATH = "agents/tool.py"
MODULE = b"""\
def grows(old, new):
    return new > old
"""
TEST = """\
from agents.tool import grows


def test_a_larger_size_grows():
    assert grows(1, 2) is True


def test_a_smaller_size_does_not_grow():
    assert grows(2, 1) is False


def test_fails_without_a_change():
    assert grows(1, 1) is None
"""
PYPROJECT = """\
[tool.pytest]
addopts = ["-ra"]
markers = ["rig", "browser", "alone", "slow", "night"]
"""


def mutants(line: str) -> list[str]:
    """What stands in the line's stead, one mutant each."""
    source = f"def f(a, b):\n    {line}\n".encode()
    places = mutations.places_of(PATH, source)
    return [place.apply(source).decode().splitlines()[1].strip() for place in places]


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("a < b", ["(a >= b)", "(a <= b)"]),
        ("a is b", ["(a is not b)"]),
        ("a and b", ["(a or b)"]),
        ("a - b", ["(a + b)"]),
        ("a += b", ["a -= b"]),
        ("not a", ["(a)"]),
        ("f'{a - b} B'", ["(f'{a + b} B')"]),
        ("return a", ["return None"]),
        ("x = True", ["x = (False)"]),
        ("x = 99", ["x = (100)"]),
        ("x = a if b else f", ["x = (f if b else a)", "x = a if (True) else f", "x = a if (False) else f"]),
        ("x = f(a, b=a)", ["x = (f(a))"]),
        ("x = {'K', 'M'}", ["x = ({'M'})", "x = ({'K'})"]),
        ("x = {'K': a}", ["x = ({})"]),
    ],
)  # fmt: skip
def test_each_operator_changes_one_thing(line, changed):
    assert sorted(mutants(line)) == sorted(changed)


@pytest.mark.parametrize(
    "line",
    [
        "'a text'",
        "x: tuple[int, 3] = a",
        "raise ValueError(a + b)",
        "assert a < b",
        "log.warning('%d', a + b)",
        "x = models.IntegerField(default=3)",
        "a + 'text'",
    ],
)
def test_texts_and_annotations_stay(line):
    assert mutants(line) == []


def test_a_sample_stays_when_lines_move():
    before = mutations.places_of(PATH, MODULE)
    after = mutations.places_of(PATH, b"import os\n\n\ndef f():\n    return os\n\n\n" + MODULE)
    ranks = {place.rank for place in before}
    assert len(ranks) == 3 and ranks < {place.rank for place in after}


def test_specific_tests_and_others_of_their_files_are_asked():
    place, *_ = mutations.places_of(PATH, MODULE)
    lines = {PATH: frozenset({2})}
    wide = {**lines, "agents/other.py": frozenset(range(40))}
    records = [
        Recorded("tests/test_a.py::wide", 0.1, wide, frozenset()),
        Recorded("tests/test_a.py::specific", 0.2, lines, frozenset()),
        Recorded("tests/test_a.py::slow", 60.0, lines, frozenset()),
        Recorded("tests/test_a.py::reads_what_is_cached", 0.1, {}, frozenset()),
        Recorded("tests/test_b.py::elsewhere", 0.1, {}, frozenset()),
    ]
    names = [
        record.test.partition("::")[2] for record in bench_mutants.nearest_tests(place, records)
    ]
    assert names == ["specific", "wide", "reads_what_is_cached"]


def test_many_fast_cases_or_few_slow_cases_of_a_test_come_before_other_tests():
    def record(name, seconds):
        return Recorded(f"tests/test_a.py::{name}", seconds, {}, frozenset())

    fast = [record(f"fast[{number}]", 0.001) for number in range(20)]
    slow = [record(f"slow[{number}]", 0.15) for number in range(3)]
    order = bench_mutants.in_turns([*slow, record("whole", 0.5), *fast])
    assert order == [*fast, *slow[:2], record("whole", 0.5), slow[2]]


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A checkout of one module and its tests."""
    root = tmp_path / "checkout"
    files = {PATH: MODULE.decode(), "tests/agents/test_tool.py": TEST, "pyproject.toml": PYPROJECT}
    folders = ("agents", "tests", "tests/agents", "tests/bench")
    files |= {f"{folder}/__init__.py": "" for folder in folders}
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    shutil.copy(ROOT / "tests" / "bench" / "mutant_plugin.py", root / "tests" / "bench")
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE")
    return root


def test_the_boundary_that_no_test_reaches_survives(root, tmp_path, capsys):
    places = bench_mutants.chosen_places(root, PATH, None)
    lab = bench_mutants.Lab(root, tmp_path / "lab", 1)
    (tmp_path / "lab").mkdir()
    outcomes = lab.without_flaky_tests(lab.try_all(places, lab.record(places)))
    survivors = [str(outcome.place) for outcome in outcomes if not outcome.test]
    assert len(outcomes) == 3
    assert survivors == ["agents/tool.py:2: new > old -> new >= old"]
    bench_mutants.report(outcomes, ["agents"])
    assert "agents: 2 of 3 caught (66.7%)" in capsys.readouterr().out
    assert (root / PATH).read_bytes() == MODULE
    assert (lab.copies[0] / PATH).read_bytes() == MODULE
