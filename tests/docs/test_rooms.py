"""The rooms: one order of them (pyproject.toml, held by import-linter), and what of the house only a count holds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.testing import house
from tests.testing.house import contracts, imported, levels, modules, nodes

ROOT = Path(__file__).resolve().parents[2]
LAZY = 3  # imports of ours inside of functions: each is late for a reason that it tells
KNOT = 5  # packages that import each other in a circle, at most: engine's own; those about team and web; of agents none
ANY = 8  # in drivers: dynamo's sessions, IOmeter's and sysbench's options, and fio's bins, looked at in C
# Tools that something outside of their rooms names: its own permission and access, words for what is not comparable,
# a number of its finding, packages of other names, the words of a job file, and in templates a link to dynamo's page.
NAMED = 14
# Modules that reach a host and the database, too: what is done to a host, and the record of what it answered.
HOST_AND_DATABASE = 23
# A module's name tells what is inside: no participle, verb or metaphor, of which each stood for something once.
NO_NAMES = frozenset(
    [
        "agreeing",
        "asked",
        "awaiting",
        "deeds",
        "far",
        "gone",
        "keeping",
        "kept",
        "late",
        "listened",
        "nouns",
        "offered",
        "pump",
        "reached",
        "seat",
        "shelf",
        "shown",
        "standing",
        "stored",
        "talk",
        "touched",
        "words",
    ]
)
# A comment behind a value, or behind a closing bracket, has the formatter spread it over three lines: it stands above.
# What is said to a tool must stand where it does.
SPREAD = re.compile(
    r"[=:] \(\n\s+\S[^\n]*\S  # [^\n]*\n\s*\)\n"
    r"|^ *[\])}][^\n#\"']*  # (?!type:|noqa|fmt:|nosec|pragma)",
    re.MULTILINE,
)


# A docstring's first sentence names what is inside ("Facts of a host"), for who has never seen the module.
QUESTION = re.compile(r"(What|How|Who|Whom|Whose|Where|When|Which|Whether|Why)\b")
DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def test_no_module_is_called_by_a_participle_or_a_metaphor():
    assert {name for name in modules() if name.rpartition(".")[2] in NO_NAMES} == set()


def test_a_docstring_begins_with_what_the_module_is():
    paths = [*modules().values(), *(ROOT / "tests").rglob("*.py")]
    assert [str(path) for path in paths if QUESTION.match(first_word(path))] == []


def first_word(path: Path) -> str:
    """First word of the module's docstring, which is all that its file begins with."""
    begins = re.match(r'(?:#.*\n|\s)*"""\s*(\w+)', path.read_text())
    return begins[1] if begins else ""


def test_a_docstring_begins_with_what_the_function_or_class_is():
    public = (
        (module, node)
        for module in modules()
        for node in nodes(module)
        if isinstance(node, DEFINED) and not node.name.startswith("_")
    )
    assert [
        f"{module}.{node.name}"
        for module, node in public
        if QUESTION.match(ast.get_docstring(node) or "")
    ] == []


def ours() -> list[Path]:
    return [
        path for room in ("agents", "benchlab", "tests") for path in (ROOT / room).rglob("*.py")
    ]


def test_a_comment_on_a_value_stands_above_it():
    assert [str(path) for path in ours() if SPREAD.search(path.read_text())] == []


def test_no_import_is_let_run_against_the_order():
    assert not [one["name"] for one in contracts() if one.get("ignore_imports")]


@cache
def lazy() -> list[str]:
    return [found for name in modules() for found in lazy_in(name)]


def lazy_in(name: str) -> Iterator[str]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    inside = [node for node in nodes(name) if isinstance(node, functions)]
    imports = {
        node
        for function in inside
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom) and imported(node)
    }
    yield from (f"{name}:{node.lineno}" for node in imports)


def test_each_says_why_it_is_there():
    for found in lazy():
        name, _, number = found.rpartition(":")
        above = modules()[name].read_text().splitlines()[int(number) - 2]
        assert above.strip().startswith("# Here, for "), found


def test_no_import_more_is_inside_of_a_function():
    assert_is(LAZY, sorted(lazy()))


def assert_is(bound: int, found: list[str]) -> None:
    assert len(found) <= bound, found
    assert len(found) == bound, f"well done: it is {len(found)} now"


@pytest.mark.parametrize("name", ["engine", "runs", "hosts", "web", "team"])
def test_the_order_names_rooms_that_are(name):
    assert name in levels() and f"benchlab.{name}" in modules()


def test_no_modules_import_each_other_in_a_circle():
    """Not for types either."""
    assert house.circles() == []


def test_few_packages_import_each_other_in_a_circle():
    assert_is(KNOT, next(iter(house.package_knots()), []))


def test_no_packages_of_agents_import_each_other_in_a_circle():
    """import-linter holds one order of them; of packages inside of packages it does not tell."""
    own = [knot for knot in house.package_knots() if any(_of_agents(name) for name in knot)]
    assert own == []


def _of_agents(package: str) -> bool:
    return package.partition(".")[0] == "agents"


def test_the_formatter_lays_out_every_line():
    """A table that would need an exception is data."""
    assert house.skipped_by_the_formatter() == []


def test_drivers_say_of_what_type_things_are():
    assert_is(ANY, house.any_in_drivers())


def test_tools_are_named_in_their_rooms():
    """Elsewhere a driver is asked what it can do (agents/drivers), or its room (benchlab/charts/cards.py)."""
    assert_is(NAMED, house.tool_names())


def test_no_room_reaches_into_another():
    """An underscore means: of this package alone. Templates are for copying, and are held to their Protocols, too."""
    found = house.private_elsewhere()
    assert [one for one in found if not one.endswith("._template")] == []
    assert len(found) == 3, "templates of layers, tools and samplers, in drivers/conformance.py"


def test_few_modules_have_both_a_host_and_the_database():
    assert len(house.with_shell_and_rows()) <= HOST_AND_DATABASE


def test_a_clone_in_a_folder_called_migrations_has_its_modules(tmp_path):
    clone = tmp_path / "migrations" / "clone"
    for path in ("agents/quote.py", "benchlab/runs/migrations/0001_first.py"):
        (clone / path).parent.mkdir(parents=True)
        (clone / path).touch()
    assert house.modules_in(clone) == {"agents.quote": clone / "agents/quote.py"}


def test_what_is_counted_can_be_found():
    """The counts see what they are to see."""
    graph = {
        "a": frozenset({"b"}),
        "b": frozenset({"c"}),
        "c": frozenset({"a", "d"}),
        "d": frozenset[str](),
    }
    assert house.knots(graph) == [["a", "b", "c"]]
    assert {"fio", "dynamo", "dd"} <= house.tools() and "command" not in house.tools()
    assert (
        "benchlab.engine.decide.built" in modules()
        and len(house.imports("benchlab.engine.tasks")) > 5
    )
    assert dict(house.table())["modules"] == str(len(modules()))
