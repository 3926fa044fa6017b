# SPDX-License-Identifier: Apache-2.0
"""A reading as JSON, for the time until a person agrees. Series are counted only: they are read again from the text."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from agents.contracts import Metric, Unit
from agents.texts.parsed_result import ParsedResult, Reading

PLAIN = (
    "kind",
    "first",
    "last",
    "title",
    "tool",
    "version",
    "command",
    "outstanding",
    "trouble",
    "described",
    "head",
    "varies",
    "needs",
)


def to_json(reading: Reading) -> dict[str, Any]:
    return {
        "found": [_result_to_json(row) for row in reading.results],
        "unread": [dataclasses.asdict(row) for row in reading.unread],
    }


def from_json(stored: Mapping[str, Any]) -> ParsedResult:
    """Rebuild a result from an entry of "found"; without its series."""
    metrics = tuple(
        Metric(m["name"], m["value"], Unit(m["unit"]), m["labels"], note=m["note"], line=m["line"])
        for m in stored["metrics"]
    )
    return ParsedResult(
        **{name: stored[name] for name in PLAIN if name in stored},
        sweep=stored.get("sweep", {}),
        metrics=metrics,
        options=stored["options"],
        point=stored["point"],
        notes=tuple(stored["notes"]),
    )


def _result_to_json(result: ParsedResult) -> dict[str, Any]:
    return {
        **{name: storable_value(getattr(result, name)) for name in PLAIN},
        "metrics": [_metric_to_json(metric) for metric in result.metrics],
        "series": [
            {
                "device": series.device,
                "metric": series.metric,
                "unit": str(series.unit),
                "samples": len(series.values),
                "seconds": storable_value(series.times[-1]) if series.times else 0,
            }
            for series in result.series
        ],
        "options": storable_value(dict(result.options)),
        "point": storable_value(dict(result.point)),
        "sweep": storable_value(dict(result.sweep)),
        "notes": [storable_value(note) for note in result.notes],
    }


def _metric_to_json(metric: Metric) -> dict[str, Any]:
    return {
        "name": metric.name,
        "value": storable_value(metric.value),
        "unit": str(metric.unit),
        "labels": storable_value(dict(metric.labels)),
        "note": storable_value(metric.note),
        "line": metric.line,
    }


def storable_value(value: Any) -> Any:
    """Value that PostgreSQL's JSON takes: a text may have come with a NUL or half a character from a JSON string."""
    if isinstance(value, str):
        # nearly all of them
        if value.isascii() and "\0" not in value:
            return value
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {storable_value(str(key)): storable_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable_value(item) for item in value]
    return value
