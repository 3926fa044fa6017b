# SPDX-License-Identifier: Apache-2.0
"""Faster because nothing is made durable: set-ups that differ only in what makes a write safe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchlab.analysis.evidence import Layer, Line
from benchlab.analysis.finding import Finding, Severity
from benchlab.analysis.findings._set_ups import Pair, comparable_pairs, stack_signature
from benchlab.analysis.formats import join_names as joined
from benchlab.analysis.verdicts import Conclusion

LABEL = "Nothing is made durable"
METHOD = "Findings"

NO_BARRIERS = ("nobarrier", "barrier=0", "barrier=none")
# queue/write_cache: the kernel then sends no flushes
NO_FLUSHES = "write through"
FLUSHES = "write back"
# names of this option in different tools
SYNCS = (
    "fsync",
    "fdatasync",
    "sync",
    "sync_file_range",
    "oflag",
    "conv",
    "method",
    "extra",
)
# Single repeats: below this ratio there is no finding.
LEAST = 1.5


def compares(lines: Sequence[Line]) -> list[Finding]:
    """Compare set-ups that are alike except for what makes a write safe.

    This is ZFS's sync=disabled, no barriers, no flushes, or writes that are not synced.
    """
    return [
        finding
        for pair in comparable_pairs(lines, _loosens, SYNCS)
        if (finding := _describe_loosening(pair))
    ]


def _loosens(safe: Line, loose: Line) -> bool:
    if _loose_settings(safe) - _loose_settings(loose) or not _loose_settings(
        loose
    ) - _loose_settings(safe):
        return False
    return _stack_without_safety(safe) == _stack_without_safety(loose) and all(
        _certain_flags(safe, loose)
    )


def _certain_flags(safe: Line, loose: Line) -> list[bool]:
    """Check for each flag that only a host or a tool reports that the safe line reports its opposite.

    A line that does not report the flag at all is no proof of the opposite.
    """
    flags = []
    more = _loose_settings(loose) - _loose_settings(safe)
    if NO_FLUSHES_WORDS in more:
        flags.append(_write_caches(safe) == {FLUSHES})
    if UNSYNCED in more:
        flags.append(safe.runs[0].access.synced is True)
    return flags


NO_FLUSHES_WORDS = "a write cache that gets no flushes"
UNSYNCED = "writes that are not synced"


def _loose_settings(line: Line) -> set[str]:
    """Describe what makes the writes of a line less safe."""
    settings = {"sync=disabled" for layer in line.layers if layer.options.get("sync") == "disabled"}
    settings |= {
        "no write barriers"
        for layer in line.layers
        if set(_mount_options(layer)) & set(NO_BARRIERS)
    }
    if _write_caches(line) == {NO_FLUSHES}:
        settings.add(NO_FLUSHES_WORDS)
    if line.runs[0].access.synced is False:
        settings.add(UNSYNCED)
    return settings


def _mount_options(layer: Layer) -> tuple[str, ...]:
    mount_options = layer.options.get("mount_options") or ()
    return tuple(
        mount_options.split(",") if isinstance(mount_options, str) else map(str, mount_options)
    )


def _write_caches(line: Line) -> set[str]:
    """Settings of the disks' write caches; "" for an unknown one."""
    return {device.write_cache for run in line.runs for device in run.devices.values()}


def _stack_without_safety(line: Line) -> object:
    """The layout without the options that make it safe; if sync is not reported, it is ZFS's default: standard."""
    layers = []
    for layer in line.layers:
        rest = [
            mount_option
            for mount_option in _mount_options(layer)
            if mount_option not in NO_BARRIERS and not mount_option.startswith("barrier")
        ]
        options = {
            k: v
            for k, v in layer.options.items()
            if k not in ("sync", "mount_options", "write_cache")
        }
        layers.append(replace(layer, options={**options, "mount_options": rest}))
    return stack_signature(layers)


def _describe_loosening(pair: Pair) -> Finding | None:
    verdict = pair.certain_verdict()
    if pair.single:
        if pair.overall.ratio < LEAST:
            return None
        did = pair.ratio_sentence("did")
    elif verdict and verdict.conclusion == Conclusion.FASTER:
        did = pair.ratio_sentence()
    else:
        return None
    by = joined(tuple(sorted(_loose_settings(pair.second) - _loose_settings(pair.first))))
    return pair.finding(f"{did}, for it makes nothing durable: {by}", Severity.DOUBT)
