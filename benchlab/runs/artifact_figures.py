# SPDX-License-Identifier: Apache-2.0
"""Derive figures from artifacts. Nothing is stored here, and it can be repeated at any time."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents import options
from agents.contracts import Histogram, Metric, OptionsError, ParseError, Series, Timing, Window
from agents.drivers import protocols, registry
from agents.jobs import job
from agents.texts.parsed_result import ParsedResult
from benchlab.analysis.findings.over_time import clock_step
from benchlab.runs import storable
from benchlab.runs.artifact_reader import Outputs
from benchlab.runs.artifact_writer import SAMPLES
from benchlab.runs.attempt_meta import READERS
from benchlab.runs.models import Attempt

log = logging.getLogger(__name__)

# Key in `doubts` for times that the tool reported and that could not be read.
TIMING = "when it measured"

# sampler, tool or reader, and its series
NamedSeries = tuple[str, Series]


@dataclass(frozen=True, slots=True)
class Figures:
    """Content of an attempt's artifacts. `errors`: sentences on what could not be read.

    `doubts`: samples that could not be read, by sampler; the tool's figures stand all the same.
    """

    metrics: list[Metric]
    series: list[NamedSeries]
    errors: list[str]
    doubts: Mapping[str, str] = field(default_factory=dict)
    windows: list[Window] = field(default_factory=list)
    histograms: Sequence[Histogram] = ()


def read_figures(
    attempt: Attempt,
    with_metrics: bool = True,
    partly: bool = False,
    files: Outputs | None = None,
) -> Figures:
    """Parse the stored artifacts. Of a run that was cut off only the series of its devices are worth keeping.

    `partly`: its tool gave up, and as much as can be read of what it printed is enough.
    """
    files = Outputs(attempt) if files is None else files
    if readers := attempt.meta.get(READERS):
        return read_imported(files, readers)
    sampled = _read_samples(files)
    figures = Figures([], [], [])
    if with_metrics:
        figures = (
            _read_partial_output(attempt, files)
            if partly
            else _read_tool_output(attempt, files, sampled.began)
        )
    series = figures.series + sampled.series
    return Figures(
        figures.metrics,
        series,
        figures.errors,
        {**figures.doubts, **sampled.doubts},
        figures.windows,
        figures.histograms,
    )


def _read_tool_output(attempt: Attempt, files: Outputs, began: float | None) -> Figures:
    """Figures that the tool itself reads, with its times on the clock of the samples, which started at `began`."""
    kind = attempt.run.tool
    tool, recording = registry.tool(kind), registry.implements(kind, protocols.RecordsSeries)
    binning = registry.implements(kind, protocols.LatencyHistogram)
    metrics: list[Metric] = []
    histograms: list[Histogram] = []
    series: list[NamedSeries] = []
    windows: list[Window] = []
    doubts: dict[str, str] = {}
    try:
        built = options.build_options(tool.Options, attempt.run.options)
        metrics = storable.storable_metrics(tool.parse(files, built))
        if binning is not None:
            histograms = storable.storable_histograms(binning.parse_histograms(files, built))
        windows, doubts = _read_windows(attempt, files, built, began)
        if recording is not None and not (large := _too_large(files, kind)):
            series = storable.storable_series(
                (kind, item) for item in recording.parse_series(files, built)
            )
        elif recording is not None:
            doubts = doubts | large
    except (OptionsError, ParseError) as error:
        # options that an earlier release took
        return Figures(metrics, [], [f"{kind}: {error}"], doubts, windows)
    return Figures(metrics, _shift_to_window(series, windows), [], doubts, windows, histograms)


def _read_partial_output(attempt: Attempt, files: Outputs) -> Figures:
    """Figures of a tool that gave up.

    None of its windows is whole, and a parser that fails on half an output is not worth a report.
    """
    kind = attempt.run.tool
    tool, salvaging = registry.tool(kind), registry.implements(kind, protocols.PartialResults)
    parse = tool.parse if salvaging is None else salvaging.parse_partial
    try:
        built = options.build_options(tool.Options, attempt.run.options)
        return Figures(storable.storable_metrics(parse(files, built)), [], [])
    except ParseError:
        return Figures([], [], [])
    except Exception:
        # A parser's crash must not hide how the tool ended.
        log.exception("attempt %s", attempt.pk)
        return Figures([], [], [])


def _read_windows(
    attempt: Attempt, files: Outputs, built: object, began: float | None
) -> tuple[list[Window], dict[str, str]]:
    """Windows of the tool since `began`, or since the job began without samples; and why they cannot be read."""
    marking, timing = (
        registry.implements(attempt.run.tool, protocols.MeasuredWindows),
        _timing(attempt.meta),
    )
    if marking is None or timing is None:
        return [], {}
    try:
        windows = marking.parse_windows(files, built, timing)
    except ParseError as error:
        return [], {TIMING: str(error)}
    late = timing.started - (timing.started if began is None else began)
    return [dataclasses.replace(w, start=w.start + late, end=w.end + late) for w in windows], {}


def _timing(meta: Mapping[str, Any]) -> Timing | None:
    """Timing of the job; None where the runner did not see both ends of it."""
    started, ended, epoch = (meta.get(k) for k in ("started_mono", "ended_mono", "started_at"))
    if started is None or ended is None:
        return None
    return Timing(started, ended, None if clock_step(meta) else epoch)


def _shift_to_window(series: list[NamedSeries], windows: Sequence[Window]) -> list[NamedSeries]:
    """Shift a tool's series, which count from the start of its measurement.

    Without a known start they stay as they are.
    """
    measured = [window for window in windows if window.measured]
    if len(measured) != 1:
        return series
    late = measured[0].start
    return [
        (kind, dataclasses.replace(samples, times=tuple(at + late for at in samples.times)))
        for kind, samples in series
    ]


def _too_large(files: Outputs, tool: str) -> dict[str, str]:
    """Doubts about logs that would fill the memory: they have no series, and the tool's figures stand without them."""
    try:
        files.check_all(but=SAMPLES)
    except ParseError as error:
        return {tool: str(error)}
    return {}


@dataclass(frozen=True, slots=True)
class _SampledSeries:
    """Series that each sampler can read, and why the others cannot: one costs its own series, never the run."""

    series: list[NamedSeries]
    doubts: Mapping[str, str]
    # the first frame: from there its times count
    began: float | None


def _read_samples(files: Outputs) -> _SampledSeries:
    series: list[NamedSeries] = []
    doubts: dict[str, str] = {}
    try:
        frames = job.frames(files.get(SAMPLES, b""))
    except ParseError as error:
        return _SampledSeries([], {SAMPLES: str(error)}, None)
    for kind, sampler in registry.all_samplers().items():
        try:
            series += storable.storable_series(
                (kind, item) for item in sampler.frames_to_series(frames)
            )
        except ParseError as error:
            doubts[kind] = str(error)
    return _SampledSeries(series, doubts, frames[0].at if frames else None)


def read_imported(files: Mapping[str, bytes], readers: Sequence[Sequence[Any]]) -> Figures:
    """Figures of results measured elsewhere: the first artifact has the metrics, each has its series.

    `readers`: as in the meta of an attempt.
    """
    metrics: list[Metric] = []
    series: list[NamedSeries] = []
    histograms: list[Histogram] = []
    errors: list[str] = []
    for number, (artifact, kind, name, *only) in enumerate(readers):
        if registry.implements(kind, protocols.JoinsTexts) is not None:
            continue
        results = registry.all_readers()[kind].find_results(files[artifact].decode(), name)
        if len(results) != 1 or results[0].trouble:
            message = (
                results[0].trouble if len(results) == 1 else f"{len(results)} results, not one"
            )
            errors.append(f"{artifact}: {message}")
            continue
        if results[0].needs:
            errors.append(f"{artifact}: {'; '.join(results[0].notes)}")
            continue
        try:
            if number == 0:
                metrics += storable.storable_metrics(
                    _point_metrics(results[0], artifact, only[0] if only else {})
                )
                histograms += storable.storable_histograms(results[0].histograms)
            series += storable.storable_series((kind, item) for item in results[0].series)
        except ParseError as error:
            errors.append(f"{artifact}: {error}")
    together, unread = _read_joined(files, readers)
    return Figures(metrics, series + together, errors + unread, histograms=histograms)


def _read_joined(
    files: Mapping[str, bytes], readers: Sequence[Sequence[Any]]
) -> tuple[list[NamedSeries], list[str]]:
    """Texts of which several are of one result, such as the log of each job, read together; and what could not be."""
    # reader -> file's name -> artifact
    artifacts_by_reader: dict[str, dict[str, str]] = {}
    for number, (artifact, kind, name, *_) in enumerate(readers):
        if registry.implements(kind, protocols.JoinsTexts) is not None:
            artifacts_by_reader.setdefault(kind, {})[f"{number}/{name}"] = artifact
    series: list[NamedSeries] = []
    errors: list[str] = []
    for kind, artifacts in artifacts_by_reader.items():
        reader, result = registry.implements(kind, protocols.JoinsTexts), readers[0][0]
        assert reader is not None
        texts = {name: files[artifact].decode() for name, artifact in artifacts.items()}
        beside = b"" if result in artifacts.values() else files[result]
        try:
            series += storable.storable_series(
                (kind, item) for item in reader.join_series(texts, beside)
            )
        except ParseError as error:
            errors.append(f"{', '.join(list(artifacts.values())[:3])}: {error}")
    return series, errors


def _point_metrics(reading: ParsedResult, artifact: str, only: Mapping[str, str]) -> list[Metric]:
    """Metrics of a result, or those of one point of its sweep without the labels that distinguish it."""
    return [
        dataclasses.replace(
            metric,
            output=artifact,
            labels={name: value for name, value in metric.labels.items() if name not in only},
        )
        for metric in reading.metrics
        if only.items() <= metric.labels.items()
    ]
