# SPDX-License-Identifier: Apache-2.0
"""Counts of the product's code that `manage.py lint` holds: size, names, docstrings, comments, types.

Product code is all of agents/ and benchlab/ but the migrations. A token is a name, an operator, a number or a string.
Run `python -m benchlab.testing.code_counts` to see every count beside its limit and its goal, with `--rooms` the
size of each package, too.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchlab.up.bootstrap import ROOT

TOPS = ("agents", "benchlab")
# They say that something was done to a thing, and not what the thing is.
VAGUE_NAMES = frozenset(
    re.findall(
        r"\w+",
        """
        told said found made one known given there kept taken asked shown says of these here wanted seen offered
        gone named passed sent tell tells asks ask shows keep put left meant done
        """,
    )
)
# A docstring is a sentence about the thing; one that begins like this leaves the thing out.
WEAK_BEGINNINGS = frozenset(
    re.findall(
        r"\w+",
        """
        Of With By At In On For To From As Where What Whose So How Who Whom When Which Whether Why
        """,
    )
)
TOKENS = frozenset((tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING))
# From so many functions of one name on, a search for the name finds too much.
SHARED_BY = 6
SHORT_MODULE_LINES = 40

# Title of a count: its limit and its goal. A limit is what the code has reached, so that the count does not grow again;
# lower it as the code comes closer to the goal.
BOUNDS = {
    "tokens": (901_000, 500_000),
    "lines": (138_000, 75_000),
    "tokens per line": (6.5, 6),
    "modules": (693, 560),
    "vague words among variables, %": (0.3, 0.3),
    "modules, classes and functions with a vague name": (0, 0),
    "functions that share a name with 5 others or more": (700, 700),
    "docstrings that begin with a preposition or question": (20, 20),
    "trailing comments per 1,000 lines": (4, 4),
    "`Any` per 1,000 lines": (10.7, 4),
    "modules under 40 lines, %": (15.3, 10),
    "modules with one importer, %": (24.1, 20),
}

Functions = ast.FunctionDef | ast.AsyncFunctionDef
Definitions = Functions | ast.ClassDef


@dataclass(frozen=True)
class Module:
    """One module and what is counted in it."""

    name: str
    lines: int
    tokens: int
    trailing_comments: int
    nodes: tuple[ast.AST, ...]

    @property
    def room(self) -> str:
        """ "benchlab/charts" of benchlab.charts.curve; "benchlab" of benchlab.settings."""
        parts = self.name.split(".")
        return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


@dataclass(frozen=True)
class Count:
    """A number with the limit that lint holds and the goal that the limit moves to."""

    title: str
    value: float
    limit: float
    goal: float
    examples: list[str] = field(default_factory=list)

    @property
    def exceeded(self) -> bool:
        return self.value > self.limit

    def __str__(self) -> str:
        return f"{self.title:52} {self.value:>10,.10g} {self.limit:>10,.10g} {self.goal:>10,.10g}"


def read_modules(root: Path) -> list[Module]:
    """Every module that is not empty, by name."""
    paths = (path for top in TOPS for path in sorted((root / top).rglob("*.py")))
    inside = (path.relative_to(root) for path in paths)
    texts = ((path, (root / path).read_text()) for path in inside if "migrations" not in path.parts)
    return [read_module(path, text) for path, text in texts if text.strip()]


def read_module(path: Path, text: str) -> Module:
    """The module at a path relative to the root."""
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    return Module(
        name=".".join(path.with_suffix("").parts).removesuffix(".__init__"),
        lines=text.count("\n"),
        tokens=sum(token.type in TOKENS for token in tokens),
        trailing_comments=sum(map(is_trailing_comment, tokens)),
        nodes=tuple(ast.walk(ast.parse(text))),
    )


def is_trailing_comment(token: tokenize.TokenInfo) -> bool:
    """True if code stands before the comment on its line. Directives for tools must stand there."""
    before = token.line[: token.start[1]].strip()
    for_tools = token.string.startswith(("# noqa", "# type:", "# fmt:", "# pragma"))
    return token.type == tokenize.COMMENT and bool(before) and not for_tools


def count_code(modules: list[Module]) -> list[Count]:
    """Every count, in the order in which it is printed."""
    tokens = sum(module.tokens for module in modules)
    lines = sum(module.lines for module in modules)
    names = list(variables(modules))
    vague = [name for name in names if is_vague(name)]
    functions = Counter(name.strip("_") for name in function_names(modules))
    shared = {name: times for name, times in functions.items() if times >= SHARED_BY}
    weak = list(weak_docstrings(modules))
    vague_definitions = list(definitions_with_vague_names(modules))
    short = [module.name for module in modules if module.lines < SHORT_MODULE_LINES]
    importers = count_importers(modules)
    single = [name for name, by in importers.items() if len(by) == 1]
    trailing = sum(module.trailing_comments for module in modules)

    def per_thousand_lines(number: int) -> float:
        return round(1000 * number / max(1, lines), 1)

    def percent(number: int, whole: int) -> float:
        return round(100 * number / max(1, whole), 2)

    values: list[tuple[float, list[str]]] = [
        (tokens, []),
        (lines, []),
        (round(tokens / max(1, lines), 1), []),
        (len(modules), []),
        (percent(len(vague), len(names)), common(vague)),
        (len(vague_definitions), vague_definitions),
        (sum(shared.values()), common(shared)),
        (len(weak), weak),
        (per_thousand_lines(trailing), []),
        (per_thousand_lines(names.count("Any")), []),
        (percent(len(short), len(modules)), short),
        (percent(len(single), len(modules)), single),
    ]
    return [
        Count(title, value, limit, goal, examples)
        for (title, (limit, goal)), (value, examples) in zip(BOUNDS.items(), values, strict=True)
    ]


def variables(modules: list[Module]) -> Iterator[str]:
    """Every variable and parameter, once for each use."""
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.Name):
                yield node.id
            elif isinstance(node, ast.arg):
                yield node.arg


def function_names(modules: list[Module]) -> Iterator[str]:
    for module in modules:
        for node in module.nodes:
            if isinstance(node, Functions):
                yield node.name


def is_vague(name: str) -> bool:
    return name.strip("_").lower() in VAGUE_NAMES


def definitions_with_vague_names(modules: list[Module]) -> Iterator[str]:
    for module in modules:
        if is_vague(module.name.rpartition(".")[2]):
            yield module.name
        for node in module.nodes:
            if isinstance(node, Definitions) and is_vague(node.name):
                yield f"{module.name}.{node.name}"


def weak_docstrings(modules: list[Module]) -> Iterator[str]:
    for module in modules:
        for node in module.nodes:
            if not isinstance(node, ast.Module | Definitions):
                continue
            words = (ast.get_docstring(node) or "").split()
            if words and words[0] in WEAK_BEGINNINGS:
                yield f"{module.name}:{getattr(node, 'lineno', 1)}"


def count_importers(modules: list[Module]) -> dict[str, set[str]]:
    """The modules that import each module that is imported at all."""
    names = {module.name for module in modules}
    importers: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for node in module.nodes:
            for name in imported_names(node):
                target = name if name in names else name.rpartition(".")[0]
                if target in names:
                    importers[target].add(module.name)
    return importers


def imported_names(node: ast.AST) -> list[str]:
    """Full names, of a module or of something in it."""
    if isinstance(node, ast.ImportFrom) and node.module:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return []


def common(names: list[str] | dict[str, int]) -> list[str]:
    return [f"{name} ({times})" for name, times in Counter(names).most_common(8)]


def print_rooms(modules: list[Module]) -> None:
    """Tokens, lines and modules of each room, largest first."""
    rooms: dict[str, list[Module]] = defaultdict(list)
    for module in modules:
        rooms[module.room].append(module)
    sizes = [
        (
            sum(module.tokens for module in members),
            sum(module.lines for module in members),
            len(members),
            room,
        )
        for room, members in rooms.items()
    ]
    for tokens, lines, number, room in sorted(sizes, reverse=True):
        print(f"{tokens:9,} tokens {lines:8,} lines {number:4} modules  {room}")


def main() -> int:
    """Print every count; 1 if one exceeds its limit."""
    modules = read_modules(ROOT)
    counts = count_code(modules)
    print(f"{'':52} {'now':>10} {'limit':>10} {'goal':>10}")
    for count in counts:
        print(count)
        if count.exceeded:
            print(f"  above its limit; among them {', '.join(count.examples[:8])}")
    if "--rooms" in sys.argv[1:]:
        print_rooms(modules)
    return int(any(count.exceeded for count in counts))


if __name__ == "__main__":
    sys.exit(main())
