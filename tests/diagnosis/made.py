"""Rules that find the same in every paste of fio, so that pages can be looked at whatever the catalogue says."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from benchlab.diagnosis import answers
from benchlab.diagnosis.evidence import Evidence
from benchlab.diagnosis.model import Check, Diagnosis, NextStep, Proof, Rule, Stage, Verdict

FIO = """$ fio --name=deep --filename=/dev/nvme0n1 --rw=randread --bs=4k --direct=1 --iodepth=32 --runtime=60
deep: (g=0): rw=randread, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=psync, iodepth=32
fio-3.28
Starting 1 process

deep: (groupid=0, jobs=1): err= 0: pid=21877: Tue Mar 12 10:14:07 2024
  read: IOPS=12.1k, BW=47.3MiB/s (49.5MB/s)(2835MiB/60003msec)
    clat (usec): min=31, max=535, avg=82.60, stdev=17.41
     lat (usec): min=32, max=535, avg=82.66, stdev=17.41
   iops        : min=11404, max=12635, avg=12079.48, stdev=224.63, samples=119
  cpu          : usr=2.90%, sys=8.80%, ctx=733123, majf=0, minf=11

Run status group 0 (all jobs):
   READ: bw=47.3MiB/s (49.5MB/s), 47.3MiB/s-47.3MiB/s (49.5MB/s-49.5MB/s), io=2835MiB (2973MB), run=60003-60003msec
"""
LINE_OF_IOPS = 7
STEP = NextStep(
    "Measure with a queue, and bypass the page cache.",
    "fio --name=deep --filename=/dev/nvme0n1 --rw=randread --bs=4k --direct=1 --ioengine=io_uring --iodepth=16",
    "If the rate grows with the depth, the engine held it back.",
    {"ioengine": "io_uring", "iodepth": [1, 4, 16], "direct": 1},
)


def _depth(evidence: Evidence) -> Iterable[Diagnosis]:
    for at, result in enumerate(evidence.results):
        if result.kind == "fio":
            yield Diagnosis(
                Verdict.DOUBT,
                "The queue depth of 32 had no effect: <b>psync</b> keeps one I/O in flight.",
                "The figure is that of depth 1.",
                (
                    Proof(
                        "The engine is psync, and iodepth is 32.",
                        (result.first, result.line("read.iops")),
                    ),
                ),
                ("A limit of the device that happens to be as low.",),
                (STEP,),
                results=(at,),
            )


def _other(verdict: Verdict, claim: str) -> Check:
    return lambda evidence: [Diagnosis(verdict, claim) for _ in evidence.tests[:1]]


RULES = [
    Rule("T1", "depth on a blocking engine", Stage.IN_FLIGHT, _depth),
    Rule("T2", "cap of the cloud", Stage.CAP, _other(Verdict.LIMIT, "The volume is capped.")),
    Rule("T3", "pace of the medium", Stage.DEVICE, _other(Verdict.FINE, "Such disks do that.")),
    Rule("T4", "short runs", Stage.ASKED, _other(Verdict.DOUBT, "The run was short.")),
]


@pytest.fixture
def four_diagnoses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four rules, each with a diagnosis of a paste of fio: three are shown and one is folded."""
    monkeypatch.setattr(answers, "all_rules", lambda: {rule.id: rule for rule in RULES})
