# SPDX-License-Identifier: Apache-2.0
"""Names at the ends of lines, where there are few: who looks at a line need not look for it in the legend. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchlab.charts.label_places import (
    LETTER_PX,
    OFF_PX,
    Numbers,
    Plot,
    Scale,
    end_offsets,
    shorten_labels,
)
from benchlab.charts.palette import Style

# lines that have names there
MAX_NAMED_LINES = 6
# How the `name` of such an annotation begins, before its line's legendgroup: charts.js leaves it out of a narrow chart,
# and hides it with its line.
END_PREFIX = "end: "


@dataclass(frozen=True, slots=True)
class NamedLine:
    """A line; `x`, `y` in base units, `group` that its legend shows and hides it by."""

    label: str
    group: str
    style: Style
    x: Numbers
    y: Numbers


def end_name_annotations(
    lines: Sequence[NamedLine], x: Scale, y: Scale, axes: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Annotations with the names of two to six lines, where they have room; `axes`: Plotly's names of the panel's.

    To the right there is always room: Plotly fits an axis to its annotations as it does to its points.
    """
    labels = (
        shorten_labels([line.label for line in lines]) if 1 < len(lines) <= MAX_NAMED_LINES else []
    )
    if not labels:
        return []
    beyond = LETTER_PX * max(map(len, labels))
    plot = Plot.from_lines(x, y, [(line.x, line.y) for line in lines], beyond)
    return [
        {
            "name": f"{END_PREFIX}{line.group}",
            "text": name,
            "x": x.axis_value(line.x[-1]),
            "y": y.axis_value(line.y[-1]),
            **axes,
            "xanchor": "left",
            "yanchor": "middle",
            "xshift": OFF_PX,
            "yshift": round(up, 1),
            "showarrow": False,
            "font": {"color": line.style.ink, "size": 11},
        }
        for line, name, up in zip(lines, labels, end_offsets(plot, labels), strict=True)
        if up is not None
    ]
