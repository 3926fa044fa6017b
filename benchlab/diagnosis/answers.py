# SPDX-License-Identifier: Apache-2.0
"""The answer to "why is it slow": at most three diagnoses first, the rest behind them, or "nothing unusual"."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from benchlab.diagnosis.evidence import Evidence
from benchlab.diagnosis.model import Diagnosis, Rule, Stage, Verdict, all_rules

log = logging.getLogger(__name__)

# diagnoses that are shown first
MAX_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """`shown` comes first, `folded` behind it; both are empty where nothing is unusual.

    `checked`: labels of the rules that were applied. `readable`: results that the evidence holds.
    """

    shown: tuple[Diagnosis, ...]
    folded: tuple[Diagnosis, ...]
    checked: tuple[str, ...]
    readable: int

    @property
    def nothing_unusual(self) -> bool:
        """True where figures were read and no diagnosis doubts or limits them."""
        found = (*self.shown, *self.folded)
        return bool(self.readable) and all(d.verdict == Verdict.FINE for d in found)


def diagnose(evidence: Evidence) -> Answer:
    """Apply every rule. Pure; a rule that fails is logged and costs only its own diagnosis."""
    found = [diagnosis for rule in all_rules().values() for diagnosis in _apply(rule, evidence)]
    ranked = rank(found)
    return Answer(
        tuple(ranked[:MAX_SHOWN]),
        tuple(ranked[MAX_SHOWN:]),
        tuple(rule.label for rule in all_rules().values()),
        sum(bool(result.metrics or result.series) for result in evidence.results),
    )


def _apply(rule: Rule, evidence: Evidence) -> Iterable[Diagnosis]:
    try:
        return [
            replace(diagnosis, rule=rule.id, label=rule.label, stage=rule.stage)
            for diagnosis in rule.check(evidence)
        ]
    except Exception:
        log.exception("rule %s", rule.id)
        return []


def rank(found: Sequence[Diagnosis]) -> list[Diagnosis]:
    """The diagnoses that are not silenced: doubts and limits by stage, then by what they explain; then what is fine."""
    audible = [d for d in found if not any(_silences(other, d) for other in found)]
    return sorted(audible, key=_rank_key)


def _silences(one: Diagnosis, other: Diagnosis) -> bool:
    """True where `one` explains the same results better."""
    if one is other:
        return False
    same = not one.results or not other.results or bool(set(one.results) & set(other.results))
    return same and other.rule in one.silences


def _rank_key(diagnosis: Diagnosis) -> tuple[bool, bool, int, float, str]:
    note = diagnosis.stage == Stage.NOTE
    weight = diagnosis.share * diagnosis.confidence
    return diagnosis.verdict == Verdict.FINE, note, diagnosis.stage, -weight, diagnosis.rule
