# SPDX-License-Identifier: Apache-2.0
"""Derive figures from artifacts, as the database takes them. Nothing is stored here; it can be repeated at any time.

What a host's tool called them is cleaned; what cannot be is refused.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import nan
from typing import Any, TypeVar

from agents import options
from agents.contracts import Histogram, Metric, OptionsError, ParseError, Series, Timing, Window
from agents.drivers import protocols, registry
from agents.jobs import job
from agents.plaintext import visible
from agents.texts.parsed_result import ParsedResult
from benchlab.analysis.findings.over_time import clock_step
from benchlab.runs.artifacts import SAMPLES, Outputs
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
        metrics = storable_metrics(tool.parse(files, built))
        if binning is not None:
            histograms = storable_histograms(binning.parse_histograms(files, built))
        windows, doubts = _read_windows(attempt, files, built, began)
        if recording is not None and not (large := _too_large(files, kind)):
            series = storable_series((kind, item) for item in recording.parse_series(files, built))
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
        return Figures(storable_metrics(parse(files, built)), [], [])
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
            series += storable_series((kind, item) for item in sampler.frames_to_series(frames))
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
                metrics += storable_metrics(
                    _point_metrics(results[0], artifact, only[0] if only else {})
                )
                histograms += storable_histograms(
                    _of_point(results[0].histograms, only[0] if only else {})
                )
            series += storable_series((kind, item) for item in results[0].series)
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
            series += storable_series((kind, item) for item in reader.join_series(texts, beside))
        except ParseError as error:
            errors.append(f"{', '.join(list(artifacts.values())[:3])}: {error}")
    return series, errors


def _point_metrics(reading: ParsedResult, artifact: str, only: Mapping[str, str]) -> list[Metric]:
    """Metrics of a result, or those of one point of its sweep."""
    return [
        dataclasses.replace(metric, output=artifact) for metric in _of_point(reading.metrics, only)
    ]


Labelled = TypeVar("Labelled", Metric, Histogram)


def _of_point(rows: Iterable[Labelled], only: Mapping[str, str]) -> list[Labelled]:
    """The rows of one point of a sweep without the labels that distinguish it; all of them without `only`."""
    return [
        dataclasses.replace(
            row, labels={name: value for name, value in row.labels.items() if name not in only}
        )
        for row in rows
        if only.items() <= row.labels.items()
    ]


# characters, as runs.models has them
NAME_MAX, DEVICE_MAX, LABEL_MAX = 100, 255, 1000
NOTE_MAX = 8000
# In base units no figure is beyond these, and what divides or squares two of them stays a number.
LEAST, GREATEST = 1e-30, 1e30


def storable_metrics(metrics: Iterable[Metric]) -> list[Metric]:
    """Metrics with plain labels and notes, and without values that nothing can have.

    Raises ParseError for a name too long, or one that comes twice.
    """
    clean = [
        replace(
            m, name=visible(m.name), labels=_clean_labels(m.labels), note=visible(m.note, NOTE_MAX)
        )
        for m in map(_possible_metric, metrics)
    ]
    for metric in clean:
        _check_length(metric.name, NAME_MAX, "figure")
    _check_unique(((metric.name, *sorted(metric.labels.items())) for metric in clean), "figure")
    return clean


def storable_histograms(histograms: Iterable[Histogram]) -> list[Histogram]:
    """Histograms with plain labels, without those that counted nothing."""
    clean = [
        replace(histogram, name=visible(histogram.name), labels=_clean_labels(histogram.labels))
        for histogram in histograms
        if histogram.counts
    ]
    for histogram in clean:
        _check_length(histogram.name, NAME_MAX, "histogram")
    _check_unique(
        ((histogram.name, *sorted(histogram.labels.items())) for histogram in clean), "histogram"
    )
    return clean


def storable_series(named_series: Iterable[tuple[str, Series]]) -> list[tuple[str, Series]]:
    """Cleaned pairs of sampler and series."""
    clean = [
        (kind, replace(series, device=visible(series.device), values=_finite_values(series.values)))
        for kind, series in named_series
    ]
    for _, series in clean:
        _check_length(series.device, DEVICE_MAX, "device")
    _check_unique(((kind, series.device, series.metric) for kind, series in clean), "series")
    return clean


def _possible_metric(metric: Metric) -> Metric:
    value = metric.value
    if value is None or value == 0 or LEAST <= abs(value) <= GREATEST:
        return metric
    message = f"{value:g} {metric.unit.value} was printed, which nothing can have"
    return replace(metric, value=None, note=f"{message}. {metric.note}".removesuffix(". "))


def _finite_values(values: Sequence[float]) -> tuple[float, ...]:
    """Replace values that no device has by NaN."""
    if all(abs(value) <= GREATEST for value in values):
        return tuple(values)
    return tuple(value if abs(value) <= GREATEST else nan for value in values)


def _clean_labels(labels: Mapping[str, str]) -> dict[str, str]:
    return {visible(name, LABEL_MAX): visible(value, LABEL_MAX) for name, value in labels.items()}


def _check_length(name: str, most: int, what: str) -> None:
    if len(name) > most:
        raise ParseError(f"the name of a {what} is {len(name)} characters long: {name[:60]!r}")


def _check_unique(keys: Iterable[Hashable], what: str) -> None:
    key, times = next(iter(Counter(keys).most_common(1)), ("", 1))
    if times > 1:
        raise ParseError(f"the same {what} comes {times} times: {str(key)[:200]}")
