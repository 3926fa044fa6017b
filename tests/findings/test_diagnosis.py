# SPDX-License-Identifier: Apache-2.0
"""Diagnosis of stored runs: the same evidence as of a paste, without what a finding says already."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchlab.analysis.evidence import Device, Layer, Run, Track
from benchlab.analysis.finding import line_findings, run_findings
from benchlab.diagnosis import campaigns
from benchlab.diagnosis.answers import diagnose
from tests.findings.conftest import DISKS


@pytest.mark.django_db
def test_a_stored_run_becomes_evidence(lab):
    [evidence] = campaigns.read_evidence([lab.attempt.pk])
    test, watcher = evidence.results
    assert (test.kind, test.options["rw"], test.options_complete) == ("fio", "randread", True)
    assert test.number("read.bandwidth") == 400e6 and test.run == lab.run.pk and not test.watches
    assert [watcher.number("read.bandwidth", disk) for disk in DISKS] == [10e6] * 4
    assert evidence.facts.text("sdc", "disk.model") == "WDC WD40"
    assert evidence.facts.number("vg/lv", "lv.stripes") == 4
    assert evidence.facts.text("/", "mount.type") == "xfs"
    assert all(fact.line == 0 for fact in evidence.facts)


@pytest.mark.django_db
def test_a_campaign_is_diagnosed_without_what_findings_say(lab, django_assert_max_num_queries):
    with django_assert_max_num_queries(12):
        evidence = list(campaigns.read_spread_evidence(lab.campaign))
    answer = campaigns.merge_answers([diagnose(run) for run in evidence])
    assert answer.readable and answer.checked
    rules = {diagnosis.rule for diagnosis in (*answer.shown, *answer.folded)}
    assert "R01" not in rules, "the finding says it was read from a cache"


def test_causes_with_a_finding_name_its_kind():
    kinds = run_findings().keys() | line_findings().keys()
    assert set(campaigns.SAME_CAUSE.values()) <= kinds


def pool_run() -> Run:
    """A run on a pool that is 93 % full, by its samples."""
    times = (1.0, 2.0, 3.0, 4.0, 5.0)
    tracks = tuple(
        Track("bl1", name, unit, times, (value,) * 5)
        for name, unit, value in (
            ("zpool.alloc", "B", 93e9),
            ("zpool.free", "B", 7e9),
            ("zpool.write.iops", "op/s", 900.0),
            ("zpool.read.iops", "op/s", 10.0),
            ("zpool.write.bandwidth", "B/s", 20e6),
        )
    )
    return Run(
        "fio",
        options={"rw": "randwrite", "block_size": 4096, "direct": True},
        figures={"write.iops": 700.0, "write.bandwidth": 700.0 * 4096},
        tracks=tracks,
        layers=(Layer("zpool", {"layout": "mirror"}, {"data": ("sdb", "sdc")}),),
        devices={"sdb": Device("sdb", rotational=True)},
    )


def test_a_rule_speaks_of_an_own_run_and_of_several_once():
    one = diagnose(campaigns.run_evidence(pool_run()))
    assert [diagnosis.rule for diagnosis in one.shown][:1] == ["R39"]
    half_empty = replace(pool_run(), tracks=pool_run().tracks[2:])
    answers = [
        diagnose(campaigns.run_evidence(run)) for run in (pool_run(), pool_run(), half_empty)
    ]
    merged = campaigns.merge_answers(answers)
    [first] = [diagnosis for diagnosis in merged.shown if diagnosis.rule == "R39"]
    assert "2 of the 3 runs" in first.proofs[-1].text and first.share == pytest.approx(2 / 3)
