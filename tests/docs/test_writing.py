# SPDX-License-Identifier: Apache-2.0
"""Rules for documents: purpose first, short cells, a limit on words, and one meaning for each term."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from benchlab.installation import ROOT

PARSER = MarkdownIt("commonmark").enable("table")
PAGES = sorted((ROOT / "docs").rglob("*.md"))
DOCUMENTS = [*PAGES, *sorted(ROOT.glob("*.md"))]
WRITTEN_FOR_READERS = [
    *PAGES,
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "THREAT_MODEL.md")),
]
MAX_CELL_CHARACTERS = 200
# Of all pages but the decisions, each of which has its own limit.
# of all pages together, without their tables: figures of simulations are looked up, not read
MAX_WORDS = 20_700
MAX_RECORD_WORDS = 350
MAX_HOW_TO_WORDS = 500
MIN_WORDS_OF_PURPOSE = 15
TERMS = frozenset(
    [
        "analysis",
        "answer",
        "artifact",
        "attempt",
        "block",
        "campaign",
        "command",
        "disk",
        "finding",
        "host",
        "layer",
        "layout",
        "measurement",
        "metric",
        "outstanding I/Os",
        "plan",
        "reader",
        "reading",
        "repeat",
        "run",
        "sampler",
        "step",
        "tool",
        "topology",
        "verdict",
        "workload",
    ]
)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def long_cells(text: str) -> list[str]:
    tokens = PARSER.parse(text)
    in_cells = [
        token.content for before, token in pairwise(tokens) if before.type in ("th_open", "td_open")
    ]
    return [cell for cell in in_cells if len(cell) > MAX_CELL_CHARACTERS]


def purpose(text: str) -> str:
    """The paragraph directly below the title, or "" if something else stands there."""
    types = [token.type for token in PARSER.parse(text)[:5]]
    title = ["heading_open", "inline", "heading_close"]
    if types != [*title, "paragraph_open", "inline"]:
        return ""
    return PARSER.parse(text)[4].content


def glossary(text: str) -> list[str]:
    section = text.partition("## Glossary\n")[2].partition("\n## ")[0]
    return re.findall(r"^- \*\*(.+?)\*\*: ", section, re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_no_table_cell_is_long(document):
    assert long_cells(document.read_text()) == []


@pytest.mark.parametrize("document", WRITTEN_FOR_READERS, ids=name)
def test_a_page_begins_with_its_purpose(document):
    paragraph = purpose(document.read_text())
    assert len(paragraph.split()) >= MIN_WORDS_OF_PURPOSE
    assert not paragraph.startswith("![")


def test_pages_together_stay_short():
    words = {name(page): words_of(page) for page in PAGES if page.parent.name != "decisions"}
    assert sum(words.values()) <= MAX_WORDS, words


def words_of(page: Path) -> int:
    lines = page.read_text().splitlines()
    return sum(len(line.split()) for line in lines if not line.startswith("|"))


@pytest.mark.parametrize(
    ("pattern", "limit"),
    [
        ("decisions/[0-9]*.md", MAX_RECORD_WORDS),
        ("add-a-[!d]*.md", MAX_HOW_TO_WORDS),
    ],
)
def test_short_pages_stay_short(pattern, limit):
    pages = sorted((ROOT / "docs").glob(pattern))
    assert len(pages) >= 3
    assert {name(page): words_of(page) for page in pages if words_of(page) > limit} == {}


def test_decisions_have_the_same_parts_and_are_listed():
    folder = ROOT / "docs" / "decisions"
    parts = ["Context", "Decision", "Consequences", "What was tried"]
    listed = (folder / "README.md").read_text()
    for page in folder.glob("[0-9]*.md"):
        assert re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE) == parts
        assert f"({page.name})" in listed


def test_the_glossary_gives_each_term_one_meaning():
    terms = glossary((ROOT / "docs" / "design.md").read_text())
    assert terms == sorted(set(terms), key=str.casefold)
    assert set(terms) >= TERMS


def test_a_long_cell_is_detected():
    text = "# T\n\n| a | b |\n|---|---|\n| c | " + "d" * 201 + " |\n"
    assert [len(cell) for cell in long_cells(text)] == [201]


@pytest.mark.parametrize(
    "text", ["# T\n\n| a |\n|---|\n| b |\n", "# T\n\n- a\n", "# T\n\n## U\n\nText\n", "Text\n"]
)
def test_a_page_without_a_paragraph_below_the_title_is_detected(text):
    assert purpose(text) == ""


def test_a_term_with_two_meanings_is_detected():
    assert glossary("## Glossary\n\n- **run**: a\n- **run**: b\n\n## Rules\n- **c**: d\n") == [
        "run",
        "run",
    ]
