# SPDX-License-Identifier: Apache-2.0
"""The running attempt so far: its figure, and a strip of each disk's last seconds.

Paths of strips are texts in a box of STRIP_WIDTH x STRIP_HEIGHT: a template puts them into attributes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from agents.contracts import ParseError
from agents.drivers import registry
from agents.jobs import job
from benchlab.analysis.buckets import Floats
from benchlab.charts import device_figures, device_work, figure
from benchlab.charts.conditions import iterate_claims
from benchlab.charts.figure import Figure
from benchlab.charts.sampled_tracks import Track, rows_from_tracks
from benchlab.runs.models import Attempt, Layout, LiveChunk

# A page asks every few seconds: it gets the last minutes, not hours of frames parsed again and again.
# bytes
LIVE_TAIL_BYTES = 1024 * 1024
# a frame's first line; lines of the files in it begin with a blank
FRAME_START = b"\n@ "


def live_tracks(attempt: Attempt, since: float = 0.0, most: int | None = None) -> list[Track]:
    """Series of the running attempt after `since` seconds, of the last `most` bytes of frames, or of the last MiB.

    Raises ParseError.
    """
    raw, began = _read_tail(attempt, LIVE_TAIL_BYTES if most is None else most)
    frames = job.frames(raw)
    if len(frames) < 2:
        return []
    shift = frames[0].at - began
    tracks = [
        Track(
            sampled.device,
            sampled.metric,
            sampled.unit,
            [at + shift for at in sampled.times],
            sampled.values,
        )
        for sampler in registry.all_samplers().values()
        for sampled in sampler.frames_to_series(frames)
    ]
    return [_track_after(track, since) for track in tracks]


def _read_tail(attempt: Attempt, most: int) -> tuple[bytes, float]:
    """(whole frames from the end, seconds of the very first frame). Reads no more chunks than it needs."""
    sizes = list(LiveChunk.objects.filter(attempt=attempt).values_list("offset", flat=True))
    if not sizes:
        return b"", 0.0
    newest = sizes[-1]
    first_offset = max((offset for offset in sizes if offset <= newest - most), default=sizes[0])
    chunks = LiveChunk.objects.filter(attempt=attempt, offset__gte=first_offset).order_by("offset")
    raw = b"".join(bytes(data) for data in chunks.values_list("data", flat=True))
    head = raw if first_offset == sizes[0] else bytes(attempt.live.get(offset=sizes[0]).data)
    if first_offset != sizes[0]:
        raw = raw[raw.find(FRAME_START) + 1 :]
    return raw, _first_second(head)


def _first_second(head: bytes) -> float:
    """The time in a stream's first line, "@ NANOSECONDS"; 0 while even that is not there."""
    word = head.partition(b"\n")[0][2:]
    return int(word) / 1e9 if word.isdigit() and len(word) < 20 else 0.0


def _track_after(track: Track, since: float) -> Track:
    later = [(at, v) for at, v in zip(track.times, track.values, strict=True) if at > since]
    return Track(
        track.device, track.metric, track.unit, [at for at, _ in later], [v for _, v in later]
    )


def build_live_figure(
    title: str,
    attempt: Attempt,
    facts: Mapping[str, Any],
    since: float = 0.0,
    *,
    own: bool = False,
) -> Figure:
    """The devices figure of what is there so far; says so when nothing is. `own`: of the layout's own disks."""
    try:
        tracks = live_tracks(attempt, since)
    except ParseError as error:
        return figure.empty_figure(title, f"The samples cannot be read: {error}")
    if not tracks:
        return figure.empty_figure(title, "Waiting for the first samples.")
    return device_figures.build_device_figure(
        title, rows_from_tracks(layout_tracks(tracks, attempt, facts) if own else tracks), facts
    )


def layout_tracks(tracks: list[Track], attempt: Attempt, facts: Mapping[str, Any]) -> list[Track]:
    """Return the tracks of the disks that its layout claims and of the devices on them; all if it claims none."""
    names = device_work.devices_above(_claimed_nodes(attempt.layout_id), facts)
    return [track for track in tracks if track.device in names] if names else tracks


def layout_disks(attempt: Attempt, facts: Mapping[str, Any]) -> set[str]:
    """Kernel names of the disks that its layout claims."""
    nodes = _claimed_nodes(attempt.layout_id)
    return {d["name"] for d in facts.get("devices", ()) if d.get("path") in nodes}


@lru_cache(maxsize=256)
def _claimed_nodes(layout_id: int) -> frozenset[str]:
    """Return the claimed nodes, cached: a measured layout's stay the same, and its page asks every few seconds."""
    plan = Layout.objects.values_list("plan", flat=True).get(pk=layout_id)
    return frozenset(str(claim["node"]) for _, claim in iterate_claims(plan))


STRIP_WIDTH, STRIP_HEIGHT = 120, 32
SHOWN_SECONDS = 90.0
# Bytes of frames: a page asks every few seconds, and so much has 90 s of some hundred devices.
STRIP_TAIL_BYTES = 256 * 1024
# disks; the chart over time has all
MAX_STRIPS = 24
BANDWIDTHS = ("read.bandwidth", "write.bandwidth")
UTILISATION = "util"
WAITING_TEXT = "Waiting for the first samples."
NOT_SAMPLED_TEXT = "None of these disks was sampled: the chart over time has what was."
UNREADABLE_TEXT = "The samples cannot be read: the chart over time says why."


@dataclass(frozen=True, slots=True)
class Strip:
    """Strip of one disk. `read` and `written` in B/s, `busy` in percent; None: not known of this second."""

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
    hidden_disks: int = 0
    top: float = 0.0
    own: bool = False
    message: str = ""


def read_strips(attempt: Attempt, *, every: bool = False) -> Strips:
    """Read the strips of the layout's disks; of all disks with `every`, or if it claims none (a scratch directory)."""
    facts = attempt.facts.facts if attempt.facts else {}
    own = set() if every else layout_disks(attempt, facts)
    try:
        tracks = live_tracks(attempt, most=STRIP_TAIL_BYTES)
    except ParseError:
        return Strips(own=bool(own), message=UNREADABLE_TEXT)
    return build_strips(tracks, facts, own or None)


def build_strips(
    tracks: Sequence[Track], facts: Mapping[str, Any], own: Collection[str] | None = None
) -> Strips:
    """`own`: names of the disks that are shown; None: all that the facts call a disk."""
    devices = {device["name"]: device for device in facts.get("devices", ())}
    moved: dict[str, dict[str, Track]] = {}
    for track in tracks:
        if track.metric in (*BANDWIDTHS, UTILISATION) and len(track.times):
            moved.setdefault(track.device, {})[track.metric] = track
    names = [name for name in moved if _is_selected(name, devices, own)]
    names.sort(key=lambda name: (len(name), name))
    end = max((track.times[-1] for name in names for track in moved[name].values()), default=0.0)
    lines = {name: _recent_rates(moved[name], end) for name in names[:MAX_STRIPS]}
    top = max((float(np.nanmax(y)) for _, y in lines.values() if (y == y).any()), default=0.0)
    strips = [
        _draw_strip(name, devices.get(name, {}), moved[name], line, end, top)
        for name, line in lines.items()
    ]
    message = "" if strips else NOT_SAMPLED_TEXT if tracks else WAITING_TEXT
    return Strips(strips, len(names) - len(strips), top, own is not None, message)


def _is_selected(
    name: str, devices: Mapping[str, Mapping[str, Any]], own: Collection[str] | None
) -> bool:
    return devices.get(name, {}).get("type", "disk") == "disk" if own is None else name in own


def _recent_rates(tracks: Mapping[str, Track], end: float) -> tuple[Floats, Floats]:
    """(times, B/s in all) of the last SECONDS."""
    rates = [tracks[name] for name in BANDWIDTHS if name in tracks]
    if not rates:
        return np.empty(0), np.empty(0)
    times = np.asarray(rates[0].times, dtype=float)
    both = [
        np.asarray(track.values, dtype=float) for track in rates if track.shares_times(rates[0])
    ]
    recent = times > end - SHOWN_SECONDS
    return times[recent], np.sum(both, axis=0)[recent]


def _draw_strip(
    name: str,
    device: Mapping[str, Any],
    tracks: Mapping[str, Track],
    line: tuple[Floats, Floats],
    end: float,
    top: float,
) -> Strip:
    times, values = line
    places = [
        _strip_place(end - at, value / (top or 1))
        for at, value in zip(times.tolist(), values.tolist(), strict=True)
        if value == value
    ]
    joined = "L".join(places)
    first, last = (places[0].split()[0], places[-1].split()[0]) if places else ("0", "0")
    busy = _last_value(tracks.get(UTILISATION))
    return Strip(
        name=name,
        kind=", ".join(filter(None, (_media_kind(device), str(device.get("model", "")).strip()))),
        css="s1" if device.get("rotational", True) else "s5",
        line=f"M{joined}" if places else "",
        area=f"M{first} {STRIP_HEIGHT}L{joined}L{last} {STRIP_HEIGHT}z" if places else "",
        read=_last_value(tracks.get(BANDWIDTHS[0])),
        written=_last_value(tracks.get(BANDWIDTHS[1])),
        busy=None if busy is None else busy * 100,
    )


def _strip_place(seconds_ago: float, height: float) -> str:
    """Coordinates "x y" of a value in the strip's box; `height` is its share of the full height."""
    x = STRIP_WIDTH * (1 - seconds_ago / SHOWN_SECONDS)
    y = STRIP_HEIGHT - (STRIP_HEIGHT - 2) * height
    return f"{x:.1f} {y:.1f}"


def _media_kind(device: Mapping[str, Any]) -> str:
    spins = device.get("rotational")
    return "" if spins is None else "HDD" if spins else "SSD"


def _last_value(track: Track | None) -> float | None:
    if track is None or not len(track.values):
        return None
    value = float(track.values[-1])
    return value if value == value else None
