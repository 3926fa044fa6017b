# SPDX-License-Identifier: Apache-2.0
"""Disks that do the same work as one band: from the smallest to the largest of them, and the median disk. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchlab.analysis.series import round_significant
from benchlab.charts.device_work import DiskUse
from benchlab.charts.palette import Style
from benchlab.runs.strips import MetricRows

# disks that are told apart at a glance
MAX_SEPARATE_DISKS = 4


@dataclass(frozen=True, slots=True)
class DiskBand:
    """Disks with one use in a layout, by their kernel names."""

    # "12 disks (lvm, data)"
    label: str
    members: frozenset[str]


def disk_bands(uses: Iterable[DiskUse], rows: Sequence[MetricRows]) -> list[DiskBand]:
    """Of the uses with more than a few disks that were sampled, all of a metric by one clock. A disk is in one only."""
    bands: list[DiskBand] = []
    bundled: set[str] = set()
    for use in uses:
        members = frozenset(use.members) & {name for sampled in rows for name in sampled.devices}
        if (
            len(members) > MAX_SEPARATE_DISKS
            and not members & bundled
            and _share_clock(members, rows)
        ):
            bundled |= members
            bands.append(DiskBand(f"{len(members)} disks ({use.layer}, {use.use})", members))
    return bands


def _share_clock(members: frozenset[str], rows: Sequence[MetricRows]) -> bool:
    metrics = [sampled.metric for sampled in rows if members & set(sampled.devices)]
    return len(set(metrics)) == len(metrics)


def band_traces(
    crowd: DiskBand, rows: MetricRows, scale: float, hover: str, look: Style, common: dict[str, Any]
) -> list[dict[str, Any]]:
    """The band, its two edges, and the median. Idle members count: a disk that does nothing is what one looks for."""
    places = [at for at, name in enumerate(rows.devices) if name in crowd.members]
    low, high, median = rows.buckets.band(places)
    x = round_significant(rows.buckets.middles, 6)
    edges = [round_significant(values * scale) for values in (low, high)]
    suffix = f"of {crowd.label}"
    plain = {"type": "scatter", "mode": "lines", "legendgroup": crowd.label, **common}
    edge = {**plain, "x": x, "showlegend": False, "line": {"color": look.faded(0.55), "width": 0.8}}
    return [
        {
            **plain,
            **_band_outline(x, *edges),
            "name": f"{crowd.label}: smallest to largest",
            "fill": "toself",
            "fillcolor": look.faded(0.18),
            "line": {"width": 0},
            "hoverinfo": "skip",
        },
        {
            **edge,
            "name": f"largest {suffix}",
            "y": edges[1],
            "text": _disks_at_edge(rows, places, high, rows.buckets.high),
            "hovertemplate": f"{hover} largest, %{{text}}<extra></extra>",
        },
        {
            **plain,
            "name": f"{crowd.label}: median",
            "x": x,
            "y": round_significant(median * scale),
            "line": {"color": look.colour, "dash": look.dash, "width": 1.6},
            "hovertemplate": f"{hover} median {suffix}<extra></extra>",
        },
        {
            **edge,
            "name": f"smallest {suffix}",
            "y": edges[0],
            "text": _disks_at_edge(rows, places, low, rows.buckets.low),
            "hovertemplate": f"{hover} smallest, %{{text}}<extra></extra>",
        },
    ]


def _disks_at_edge(rows: MetricRows, places: list[int], edge: Any, values: Any) -> list[str]:
    """The first member that is at the edge, of each bucket; "" where nothing is known."""
    first = (values[places] == edge).argmax(axis=0).tolist()
    names = [rows.devices[at] for at in places]
    return ["" if np.isnan(value) else names[at] for at, value in zip(first, edge, strict=True)]


def _band_outline(
    x: list[float | None], low: list[float | None], high: list[float | None]
) -> dict[str, list[float | None]]:
    """Round each stretch in which something is known, one after the other."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    begin = 0
    for at in range(len(x) + 1):
        if at < len(x) and low[at] is not None:
            continue
        if at > begin:
            xs += [*x[begin:at], *reversed(x[begin:at]), None]
            ys += [*high[begin:at], *reversed(low[begin:at]), None]
        begin = at + 1
    return {"x": xs, "y": ys}
