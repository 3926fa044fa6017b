# SPDX-License-Identifier: Apache-2.0
"""The end of an attempt with its figures, stored as rows: when it is over, and when its artifacts are read again."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Sequence

from django.db import transaction

from agents.contracts import ParseError, Reason
from agents.drivers import registry
from agents.jobs import job
from benchlab.analysis.findings.over_time import clock_step
from benchlab.analysis.formats import rate
from benchlab.runs import artifact_figures, strips, transitions
from benchlab.runs.artifact_figures import Figures
from benchlab.runs.artifacts import SAMPLES, Outputs
from benchlab.runs.attempt_meta import NOT_SAMPLED
from benchlab.runs.models import Attempt, Histogram, Measurement, Series
from benchlab.runs.states import AttemptPhase, Outcome
from benchlab.runs.verdict import Verdict
from benchlab.workers import messages

# Asked of a worker for each result: a step has no time for it
FIND_TASK = "benchlab.findings.tasks.find"


def conclude_attempt(
    attempt: Attempt, verdict: Verdict, files: Outputs | None = None
) -> tuple[Verdict, Figures]:
    """Verdict and figures of the attempt, now that its output is read. Nothing is stored: see `end_attempt`.

    Of a tool that gave up, what it had printed is kept; it ends as failed, and says so. `files`: its artifacts, where
    somebody has them.
    """
    files = Outputs(attempt) if files is None else files
    _note_clock(attempt, files)
    verdict = _fail_if_version_differs(attempt, _fail_if_clock_set(attempt, verdict), files)
    if _gave_up(attempt, verdict.reason):
        figures = artifact_figures.read_figures(attempt, partly=True, files=files)
        return dataclasses.replace(
            verdict, text=verdict.text + _kept_figures_text(figures)
        ), figures
    figures = artifact_figures.read_figures(
        attempt, with_metrics=verdict.outcome == Outcome.SUCCEEDED, files=files
    )
    if verdict.outcome != Outcome.SUCCEEDED:
        return verdict, figures
    if figures.errors:
        message = "; ".join(figures.errors)
        return Verdict(Outcome.FAILED, Reason.PARSE_FAILED, message), figures
    return _io_errors(figures) or verdict, figures


def end_attempt(attempt: Attempt, verdict: Verdict, figures: Figures | None = None) -> None:
    """End the attempt with its figures, if it has any: all of it is stored, or nothing. Raises Moved."""
    if figures is not None:
        note_windows(attempt, figures)
    transitions.move_attempt(
        attempt,
        AttemptPhase.DONE,
        verdict.text,
        also=None if figures is None else lambda: store_figures(attempt, figures),
        outcome=verdict.outcome,
        reason=verdict.reason,
        reason_text=verdict.text,
        meta=attempt.meta,
        windows=attempt.windows,
    )
    if verdict.outcome == Outcome.SUCCEEDED:
        messages.after_commit(FIND_TASK, [attempt.pk])


def end_unbegun_attempts(attempts: Sequence[Attempt], verdict: Verdict) -> None:
    """End attempts of one layout as `end_attempt` does; they are queued and have no figures to store. Raises Moved."""
    transitions.end_queued_attempts(dict.fromkeys(attempts, verdict))
    if verdict.outcome == Outcome.SUCCEEDED:
        messages.after_commit(FIND_TASK, [attempt.pk for attempt in attempts])


def _note_clock(attempt: Attempt, files: Outputs) -> None:
    """Record that the clock was set and set back, which the readings at both ends of a run cannot reveal."""
    with contextlib.suppress(ParseError):
        step = job.clock_set(files.get(SAMPLES, b""))
        # The readings at both ends are exact; this one is accurate to a second.
        if abs(step) > abs(attempt.meta.get("clock_step") or 0.0) + 1.0:
            attempt.meta["clock_step"] = step


def _fail_if_clock_set(attempt: Attempt, verdict: Verdict) -> Verdict:
    """Fail an attempt whose tool measured time by a clock that was set meanwhile, or may have been."""
    step, run = clock_step(attempt.meta), attempt.run
    if (
        not step
        or verdict.outcome != Outcome.SUCCEEDED
        or registry.uses_monotonic_clock(run.tool, run.options)
    ):
        return verdict
    text = (
        f"The host's clock was set {'forward' if step > 0 else 'back'} by {rate(abs(step), 's')} during the run, and "
        f"{registry.tool(run.tool).LABEL} may time by that clock: its figures would be wrong."
    )
    return Verdict(Outcome.FAILED, Reason.CHANGED_MEANWHILE, text)


def _fail_if_version_differs(attempt: Attempt, verdict: Verdict, files: Outputs) -> Verdict:
    """Fail an attempt of a tool whose version differs from the checked one, under which the result is stored."""
    ran, recorded = registry.printed_version(attempt.run.tool, files), attempt.tool_version.strip()
    if not ran or not recorded or ran == recorded or verdict.outcome != Outcome.SUCCEEDED:
        return verdict
    text = (
        f"{ran} ran, and {recorded} was on the host when the layout was built: somebody replaced the program meanwhile."
        " Retry, and the version is read again."
    )
    return Verdict(Outcome.FAILED, Reason.CHANGED_MEANWHILE, text)


def _gave_up(attempt: Attempt, reason: str) -> bool:
    """True when the tool ended by itself and reported a failure."""
    return reason == Reason.TOOL_FAILED and bool(attempt.exit_code)


def _kept_figures_text(figures: Figures) -> str:
    count = sum(metric.value is not None for metric in figures.metrics)
    if not count:
        return ""
    what = f"figure{'s' * (count > 1)} that it had printed {'are' if count > 1 else 'is'}"
    return (
        f"\n{count} {what} kept, of a failed run: no chart shows {'them' if count > 1 else 'it'}."
    )


def _io_errors(figures: Figures) -> Verdict | None:
    failed = next((m for m in figures.metrics if m.name == "errors" and m.value), None)
    if failed is None:
        return None
    message = f"{failed.value:g} I/O errors. {failed.note}".strip()
    return Verdict(Outcome.FAILED, Reason.TOOL_FAILED, message)


def reparse_attempt(attempt: Attempt) -> str:
    """Read the figures again from the artifacts. Return what could not be read; then the old figures stay."""
    unread = _is_parser_failure(attempt)
    if _gave_up(attempt, attempt.reason):
        return _reparse_partly(attempt)
    measured = attempt.outcome == Outcome.SUCCEEDED or unread or attempt.measurements.exists()
    figures = artifact_figures.read_figures(attempt, with_metrics=measured)
    if figures.errors:
        return "; ".join(figures.errors)
    with transaction.atomic():
        replace_figures(attempt, figures)
        if unread:
            verdict = _io_errors(figures) or Verdict(Outcome.SUCCEEDED)
            attempt.outcome, attempt.reason = verdict.outcome, verdict.reason
            attempt.reason_text = verdict.text
            attempt.save(update_fields=["outcome", "reason", "reason_text"])
    return ""


def _reparse_partly(attempt: Attempt) -> str:
    figures = artifact_figures.read_figures(attempt, partly=True)
    if not figures.metrics and attempt.measurements.exists():
        return "none of its tool's output can be read any more"
    replace_figures(attempt, figures)
    return ""


def _is_parser_failure(attempt: Attempt) -> bool:
    """True when the tool did its part, and a parser of ours failed: in words, or by a crash."""
    if _fail_if_clock_set(attempt, Verdict(Outcome.SUCCEEDED)).outcome != Outcome.SUCCEEDED:
        return False
    if attempt.reason != Reason.INTERNAL:
        return attempt.reason == Reason.PARSE_FAILED
    through = attempt.meta.get("state") == job.State.EXITED and attempt.exit_code == 0
    during = attempt.meta.get("during")
    # Otherwise the run measured two states.
    return through and (during is None or bool(during.get("end")))


@transaction.atomic
def replace_figures(attempt: Attempt, figures: Figures) -> None:
    """Replace the stored figures; the artifacts are untouched.

    Samples that can no longer be read keep their stored series.
    """
    samplers = registry.all_samplers() if SAMPLES in figures.doubts else figures.doubts
    attempt.measurements.all().delete()
    attempt.histograms.all().delete()
    attempt.series.exclude(sampler__in=list(samplers)).delete()
    attempt.strips.all().delete()
    store_figures(attempt, figures)
    note_windows(attempt, figures)
    attempt.save(update_fields=["windows", "meta"])


def note_windows(attempt: Attempt, figures: Figures) -> None:
    """Copy windows and doubts of the figures to the attempt's row, which is not saved yet."""
    attempt.windows = [dataclasses.asdict(window) for window in figures.windows]
    attempt.meta.pop(NOT_SAMPLED, None)
    if figures.doubts:
        attempt.meta[NOT_SAMPLED] = dict(figures.doubts)


def store_figures(attempt: Attempt, figures: Figures) -> None:
    """Store the figures of an attempt that has none."""
    store_all_figures([(attempt, figures)])


def store_all_figures(figures_by_attempt: Sequence[tuple[Attempt, Figures]]) -> None:
    """Store the figures of several attempts that have none."""
    strips.copy_rows(
        Measurement,
        ("attempt", "name", "value", "unit", "labels", "note", "line", "output"),
        [
            (
                attempt.pk,
                m.name,
                m.value,
                str(m.unit),
                json.dumps(dict(m.labels)),
                m.note,
                m.line,
                m.output,
            )
            for attempt, figures in figures_by_attempt
            for m in figures.metrics
        ],
    )
    strips.copy_rows(
        Histogram,
        ("attempt", "name", "labels", "lows", "highs", "counts"),
        [
            (
                attempt.pk,
                histogram.name,
                json.dumps(dict(histogram.labels)),
                strips.array_literal(histogram.lows),
                strips.array_literal(histogram.highs),
                list(histogram.counts),
            )
            for attempt, figures in figures_by_attempt
            for histogram in figures.histograms
        ],
    )
    strips.copy_rows(
        Series,
        ("attempt", "sampler", "device", "metric", "unit", "times", "values"),
        [
            (
                attempt.pk,
                kind,
                series.device,
                series.metric,
                str(series.unit),
                strips.array_literal(series.times),
                strips.array_literal(series.values),
            )
            for attempt, figures in figures_by_attempt
            for kind, series in figures.series
        ],
    )
    for attempt, figures in figures_by_attempt:
        if figures.series:
            strips.store_strips(
                attempt, (strips.sampled_series(kind, series) for kind, series in figures.series)
            )
