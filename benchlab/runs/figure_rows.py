# SPDX-License-Identifier: Apache-2.0
"""Figures of attempts as rows: stored, and put in place of those stored before."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from django.db import transaction

from agents.drivers import registry
from benchlab.runs import bulk_copy, strips
from benchlab.runs.artifact_figures import Figures
from benchlab.runs.artifact_writer import SAMPLES
from benchlab.runs.attempt_meta import NOT_SAMPLED
from benchlab.runs.models import Attempt, Histogram, Measurement, Series


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
    bulk_copy.copy_rows(
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
    bulk_copy.copy_rows(
        Histogram,
        ("attempt", "name", "labels", "lows", "highs", "counts"),
        [
            (
                attempt.pk,
                histogram.name,
                json.dumps(dict(histogram.labels)),
                bulk_copy.array_literal(histogram.lows),
                bulk_copy.array_literal(histogram.highs),
                list(histogram.counts),
            )
            for attempt, figures in figures_by_attempt
            for histogram in figures.histograms
        ],
    )
    bulk_copy.copy_rows(
        Series,
        ("attempt", "sampler", "device", "metric", "unit", "times", "values"),
        [
            (
                attempt.pk,
                kind,
                series.device,
                series.metric,
                str(series.unit),
                bulk_copy.array_literal(series.times),
                bulk_copy.array_literal(series.values),
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
