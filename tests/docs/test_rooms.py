"""The rooms: one order of them (pyproject.toml, held by import-linter), and hardly an import inside of a function."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from benchlab.up.bootstrap import ROOT

LAZY = 3  # imports of ours inside of functions: each is late for a reason that it tells
TOPS = ("benchlab", "agents")


@cache
def modules() -> dict[str, Path]:
    files = chain.from_iterable((ROOT / top).rglob("*.py") for top in TOPS)
    kept = (path for path in files if "migrations" not in path.parts)
    return {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p for p in kept}  # fmt: skip


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(modules()[name].read_text())


def imported(node: ast.AST) -> set[str]:
    """The modules of ours that this statement names."""
    found: list[str] = []
    if isinstance(node, ast.Import):
        found = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module:
        found = [f"{node.module}.{alias.name}" for alias in node.names]
    ours = (name for name in found if name.partition(".")[0] in TOPS)
    return {_module(name) for name in ours}


def _module(name: str) -> str:
    while name not in modules():
        name = name.rpartition(".")[0]
    return name


def levels() -> dict[str, int]:
    """Room -> how far down it is."""
    [contract] = [one for one in contracts() if one["type"] == "layers"]
    return {room.strip(): at for at, row in enumerate(contract["layers"]) for room in row.split(":")}  # fmt: skip


def contracts() -> list[dict]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def test_no_import_is_let_run_against_the_order():
    assert not [one["name"] for one in contracts() if one.get("ignore_imports")]


def lazy() -> Iterator[str]:
    for name in modules():
        nodes = ast.walk(tree(name))
        inside = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]  # fmt: skip
        found = {node for function in inside for node in ast.walk(function) if imported(node)}
        yield from (f"{name}:{node.lineno}" for node in found)  # type: ignore[attr-defined]


def test_each_says_why_it_is_there():
    for found in lazy():
        name, _, number = found.rpartition(":")
        above = modules()[name].read_text().splitlines()[int(number) - 2]
        assert above.strip().startswith("# Here, for "), found


def test_no_import_more_is_inside_of_a_function():
    assert len(found := sorted(lazy())) <= LAZY, found
    assert len(found) == LAZY, f"well done: LAZY is {len(found)} now"


@pytest.mark.parametrize("name", ["engine", "runs", "hosts", "web", "team"])
def test_the_order_names_rooms_that_are(name):
    assert name in levels() and f"benchlab.{name}" in modules()
