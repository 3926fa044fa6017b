# SPDX-License-Identifier: Apache-2.0
"""The kernel, or a pool, rebuilt or checked redundancy while it measured, or blocks were discarded (docs/method.md)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchlab.analysis.evidence import Layer, Run, Track
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings import _stacks
from benchlab.analysis.formats import join_names, rate, share

LABEL = "Resync or discards meanwhile"
METHOD = "Findings"

# share of the bytes that the disks read and wrote
TRIMMED = 0.01
# least B/s
LEAST = 1 << 20


def applies(run: Run) -> list[Finding]:
    """Findings of work meanwhile. What was to be measured (a growing layout, a discard asked for) is worth a note."""
    return [*_recorded_work(run), *_resynced_arrays(run), *_discard_findings(run)]


def _recorded_work(run: Run) -> list[Finding]:
    """Report work that the engine saw at both ends of the run: it was measured during that on purpose."""
    during = run.meta.get("during") or {}
    started = during.get("start") or ()
    ended = {entry.get("says"): entry.get("done") for entry in during.get("end") or ()}
    work = []
    for entry in started:
        description, progress, then = (
            str(entry.get("says", "")),
            entry.get("done"),
            ended.get(entry.get("says")),
        )
        if not description or not isinstance(progress, int | float):
            continue
        numbers = {"start": Number(progress, "1", f"{description}, done at the start")}
        words = f"{description} went on while it measured, from {share(progress)} done"
        if isinstance(then, int | float):
            numbers["end"] = Number(then, "1", f"{description}, done at the end")
            words += f" to {share(then)}"
        work.append(Finding(words, Severity.NOTE, numbers, about=description))
    return work


def _resynced_arrays(run: Run) -> list[Finding]:
    """Report the arrays that /proc/mdstat shows at work.

    If the layout has no array, those of the host are on other disks and worth only a note.
    """
    if run.meta.get("during"):
        return []
    ours = any(layer.kind == "md" for layer in run.layers)
    arrays = []
    for track in run.measured_tracks("sync.bandwidth"):
        values = np.asarray(track.values, dtype=float)
        going = np.isfinite(values) & (values > 0)
        if not going.any():
            continue
        spans = np.asarray(track.spans(), dtype=float)
        seconds, whole, speed = (
            _active_seconds(track, going),
            float(spans.sum()),
            float(values[going].mean()),
        )
        arrays.append(
            Finding(
                f"{track.device} was resynced, reshaped or checked at {rate(speed)} for {seconds:.0f} s of the "
                f"{whole:.0f} s that it measured",
                Severity.DOUBT if ours and not run.stage else Severity.NOTE,
                {
                    "speed": Number(
                        speed,
                        "B/s",
                        f"sync of {track.device}",
                        device=track.device,
                        metric=track.metric,
                    ),
                    "seconds": Number(seconds, "s", "of it, while it measured"),
                },
                about=track.device,
            )
        )
    return arrays


def _active_seconds(track: Track, going: NDArray[np.bool_]) -> float:
    return float(np.asarray(track.spans(), dtype=float)[going].sum())


def _discard_findings(run: Run) -> list[Finding]:
    if any(name.startswith("trim.") for name in run.figures):
        # The tool itself discards.
        return []
    disks = _stacks.active_disks(run)
    means = {
        track.device: track.mean() for track in run.measured_tracks("discard.bandwidth", disks)
    }
    busy = {name: value for name, value in means.items() if value > LEAST}
    if not busy:
        return []
    moved = [run.total_rate(f"{way}.bandwidth", disks) or 0.0 for way in ("read", "write")]
    total = float(sum(busy.values()))
    if total < TRIMMED * sum(moved):
        return []
    return [
        Finding(
            f"{rate(total)} were discarded on {join_names(tuple(sorted(busy)))} while it measured",
            Severity.NOTE if _discards_requested(run) else Severity.DOUBT,
            {
                "discards": Number(
                    total, "B/s", "discards, by the disks", metric="discard.bandwidth"
                )
            },
            about="discards",
        )
    ]


def _discards_requested(run: Run) -> bool:
    """True if a layer is set to discard as it goes."""
    return any(_layer_discards(layer) for layer in run.layers)


def _layer_discards(layer: Layer) -> bool:
    discard_option = layer.options.get("autotrim") or (
        layer.kind == "bcache" and layer.options.get("discard")
    )
    return bool(discard_option) or "discard" in (layer.options.get("mount_options") or ())
