"""Broken .icf files: an error that names the place, or the workloads that the file still says; never a crash."""

from __future__ import annotations

import random
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from agents import options as driver_options
from agents.drivers import text_reading
from agents.readers import icf
from agents.tools import dynamo
from benchlab.testing.profiles import examples

CASES = Path(__file__).parents[1] / "cases" / "readers" / "icf"
TEXTS = [path.read_text() for path in sorted(CASES.glob("*.icf")) + sorted(CASES.glob("*.txt"))]
EACH = 20  # broken texts an example
PIECES = ["", "-1", ",", "\t", "\n", "'", "'END test setup\n", "'ACCESS SPECIFICATIONS =\n", "Version 1.1.0\n",
          "9" * 30, "\x00", "x" * 500, "'Access specification name,default assignment\n"]  # fmt: skip


def broken(text: str, dice: random.Random) -> str:
    for _ in range(dice.randint(1, 4)):
        start = dice.randint(0, len(text))
        end = dice.randint(start, min(len(text), start + 60))
        piece = dice.choice([*PIECES, text[start:end] * 2])
        text = text[:start] + piece + text[end:]
    return text


@settings(max_examples=examples(600), deadline=None)
@given(dice=st.randoms(use_true_random=True))
def test_broken_files_are_errors_or_workloads(dice: random.Random) -> None:
    for _ in range(EACH):
        text = broken(dice.choice(TEXTS), dice)
        for one in icf.find_results(text, ""):
            assert 1 <= one.first <= one.last <= text.count("\n") + 1
            assert one.trouble or one.described
            if not one.trouble:
                shown = text.split("\n")[one.first - 1 : one.last]
                assert any(one.title in line for line in shown), (one, shown)
                driver_options.build_options(dynamo.Options, one.options)
        text_reading.read_text(text)


def test_words_around_it_change_nothing() -> None:
    text = (CASES / "article002.icf").read_text()
    (plain,) = icf.find_results(text, "")
    (quoted,) = icf.find_results(
        f"He sent me this:\n\n{text}\nand then left.\n'TEST SETUP is what it says\n", ""
    )
    assert (quoted.options, quoted.sweep) == (plain.options, plain.sweep)
    assert quoted.first == plain.first + 2
