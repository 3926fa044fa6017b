# SPDX-License-Identifier: Apache-2.0
"""A reading as JSON, for the time until a person agrees. Series are counted only: they are read again from the text."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from agents.contracts import Metric, Unit
from agents.texts.found import Found, Reading

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
        "found": [_found(one) for one in reading.found],
        "unread": [dataclasses.asdict(one) for one in reading.unread],
    }


def from_json(one: Mapping[str, Any]) -> Found:
    """Of one entry of "found"; without its series."""
    metrics = tuple(
        Metric(m["name"], m["value"], Unit(m["unit"]), m["labels"], note=m["note"], line=m["line"])
        for m in one["metrics"]
    )
    return Found(
        **{name: one[name] for name in PLAIN if name in one},
        sweep=one.get("sweep", {}),
        metrics=metrics,
        options=one["options"],
        point=one["point"],
        notes=tuple(one["notes"]),
    )


def _found(one: Found) -> dict[str, Any]:
    return {
        **{name: plain(getattr(one, name)) for name in PLAIN},
        "metrics": [_metric(metric) for metric in one.metrics],
        "series": [
            {
                "device": series.device,
                "metric": series.metric,
                "unit": str(series.unit),
                "samples": len(series.values),
                "seconds": plain(series.times[-1]) if series.times else 0,
            }
            for series in one.series
        ],
        "options": plain(dict(one.options)),
        "point": plain(dict(one.point)),
        "sweep": plain(dict(one.sweep)),
        "notes": [plain(note) for note in one.notes],
    }


def _metric(metric: Metric) -> dict[str, Any]:
    return {
        "name": metric.name,
        "value": plain(metric.value),
        "unit": str(metric.unit),
        "labels": plain(dict(metric.labels)),
        "note": plain(metric.note),
        "line": metric.line,
    }


def plain(value: Any) -> Any:
    """Value that PostgreSQL's JSON takes: a text may have come with a NUL or half a character from a JSON string."""
    if isinstance(value, str):
        # nearly all of them
        if value.isascii() and "\0" not in value:
            return value
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {plain(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
