"""Findings kept: made anew without losing what people said of them, and without ever costing a result."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import DatabaseError
from django.utils import timezone

from benchlab.analysis import finding
from benchlab.analysis.finding import Number, Severity
from benchlab.campaigns.models import Campaign
from benchlab.celery import app
from benchlab.findings import stored_runs, storing
from benchlab.findings.models import Finding, Looked
from benchlab.runs import conclusion
from benchlab.runs.states import AttemptPhase, Outcome
from benchlab.runs.verdict import Verdict
from benchlab.verdicts import set_ups
from benchlab.workers import messages

pytestmark = pytest.mark.django_db


@pytest.fixture
def only(monkeypatch):
    """Replaces the modules that look at runs, and at lines."""

    def use(lines=False, **looks) -> None:
        made = {kind: finding.Kind(kind, look) for kind, look in looks.items()}
        monkeypatch.setattr(finding, "line_findings" if lines else "run_findings", lambda: made)

    return use


def says(text: str, about: str = "", **more) -> finding.Finding:
    return finding.Finding(text, Severity.NOTE, {"n": Number(1.5, "s", "a time")}, about, **more)


def explode(_) -> list[finding.Finding]:
    raise ZeroDivisionError("a module of ours")


def found(**of) -> list[str]:
    return list(Finding.objects.filter(**of, stands=True).values_list("says", flat=True))


def test_what_a_run_is_evidence_of_is_kept(lab):
    storing.find_for_attempts([lab.attempt.pk])
    [row] = lab.attempt.findings.filter(kind="cached_read")
    assert (
        row.says
        == "90 % of what it read came from a cache: the tool counted 400 MB/s, the disks gave 40.0 MB/s"
    )
    assert (row.severity, row.campaign, row.runs) == ("doubt", lab.campaign, [lab.run.pk])
    assert row.numbers["disks"] == dataclasses.asdict(
        Number(40e6, "B/s", "read, by the disks", metric="read.bandwidth")
    )


def test_again_it_is_the_same_row_and_what_is_gone_goes(lab, only):
    only(one=lambda run: [says("a", "x"), says("b", "y")])
    storing.find_for_attempts([lab.attempt.pk])
    first = Finding.objects.get(about="x")
    only(one=lambda run: [says("c", "x")])
    storing.find_for_attempts([lab.attempt.pk])
    assert found(attempt=lab.attempt) == ["c"] and Finding.objects.get() == first


def test_one_that_explodes_keeps_no_other_from_being_told(lab, only):
    only(one=lambda run: [says("a")], two=lambda run: [says("b")])
    storing.find_for_attempts([lab.attempt.pk])
    only(one=explode, two=lambda run: [])
    storing.find_for_attempts([lab.attempt.pk])
    assert found() == ["a"], "what the broken one had found stays, what is no more goes"


def test_two_of_one_name_are_one_and_numbers_that_are_none_are_null(lab, only):
    odd = dataclasses.replace(
        says("first \x1b[1m"), numbers={"n": Number(float("nan"), "s", "x" * 9)}
    )
    only(one=lambda run: [odd, says("second")], two=lambda run: [says("y", "z" * 999)])
    storing.find_for_attempts([lab.attempt.pk])
    row = Finding.objects.get(kind="one")
    assert row.says == "first \\x1b[1m" and row.numbers["n"]["value"] is None
    assert len(Finding.objects.get(kind="two").about) == 300


@pytest.mark.parametrize("error", [ZeroDivisionError, DatabaseError, MemoryError])
def test_nothing_that_fails_here_costs_the_result(lab, monkeypatch, error):
    def fails(*args, **more):
        raise error("ours")

    monkeypatch.setattr(stored_runs, "read_runs", fails)
    storing.find_for_attempts([lab.attempt.pk])
    assert not Finding.objects.exists()
    lab.attempt.refresh_from_db()
    assert lab.attempt.outcome == Outcome.SUCCEEDED


def test_a_statement_that_fails_leaves_an_imports_transaction_whole(lab, monkeypatch):
    def fails(*args, **more):
        Finding.objects.raw("SELECT 1/0")[0]

    monkeypatch.setattr(stored_runs, "read_runs", fails)
    storing.find_for_attempts([lab.attempt.pk])
    assert lab.attempt.measurements.exists()  # the transaction goes on


def test_one_that_cannot_be_read_costs_no_other_its_findings(lab, monkeypatch):
    real, bad = stored_runs.read_runs, lab.attempts[1].pk

    def fails(pks, **more):
        if bad in pks:
            raise ZeroDivisionError("ours")
        return real(pks, **more)

    monkeypatch.setattr(stored_runs, "read_runs", fails)
    storing.find_for_attempts([bad, lab.attempt.pk])
    assert lab.attempt.findings.filter(kind="cached_read").exists()


def test_one_that_cannot_be_kept_costs_no_other_its_findings(lab, only, monkeypatch):
    real, bad = storing._changed_rows, lab.attempts[1].pk

    def fails(told, known):
        if told.attempt == bad:
            Finding.objects.raw("SELECT 1/0")[0]
        return real(told, known)

    only(one=lambda run: [says("a")])
    monkeypatch.setattr(storing, "_changed_rows", fails)
    storing.find_for_attempts([attempt.pk for attempt in lab.attempts])
    kept = set(Finding.objects.values_list("attempt", flat=True))
    assert kept == {attempt.pk for attempt in lab.attempts} - {bad}


def test_many_runs_are_kept_in_as_many_queries_as_one(
    lab, only, django_assert_num_queries, django_assert_max_num_queries
):
    for text in ("new", "changed", "changed"):
        only(one=lambda run, text=text: [says(text, "x"), says(text, "y")])
        with django_assert_max_num_queries(30) as few:
            storing.find_for_attempts([lab.attempts[1].pk])
        with django_assert_num_queries(len(few)):
            storing.find_for_attempts([attempt.pk for attempt in lab.attempts[2:]])
        assert set(found(attempt=lab.attempts[3])) == {text}


@pytest.fixture
def asked(monkeypatch) -> list[tuple[str, int]]:
    """Messages that a worker would have had."""
    found: list[tuple[str, int]] = []
    monkeypatch.setattr(messages, "send", lambda task, pk: found.append((task, pk)))
    return found


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED])
def test_a_worker_is_asked_for_those_of_a_result(
    lab, only, asked, outcome, django_capture_on_commit_callbacks
):
    lab.attempt.phase, lab.attempt.outcome = AttemptPhase.COLLECTING, ""
    lab.attempt.save()
    only(one=lambda run: [says("a")])
    with django_capture_on_commit_callbacks(execute=True):
        conclusion.end_attempt(lab.attempt, Verdict(outcome))
    if outcome == Outcome.FAILED:
        assert asked == []
        return
    [(task, pk)] = asked
    assert found() == []
    app.loader.import_default_modules()
    app.tasks[task](pk)
    assert found() == ["a"]


def test_what_a_lost_message_asked_for_is_found_when_the_campaign_is_over(lab, only):
    only(one=lambda run: [says("a")])
    Campaign.objects.update(source=Campaign.Source.MEASURED)
    set_ups.sweep_campaigns()
    assert "a" in found()


def test_a_result_that_came_later_has_the_set_ups_looked_at_again(lab):
    set_ups.sweep_campaigns()
    assert storing.campaigns_due(None) == []
    attempt = lab.attempt
    attempt.ended_at = timezone.now() + timedelta(seconds=1)
    attempt.save()
    assert storing.campaigns_due(None) == [attempt.run.campaign_id]


def test_a_result_stands_though_its_findings_explode(lab, only):
    only(one=explode)
    storing.find_for_attempts([lab.attempt.pk])
    lab.attempt.refresh_from_db()
    assert lab.attempt.outcome == "succeeded" and lab.attempt.measurements.exists()


def dismissed(row: Finding, user) -> Finding:
    row.dismissed_at, row.dismissed_by, row.note = timezone.now(), user, "known, the ARC is small"
    row.save()
    return row


def test_a_dismissal_survives_reparse_and_a_time_in_which_it_is_not_found(lab, only, monkeypatch):
    monkeypatch.setattr("benchlab.runs.conclusion.reparse_attempt", lambda attempt: "")
    only(one=lambda run: [says("a", "x")])
    storing.find_for_attempts([lab.attempt.pk])
    row = dismissed(Finding.objects.get(), lab.user)
    looks = [
        (lambda run: [says("b", "x")], True),
        (lambda run: [], False),
        (lambda run: [says("c", "x")], True),
    ]
    for look, stands in looks:
        only(one=look)
        call_command("reparse", attempt=lab.attempt.pk)
        row.refresh_from_db()
        assert (row.stands, row.note) == (stands, "known, the ARC is small") and row.dismissed_at
    assert row.says == "c"


@pytest.mark.parametrize(("problem", "failed"), [("", 0), ("no such line", 1)])
def test_reparse_counts_what_it_read(lab, monkeypatch, capsys, problem, failed):
    monkeypatch.setattr("benchlab.runs.conclusion.reparse_attempt", lambda attempt: problem)
    call_command("reparse", attempt=lab.attempt.pk)
    printed = capsys.readouterr()
    assert printed.out.startswith(f"1 attempts parsed again, {failed} with")
    assert (f"attempt {lab.attempt.pk}: no such line" in printed.err) is bool(problem)


def test_reparse_finds_for_runs_and_lines_alike(lab, only):
    only(one=explode)
    only(lines=True, two=lambda lines: [says(f"{len(lines)} lines", runs=(lab.run.pk,))])
    lab.attempt.artifacts.all().delete()
    for attempt in lab.attempts:
        attempt.findings.all().delete()
    call_command("reparse", campaign=lab.campaign.pk)
    row = Finding.objects.get(workload=lab.load)
    assert (row.says, row.attempt, row.runs) == ("2 lines", None, [lab.run.pk])


# Lines: once a campaign is over, and again when a result comes.


def test_lines_are_as_the_charts_name_them_and_in_the_order_they_were_built(lab, only):
    seen: list = []

    def look(lines) -> list[finding.Finding]:
        seen.extend(lines)
        return []

    only(lines=True, one=look)
    set_ups.sweep_campaigns()
    assert [line.name for line in seen] == ["one", "two"]
    assert {line.order for line in seen} == {"one_after_other"}
    assert seen[0].sweep_values("iops").keys() == {1, 4} and set(seen[0].repeats) == {1, 2}
    assert seen[0].runs[0].layout_disks and seen[0].workload == lab.load.name


def test_a_campaign_is_looked_at_once_it_is_over_and_again_when_a_result_came(lab, only):
    looks: list[int] = []

    def look(lines) -> list[finding.Finding]:
        looks.append(len(lines))
        return [says("a")]

    only(lines=True, one=look)
    layout = lab.campaign.layouts.first()
    layout.phase, layout.outcome = "ready", ""
    layout.save()
    set_ups.sweep_campaigns()
    assert looks == []
    layout.phase, layout.outcome = "done", "succeeded"
    layout.save()
    set_ups.sweep_campaigns()
    set_ups.sweep_campaigns()
    assert looks == [2] and Looked.objects.get().campaign == lab.campaign
    storing.find_for_attempts([lab.attempts[1].pk])
    set_ups.sweep_campaigns()
    assert looks == [2, 2]


def test_a_fault_between_lines_is_not_met_again_at_each_sweep(lab, only, monkeypatch):
    only(lines=True, one=explode)
    set_ups.sweep_campaigns()
    assert Looked.objects.exists() and found(attempt=None) == []
    Looked.objects.all().delete()
    monkeypatch.setattr(set_ups, "_campaign_groups", explode)
    set_ups.sweep_campaigns()
    assert Looked.objects.exists()


def test_what_was_found_between_lines_that_are_gone_goes(lab, only):
    only(lines=True, one=lambda lines: [says("a")] if lines else [])
    set_ups.sweep_campaigns()
    assert found(workload=lab.load) == ["a"]
    for attempt in lab.attempts:
        attempt.degraded = [{"says": "a disk failed", "seen": "during"}]
        attempt.save()
    storing.reset_comparison([lab.campaign.pk])
    set_ups.sweep_campaigns()
    assert found(attempt=None) == []


def test_it_goes_with_what_it_is_about(lab, only):
    only(one=lambda run: [says("a")])
    storing.find_for_attempts([lab.attempt.pk])
    lab.attempt.delete()
    assert not Finding.objects.exists()
