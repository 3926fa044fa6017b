"""Figures of the house, counted from its source: `python -m tests.testing.house` prints it.

tests/docs/test_rooms.py holds these numbers, tests/engine/test_way.py those of the way to a host and of cancel.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from statistics import median

from benchlab.up.bootstrap import ROOT

TOPS = ("benchlab", "agents")
# Rooms of agents.
DRIVERS = ("layers", "tools", "samplers", "readers", "outputs", "steps", "facts", "dynamo")
# Rooms that may name a tool: those of drivers, of dynamo, and of the presets and hosts that are made for trying.
NAMING = (
    "agents.context", "agents.layers", "agents.tools", "agents.samplers", "agents.readers", "agents.outputs",
    "agents.dynamo", "benchlab.diagnosis", "benchlab.dynamo", "benchlab.rest.dynamo", "benchlab.practice",
    "benchlab.testing", "benchlab.up",
)  # fmt: skip
TAG = re.compile(r"{[{%].*?[%}]}")
WORD = re.compile(r"[\w-]+")
# Whoever has one of these has a host at hand.
SHELLS = ("agents.contracts.Shell", "agents.ssh.shell", "agents.ssh.lasting_shell")
# So has whoever uses one of these: they connect.
CONNECTING = ("connect", "unconnected", "read_facts", "offer_key")
HOSTS = tuple(f"benchlab.hosts.{name}" for name in ("services", "contact", "discovery"))


@cache
def modules() -> dict[str, Path]:
    return modules_in(ROOT)


def modules_in(root: Path) -> dict[str, Path]:
    """By name, without a database's migrations. Names above `root` do not count: a clone may lie in such a folder."""
    files = chain.from_iterable((root / top).rglob("*.py") for top in TOPS)
    inside = (path.relative_to(root) for path in files)
    kept = (path for path in inside if "migrations" not in path.parts)
    return {".".join(p.with_suffix("").parts).removesuffix(".__init__"): root / p for p in kept}


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(modules()[name].read_text())


@cache
def nodes(name: str) -> tuple[ast.AST, ...]:
    """All of its tree: most of what is counted here walks it."""
    return tuple(ast.walk(tree(name)))


def names(node: ast.AST) -> list[str]:
    """Names that this statement imports, in full: module, or module.name."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def imported(node: ast.AST) -> set[str]:
    """The modules of ours that this statement names."""
    return {_module(name) for name in names(node) if name.partition(".")[0] in TOPS}


def _module(name: str) -> str:
    while name not in modules():
        name = name.rpartition(".")[0]
    return name


@cache
def imports(name: str) -> frozenset[str]:
    """All modules of ours that it names anywhere."""
    return frozenset(chain.from_iterable(imported(node) for node in nodes(name))) - {name}


def foreign(name: str) -> set[str]:
    """Modules of others."""
    found: set[str] = set()
    for node in nodes(name):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module not in (None, "__future__"):
            found.add(str(node.module))
    return {one for one in found if one.partition(".")[0] not in TOPS}


@cache
def levels() -> dict[str, int]:
    """Room -> how far down it is; the client, which stands alone, is no room."""
    orders = (one for one in contracts() if one["type"] == "layers")
    [contract] = [one for one in orders if one["containers"] == ["benchlab"]]
    rows = enumerate(contract["layers"])
    return {room.strip(): at for at, row in rows for room in row.split(":")}


def contracts() -> list[dict]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def lines() -> int:
    return sum(len(path.read_text().splitlines()) for path in modules().values())


def knots(graph: Mapping[str, frozenset[str]]) -> list[list[str]]:
    """Sets of more than one that reach each other, largest first."""
    reach = {name: _reached(graph, name) for name in graph}
    found = {frozenset(o for o in reach[n] if n in reach[o]) | {n} for n in graph}
    several = (sorted(one) for one in found if len(one) > 1)
    return sorted(several, key=lambda one: (-len(one), one))


def _reached(graph: Mapping[str, frozenset[str]], name: str) -> set[str]:
    found, todo = set[str](), [name]
    while todo:
        new = graph.get(todo.pop(), frozenset()) - found
        found |= new
        todo += new
    return found


def circles() -> list[list[str]]:
    """Of modules, imports for types only and those inside of functions counted."""
    return knots({name: imports(name) for name in modules()})


def package_knots() -> list[list[str]]:
    """Of packages (folders) that import each other in a circle."""
    graph: dict[str, frozenset[str]] = {}
    for name in modules():
        own = _package(name)
        others = frozenset(_package(one) for one in imports(name)) - {own}
        graph[own] = graph.get(own, frozenset()) | others
    return knots(graph)


def _package(name: str) -> str:
    is_package = modules()[name].name == "__init__.py"
    return name if is_package else name.rpartition(".")[0]


def any_in_drivers() -> list[str]:
    """Uses of typing.Any, as "module:line"."""
    rooms = tuple(f"agents.{room}" for room in DRIVERS)
    own = (name for name in modules() if name.startswith(rooms))
    return [
        f"{name}:{node.lineno}"
        for name in own
        for node in nodes(name)
        if isinstance(node, ast.Name) and node.id == "Any"
    ]


def tools() -> set[str]:
    found = {name.rpartition(".")[2] for name in modules() if name.startswith("agents.tools.")}
    return {kind for kind in found if not kind.startswith("_")} - {"command"}  # an everyday word


def tool_names() -> list[str]:
    """Places that name a tool as itself outside of the rooms that may, as "module:line kind", templates included."""
    return [*_named_in_modules(), *_named_in_templates()]


def _named_in_modules() -> list[str]:
    others = (name for name in modules() if not name.startswith(NAMING))
    known = tools()
    return [
        f"{name}:{node.lineno} {node.value}"
        for name in others
        for node in nodes(name)
        if isinstance(node, ast.Constant) and node.value in known
    ]


def _named_in_templates() -> list[str]:
    """In tags and variables, not in what a page says. A tool's room has its templates in the folder of its name."""
    folder, known = ROOT / "templates", tools()
    others = (path for path in folder.rglob("*.html") if path.parent.name not in known)
    return [
        f"{path.relative_to(ROOT)}:{number} {word}"
        for path in sorted(others)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for tag in TAG.findall(line)
        for word in WORD.findall(tag)
        if word in known
    ]


def private_elsewhere() -> list[str]:
    """Underscore names of a package that a module of another one imports, as "module:line name"."""
    return [
        f"{name}:{node.lineno} {told}"
        for name in modules()
        for node in nodes(name)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for told in names(node)
        if _is_private_to_another(told, _package(name))
    ]


def _is_private_to_another(told: str, package: str) -> bool:
    head, found, _ = told.partition("._")
    inside = package == head or package.startswith(f"{head}.")
    return bool(found) and told.partition(".")[0] in TOPS and not inside


def with_shell_and_rows() -> set[str]:
    """Modules that have both a host at hand and the database."""
    return {name for name in modules() if _has_rows(name) and _has_shell(name)}


def _has_rows(name: str) -> bool:
    return any(one.endswith(".models") for one in imports(name))


def _has_shell(name: str) -> bool:
    told = chain.from_iterable(map(names, nodes(name)))
    if any(one == shell or one.startswith(f"{shell}.") for one in told for shell in SHELLS):
        return True
    return any(node.attr in CONNECTING for node in _used_of(name, HOSTS))


def _used_of(name: str, others: tuple[str, ...]) -> Iterator[ast.Attribute]:
    """Uses of anything in one of these modules, by whatever name it is imported."""
    imports_from = [node for node in nodes(name) if isinstance(node, ast.ImportFrom)]
    called = {
        alias.asname or alias.name
        for node in imports_from
        for alias in node.names
        if f"{node.module}.{alias.name}" in others
    }
    used = (node for node in nodes(name) if isinstance(node, ast.Attribute))
    yield from (one for one in used if isinstance(one.value, ast.Name) and one.value.id in called)


def skipped_by_the_formatter() -> list[str]:
    return [name for name, path in modules().items() if "fmt: skip" in path.read_text()]


def table() -> Iterator[tuple[str, str]]:
    ours = [len(imports(name)) for name in modules()]
    all_of = [len(imports(name)) + len(foreign(name)) for name in modules()]
    knot = next(iter(package_knots()), [])
    yield "modules", str(len(modules()))
    yield "lines", str(lines())
    yield "imports of a module, median (ours / all)", f"{median(ours):g} / {median(all_of):g}"
    yield "largest knot of packages", f"{len(knot)} ({', '.join(knot)})"
    yield "circles of modules", str(len(circles()))
    yield "modules with `# fmt: skip`", str(len(skipped_by_the_formatter()))
    yield "`Any` in drivers", str(len(any_in_drivers()))
    yield "tools named outside of their rooms", str(len(tool_names()))
    yield "modules with both a shell and the database", str(len(with_shell_and_rows()))


if __name__ == "__main__":
    for what, number in table():
        print(f"{what:45} {number}")
