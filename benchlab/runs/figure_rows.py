# SPDX-License-Identifier: Apache-2.0
"""Figures of attempts as rows: stored, and put in place of those stored before."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from django.db import transaction

from agents.drivers import registry
from benchlab.runs import bulk, strips
from benchlab.runs.artifact_figures import Figures
from benchlab.runs.artifact_writer import SAMPLES
from benchlab.runs.attempt_meta import NOT_SAMPLED
from benchlab.runs.models import Attempt, Histogram, Measurement, Series


@transaction.atomic
def replace(attempt: Attempt, figures: Figures) -> None:
    """Put the figures in place of those stored before; the artifacts are untouched.

    What was sampled and can be read no more stays as it was read before.
    """
    samplers = registry.all_samplers() if SAMPLES in figures.doubts else figures.doubts
    attempt.measurements.all().delete()
    attempt.histograms.all().delete()
    attempt.series.exclude(sampler__in=list(samplers)).delete()
    attempt.strips.all().delete()
    put(attempt, figures)
    note(attempt, figures)
    attempt.save(update_fields=["windows", "meta"])


def note(attempt: Attempt, figures: Figures) -> None:
    """Note in its own row what the figures say of windows and doubts; it is not saved yet."""
    attempt.windows = [dataclasses.asdict(one) for one in figures.windows]
    attempt.meta.pop(NOT_SAMPLED, None)
    if figures.doubts:
        attempt.meta[NOT_SAMPLED] = dict(figures.doubts)


def put(attempt: Attempt, figures: Figures) -> None:
    """Store the figures of an attempt that has none."""
    put_all([(attempt, figures)])


def put_all(found: Sequence[tuple[Attempt, Figures]]) -> None:
    """Those of several attempts that have none."""
    bulk.copy(
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
            for attempt, figures in found
            for m in figures.metrics
        ],
    )
    bulk.copy(
        Histogram,
        ("attempt", "name", "labels", "lows", "highs", "counts"),
        [
            (
                attempt.pk,
                one.name,
                json.dumps(dict(one.labels)),
                bulk.array(one.lows),
                bulk.array(one.highs),
                list(one.counts),
            )
            for attempt, figures in found
            for one in figures.histograms
        ],
    )
    bulk.copy(
        Series,
        ("attempt", "sampler", "device", "metric", "unit", "times", "values"),
        [
            (
                attempt.pk,
                kind,
                one.device,
                one.metric,
                str(one.unit),
                bulk.array(one.times),
                bulk.array(one.values),
            )
            for attempt, figures in found
            for kind, one in figures.series
        ],
    )
    for attempt, figures in found:
        if figures.series:
            strips.put(attempt, (strips.of(kind, one) for kind, one in figures.series))
