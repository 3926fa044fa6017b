# SPDX-License-Identifier: Apache-2.0
"""Pasted texts with the answer that an expert gives: the right rule first, its figures, and what to run next."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from agents.texts.pasting import strip_marks
from benchlab.diagnosis.answers import Answer, diagnose
from benchlab.diagnosis.model import Diagnosis
from benchlab.diagnosis.pasted import read_evidence

CASES = sorted((Path(__file__).parents[1] / "cases" / "diagnosis").iterdir())


def answer_text(answer: Answer) -> str:
    """Everything that the first screen says."""
    return "\n".join(line for diagnosis in answer.shown for line in _texts(diagnosis))


def _texts(diagnosis: Diagnosis) -> list[str]:
    steps = [
        text
        for step in diagnosis.next_steps
        for text in (step.text, step.command, step.expect)
        if text
    ]
    proofs = [proof.text for proof in diagnosis.proofs]
    return [diagnosis.claim, diagnosis.meaning, *proofs, *diagnosis.alternatives, *steps]


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_case_is_answered(folder: Path) -> None:
    expected = tomllib.loads((folder / "answer.toml").read_text())
    evidence, _ = read_evidence(strip_marks((folder / "input.txt").read_text()).text, "input.txt")
    answer = diagnose(evidence)
    first = answer.shown[0] if answer.shown else None
    assert first is not None, "no diagnosis"
    assert (first.rule, first.verdict) == (expected["rule"], expected["verdict"]), first.claim
    text = answer_text(answer)
    for pattern in expected["must"]:
        assert re.search(pattern, text, re.IGNORECASE), f"{pattern!r} is not in:\n{text}"
    for pattern in expected["must_not"]:
        assert not re.search(pattern, text, re.IGNORECASE), f"{pattern!r} is in:\n{text}"
    assert any(proof.lines for proof in first.proofs), "no proof names a line of the paste"
    assert first.next_steps, "nothing to run next"
    for proof in first.proofs:
        assert all(evidence.quote(line) for line in proof.lines), proof
