"""BenchLab uses the public API of other packages, so an update of one does not break it unnoticed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchlab.installation import ROOT

OURS = ("agents", "benchlab", "tests")
# Underscored, and documented: of named tuples, of Django's models, of `os`.
DOCUMENTED = {
    *("_asdict", "_fields", "_make", "_replace"),
    *("_base_manager", "_default_manager", "_meta", "_state"),
    "os._exit",
}
# Those for which there is no public name. A new one needs a reason here.
WITHOUT_PUBLIC_NAME = {
    # REST framework wraps Django's request, which our services and middleware take.
    ".request._request",
    # The part of an operation that drf-spectacular's own guide says to override.
    "super()._get_response_bodies",
    "super()._is_list_view",
    "self._get_response_for_code",
}


def is_private(name: str) -> bool:
    return name == "internal" or (name.startswith("_") and not name.startswith("__"))


def private_imports(tree: ast.AST) -> Iterator[str]:
    """Modules and names of other packages that are private or in a package named `internal`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] not in OURS and any(map(is_private, parts)):
                yield name


def private_attributes(tree: ast.AST, own_names: frozenset[str]) -> Iterator[str]:
    """Private attributes that nothing of ours defines."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not is_private(node.attr):
            continue
        text = ast.unparse(node)
        allowed = node.attr in DOCUMENTED or text in DOCUMENTED
        excepted = any(f".{text}".endswith(known) for known in WITHOUT_PUBLIC_NAME)
        inherited = isinstance(node.value, ast.Call)
        if not allowed and not excepted and (inherited or node.attr not in own_names):
            yield text


def assigned_names(tree: ast.AST) -> Iterator[str]:
    """Private names that a module defines: functions, attributes that it sets, fields, imported modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # __slots__, and annotations of Django's queries
            yield node.value
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg


def product_trees() -> dict[Path, ast.AST]:
    paths = [path for top in ("agents", "benchlab") for path in (ROOT / top).rglob("*.py")]
    return {path: ast.parse(path.read_text()) for path in sorted(paths)}


def test_nothing_private_of_others_is_used():
    trees = product_trees()
    own = frozenset(name for tree in trees.values() for name in assigned_names(tree))
    imported = [f"{path}: {name}" for path, tree in trees.items() for name in private_imports(tree)]
    used = [
        f"{path}: {text}" for path, tree in trees.items() for text in private_attributes(tree, own)
    ]
    assert imported + used == []


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("from allauth.core.internal import ratelimit", ["allauth.core.internal.ratelimit"]),
        ("import _pytest.mark", ["_pytest.mark"]),
        ("from django.middleware.csrf import _get_new", ["django.middleware.csrf._get_new"]),
        ("from allauth.core import ratelimit", []),
        ("from benchlab.web import _own", []),
        ("from __future__ import annotations", []),
    ],
)
def test_private_imports_are_found(source, names):
    assert list(private_imports(ast.parse(source))) == names


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("request._messages", ["request._messages"]),
        ("super()._post_clean()", ["super()._post_clean"]),
        ("self._ours", []),
        ("row._meta", []),
        ("self.request._request", []),
    ],
)
def test_private_attributes_are_found(source, names):
    own = frozenset({"_ours", "_post_clean"})
    assert list(private_attributes(ast.parse(source), own)) == names
