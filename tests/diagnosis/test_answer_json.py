"""An answer as JSON: quoted lines, several texts, and the workload of a next step."""

from __future__ import annotations

import pytest

from benchlab.diagnosis import answer_json
from benchlab.diagnosis.answer_json import (
    AnswerJson,
    answer_to_json,
    assign_lines,
    diagnose_text_evidence,
    merge_answers,
)
from benchlab.diagnosis.answers import Answer, diagnose
from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.model import Diagnosis, NextStep, Verdict
from benchlab.diagnosis.pasted import join_evidence, read_evidence
from tests.diagnosis.made import FIO, LINE_OF_IOPS, four_diagnoses  # noqa: F401

pytestmark = pytest.mark.usefixtures("four_diagnoses")


def answer_of(text: str) -> AnswerJson:
    evidence, _ = read_evidence(text)
    return answer_to_json(diagnose(evidence), evidence)


def test_proofs_quote_their_lines():
    answer = answer_of(FIO)
    assert [row["rule"] for row in answer["shown"]] == ["T4", "T1", "T2"]
    assert [row["rule"] for row in answer["folded"]] == ["T3"]
    assert answer["headline"] == "3 likely causes found in 1 result."
    (proof,) = answer["shown"][1]["proofs"]
    quoted = {line["number"]: line["text"] for line in proof["lines"]}
    assert quoted[LINE_OF_IOPS].startswith("read: IOPS=12.1k")


def test_a_next_step_has_the_workload_of_its_result():
    (step,) = answer_of(FIO)["shown"][1]["next_steps"]
    workload = step["workload"]
    assert workload is not None and workload["tool"] == "fio"
    assert workload["sweep"] == {"iodepth": [1, 4, 16]}
    assert (
        workload["options"] | {"rw": "randread", "block_size": 4096, "direct": True}
        == (workload["options"])
    )
    assert workload["options"]["ioengine"] == "io_uring" and "iodepth" not in workload["options"]


def test_lines_of_joined_texts_are_those_of_their_files():
    parts = [read_evidence(text)[0] for text in ("$ lsblk\n\n", FIO)]
    evidence = join_evidence(parts)
    before = len(parts[0].lines)
    assert evidence.results[0].line("read.iops") == before + LINE_OF_IOPS
    shifted = answer_to_json(diagnose(evidence), evidence)
    placed = assign_lines(shifted, [(0, 51), (before, 52)])
    (proof,) = placed["shown"][1]["proofs"]
    assert {line["file"] for line in proof["lines"]} <= {51, 52}
    assert proof["lines"][0]["file"] == 52


def test_files_of_an_archive_share_a_diagnosis():
    answer = answer_of(FIO)
    merged = merge_answers([answer, answer, answer_of("nothing")])
    assert merged["readable"] == 2 and not merged["nothing_unusual"]
    assert {row["rule"]: row["also"] for row in merged["shown"]} == {"T4": 1, "T1": 1, "T2": 1}


def test_the_answer_for_one_file_stays_as_it_is():
    answer = answer_of(FIO + FIO.replace("deep", "other"))
    assert answer["readable"] == 2 and merge_answers([answer]) == answer


def test_nothing_unusual_says_what_was_read(monkeypatch):
    monkeypatch.setattr("benchlab.diagnosis.answers.all_rules", lambda: {})
    assert answer_of(FIO)["headline"] == "Nothing unusual in 1 result."
    answer = answer_of("no tool printed this")
    assert not answer["nothing_unusual"] and answer["headline"].startswith("No result")


@pytest.mark.parametrize(
    ("kind", "own", "wanted", "tool", "part"),
    [
        (
            "fio",
            {"rw": "write"},
            {"end_fsync": 1},
            "fio",
            {"rw": "write", "extra": ["end_fsync=1"]},
        ),
        ("fio", {"rw": "write"}, {"direct": 1}, "fio", {"direct": True}),
        ("sysbench", {}, {"rw": "write", "block_size": 65536}, "fio", {"block_size": 65536}),
        ("dd", {}, {"iodepth": [1, 4]}, "", {}),
        ("fio", {"rw": "no such pattern"}, {"iodepth": [1, 4]}, "", {}),
    ],
    ids=["extra option", "bool", "fio for another tool", "not dd's", "not readable"],
)
def test_workloads_of_next_steps(kind, own, wanted, tool, part):
    result = Result(kind, "a test", options=own)
    diagnosis = Diagnosis(
        Verdict.DOUBT, "a", next_steps=(NextStep("b", options=wanted),), results=(0,)
    )
    answer = answer_to_json(Answer((diagnosis,), (), (), 1), Evidence((result,)))
    (step,) = answer["shown"][0]["next_steps"]
    workload = step["workload"]
    assert (workload["tool"] if workload else "") == tool
    assert workload is None or part.items() <= workload["options"].items()


def test_many_results_are_not_all_diagnosed(monkeypatch):
    monkeypatch.setattr(answer_json, "MAX_RESULTS", 1)
    evidence, _ = read_evidence(FIO + FIO.replace("deep", "other"))
    answer = diagnose_text_evidence(evidence)
    assert answer["readable"] == 1
    assert answer["note"] == "Only the first 1 of 2 results were diagnosed."


LSBLK = "NAME SIZE TYPE ROTA\nsda 4T disk 1\nsdb 4T disk 1\n"


def test_a_text_that_only_describes_the_machine_is_recognised():
    evidence, _ = read_evidence(LSBLK)
    answer = diagnose_text_evidence(evidence)
    assert answer["headline"] == "Nothing was diagnosed."
    assert answer["note"].startswith("The text describes the machine, but has no figures.")


def test_a_text_without_figures_and_facts_is_not_recognised():
    evidence, _ = read_evidence("My disk is slow since Tuesday.")
    answer = diagnose_text_evidence(evidence)
    assert (answer["headline"][:9], answer["note"]) == ("No result", "")


def test_a_cause_without_a_result_is_not_denied():
    """A missing member of an array shows without any benchmark."""
    cause = Diagnosis(Verdict.LIMIT, "A member is missing.")
    answer = answer_to_json(Answer((cause,), (), (), 0), Evidence())
    assert answer["headline"] == "1 likely cause found, but no result was recognised."
