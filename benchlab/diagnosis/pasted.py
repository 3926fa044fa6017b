# SPDX-License-Identifier: Apache-2.0
"""Evidence of a pasted text. Nothing is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from agents.context.model import Fact, Facts
from agents.context.reading import read_facts
from agents.contracts import Metric
from agents.drivers import text_reading
from agents.texts.parsed_result import ParsedResult, Reading
from benchlab.diagnosis import wording
from benchlab.diagnosis.evidence import Evidence, Result


def read_evidence(text: str, name: str = "") -> tuple[Evidence, Reading]:
    """Evidence of the text, and what its readers found and left unread."""
    reading = text_reading.read_text(text, name)
    return build_evidence(reading, text), reading


def build_evidence(reading: Reading, text: str) -> Evidence:
    """Evidence of a text that was read."""
    read = (parsed for parsed in reading.results if not parsed.trouble)
    parts = (part for parsed in read for part in parsed.each_part())
    results = tuple(_result(point) for part in parts for point in _points(part))
    return Evidence(results, read_facts(text), tuple(text.split("\n")))


def join_evidence(parts: Sequence[Evidence]) -> Evidence:
    """Evidence of several texts as if they were pasted one below the other."""
    results: list[Result] = []
    facts: list[Fact] = []
    lines: list[str] = []
    for part in parts:
        before = len(lines)
        results += [_moved_result(result, before) for result in part.results]
        facts += [replace(fact, line=fact.line + before) for fact in part.facts]
        lines += part.lines
    return Evidence(tuple(results), Facts(tuple(facts)), tuple(lines))


def _moved_result(result: Result, by: int) -> Result:
    """The result with every line number larger by `by`; 0 stays, as it names no line."""
    return replace(
        result,
        metrics=_moved_metrics(result.metrics, by),
        details=_moved_metrics(result.details, by),
        first=result.first + by,
        last=result.last + by,
    )


def _moved_metrics(metrics: Sequence[Metric], by: int) -> tuple[Metric, ...]:
    return tuple(replace(row, line=row.line + by) if row.line else row for row in metrics)


def _points(parsed: ParsedResult) -> Iterator[ParsedResult]:
    """Each point of a sweep in one table as a result of its own: its tests ran one after the other."""
    for labels in parsed.sweep_points():
        if not labels:
            yield parsed
            continue
        point = {name: int(v) if v.isdecimal() else v for name, v in labels.items()}
        depth = point.get("outstanding")
        yield replace(
            parsed,
            title=", ".join([parsed.title, *map(_point_text, point.items())]),
            metrics=tuple(
                _without_label(m, parsed.varies) for m in parsed.metrics if _has(m, labels)
            ),
            options={**parsed.options, **point},
            outstanding=depth if isinstance(depth, int) else parsed.outstanding,
        )


def _point_text(setting: tuple[str, int | str]) -> str:
    name, value = setting
    return wording.size(value) if name == "block_size" and isinstance(value, int) else str(value)


def _has(metric: Metric, labels: Mapping[str, str]) -> bool:
    return labels.items() <= metric.labels.items()


def _without_label(metric: Metric, name: str) -> Metric:
    rest = {key: value for key, value in metric.labels.items() if key != name}
    return replace(metric, labels=rest)


def _result(parsed: ParsedResult) -> Result:
    return Result(
        kind=parsed.kind,
        title=parsed.title,
        metrics=parsed.metrics,
        details=parsed.details,
        series=parsed.series,
        options=parsed.options,
        options_complete=parsed.options_complete,
        outstanding=parsed.outstanding,
        command=parsed.command,
        first=parsed.first,
        last=parsed.last,
    )
