# SPDX-License-Identifier: Apache-2.0
"""Names at the ends of lines, where there are few: who looks at a line need not look for it in the legend. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchlab.charts.label_places import LETTER_PX, OFF_PX, Numbers, Plot, Scale, ends, short
from benchlab.charts.palette import Style

# lines that have names there
MOST = 6
# How the `name` of such an annotation begins, before its line's legendgroup: charts.js leaves it out of a narrow chart,
# and hides it with its line.
END = "end: "


@dataclass(frozen=True, slots=True)
class Named:
    """A line; `x`, `y` in base units, `group` that its legend shows and hides it by."""

    label: str
    group: str
    style: Style
    x: Numbers
    y: Numbers


def names(
    lines: Sequence[Named], x: Scale, y: Scale, axes: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Annotations with the names of two to six lines, where they have room; `axes`: Plotly's names of the panel's.

    To the right there is always room: Plotly fits an axis to its annotations as it does to its points.
    """
    told = short([line.label for line in lines]) if 1 < len(lines) <= MOST else []
    if not told:
        return []
    beyond = LETTER_PX * max(map(len, told))
    plot = Plot.of(x, y, [(line.x, line.y) for line in lines], beyond)
    return [
        {
            "name": f"{END}{line.group}",
            "text": name,
            "x": x.place(line.x[-1]),
            "y": y.place(line.y[-1]),
            **axes,
            "xanchor": "left",
            "yanchor": "middle",
            "xshift": OFF_PX,
            "yshift": round(up, 1),
            "showarrow": False,
            "font": {"color": line.style.ink, "size": 11},
        }
        for line, name, up in zip(lines, told, ends(plot, told), strict=True)
        if up is not None
    ]
