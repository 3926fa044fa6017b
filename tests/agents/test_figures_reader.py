"""Figures typed in: whatever becomes of the text, a result is whole and right, or in trouble. Never an exception."""

from __future__ import annotations

import dataclasses
import math
import random
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.readers import figures
from benchlab.testing.profiles import examples
from tests.agents.test_readers import CASES

TEXT = (CASES / "figures" / "paper.txt").read_text()
WHOLE = figures.find_results(TEXT, "")
NOISE = ["", "$ cat a", "iops = 5 op/s", "end", "tool: fio", "<td>5095</td>", "\x00\xff", "9" * 400]
FOREIGN = [*NOISE, "benchlab figures 2"]
JUNK = [
    "",
    "NaN",
    "-1",
    "1e999",
    ",5",
    "\x00",
    "=",
    "#",
    " ",
    "\xa0",
    "op/s",
    "9" * 400,
    "٣",
    "benchlab figures 1\n",
]
BLANKS = [" ", "\t", "\xa0", "   "]
# A seed and Random instead of Hypothesis' own draws: ten times as many texts in the same time.
SEEDS = st.integers(0, 2**32).map(random.Random)


def at_home(found):
    """Without line numbers, which depend on what stands above."""
    lines = [metric.line - found.first for metric in found.metrics]
    plain = dataclasses.replace(found, first=0, last=found.last - found.first)
    return plain, lines


@settings(max_examples=examples(3000), deadline=None)
@given(dice=SEEDS)
def test_white_space_and_what_stands_around_change_nothing(dice: random.Random) -> None:
    lines = [dice.choice(BLANKS) * dice.randint(0, 2) + line for line in TEXT.split("\n")]
    lines = [line.replace(" = ", f"{dice.choice(BLANKS)}={dice.choice(BLANKS)}") for line in lines]
    text = "\n".join([*dice.choices(NOISE, k=3), *lines, *dice.choices(NOISE, k=3)])
    assert [at_home(one) for one in figures.find_results(text, "")] == [
        at_home(one) for one in WHOLE
    ]


@settings(max_examples=examples(3500), deadline=None)
@given(dice=SEEDS)
def test_a_line_lost_or_doubled_leaves_the_others_right(dice: random.Random) -> None:
    lines = TEXT.split("\n")[1:15]
    known = {(m.name, m.value, m.note) for m in WHOLE[0].metrics}
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(max(1, len(lines)))
        how = dice.choice(["drop", "double", "swap", "cut", "noise"])
        if how == "cut":
            lines = lines[:at]
        elif how == "noise":
            lines.insert(at, dice.choice([one for one in FOREIGN if one != "iops = 5 op/s"]))
        elif lines and how == "drop":
            del lines[at]
        elif lines and how == "double":
            lines.insert(at, lines[at])
        elif lines:
            lines[at], lines[at - 1] = lines[at - 1], lines[at]
    for one in figures.find_results("\n".join(lines), ""):
        assert bool(one.trouble) != bool(one.metrics)
        assert {(m.name, m.value, m.note) for m in one.metrics} <= known


@settings(max_examples=examples(4000), deadline=None)
@given(dice=SEEDS)
def test_mutated_texts(dice: random.Random) -> None:
    text = TEXT
    for _ in range(dice.randint(1, 4)):
        start = dice.randint(0, len(text))
        end = dice.randint(start, min(len(text), start + 40))
        text = text[:start] + dice.choice(JUNK) + text[end:]
    for one in figures.find_results(text, ""):
        assert 1 <= one.first <= one.last <= text.count("\n") + 1
        assert bool(one.trouble) != bool(one.metrics)
        for metric in one.metrics:
            assert metric.value is None or (math.isfinite(metric.value) and metric.value >= 0)
            assert metric.name in text.split("\n")[metric.line - 1]


def test_long_texts_take_linear_time() -> None:
    began = time.process_time()
    for text in ("benchlab figures 1\n" * 50_000, "iops = 1 op/s\n" * 50_000, "a" * 3_000_000,
                 "benchlab figures 1\n" + "x = " * 500_000, " " * 3_000_000):  # fmt: skip
        figures.find_results(text, "")
    assert time.process_time() - began < 3
