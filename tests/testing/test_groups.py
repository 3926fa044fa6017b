"""`manage.py test` by profile: `full` runs every test once, `ci` all but the night's, `quick` a part."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from benchlab.testing.profiles import (
    CI,
    FULL,
    NEVER_SKIPPED,
    PROFILES,
    QUICK,
    RIG,
    Group,
    exploring,
    groups,
)
from benchlab.up.bootstrap import ROOT
from tests.each_case import check_each

NAMES = ("rig", "browser", "alone", "quick", "slow", "night")
DRAWS = {"drawn", "dice", "random_for", "share"}
MODULES = ("profiles", "noise_of_curves")
MARKS = [
    {name for name, yes in zip(NAMES, has, strict=True) if yes}
    for has in product((False, True), repeat=len(NAMES))
]


def chosen(group: Group, marks: Set[str]) -> bool:
    """Does it run a test with these marks?"""

    def has(name: str, /, **_: str | int | bool | None) -> bool:
        return name in marks

    return Expression.compile(group.marks).evaluate(has)


def titles(profile: str, marks: set[str]) -> list[str]:
    return [group.title for group in groups(profile) if chosen(group, marks)]


def test_every_test_is_in_one_group():
    check_each(in_one_group, MARKS)


def in_one_group(marks):
    assert len(titles(FULL, marks)) == 1
    assert titles(CI, marks) == ([] if "night" in marks else titles(FULL, marks))
    assert len(titles(QUICK, marks)) <= 1


@pytest.mark.parametrize("profile", PROFILES)
def test_what_needs_a_host_or_a_browser_may_not_be_skipped_where_it_is_required(profile):
    for marks in MARKS:
        if marks & {"rig", "browser"}:
            assert set(titles(profile, marks)) <= NEVER_SKIPPED, marks


def test_quick_runs_what_needs_nothing_and_a_part_of_the_rest():
    assert titles(QUICK, set()) == titles(CI, set()) == titles(CI, {"slow"})
    assert titles(QUICK, {"slow"}) == []
    assert titles(QUICK, {"rig"}) == titles(QUICK, {"browser"}) == []
    assert titles(QUICK, {"rig", "quick"}) == titles(QUICK, {"browser", "quick"}) != []


@pytest.mark.parametrize("profile", PROFILES)
def test_what_measures_has_the_machine_for_itself(profile):
    for group in groups(profile):
        for marks in ({"alone"}, {"rig", "alone"}):
            assert group.processes == 1 or not chosen(group, marks)


@cache
def every_test() -> tuple[tuple[str, frozenset[str]], ...]:
    """Place of a file and marks of a test in it, each pair once."""
    files = (ROOT / "tests").rglob("test_*.py")
    found = ((str(file.relative_to(ROOT)), marks) for file in files for marks in marked(file))
    return tuple(dict.fromkeys(found))


def marked(file: Path) -> Iterator[frozenset[str]]:
    """The marks of its tests: those of all of them, with those of each."""
    tree = ast.parse(file.read_text())
    whole = [
        node
        for node in tree.body
        if isinstance(node, ast.Assign) and "pytestmark" in ast.dump(node)
    ]
    for_all = set().union(*map(named, whole))
    if (ROOT / RIG) in file.parents:
        for_all.add("rig")  # by its conftest.py
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield frozenset(for_all.union(*map(named, node.decorator_list)))


def named(node: ast.AST) -> set[str]:
    return {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)} & set(NAMES)


@pytest.mark.parametrize("profile", PROFILES)
def test_every_test_stands_where_its_group_looks(profile):
    for place, marks in every_test():
        for group in groups(profile):
            if chosen(group, marks):
                where = f"{place}: {marks} is in {group.title}"
                assert place.startswith(group.places or ""), where
                assert not place.startswith(group.ignored), where


@pytest.mark.parametrize("name", ["hypothesis", "draws", "one_in", "slow"])
@pytest.mark.parametrize("needs", ["", "rig", "browser"])
def test_exploration_runs_what_a_new_seed_changes(name, needs):
    titles = [group.title for group in exploring(CI) if chosen(group, {name, needs})]
    assert titles == [needs or "without host or browser"]


def test_exploration_leaves_out_what_no_seed_changes():
    unseeded: set[str] = set()
    for marks in (unseeded, {"browser"}, {"alone"}, {"rig", "alone", "slow"}, {"draws", "night"}):
        assert not any(chosen(group, marks) for group in exploring(CI))


def test_every_test_that_draws_is_marked_for_exploration():
    files = (
        file
        for file in (ROOT / "tests").rglob("test_*.py")
        if not {"testing", "rig"} & set(file.parts)
    )
    assert [f"{file.name}::{name}" for file in files for name in unmarked(file)] == []


def unmarked(file: Path) -> Iterator[str]:
    """Names of tests that call what draws, without the mark."""
    tree = ast.parse(file.read_text())
    sources = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    imported = [node for node in sources if (node.module or "").endswith(MODULES)]
    drawing = {f"{module}.{name}" for module in MODULES for name in DRAWS}
    drawing |= {alias.name for node in imported for alias in node.names} & DRAWS
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            marks = {ast.unparse(decorator) for decorator in node.decorator_list}
            if called(node) & drawing and "pytest.mark.draws" not in marks:
                yield node.name


def called(node: ast.AST) -> set[str]:
    return {ast.unparse(call.func) for call in ast.walk(node) if isinstance(call, ast.Call)}
