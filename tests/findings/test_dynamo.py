"""The cross-check of dynamo's count, when its output is read, says what the finding says, word by word."""

from __future__ import annotations

import pytest

from agents.dynamo import crosscheck
from benchlab.analysis import evidence, finding
from benchlab.findings import storing
from benchlab.findings.models import Finding
from benchlab.runs.models import Measurement

SAID = {
    "iops": 4000.0, "lat.mean": 0.004, "runtime": 3.0, "read.ios": 6000.0, "read.bytes": 49152000.0,
    "kernel.seconds": 3.0,
}  # fmt: skip
COUNTED = [0.5 * 49152000.0, 49152000.0, 2 * 49152000.0]


def found(figures, note):
    run = evidence.Run("dynamo", figures=figures, notes={"iops": note} if note else {})
    return finding.run_findings()["dynamo_crosscheck"].applies(run)


@pytest.mark.parametrize("counted", COUNTED)
def test_its_words_are_the_findings(counted):
    figures = SAID | {"kernel.read.bytes": counted}
    remark = crosscheck.kernel_count_note(figures)
    said = [one.sentence for one in found(figures, f"of one worker; {remark}")]
    assert said == ([remark.partition(": ")[2]] if counted != 49152000.0 else [])
    for one in found(figures, remark):
        assert {number.value for number in one.numbers.values()} == {49152000.0, counted}


def test_that_nobody_could_count_is_none():
    figures = {"ios": 5.0, **SAID}
    assert (
        "not checked" in crosscheck.kernel_count_note(figures)
        and found(figures, crosscheck.kernel_count_note(figures)) == []
    )


@pytest.mark.django_db
def test_it_is_found_of_what_is_stored(lab):
    figures = SAID | {"kernel.read.bytes": COUNTED[0]}
    lab.run.tool, lab.run.options = "dynamo", {}
    lab.run.save()
    lab.attempt.measurements.all().delete()
    lab.attempt.series.all().delete()
    Measurement.objects.bulk_create(
        Measurement(
            attempt=lab.attempt, name=name, value=value, unit="1",
            note=crosscheck.kernel_count_note(figures) if name == "iops" else "",
        )
        for name, value in figures.items()
    )  # fmt: skip
    storing.find_for_attempts([lab.attempt.pk])
    assert (
        "I/Os failed that dynamo counted as completed"
        in Finding.objects.get(kind="dynamo_crosscheck").says
    )
