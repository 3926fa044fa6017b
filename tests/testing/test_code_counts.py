"""The counts that lint holds, on small modules whose counts are known."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from benchlab.testing import code_counts
from benchlab.testing.code_counts import Count, count_code, count_importers, read_module


def module(text: str, path: str = "agents/facts/disks.py") -> code_counts.Module:
    return read_module(Path(path), dedent(text))


def test_tokens_are_names_operators_numbers_and_strings():
    assert module('size = 4 + len("ab")  # bytes\n').tokens == 8


def test_a_comment_behind_code_is_a_trailing_comment():
    text = """\
        # above
        size = 4  # behind
        path = "#"
        import x  # noqa: F401
        """
    assert module(text).trailing_comments == 1


@pytest.mark.parametrize("text", ["found = 1", "def read(said): ...", "print(_told)", "KEPT = 2"])
def test_a_vague_variable_or_parameter_is_seen(text):
    assert any(map(code_counts.is_vague, code_counts.variables([module(text)])))


@pytest.mark.parametrize(
    "text", ["def of(): ...", "class Told: ...", "class A:\n    def _said(self): ..."]
)
def test_a_vague_definition_is_seen(text):
    [name] = code_counts.definitions_with_vague_names([module(text)])
    assert name.startswith("agents.facts.disks.")


def test_a_module_can_have_a_vague_name():
    vague = module("size = 1", "agents/texts/found.py")
    assert list(code_counts.definitions_with_vague_names([vague])) == ["agents.texts.found"]


def test_a_docstring_that_begins_with_a_preposition_is_seen():
    text = '''\
        """Disks of a host."""
        def read():
            """Of one disk."""
        def write():
            """The disk."""
        '''
    assert list(code_counts.weak_docstrings([module(text)])) == ["agents.facts.disks:2"]


def test_an_importer_is_counted_once_for_a_module():
    disks = module("class Disk: ...")
    one = module("from agents.facts.disks import Disk\nimport agents.facts.disks", "agents/a.py")
    other = module("from agents.facts import disks", "agents/b.py")
    assert count_importers([disks, one, other]) == {"agents.facts.disks": {"agents.a", "agents.b"}}


def test_names_that_many_functions_share_are_counted():
    five = "".join(f"class C{n}:\n    def row(self): ...\n" for n in range(5))
    assert value_of("functions that share", module(five)) == 0
    assert value_of("functions that share", module(f"{five}def _row(): ...\n")) == 6


def value_of(title: str, counted: code_counts.Module) -> float:
    [count] = [count for count in count_code([counted]) if count.title.startswith(title)]
    return count.value


def test_a_count_above_its_limit_is_exceeded():
    assert Count("tokens", 5, limit=4, goal=3).exceeded
    assert not Count("tokens", 4, limit=4, goal=3).exceeded


def test_no_limit_is_below_its_goal():
    """A count whose limit is at the goal is done; below it, the goal would mean nothing."""
    assert all(count.limit >= count.goal for count in count_code([module("size = 1")]))
