# SPDX-License-Identifier: Apache-2.0
"""The running attempt, from what was sampled so far."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from agents.contracts import ParseError
from agents.drivers import registry
from agents.jobs import job
from benchlab.charts import devices, figure, stack
from benchlab.charts.conditions import iterate_claims
from benchlab.charts.figure import Figure
from benchlab.charts.spans import rows_from_tracks
from benchlab.charts.tracks import Track
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
    return devices.build_device_figure(
        title, rows_from_tracks(layout_tracks(tracks, attempt, facts) if own else tracks), facts
    )


def layout_tracks(tracks: list[Track], attempt: Attempt, facts: Mapping[str, Any]) -> list[Track]:
    """Those of the disks that its layout claims, and of what stands on them; all where it claims none."""
    names = stack.devices_above(_claimed_nodes(attempt.layout_id), facts)
    return [track for track in tracks if track.device in names] if names else tracks


def layout_disks(attempt: Attempt, facts: Mapping[str, Any]) -> set[str]:
    """Kernel names of the disks that its layout claims."""
    nodes = _claimed_nodes(attempt.layout_id)
    return {d["name"] for d in facts.get("devices", ()) if d.get("path") in nodes}


@lru_cache(maxsize=256)
def _claimed_nodes(layout_id: int) -> frozenset[str]:
    """Nodes. What a layout that is measured claims stays as it is, and its page asks every few seconds."""
    plan = Layout.objects.values_list("plan", flat=True).get(pk=layout_id)
    return frozenset(str(claim["node"]) for _, claim in iterate_claims(plan))
