"""From a spool directory to artifacts, and from artifacts to figures. The second half can be done again at any time."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from django.db import transaction

from agents import job, options, registry
from agents.contracts import Metric, ParseError
from agents.contracts import Series as SeriesData
from benchlab.runs.models import Artifact, Attempt, LiveChunk, Measurement, Series

SAMPLES = "samples"  # the sampler's output, among the artifacts


@dataclass(frozen=True, slots=True)
class Figures:
    """What the artifacts of an attempt say; `errors`: what could not be read, in words."""

    metrics: list[Metric]
    series: list[tuple[str, SeriesData]]  # sampler kind, series
    errors: list[str]


@transaction.atomic
def store(attempt: Attempt, files: Mapping[str, bytes]) -> None:
    """Keep the raw output byte for byte. What was stored before stays as it is."""
    have = set(attempt.artifacts.values_list("name", flat=True))
    Artifact.objects.bulk_create(
        Artifact(
            attempt=attempt,
            name=name,
            content=raw,
            size=len(raw),
            sha256=hashlib.sha256(raw).hexdigest(),
        )
        for name, raw in files.items()
        if name not in have
    )
    LiveChunk.objects.filter(attempt=attempt).delete()


def read(attempt: Attempt) -> Figures:
    """Parse the stored artifacts; pure but for reading them."""
    files = {row.name: bytes(row.content) for row in attempt.artifacts.all()}
    errors: list[str] = []
    metrics: list[Metric] = []
    tool = registry.tool(attempt.run.tool)
    try:
        metrics = tool.parse(files, options.build(tool.Options, attempt.run.options))
    except ParseError as error:
        errors.append(f"{attempt.run.tool}: {error}")
    series: list[tuple[str, SeriesData]] = []
    try:
        frames = job.frames(files.get(SAMPLES, b""))
        for kind, sampler in registry.all_samplers().items():
            series += [(kind, one) for one in sampler.series(frames)]
    except ParseError as error:
        errors.append(f"samples: {error}")
    return Figures(metrics, series, errors)


@transaction.atomic
def replace(attempt: Attempt, figures: Figures) -> None:
    """Put the figures in place of those stored before; the artifacts are untouched."""
    attempt.measurements.all().delete()
    attempt.series.all().delete()
    Measurement.objects.bulk_create(
        Measurement(
            attempt=attempt,
            name=m.name,
            value=m.value,
            unit=m.unit,
            labels=dict(m.labels),
            note=m.note,
        )
        for m in figures.metrics
    )
    Series.objects.bulk_create(
        Series(
            attempt=attempt,
            sampler=kind,
            device=one.device,
            metric=one.metric,
            unit=one.unit,
            times=list(one.times),
            values=list(one.values),
        )
        for kind, one in figures.series
    )
