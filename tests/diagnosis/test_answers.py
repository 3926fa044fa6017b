# SPDX-License-Identifier: Apache-2.0
"""One cause is told once: what silences what, and what an earlier doubt explains away."""

from __future__ import annotations

import pytest

from agents.contracts import Metric, Unit
from benchlab.diagnosis.answers import diagnose, rank, told_once
from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.model import Diagnosis, Proof, Stage, Verdict
from benchlab.diagnosis.pasted import read_evidence

DOUBT, LIMIT, FINE = Verdict.DOUBT, Verdict.LIMIT, Verdict.FINE


def found(
    rule: str,
    verdict: Verdict,
    stage: Stage,
    results: tuple[int, ...] = (0,),
    silences: tuple[str, ...] = (),
) -> Diagnosis:
    return Diagnosis(
        verdict,
        rule,
        results=results,
        silences=silences,
        rule=rule,
        stage=stage,
        proofs=(Proof(rule, (1,)),),
    )


MEMORY = found("R01", DOUBT, Stage.BELIEVABLE)
CORE = found("R53", LIMIT, Stage.CAP)
CORE_OF_BOTH = found("R53", LIMIT, Stage.CAP, (0, 1))
DISK = found("R06", FINE, Stage.BELIEVABLE)
COUNTED = found("R21", FINE, Stage.NOTE)
PACED = found("R17", LIMIT, Stage.ASKED, silences=("R62",))
ASLEEP = found("R62", LIMIT, Stage.CAP, silences=("R17",))


@pytest.mark.parametrize(
    ("given", "heard"),
    [
        ([CORE, MEMORY], ["R01"]),
        ([CORE_OF_BOTH, MEMORY], ["R01", "R53"]),
        ([DISK, CORE], ["R53"]),
        ([COUNTED, CORE], ["R53", "R21"]),
        ([ASLEEP, PACED], ["R17"]),
        (
            [
                found("R18", DOUBT, Stage.COMPARED),
                found("R02", DOUBT, Stage.BELIEVABLE, silences=("R18",)),
            ],
            ["R02"],
        ),
    ],
)
def test_one_cause_is_told_once(given: list[Diagnosis], heard: list[str]) -> None:
    assert [diagnosis.rule for diagnosis in rank(given)] == heard


def test_a_rule_speaks_once_for_all_results() -> None:
    metrics = (Metric("iops", 9.0, Unit.OPS_PER_SECOND, line=7),)
    evidence = Evidence((Result("fio", "a", metrics), Result("fio", "b", metrics)))
    (joined,) = told_once([CORE, found("R53", LIMIT, Stage.CAP, (1,))], evidence)
    assert joined.results == (0, 1)
    assert joined.proofs[-1] == Proof("The same holds for 1 more: b (9 IOPS).", (7,))


def test_figures_without_a_cause_are_told_to_be_fine() -> None:
    metrics = (Metric("iops", 9000.0, Unit.OPS_PER_SECOND, line=7),)
    (only,) = diagnose(Evidence((Result("fio", "a", metrics),))).shown
    assert (only.rule, only.verdict, only.proofs) == ("R00", FINE, (Proof("a: 9,000 IOPS.", (7,)),))


SATA = "NAME ROTA TRAN MODEL\nsda     0 sata Samsung SSD 870 EVO 1TB\n"
READS = """$ fio --name=r --filename=/dev/sda --rw=randread --bs=4k --direct=1 --ioengine=libaio --iodepth=1
r: (g=0): rw=randread, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=libaio, iodepth=1
fio-3.33
r: (groupid=0, jobs=1): err= 0: pid=7: Sat Feb  8 19:02:11 2025
  read: IOPS={iops}, BW={bandwidth}KiB/s ({bandwidth}kB/s)({bandwidth}MiB/60000msec)
    clat (usec): min=90, max={latency}, avg={latency}, stdev=9.00
     lat (usec): min=90, max={latency}, avg={latency}, stdev=9.00
"""
SLOW = SATA + READS.format(iops=50, bandwidth=200, latency=20000)
USUAL = SATA + READS.format(iops=9900, bandwidth=39600, latency=101)


@pytest.mark.parametrize(
    ("text", "fine", "words"),
    [
        (USUAL, True, "normal for flash"),
        (SLOW, False, "20.0 ms a read with 1 in flight is far more than an SSD takes"),
        (SLOW + "[12.3] EXT4-fs error (device sda1): bad entry\n", False, "Line 10 tells of a fault"),
        (SLOW + "There is no I/O error in dmesg.\n", False, "far more than an SSD takes"),
    ],
)  # fmt: skip
def test_figures_that_no_rule_explains_are_not_called_usual(
    text: str, fine: bool, words: str
) -> None:
    evidence, _ = read_evidence(text)
    answer = diagnose(evidence)
    assert answer.nothing_unusual is fine
    assert words in answer.shown[0].claim


def test_nothing_is_said_of_nothing() -> None:
    answer = diagnose(Evidence())
    assert not answer.shown and not answer.nothing_unusual
