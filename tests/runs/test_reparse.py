"""Figures made anew: what a parser of ours spoilt comes back, and nothing else changes its outcome."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from agents.contracts import Metric, Reason, Unit
from agents.tools import dd
from benchlab.runs import artifacts, attempt_meta, conclusion
from benchlab.runs.models import Attempt
from tests.charts import made

pytestmark = pytest.mark.django_db

DD = (Path(__file__).parents[1] / "cases" / "tools" / "dd" / "9.1-direct.txt").read_bytes()
FIO_CASES = Path(__file__).parents[1] / "cases" / "tools" / "fio"
FIO = (FIO_CASES / "3.25-randrw.json").read_bytes()
ERRORS = [Metric("errors", 3.0, Unit.RATIO, note="EIO")]


@pytest.fixture
def attempts(team) -> list[Attempt]:
    """Three of dd that ended well on their hosts."""
    host, topology = made.host(team), made.topology(team, "raw")
    load = made.workload(team, "dd", "dd")
    found = made.swept(made.campaign(team), host, topology, load, depths=(1, 2, 3), repeats=1)
    for one in found:
        one.run.tool, one.run.options = "dd", {}
        one.run.save()
        one.artifacts.all().delete()
        one.measurements.all().delete()
        artifacts.store_artifacts(one, {"stdout": b"", "stderr": DD})
        one.meta |= {"state": "exited"}
        one.exit_code = 0
        one.save()
    return list(found)


def ended(attempt: Attempt, outcome: str, reason: str) -> Attempt:
    attempt.outcome, attempt.reason, attempt.reason_text = outcome, reason, "why"
    attempt.save()
    return attempt


def test_what_a_crash_of_a_parser_spoilt_comes_back(attempts):
    attempt = ended(attempts[0], "errored", Reason.INTERNAL)
    assert conclusion.reparse_attempt(attempt) == ""
    attempt.refresh_from_db()
    assert (attempt.outcome, attempt.reason, attempt.reason_text) == ("succeeded", "", "")
    assert attempt.measurements.exists()


def test_figures_stay_when_their_options_are_no_longer_accepted(attempts):
    """An earlier release ran fio with any engine."""
    attempt = attempts[0]
    assert conclusion.reparse_attempt(attempt) == ""
    stored = set(attempt.measurements.values_list("name", "value"))
    attempt.run.tool, attempt.run.options = "fio", {"ioengine": "sg"}
    attempt.run.save()
    assert "ioengine 'sg' is not allowed" in conclusion.reparse_attempt(attempt)
    assert set(attempt.measurements.values_list("name", "value")) == stored


@pytest.mark.parametrize(
    "meta",
    [
        {"state": "killed"},
        {"during": {"start": [{"says": "resync"}]}},
        {"during": {"start": [{"says": "resync"}], "end": []}},
    ],
)
def test_what_was_cut_off_or_measured_two_states_does_not(attempts, meta):
    attempt = ended(attempts[0], "errored", Reason.INTERNAL)
    attempt.meta |= meta
    assert conclusion.reparse_attempt(attempt) == ""
    assert (attempt.outcome, attempt.measurements.count()) == ("errored", 0)


@pytest.mark.parametrize("reason", [Reason.PARSE_FAILED, Reason.INTERNAL])
def test_io_errors_are_no_success_the_second_time_either(attempts, reason, monkeypatch):
    monkeypatch.setattr(dd, "parse", lambda files, options: ERRORS)
    attempt = ended(attempts[0], "failed", reason)
    assert conclusion.reparse_attempt(attempt) == ""
    attempt.refresh_from_db()
    assert (attempt.outcome, attempt.reason) == ("failed", Reason.TOOL_FAILED)
    assert "3 I/O errors. EIO" in attempt.reason_text


def test_figures_of_a_run_with_io_errors_stay(attempts):
    assert conclusion.reparse_attempt(attempts[0]) == ""
    attempt = ended(attempts[0], "failed", Reason.TOOL_FAILED)
    before = attempt.measurements.count()
    assert conclusion.reparse_attempt(attempt) == ""
    assert attempt.measurements.count() == before > 0
    assert (attempt.outcome, attempt.reason_text) == ("failed", "why")


def test_one_that_crashes_a_parser_does_not_stop_the_others(attempts, monkeypatch):
    parse, asked = dd.parse, []

    def broken(files, options):
        asked.append(1)
        if len(asked) == 2:
            raise RuntimeError("a bug")
        return parse(files, options)

    monkeypatch.setattr(dd, "parse", broken)
    out, err = StringIO(), StringIO()
    call_command("reparse", stdout=out, stderr=err)
    assert "3 attempts parsed again, 1 with something" in out.getvalue()
    assert (
        f"attempt {attempts[1].pk}: BenchLab itself failed: RuntimeError: a bug" in err.getvalue()
    )
    assert [one.measurements.exists() for one in attempts] == [True, False, True]


def test_what_is_too_large_for_the_memory_is_kept_and_said(attempts, monkeypatch):
    """The samples cost their series, the tool's own file its figures."""
    attempt = attempts[0]
    artifacts.store_artifacts(attempt, {artifacts.SAMPLES: b"x" * 2000})
    monkeypatch.setattr(artifacts, "FILE_MAX_BYTES", 1000)
    assert conclusion.reparse_attempt(attempt) == ""
    said = attempt.meta[attempt_meta.NOT_SAMPLED][artifacts.SAMPLES]
    assert said.startswith("samples has") and said.endswith("it is kept whole")
    assert attempt.measurements.exists()
    monkeypatch.setattr(artifacts, "FILE_MAX_BYTES", 10)
    assert "stderr has" in conclusion.reparse_attempt(attempt)
    assert attempt.measurements.exists()


def test_logs_that_are_too_large_together_have_no_series(attempts, monkeypatch):
    attempt = attempts[0]
    artifacts.store_artifacts(attempt, {"fio.json": FIO, "fio_clat_hist.1.log": b"not read"})
    attempt.run.tool = "fio"
    monkeypatch.setattr(artifacts, "TOTAL_MAX_BYTES", len(FIO))
    assert conclusion.reparse_attempt(attempt) == ""
    assert "it is kept whole" in attempt.meta[attempt_meta.NOT_SAMPLED]["fio"]
    assert attempt.measurements.exists()


def test_a_run_of_an_old_fio_that_was_refused_comes_back(attempts):
    """Its JSON has no count of samples: fio 3.18 brought that."""
    attempt = ended(attempts[0], "failed", Reason.PARSE_FAILED)
    attempt.run.tool = "fio"
    artifacts.store_artifacts(attempt, {"fio.json": (FIO_CASES / "3.16-single.json").read_bytes()})
    assert conclusion.reparse_attempt(attempt) == ""
    attempt.refresh_from_db()
    assert (attempt.outcome, attempt.reason) == ("succeeded", "")
    assert attempt.measurements.filter(name__endswith=".iops", value__gt=0).exists()


def test_what_cannot_be_read_says_which_field_and_keeps_what_came(attempts):
    attempt = ended(attempts[0], "failed", Reason.PARSE_FAILED)
    attempt.run.tool = "fio"
    raw = (FIO_CASES / "3.16-single.json").read_bytes().replace(b'"io_bytes"', b'"io_bytesx"')
    artifacts.store_artifacts(attempt, {"fio.json": raw})
    assert "io_bytes" in conclusion.reparse_attempt(attempt)
    assert bytes(attempt.artifacts.get(name="fio.json").content) == raw
    attempt.refresh_from_db()
    assert attempt.outcome == "failed"
