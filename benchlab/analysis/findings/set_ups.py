# SPDX-License-Identifier: Apache-2.0
"""Set-ups compared in pairs: caches, log devices, safety, disks, growth, and which is ahead where.

A finding on a pair comes from what surely holds over all depths, else from single depths, which the mean of all may
hide, else from single repeats, which decide nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from benchlab.analysis.evidence import Layer, Line
from benchlab.analysis.finding import Finding, Severity, line_finding
from benchlab.analysis.formats import join_names
from benchlab.analysis.set_ups import (
    comparable_pairs,
    depths_text,
    has_use,
    stack_signature,
)
from benchlab.analysis.verdicts import Conclusion

# Single repeats: from this ratio on there is no finding that a cache does not help.
HELPS = 1.05
NO_BARRIERS = ("nobarrier", "barrier=0", "barrier=none")
# queue/write_cache: the kernel then sends no flushes
NO_FLUSHES = "write through"
FLUSHES = "write back"
NO_FLUSHES_WORDS = "a write cache that gets no flushes"
UNSYNCED_WORDS = "writes that are not synced"
# names of the option that makes writes safe in different tools
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
# Single repeats: below this ratio there is no finding that nothing is made durable.
LEAST_UNSAFE = 1.5
# Share of the gain that so many more disks could bring: below it they do not scale.
PART = 0.25
# layers in which more disks are more copies
COPIES = (("md", "level", 1), ("lvm", "type", "mirror"))
# Busy share of one CPU over the measured time, from which it can do no more.
BUSY = 0.95
# least ratio of single repeats that is reported as a crossing
APART = 1.05


def _adds_use(use: str, without: Line, with_: Line) -> bool:
    """True if only the second uses disks for that, and nothing else is different."""
    if has_use(without, use) or not has_use(with_, use):
        return False
    return stack_signature(without.layers, (use,)) == stack_signature(with_.layers, (use,))


@line_finding("The cache does not help")
def cache_does_not_help(lines: Sequence[Line]) -> Iterator[Finding]:
    """A layout with a cache is no faster than the same without it, at the depths that were measured.

    The cache is bcache's, flashcache's, LVM's, or a pool's second level.
    """
    for pair in comparable_pairs(lines, partial(_adds_use, "cache")):
        slower = pair.certain_depths(Conclusion.SLOWER)
        if pair.unanimous_verdict() == Conclusion.SLOWER:
            claim = "the cache makes it slower"
        elif slower:
            claim = f"the cache makes it slower {depths_text(slower)}"
            pair = pair.at_worst_of(slower)
        elif pair.single:
            if pair.overall.ratio < HELPS:
                sentence = f"whether the cache helps is open: {pair.ratio_sentence('did')}"
                yield pair.finding(sentence, Severity.NOTE)
            continue
        elif pair.equal:
            claim = "the cache makes no difference"
        else:
            continue
        yield pair.finding(f"{claim}: {pair.ratio_sentence()}", Severity.LIMIT)


@line_finding("Log device")
def slog_costs(lines: Sequence[Line]) -> Iterator[Finding]:
    """Gain or cost of a log device (SLOG): the same layout with and without it.

    For single repeats only the ratio is reported.
    """
    for pair in comparable_pairs(lines, partial(_adds_use, "log")):
        costs = pair.certain_depths(Conclusion.SLOWER)
        gains = pair.certain_depths(Conclusion.FASTER)
        severity, verb = Severity.NOTE, "does"
        if verdict := pair.unanimous_verdict():
            slower = verdict == Conclusion.SLOWER
            claim = f"the log device {'costs' if slower else 'gains'}"
            severity = Severity.LIMIT if slower else Severity.NOTE
        elif costs or gains:
            sides = (("costs", costs), ("gains", gains))
            where = " and ".join(f"{word} {depths_text(some)}" for word, some in sides if some)
            claim = f"the log device {where}"
            severity = Severity.LIMIT if costs else Severity.NOTE
            pair = pair.at_worst_of(costs or gains)
        elif pair.single:
            claim, verb = "whether the log device pays is open", "did"
        elif pair.equal:
            claim = "the log device makes no difference"
        else:
            continue
        yield pair.finding(f"{claim}: {pair.ratio_sentence(verb)}", severity)


@line_finding("Nothing is made durable")
def sync_disabled(lines: Sequence[Line]) -> Iterator[Finding]:
    """Faster because nothing is made durable: set-ups that differ only in what makes a write safe.

    This is ZFS's sync=disabled, no barriers, no flushes, or writes that are not synced.
    """
    for pair in comparable_pairs(lines, _loosens, SYNCS):
        unsafe = pair.single and pair.overall.ratio >= LEAST_UNSAFE
        if not unsafe and (pair.single or pair.certain_verdict() != Conclusion.FASTER):
            continue
        ratio = pair.ratio_sentence("did" if pair.single else "does")
        why = join_names(tuple(sorted(_loosened(pair.first, pair.second))))
        sentence = f"{ratio}, for it makes nothing durable: {why}"
        yield pair.finding(sentence, Severity.DOUBT)


def _loosened(safe: Line, loose: Line) -> set[str]:
    return _loose_settings(loose) - _loose_settings(safe)


def _loosens(safe: Line, loose: Line) -> bool:
    """True if the second is less safe, and in nothing else different.

    A line that does not report a flag that only a host or a tool reports is no proof of its opposite.
    """
    loosened = _loosened(safe, loose)
    if not loosened or _loosened(loose, safe):
        return False
    if NO_FLUSHES_WORDS in loosened and _write_caches(safe) != {FLUSHES}:
        return False
    if UNSYNCED_WORDS in loosened and safe.runs[0].access.synced is not True:
        return False
    return _stack_without_safety(safe) == _stack_without_safety(loose)


def _loose_settings(line: Line) -> set[str]:
    """Describe what makes the writes of a line less safe."""
    settings = set()
    for layer in line.layers:
        if layer.options.get("sync") == "disabled":
            settings.add("sync=disabled")
        if set(_mount_options(layer)) & set(NO_BARRIERS):
            settings.add("no write barriers")
    if _write_caches(line) == {NO_FLUSHES}:
        settings.add(NO_FLUSHES_WORDS)
    if line.runs[0].access.synced is False:
        settings.add(UNSYNCED_WORDS)
    return settings


def _mount_options(layer: Layer) -> list[str]:
    options = layer.options.get("mount_options") or ()
    return options.split(",") if isinstance(options, str) else list(map(str, options))


def _write_caches(line: Line) -> set[str]:
    """Settings of the disks' write caches; "" for an unknown one."""
    return {device.write_cache for run in line.runs for device in run.devices.values()}


def _stack_without_safety(line: Line) -> object:
    """The layout without the options that make it safe; if sync is not reported, it is ZFS's default: standard."""
    layers = []
    for layer in line.layers:
        others = [
            option
            for option in _mount_options(layer)
            if option not in NO_BARRIERS and not option.startswith("barrier")
        ]
        layers.append(replace(layer, options={**layer.options, "mount_options": others}))
    return stack_signature(layers, ignore=("sync", "write_cache"))
