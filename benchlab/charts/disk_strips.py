# SPDX-License-Identifier: Apache-2.0
"""Work of each disk of a running attempt: a strip of the last seconds, and its numbers of this one.

Paths are texts in a box of WIDTH x HEIGHT: a template puts them into attributes, colours come by class.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.contracts import ParseError
from benchlab.analysis.buckets import Floats
from benchlab.charts import live_samples
from benchlab.charts.tracks import Track
from benchlab.runs.models import Attempt

WIDTH, HEIGHT = 120, 32
SECONDS = 90.0
# Bytes of frames: a page asks every few seconds, and so much has 90 s of some hundred devices.
TAIL = 256 * 1024
# disks; the chart over time has all
MOST = 24
MOVED = ("read.bandwidth", "write.bandwidth")
BUSY = "util"
WAITS = "Waiting for the first samples."
UNSEEN = "None of these disks was sampled: the chart over time has what was."
UNREAD = "The samples cannot be read: the chart over time says why."


@dataclass(frozen=True, slots=True)
class Strip:
    """Of one disk. `read` and `written` in B/s, `busy` in percent; None: not known of this second."""

    name: str
    # "SSD, PLAIN-1"; empty where nobody knows
    kind: str
    css: str
    line: str
    area: str
    read: float | None
    written: float | None
    busy: float | None


@dataclass(frozen=True, slots=True)
class Strips:
    """`left`: so many disks more than are shown; `top`: the B/s that is as high as a strip; `own`: whether they are
    those that a layout claims; `says`: why there is none."""

    disks: Sequence[Strip] = ()
    left: int = 0
    top: float = 0.0
    own: bool = False
    says: str = ""


def of(attempt: Attempt, *, every: bool = False) -> Strips:
    """Of the disks that its layout claims; `every`, or where it claims none (a scratch directory): of all."""
    facts = attempt.facts.facts if attempt.facts else {}
    own = set() if every else live_samples.own_disks(attempt, facts)
    try:
        found = live_samples.tracks(attempt, most=TAIL)
    except ParseError:
        return Strips(own=bool(own), says=UNREAD)
    return made(found, facts, own or None)


def made(
    found: Sequence[Track], facts: Mapping[str, Any], own: Collection[str] | None = None
) -> Strips:
    """`own`: names of the disks that are shown; None: all that the facts call a disk."""
    known = {device["name"]: device for device in facts.get("devices", ())}
    moved: dict[str, dict[str, Track]] = {}
    for track in found:
        if track.metric in (*MOVED, BUSY) and len(track.times):
            moved.setdefault(track.device, {})[track.metric] = track
    names = [name for name in moved if _is_shown(name, known, own)]
    names.sort(key=lambda name: (len(name), name))
    end = max((track.times[-1] for name in names for track in moved[name].values()), default=0.0)
    lines = {name: _line(moved[name], end) for name in names[:MOST]}
    top = max((float(np.nanmax(y)) for _, y in lines.values() if (y == y).any()), default=0.0)
    strips = [
        _strip(name, known.get(name, {}), moved[name], line, end, top)
        for name, line in lines.items()
    ]
    says = "" if strips else UNSEEN if found else WAITS
    return Strips(strips, len(names) - len(strips), top, own is not None, says)


def _is_shown(
    name: str, known: Mapping[str, Mapping[str, Any]], own: Collection[str] | None
) -> bool:
    return known.get(name, {}).get("type", "disk") == "disk" if own is None else name in own


def _line(tracks: Mapping[str, Track], end: float) -> tuple[Floats, Floats]:
    """(times, B/s in all) of the last SECONDS."""
    rates = [tracks[name] for name in MOVED if name in tracks]
    if not rates:
        return np.empty(0), np.empty(0)
    times = np.asarray(rates[0].times, dtype=float)
    both = [np.asarray(one.values, dtype=float) for one in rates if one.beside(rates[0])]
    kept = times > end - SECONDS
    return times[kept], np.sum(both, axis=0)[kept]


def _strip(
    name: str,
    device: Mapping[str, Any],
    tracks: Mapping[str, Track],
    line: tuple[Floats, Floats],
    end: float,
    top: float,
) -> Strip:
    times, values = line
    places = [
        f"{WIDTH * (1 - (end - at) / SECONDS):.1f} {HEIGHT - (HEIGHT - 2) * value / (top or 1):.1f}"
        for at, value in zip(times.tolist(), values.tolist(), strict=True)
        if value == value
    ]
    joined = "L".join(places)
    first, last = (places[0].split()[0], places[-1].split()[0]) if places else ("0", "0")
    busy = _now(tracks.get(BUSY))
    return Strip(
        name=name,
        kind=", ".join(filter(None, (_sort(device), str(device.get("model", "")).strip()))),
        css="s1" if device.get("rotational", True) else "s5",
        line=f"M{joined}" if places else "",
        area=f"M{first} {HEIGHT}L{joined}L{last} {HEIGHT}z" if places else "",
        read=_now(tracks.get(MOVED[0])),
        written=_now(tracks.get(MOVED[1])),
        busy=None if busy is None else busy * 100,
    )


def _sort(device: Mapping[str, Any]) -> str:
    spins = device.get("rotational")
    return "" if spins is None else "HDD" if spins else "SSD"


def _now(track: Track | None) -> float | None:
    if track is None or not len(track.values):
        return None
    value = float(track.values[-1])
    return value if value == value else None
