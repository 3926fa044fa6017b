"""A clock that was set during a run, a tool that stood still, another than was there: no figure of theirs counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.contracts import Job, Reason
from agents.drivers import registry
from benchlab.runs import artifacts, conclusion
from benchlab.runs.states import Outcome
from benchlab.runs.verdict import Verdict, judge_attempt
from tests.runs.test_collect import CLOCKS, DD, attempt, concluded

__all__ = ["attempt"]

CASES = Path(__file__).parents[1] / "cases" / "tools" / "pg_test_fsync"
PG_TEST_FSYNC = (CASES / "15.18.txt").read_bytes()
FIO = (CASES.parent / "fio" / "3.33-client-alone.json").read_bytes()


def test_a_tool_that_somebody_stopped_for_a_while_has_no_figures(attempt):
    """fio that was stopped for 3 s of 5 did a third of its IOPS, and they stood as a result."""
    attempt.meta |= {"state": "exited", "halted": 3}
    attempt.exit_code = 0
    verdict = judge_attempt(attempt, Job(argv=("fio",)))
    assert (verdict.outcome, verdict.reason) == (Outcome.FAILED, Reason.CHANGED_MEANWHILE)
    assert "fio was stopped by a signal" in verdict.text
    attempt.meta["halted"] = 0
    assert judge_attempt(attempt, Job(argv=("fio",))).outcome == Outcome.SUCCEEDED


SET_BACK = b"".join(
    b"@ %d\n# /proc/stat\n cpu  1 0 1 %d 0 0 0 0 0 0\n btime %d\n.\n" % (n * 10**9, n, 1_700_000_000 + away)
    for n, away in enumerate((0, 3600, 0), start=1)
)  # fmt: skip
BY_THE_TIME_OF_DAY = {"job_file": "[a]\nrw=randread\nclocksource=gettimeofday\n"}


@pytest.mark.parametrize(
    ("tool", "given", "stands"),
    [("dd", {}, True), ("fio", {}, True), ("dynamo", {}, True), ("fio", BY_THE_TIME_OF_DAY, False),
     ("bonnie", {}, False), ("pg_test_fsync", {}, False), ("sysbench", {}, False), ("command", {}, False)],
)  # fmt: skip
def test_a_tool_times_by_a_clock_that_nobody_can_set_or_its_run_fails(tool, given, stands):
    assert registry.uses_monotonic_clock(tool, given) == stands


@pytest.mark.parametrize("told", ["by both ends", "by the samples"])
def test_a_clock_that_was_set_fails_the_run_of_a_tool_that_times_by_it(attempt, told):
    """pg_test_fsync asks for the time of day: one of its tests then took an hour, and said so as a rate."""
    attempt.run.tool = "pg_test_fsync"
    attempt.run.save()
    attempt.meta |= CLOCKS | ({"clock_step": 3600.2} if told == "by both ends" else {})
    samples = SET_BACK if told == "by the samples" else b""
    artifacts.store_artifacts(attempt, {"stdout": PG_TEST_FSYNC, artifacts.SAMPLES: samples})
    attempt.measurements.all().delete()
    verdict = concluded(attempt, Verdict(Outcome.SUCCEEDED))
    assert (verdict.outcome, verdict.reason) == (Outcome.FAILED, Reason.CHANGED_MEANWHILE)
    assert "clock was set forward by 3.6" in verdict.text and "pg_test_fsync" in verdict.text
    assert not attempt.measurements.exists()
    attempt.outcome, attempt.reason = verdict.outcome, verdict.reason
    attempt.save()
    assert conclusion.reparse_attempt(attempt) == "" and not attempt.measurements.exists()
    assert attempt.outcome == Outcome.FAILED


def test_a_clock_that_was_set_and_set_back_costs_dd_nothing_but_a_doubt(attempt):
    attempt.meta |= CLOCKS
    artifacts.store_artifacts(attempt, {"stderr": DD, artifacts.SAMPLES: SET_BACK})
    assert concluded(attempt, Verdict(Outcome.SUCCEEDED)).outcome == Outcome.SUCCEEDED
    assert attempt.measurements.exists() and attempt.meta["clock_step"] == 3600.0


@pytest.mark.parametrize(("known", "stands"), [("fio-3.33", True), ("fio-3.39", False), ("", True)])
def test_a_result_is_kept_under_the_version_that_ran_or_not_at_all(attempt, known, stands):
    """fio was replaced between two runs, and the second one's result named the first one's version."""
    attempt.run.tool, attempt.run.options = "fio", {"log_avg_msec": 0}
    attempt.run.save()
    attempt.tool_version = known
    artifacts.store_artifacts(attempt, {"fio.json": FIO})
    verdict = concluded(attempt, Verdict(Outcome.SUCCEEDED))
    assert (verdict.outcome == Outcome.SUCCEEDED) == stands, verdict.text
    if not stands:
        assert verdict.reason == Reason.CHANGED_MEANWHILE
        assert "fio-3.33 ran, and fio-3.39 was on the host" in verdict.text
