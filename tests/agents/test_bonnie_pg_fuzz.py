"""10,000 broken outputs of pg_test_fsync and of bonnie++ each: an error, or figures that stand where they are said to.

What is right is decided here without the parsers: by the figure's own line and, for pg_test_fsync, the head above it;
for bonnie++ by its printing everything twice.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.contracts import Metric, ParseError, Unit
from agents.outputs.pg_test_fsync_text import METHODS
from agents.readers import bonnie as bonnie_reader
from agents.readers import pg_test_fsync as pg_reader
from agents.tools import bonnie, pg_test_fsync
from benchlab.testing.profiles import FULL, examples, profile
from tests.agents.test_readers import CASES as READERS
from tests.agents.test_tools import CASES

# By night 10,000 of each; by day a tenth of the mutants of fewer outputs.
EXAMPLES, MUTANTS = examples(250), 40 if profile() == FULL else 4
FUZZ = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
SEEDS = st.integers(0, 2**32)
PG = ("9.3-seed-ssd", "9.3-seed-zfs", "9.3-seed-freebsd", "9.1-public-page", "15.18", "18.4")
# Of 2.00 the text is rounded, so a digit of its CSV line cannot be checked
BONNIE = ("1.96-seed", "1.97-public-page", "1.03e-public-page", "1.03e-fast-public-page")
FOREIGN = (
    "", "   ", "$ ls", "fsync is slow", "write", "sda 0.00 1.00 12.5", "5 seconds per test", "n/a",
    "1,2,3", "\ufffd",
)  # fmt: skip
HEADS = (
    ("one", "using one"), ("two", "using two"), ("open_sync", "different write sizes"),
    ("other_descriptor", "is honored"), ("unsynced", "ync'ed"),
)  # fmt: skip


def texts(kind: str, names: Sequence[str]) -> list[str]:
    return [(CASES / kind / f"{name}.txt").read_text() for name in names]


PG_TEXTS = texts("pg_test_fsync", PG)
BONNIE_TEXTS = texts("bonnie", BONNIE)


def digit(text: str, dice: random.Random) -> str:
    places = [at for at, character in enumerate(text) if character.isdigit()]
    at = dice.choice(places) if places else 0
    return text[:at] + dice.choice("0123456789") + text[at + 1 :]


def dropped(lines: list[str], dice: random.Random) -> list[str]:
    at = dice.randrange(len(lines))
    return lines[:at] + lines[at + 1 :]


def doubled(lines: list[str], dice: random.Random) -> list[str]:
    at = dice.randrange(len(lines))
    return [*lines[:at], lines[at], *lines[at:]]


def swapped(lines: list[str], dice: random.Random) -> list[str]:
    one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    found = list(lines)
    found[one], found[other] = found[other], found[one]
    return found


def foreign(lines: list[str], dice: random.Random) -> list[str]:
    at = dice.randrange(len(lines) + 1)
    return [*lines[:at], dice.choice(FOREIGN), *lines[at:]]


def word_gone(lines: list[str], dice: random.Random) -> list[str]:
    at = dice.randrange(len(lines))
    words = re.split(r"([ ,]+)", lines[at])
    words.pop(dice.randrange(len(words)))
    return [*lines[:at], "".join(words), *lines[at + 1 :]]


CHANGES: tuple[Callable[[list[str], random.Random], list[str]], ...] = (
    dropped, doubled, swapped, foreign, word_gone,
)  # fmt: skip


def mutant(text: str, dice: random.Random) -> str:
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        if not text:
            break
        how = dice.randrange(len(CHANGES) + 3)
        if how < len(CHANGES):
            text = "\n".join(CHANGES[how](text.split("\n"), dice))
        elif how == len(CHANGES):
            text = digit(text, dice)
        elif how == len(CHANGES) + 1:
            text = text[: dice.randrange(len(text))]
        else:
            at = dice.randrange(len(text))
            text = text[:at] + dice.choice(" ,.-+x%\n\u00a0") + text[at + dice.randrange(3) :]
    return text


def check_pg(metrics: Sequence[Metric], text: str) -> None:
    """The line holds the row's words and the figure; the next head above it is the section's.

    Rows that lost their head belong to the section before the next head, or to none.
    """
    lines = text.split("\n")
    for metric in metrics:
        line = " ".join(lines[metric.line - 1].split())
        section, row = metric.name.split(".")[:2]
        words = section if section in METHODS else row
        words = words.replace("_fsync_close", ", fsync, close").replace(
            "_close_fsync", ", close, fsync"
        )
        if section == "open_sync" and "x" in row:
            words = f"{row.partition('x')[2]}kB open_sync write"
        assert words in line, (metric, line)
        if metric.value is None:
            assert "n/a" in line.split()[-1], (metric, line)
        elif metric.name.endswith(".ops"):
            assert f"{metric.value:.3f} ops/sec" in line, (metric, line)
        else:
            assert f" {round(metric.value * 1e6)} usecs/op" in line, (metric, line)
        above, below = heads_in(lines[: metric.line]), heads_in(lines[metric.line :])
        has_own_words = section in ("open_sync", "other_descriptor", "unsynced", *METHODS)
        before = {"two": "one", "open_sync": "two"}.get(below[0]) if below else None
        assert has_own_words or section in (*above[-1:], before), metric


def heads_in(lines: Sequence[str]) -> list[str]:
    return [name for line in lines for name, said in HEADS if said in " ".join(line.split())]


@FUZZ
@given(seed=SEEDS)
def test_pg_test_fsync(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(MUTANTS):
        text = mutant(dice.choice(PG_TEXTS), dice)
        try:
            found = pg_test_fsync.parse({"stdout": text.encode()}, pg_test_fsync.Options())
        except ParseError:
            pass
        else:
            check_pg(found, text)
            assert len({m.name for m in found if m.name.endswith(".ops")}) == 18
        for one in pg_reader.find_results(text, ""):
            check_pg(one.metrics, text)


def close(one: Metric, other: Metric) -> bool:
    if one.value is None or other.value is None:
        return one.value is other.value
    return abs(one.value - other.value) <= (1.0 if one.name == "seeks.ops" else 0.0)


def check_bonnie(metrics: Sequence[Metric], text: str) -> None:
    """Each figure is a word of its line, as it is printed there."""
    lines = text.split("\n")
    for metric in metrics:
        words = set(re.split(r"[,\s]+", lines[metric.line - 1]))
        if metric.value is None:
            assert metric.note and ((words & {"+++", "++++", "+++++"}) or "missing" in metric.note)
        elif metric.unit is Unit.SECONDS:
            scales = {"us": 1e6, "ms": 1e3, "s": 1.0}
            shown = {f"{round(metric.value * scale)}{unit}" for unit, scale in scales.items()}
            assert shown & words, metric
        else:
            scale = {Unit.BYTES_PER_SECOND: 1 / 1024, Unit.RATIO: 100}.get(metric.unit, 1)
            numbers = {float(word) for word in words if re.fullmatch(r"\d+(\.\d+)?", word)}
            assert any(abs(metric.value * scale - number) < 1e-6 for number in numbers), metric


@FUZZ
@given(seed=SEEDS)
def test_bonnie(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(MUTANTS):
        whole = dice.choice(BONNIE_TEXTS)
        text = mutant(whole, dice)
        try:
            found = bonnie.parse({"stdout": text.encode()}, bonnie.Options())
        except ParseError:
            pass
        else:
            check_bonnie(found, text)
            if "Version" in text and "-Create--" in text:
                right = bonnie.parse({"stdout": whole.encode()}, bonnie.Options())
                same = {m.name: m for m in right}
                assert all(close(m, same[m.name]) for m in found), text
        for one in bonnie_reader.find_results(text, ""):
            check_bonnie(one.metrics, text)


@FUZZ
@given(seed=SEEDS)
def test_a_page_of_bon_csv2html(seed: int) -> None:
    """Its figures are scaled by their columns: here only that each stands in its line."""
    dice = random.Random(seed)
    for _ in range(MUTANTS):
        text = mutant((READERS / "bonnie" / "page-2.00.txt").read_text(), dice)
        lines = text.split("\n")
        for one in bonnie_reader.find_results(text, ""):
            assert bool(one.trouble) != bool(one.metrics)
            for metric in one.metrics:
                assert one.first <= metric.line <= one.last
                assert re.search(r"\d|\+\+\+", lines[metric.line - 1])


@pytest.mark.parametrize("reader", [pg_reader, bonnie_reader])
def test_white_space_and_foreign_lines_around_change_nothing(reader: pg_reader) -> None:  # type: ignore[valid-type]
    dice = random.Random(7)
    for text in PG_TEXTS if reader is pg_reader else BONNIE_TEXTS:
        (whole,) = reader.find_results(text, "")  # type: ignore[attr-defined]
        around = [dice.choice(FOREIGN[2:]) for _ in range(4)]
        indented = "\n".join(f"   {line}  " for line in text.split("\n"))
        (found,) = reader.find_results("\n".join([*around, indented, "", *around]), "")  # type: ignore[attr-defined]
        assert [(m.name, m.value, m.line - 4) for m in found.metrics] == [
            (m.name, m.value, m.line) for m in whole.metrics
        ]


@pytest.mark.parametrize("find", [pg_reader.find_results, bonnie_reader.find_results])
@pytest.mark.parametrize(
    "text",
    [
        "1" * 2_000_000,
        "," * 2_000_000,
        " " * 2_000_000,
        "Version 1.03 " * 100_000,
        "5 seconds per test\n" * 50_000,
        "Compare file sync methods using one 8kB write:\n" * 20_000,
        "Version 2.00a       ------Sequential Output------ --Sequential Input- --Random-\n"
        * 20_000,
        "(in " * 300_000,
        "1G " * 90 + "\n" + ("1G" * 140 + "\n") * 2000,
    ],
    ids=range(9),
)
def test_huge_texts_take_linear_time(find: Callable[[str, str], list[object]], text: str) -> None:
    for one in find(text, ""):
        assert not one.metrics  # type: ignore[attr-defined]
