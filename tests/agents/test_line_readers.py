"""Readers of tools that BenchLab does not run, on damaged texts: no exception, and figures stand in their lines."""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.drivers import registry
from agents.readers._line_reader import LineReader
from agents.texts.parsed_result import LineIndex, ParsedResult
from benchlab.testing.profiles import examples

CASES = Path(__file__).parents[1] / "cases" / "readers"
READERS = {
    kind: reader
    for kind, reader in registry.all_readers().items()
    if isinstance(reader, LineReader)
}
FOREIGN = ["$ ls", "", "and then I saw", "x" * 3000, "9" * 400, "{", "| 1 | 2 |", "Read"]
INSERTS = [" ", ",", ".", "-", "%", "/", "\t", "9" * 40, "NaN", "e9", "\u00a0", "\n", "<", "|", ":"]
# damaged texts an example
EACH = 12
FUZZ = settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))


@cache
def texts(kind: str) -> list[str]:
    paths = sorted((CASES / kind).iterdir())
    return [path.read_text() for path in paths if not path.name.endswith(".expected.json")]


def damaged(text: str, dice: random.Random) -> str:
    lines = text.split("\n")
    at = dice.randrange(len(lines))
    kind = dice.randrange(7)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, dice.choice([*FOREIGN, dice.choice(lines)]))
    elif kind == 2:
        words = re.split(r"(\s+)", lines[at])
        words.pop(dice.randrange(len(words)))
        lines[at] = "".join(words)
    elif kind == 3:
        place = dice.randrange(len(text) + 1)
        return text[:place]
    elif kind == 4:
        lines[at] = re.sub(r"\d", lambda _: dice.choice("0123456789"), lines[at], count=3)
    else:
        place = dice.randrange(len(text) + 1)
        return text[:place] + dice.choice(INSERTS) + text[place + dice.randrange(3) :]
    return "\n".join(lines)


@pytest.mark.parametrize("kind", READERS)
@FUZZ
@given(seed=st.integers(0, 2**32))
def test_damaged_text(kind: str, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(EACH):
        text = dice.choice(texts(kind))
        for _ in range(dice.randrange(1, 4)):
            text = damaged(text, dice)
        places = LineIndex(text)
        for result in READERS[kind].find_results(text, ""):
            check_result(kind, result, places, text.split("\n"))


def check_result(kind: str, result: ParsedResult, places: LineIndex, lines: list[str]) -> None:
    assert result.kind == kind and 1 <= result.first <= result.last <= len(lines)
    assert bool(result.trouble) != bool(result.metrics)
    for metric in result.metrics:
        assert result.first <= metric.line <= result.last, metric
        assert metric.value is None or 0 <= metric.value < float("inf"), metric
        assert any(character.isdigit() for character in lines[metric.line - 1]), metric
    if not result.trouble:
        (again,) = READERS[kind].find_results(result.own_text(places), "")
        assert [(m.name, m.value, m.labels) for m in again.metrics] == [
            (m.name, m.value, m.labels) for m in result.metrics
        ]


@pytest.mark.parametrize("kind", READERS)
def test_long_texts_take_linear_time(kind: str) -> None:
    """Each line of each case a thousand times: quadratic work would take minutes."""
    for text in texts(kind):
        for line in {line for line in text.split("\n") if line.strip()}:
            READERS[kind].find_results(f"{line}\n" * 1000, "")
    for text in ("(Q= " * 50_000, " " * 200_000, "9" * 200_000, "<Results>\n" * 20_000):
        READERS[kind].find_results(text, "")


def test_small_readers_share_a_module() -> None:
    kinds = set(registry.all_readers())
    assert {"hdparm", "ioping", "pveperf", "gnome_disks"} <= kinds
    assert "quick_checks" not in kinds
