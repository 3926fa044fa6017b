# SPDX-License-Identifier: Apache-2.0
"""Set-ups compared in pairs: caches, log devices, safety, disks, growth, and which is ahead where.

A finding on a pair comes from what surely holds over all depths, else from single depths, which the mean of all may
hide, else from single repeats, which decide nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations

from benchlab.analysis.evidence import AFTER, Layer, Line, Run
from benchlab.analysis.finding import Finding, Number, Severity, line_finding
from benchlab.analysis.findings.cpu import busiest
from benchlab.analysis.formats import join_names, ratio_range, share, times_text
from benchlab.analysis.set_ups import (
    SIZES,
    Pair,
    comparable_pairs,
    compare_lines,
    depths_text,
    disk_models,
    figure_word,
    has_use,
    like_disks,
    shared_disks,
    stack_signature,
    used_disks,
)
from benchlab.analysis.verdicts import Conclusion

# Single repeats: from this ratio on there is no finding that a cache does not help.
HELPS = 1.05
# Largest difference from which on "at most" is no limit but a note.
LITTLE = 0.10
NO_BARRIERS = ("nobarrier", "barrier=0", "barrier=none")
# queue/write_cache (Linux: Documentation/ABI/stable/sysfs-block): the kernel then sends no flushes
NO_FLUSHES = "write through"
FLUSHES = "write back"
# settings that may make a set-up less safe
NO_CACHE, UNBARRED, UNSYNCED, UNSYNCED_POOL = "no cache", "no barriers", "unsynced", "sync=disabled"
# what a crash costs; 5 s is ZFS's zfs_txg_timeout
LOSSES = {
    UNBARRED: "without write barriers the file system sends no flushes, and a power loss loses what the disks' write"
    " caches hold, unless they are protected",
    UNSYNCED: "its writes are not synced, and a crash loses what is still in memory or in a disk's cache",
    UNSYNCED_POOL: "with sync=disabled a sync returns before the data is on disk, and a crash loses up to the last"
    " transaction group (5 s by default)",
}
CHECK = "Check the model, and the disk itself (nvme id-ctrl: vwc; hdparm -W; sdparm --get WCE)"
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
                sentence = f"it is undecided whether the cache helps: {pair.ratio_sentence('did')}"
                yield pair.finding(sentence, Severity.NOTE)
            continue
        else:
            yield from _describe_alike(pair, "the cache", Severity.LIMIT)
            continue
        yield pair.finding(f"{claim}: {pair.ratio_sentence()}", Severity.LIMIT)


def _describe_alike(pair: Pair, device: str, severity: Severity) -> Iterator[Finding]:
    """Say how little a device changes, if that is known; above 10 % only as a note."""
    most = pair.largest_difference
    if most is not None:
        yield Finding(
            f"{device} {pair.difference_sentence()}",
            severity if most <= LITTLE else Severity.NOTE,
            pair.ratio_numbers(),
            about=pair.about,
            runs=pair.run_ids,
        )


@line_finding("Log device")
def slog_costs(lines: Sequence[Line]) -> Iterator[Finding]:
    """Gain or cost of a log device (SLOG): the same layout with and without it.

    For single repeats only the ratio is reported.
    """
    for pair in comparable_pairs(lines, partial(_adds_use, "log")):
        costs = pair.certain_depths(Conclusion.SLOWER)
        gains = pair.certain_depths(Conclusion.FASTER)
        severity, verb = Severity.NOTE, "does"
        disks = join_names(used_disks(pair.second, "log"))
        device = f"the log device ({disks})" if disks else "the log device"
        if verdict := pair.unanimous_verdict():
            slower = verdict == Conclusion.SLOWER
            claim = f"{device} makes it {'slower' if slower else 'faster'}"
            severity = Severity.LIMIT if slower else Severity.NOTE
        elif costs or gains:
            sides = (("slower", costs), ("faster", gains))
            where = " and ".join(f"{word} {depths_text(some)}" for word, some in sides if some)
            claim = f"{device} makes it {where}"
            severity = Severity.LIMIT if costs else Severity.NOTE
            pair = pair.at_worst_of(costs or gains)
        elif pair.single:
            claim, verb = f"it is undecided whether {device} helps", "did"
        else:
            yield from _describe_alike(pair, device, Severity.NOTE)
            continue
        yield pair.finding(f"{claim}: {pair.ratio_sentence(verb)}", severity)


@line_finding("Durability differs")
def sync_disabled(lines: Sequence[Line]) -> Iterator[Finding]:
    """Faster set-ups that differ only in what makes a write durable: ZFS's sync, barriers, write caches, syncs.

    What a disk reports of its write cache proves neither a loss nor its absence, so the finding says how to check.
    """
    for pair in comparable_pairs(lines, _loosens, SYNCS, on=_explains_disks):
        unsafe = pair.single and pair.overall.ratio >= LEAST_UNSAFE
        if not unsafe and (pair.single or pair.certain_verdict() != Conclusion.FASTER):
            continue
        ratio = pair.ratio_sentence("did" if pair.single else "does")
        loosened = sorted(_loosened(pair.first, pair.second))
        reasons = "; ".join(_durability_text(setting, pair) for setting in loosened)
        yield Finding(
            f"{ratio} ({pair.interval_text()}): {reasons}",
            Severity.DOUBT if _may_lose_data(loosened, pair) else Severity.NOTE,
            pair.ratio_numbers(),
            about=pair.about,
            runs=pair.run_ids,
        )


def _durability_text(setting: str, pair: Pair) -> str:
    """What a setting of the second line means for its data after a crash."""
    if setting != NO_CACHE:
        return LOSSES[setting]
    first, second = pair.first.name, pair.second.name
    if shared_disks(pair.first, pair.second):
        return (
            f"the same disks report a volatile write cache with {first} (write back) and none with {second}"
            " (write through), so the kernel sends them no flushes. That is safe if the cache is off, or protected"
            f" from power loss; if only the kernel's setting was changed, a power loss loses data. {CHECK}"
        )
    own, other = (join_names(disk_models(line)) for line in (pair.second, pair.first))
    return (
        f"its disks ({own or 'model unknown'}) report no volatile write cache (write through), those of {first}"
        f" ({other or 'model unknown'}) a volatile one (write back). With power-loss protection that is safe; if"
        f" it was set by hand, it is not. {CHECK}"
    )


def _may_lose_data(loosened: Sequence[str], pair: Pair) -> bool:
    """True unless only the report of other disks differs, which proves nothing."""
    return list(loosened) != [NO_CACHE] or shared_disks(pair.first, pair.second)


def _explains_disks(safe: Line, loose: Line) -> bool:
    """True for like disks, and for unlike ones whose write caches are what is reported of synced writes."""
    synced = all(line.runs[0].access.synced for line in (safe, loose))
    return like_disks(safe, loose) or (_loosened(safe, loose) == {NO_CACHE} and synced)


def _loosened(safe: Line, loose: Line) -> set[str]:
    return _loose_settings(loose) - _loose_settings(safe)


def _loosens(safe: Line, loose: Line) -> bool:
    """True if the second may be less safe for what it writes, and is in nothing else different.

    A line that does not report a flag that only a host or a tool reports is no proof of its opposite.
    """
    loosened = _loosened(safe, loose)
    if not loosened or _loosened(loose, safe) or loose.runs[0].access.writes is False:
        return False
    if NO_CACHE in loosened and _write_caches(safe) != {FLUSHES}:
        return False
    if UNSYNCED in loosened and safe.runs[0].access.synced is not True:
        return False
    return _stack_without_safety(safe) == _stack_without_safety(loose)


def _loose_settings(line: Line) -> set[str]:
    """Settings of a line that may make its writes less safe; a disk without a volatile cache needs no barriers."""
    settings = set()
    caches = _write_caches(line)
    for layer in line.layers:
        if layer.options.get("sync") == "disabled":
            settings.add(UNSYNCED_POOL)
        if set(_mount_options(layer)) & set(NO_BARRIERS) and caches != {NO_FLUSHES}:
            settings.add(UNBARRED)
    if caches == {NO_FLUSHES}:
        settings.add(NO_CACHE)
    if line.runs[0].access.synced is False:
        settings.add(UNSYNCED)
    return settings


def _mount_options(layer: Layer) -> list[str]:
    options = layer.options.get("mount_options") or ()
    return options.split(",") if isinstance(options, str) else list(map(str, options))


def _write_caches(line: Line) -> set[str]:
    """Settings of the write caches of its data disks; "" for an unknown one."""
    disks = [run.devices.get(name) for run in line.runs for name in line.data_disks]
    return {disk.write_cache if disk else "" for disk in disks}


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


@line_finding("More disks, no more work")
def disks_do_not_scale(lines: Sequence[Line]) -> Iterator[Finding]:
    """More disks hardly do more work: something else limits them, or the work is not spread over them.

    Layouts that differ only in the number of disks are compared, at depths that could keep all of them busy. One repeat
    decides nothing; its ratio is reported all the same.
    """
    for both in comparable_pairs(lines, _adds_disks):
        if pair := _compare_busy_depths(both.first, both.second):
            yield from _describe_scaling(pair)


def _adds_disks(fewer: Line, more: Line) -> bool:
    copies = any(
        layer.kind == kind and layer.options.get(option) == value
        for layer in fewer.layers
        for kind, option, value in COPIES
    )
    if copies or not 0 < len(fewer.data_disks) < len(more.data_disks):
        return False
    single = len(fewer.data_disks) == 1
    return _stack_kind(fewer, single=single) == _stack_kind(more, single=single)


def _stack_kind(line: Line, *, single: bool) -> object:
    """Kind of a line: its stack, with any number of disks, and how many of these hold nothing of their own.

    `single`: a single disk is a stripe of one.
    """
    spare = len(line.runs[0].layout_disks) - len(line.data_disks)
    layers = [
        replace(layer, kind="stripe", options={}) if single and _stripes(layer) else layer
        for layer in line.layers
    ]
    return stack_signature(layers, ignore=SIZES, counted=False), spare


def _stripes(layer: Layer) -> bool:
    """True for a bare disk, and for layers that only spread requests over disks."""
    striped = layer.kind == "lvm" and layer.options.get("type", "striped") == "striped"
    return layer.kind == "raw" or layer.level == 0 or striped


def _compare_busy_depths(fewer: Line, more: Line) -> Pair | None:
    """Compare two lines at the depths with a request for each disk; a stream has these at any depth: it reads ahead."""
    least = len(more.data_disks)
    streams = all(run.access.random is False for line in (fewer, more) for run in line.runs)
    return compare_lines(fewer, more, lambda depth: streams or depth >= least)


def _describe_scaling(pair: Pair) -> Iterator[Finding]:
    """Claim it over all depths if none gains that much, else at the depths that surely do not gain it.

    The pair then stands at the depth that gains least.
    """
    fewer, more = len(pair.first.data_disks), len(pair.second.data_disks)
    most = 1 + PART * (more / fewer - 1)
    high, points = pair.overall.high, pair.comparison.points
    gains = any(
        point.conclusion == Conclusion.FASTER and point.ratio >= most for point in points.values()
    )
    verb, severity = "does", Severity.LIMIT
    claim = f"{more} disks instead of {fewer} gain little"
    if pair.single or high is None or high >= most or gains:
        if depths := pair.depths_below(most):
            least = min(depths, key=lambda depth: points[depth].ratio)
            pair, claim = pair.at_worst_of([least]), f"{claim} {depths_text(depths)}"
        elif pair.single and pair.overall.ratio < most:
            verb, severity = "did", Severity.NOTE
            claim = f"it is undecided whether {more} disks gain on {fewer}"
        else:
            return
    ratio = f"{pair.ratio_sentence(verb)} ({pair.interval_text()})"
    yield Finding(
        f"{claim}: {ratio}",
        severity,
        pair.ratio_numbers()
        | {
            "fewer": Number(fewer, "1", f"disks of {pair.first.name}"),
            "more": Number(more, "1", f"disks of {pair.second.name}"),
        },
        about=pair.about,
        runs=pair.run_ids,
    )


@line_finding("Slower after growth")
def grown_slower(lines: Sequence[Line]) -> Iterator[Finding]:
    """After a growth the layout is slower than before, or than one that was built with that size at once.

    The ratio of single repeats is reported only if it is below 1.
    """
    for pair in comparable_pairs(lines, _is_grown):
        same = pair.first.topology == pair.second.topology
        than = f"slower than {'before' if same else 'the same layout built at that size'}"
        slower = pair.certain_depths(Conclusion.SLOWER)
        severity, verb = Severity.LIMIT, "does"
        claim = f"after its growth it is {than}"
        if pair.unanimous_verdict() != Conclusion.SLOWER:
            if slower:
                claim = f"{claim} {depths_text(slower)}"
                pair = pair.at_worst_of(slower)
            elif pair.single and pair.overall.ratio < 1:
                claim, verb, severity = (
                    f"it is undecided whether it is {than}",
                    "did",
                    Severity.NOTE,
                )
            else:
                continue
        sentence = f"{claim}: {pair.ratio_sentence(verb)} ({pair.interval_text()})"
        numbers = pair.ratio_numbers()
        if cpu := _busiest_cpu(pair.second.runs, max(pair.comparison.points)):
            sentence += f"; meanwhile its busiest CPU was {share(cpu.value)} busy"
            numbers["cpu"] = cpu
        yield Finding(sentence, severity, numbers, about=pair.about, runs=pair.run_ids)


def _is_grown(other: Line, grown: Line) -> bool:
    if other.runs[0].stage or not grown.runs[0].stage.startswith(AFTER):
        return False
    return other.topology == grown.topology or _stack_size(other) == _stack_size(grown)


def _stack_size(line: Line) -> object:
    """Stack and number of disks; the options for how it reached that size may differ."""
    return stack_signature(line.layers, ignore=SIZES), len(line.runs[0].layout_disks)


def _busiest_cpu(runs: Sequence[Run], deepest: int) -> Number | None:
    """Busy time of the busiest CPU at the `deepest` outstanding I/Os, if it had no time left; None otherwise.

    Waiting for I/O does not count as work, nor does a thread that polls.
    """
    cores = [(busiest(run), run.run) for run in runs if run.depth == deepest and not run.polled]
    full = [(busy, name, run) for (name, busy), run in cores if busy >= BUSY]
    if not full:
        return None
    busy, name, run = max(full)
    return Number(busy, "1", "busy time of a CPU", run=run, device=name, metric="cpu.idle")


@line_finding("Overtaken")
def overtakes(lines: Sequence[Line]) -> Iterator[Finding]:
    """One set-up is ahead at some depths and behind at others: which is better depends on the load.

    Crossings are found by the verdicts of the depths; for single repeats only the ratios are reported.
    """
    for first, second in combinations(lines, 2):
        if pair := compare_lines(first, second):
            yield from _describe_crossing(pair)


def _describe_crossing(pair: Pair) -> Iterator[Finding]:
    points = pair.comparison.points
    ratios = {depth: point.ratio for depth, point in points.items()}
    decided = pair.overall.conclusion == Conclusion.OVERTAKES
    if decided:
        ahead = [d for d, point in points.items() if point.conclusion == Conclusion.FASTER]
        behind = [d for d, point in points.items() if point.conclusion == Conclusion.SLOWER]
    elif pair.overall.repeats[1] == 1:
        ahead = [depth for depth, ratio in ratios.items() if ratio >= APART]
        behind = [depth for depth, ratio in ratios.items() if ratio <= 1 / APART]
    else:
        return
    if not ahead or not behind:
        return
    lower, higher = (_range_of_ratios([ratios[d] for d in depths]) for depths in (behind, ahead))
    numbers = pair.ratio_numbers()
    most = max(ratios.values(), key=lambda ratio: max(ratio, 1 / ratio))
    numbers["ratio"] = replace(numbers["ratio"], value=most)
    yield Finding(
        f"{pair.second.name} {'does' if decided else 'did'} {lower} the {figure_word(pair.figure)} of {pair.first.name}"
        f" {depths_text(behind)}, and {higher} {depths_text(ahead)}"
        f" ({pair.overall.reason if decided else pair.interval_text()})",
        Severity.NOTE,
        numbers,
        about=pair.about,
        runs=pair.run_ids,
    )


def _range_of_ratios(ratios: Sequence[float]) -> str:
    low, high = min(ratios), max(ratios)
    if times_text(low) == times_text(high):
        return times_text(low)
    return f"{ratio_range(low, high)} times"
