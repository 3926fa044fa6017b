# SPDX-License-Identifier: Apache-2.0
"""Time and counts that mislead: the host's clock, dynamo's count, a short warm-up, a rate at two levels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from benchlab.analysis.activity import Array, Pace, latency_paces, paces
from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity, run_finding
from benchlab.analysis.formats import rate, share

# s by which two readings of both clocks may differ
STEP = 0.25
# s per second by which a time service may correct a clock without a step
SLEW = 500e-6
# What the note begins with (agents.dynamo.crosscheck.kernel_count_note): the kernel counted fewer, or more.
BEGINS = ("not to be trusted: ", "disturbed: ")
# standard deviation of normal noise, in median absolute deviations
NORMAL = 1.4826
# least intervals of a window whose warm-up is judged, and of its first part
FEWEST, FIRST = 20, 3
# least error of the mean, as a ratio
OFF = 0.03
# standard errors, over all first parts tried
SURE = 6.0
# least noise, as a share of the level
NOISE = 0.005
# largest correlation of neighbours, at lag 1
MOST_ALIKE = 0.9
WINDOW, SHORT = 5, 2.5
# least number of intervals in which two levels show
FEWEST_OF_LEVELS = 30
# s of the median spell at each level: the rhythm of a file system or pool is shorter
SPELL = 10.0
# least ratio of the two levels
APART = 1.25
# the gap, in standard deviations of a level
SHARP = 5.0
# largest share of the intervals in the middle half of the gap, and at the wrong level within a spell
BETWEEN = 0.05
# least share of the time at each level
LEAST = 0.08
# largest distance of a level from the rating
RATED = 0.05


@run_finding("Clock jumped")
def clock_jumped(run: Run) -> Iterator[Finding]:
    """The host's clock was set during the run: what a tool computes from it is wrong."""
    if step := clock_step(run.meta):
        where = "forward" if step > 0 else "back"
        yield Finding(
            f"the host's clock was set {where} by {rate(abs(step), 's')} during the run: times and rates that the tool "
            "reckoned by it are wrong",
            Severity.DOUBT,
            {"step": Number(step, "s", "the host's clock against its monotonic one")},
        )


def clock_step(meta: Mapping[str, object]) -> float:
    """Seconds by which the clock was set during a run, according to its runner; 0.0 if it was not set."""
    step, start, end = (meta.get(name) for name in ("clock_step", "started_mono", "ended_mono"))
    if not isinstance(step, int | float) or not isfinite(step):
        return 0.0
    seconds = 0.0
    if isinstance(start, int | float) and isinstance(end, int | float):
        seconds = max(0.0, end - start)
    return step if abs(step) >= STEP + SLEW * seconds else 0.0


@run_finding("dynamo's count against the kernel's")
def dynamo_crosscheck(run: Run) -> Iterator[Finding]:
    """dynamo never notices that an I/O failed; the kernel's count of the same seconds shows it.

    agents/dynamo/crosscheck.py decides what is compared when dynamo's output is read. It attaches its words to the
    figures as a note.
    """
    notes = (note.partition(begin) for note in run.notes.values() for begin in BEGINS)
    sentence = next((rest.rstrip(".") for _, begin, rest in notes if begin), None)
    counted = any(f"kernel.{way}.bytes" in run.figures for way in ("read", "write"))
    if sentence is None or not counted:
        return
    way, verb = ("read", "read") if "bytes read" in sentence else ("write", "written")
    sources = (
        ("dynamo", f"{way}.bytes", f"{verb}, by dynamo"),
        ("kernel", f"kernel.{way}.bytes", f"{verb}, by the kernel"),
    )
    yield Finding(
        sentence,
        Severity.DOUBT,
        {
            source: Number(run.figures[name], "B", words, figure=name)
            for source, name, words in sources
            if name in run.figures
        },
    )


def _best_split(values: Array, lengths: NDArray[np.int_]) -> int:
    """The one of these lengths of a first part with which two levels fit the values best, by least squares (Otsu)."""
    sums = np.cumsum(values)
    first, rest = lengths, values.size - lengths
    means, others = sums[first - 1] / first, (sums[-1] - sums[first - 1]) / rest
    return int(lengths[np.argmax(first * rest * (others - means) ** 2)])


@dataclass(frozen=True, slots=True)
class WarmUp:
    seconds: float
    # mean of the first part
    level: float
    rest: float
    # ratio of the mean of all to that of the rest, less 1
    off: float
    z: float


@run_finding("Too short a warm-up")
def short_warm_up(run: Run) -> Iterator[Finding]:
    """The first part of what was measured is at another level than the rest (docs/analysis.md, 4, on steady state).

    For each first part of 3 intervals to half of them: medians of it and of the rest, apart by `z` standard errors. The
    noise is the rest's, by its median absolute deviation; neighbours that are alike count as fewer (integrated
    autocorrelation time of the rest). And the mean must be off by 3 % against the rest's alone.
    """
    for pace in paces(run):
        if warm_up := _warm_up_part(pace):
            yield _describe_warm_up(pace, warm_up)


def _warm_up_part(pace: Pace) -> WarmUp | None:
    """The first part that stands out most, among those that shift the mean."""
    size = pace.values.size
    if size < FEWEST or float(np.median(pace.values)) <= 0:
        return None
    splits = [split for end in _biased_lengths(pace) if (split := _split_at(pace, end))]
    best = max(splits, key=lambda split: split.z, default=None)
    if best is None or best.z < SURE:
        return None
    # The lengths that are tried for a proof are too coarse to describe the first part.
    exact = _split_at(pace, _best_split(pace.values, np.arange(FIRST, size // 2 + 1)))
    return exact if exact and exact.z >= SURE and abs(exact.off) >= OFF else best


def _biased_lengths(pace: Pace) -> list[int]:
    """Lengths of first parts that shift the mean; each is half as long again as the one before."""
    moved, spans = np.cumsum(pace.values * pace.spans), np.cumsum(pace.spans)
    mean, ends, end = moved[-1] / spans[-1], [], float(FIRST)
    while end <= pace.values.size / 2:
        at = int(end) - 1
        rest = (moved[-1] - moved[at]) / (spans[-1] - spans[at])
        if rest > 0 and abs(mean / rest - 1) >= OFF:
            ends.append(int(end))
        end *= 1.5
    return ends


def _split_at(pace: Pace, end: int) -> WarmUp | None:
    first, rest = pace.values[:end], pace.values[end:]
    level = float(np.median(rest))
    mean = float(np.average(rest, weights=pace.spans[end:]))
    if level <= 0 or mean <= 0:
        return None
    noise = max(NOISE * level, NORMAL * float(np.median(np.abs(rest - level))))
    error = 1.2533 * noise * np.sqrt(_widened(rest - level, noise) * (1 / end + 1 / rest.size))
    return WarmUp(
        float(pace.spans[:end].sum()),
        float(np.average(first, weights=pace.spans[:end])),
        mean,
        float(np.average(pace.values, weights=pace.spans)) / mean - 1,
        abs(float(np.median(first)) - level) / float(error),
    )


def _widened(rest: Array, noise: float) -> float:
    """Factor by which similar neighbours widen the variance of a mean: the integrated autocorrelation time.

    Outliers are cut at three times the noise. Summed up to WINDOW times itself (Sokal), each term corrected for its
    bias in short series; where the series is short beside that time, it is not known well, and taken for longer.
    """
    cut = np.clip(rest, -3 * noise, 3 * noise)
    correlations = _correlations(cut - cut.mean())
    times = np.maximum(1, 1 + 2 * np.cumsum(correlations + 1 / rest.size))
    within = np.arange(1, times.size + 1) < WINDOW * times
    stop = int(np.argmin(within)) if not within.all() else times.size - 1
    first = max(
        0.0, min(MOST_ALIKE, float(correlations[0]) + (1 + 4 * float(correlations[0])) / rest.size)
    )
    time = max(1.0, float(times[stop]), (1 + first) / (1 - first))
    return time * (1 + SHORT * time / rest.size)


def _correlations(values: Array) -> Array:
    """Autocorrelations at lags 1 to half of the series; all 0 if the series does not change."""
    spectrum = np.fft.rfft(values, 2 * values.size)
    powers = np.fft.irfft(spectrum * np.conj(spectrum))[: values.size // 2 + 1]
    correlations: Array = powers[1:] / powers[0] if powers[0] > 0 else np.zeros(values.size // 2)
    return correlations


def _describe_warm_up(pace: Pace, warm_up: WarmUp) -> Finding:
    faster = "above" if warm_up.level > warm_up.rest else "below"
    difference = share(abs(warm_up.level / warm_up.rest - 1))
    window_text = f" of {pace.window}" if pace.window else ""
    return Finding(
        f"the first {warm_up.seconds:.0f} s{window_text} of {pace.duration_s:.0f} s were {difference} "
        f"{faster} the rest ({rate(warm_up.level, pace.unit)}, then {rate(warm_up.rest, pace.unit)}): "
        f"the mean is off by {share(abs(warm_up.off))}",
        Severity.DOUBT,
        {
            "first": Number(warm_up.level, pace.unit, f"{pace.label}, first part"),
            "rest": Number(warm_up.rest, pace.unit, f"{pace.label}, the rest"),
            "off": Number(warm_up.off, "1", "the mean against that of the rest"),
            "seconds": Number(warm_up.seconds, "s", "length of the first part"),
        },
        about=pace.window,
    )


@dataclass(frozen=True, slots=True)
class Levels:
    low: float
    high: float
    # share of the time at the low level
    at_low: float
    # True for a spell at the high level, in order of time
    spells: tuple[bool, ...]


@run_finding("Two levels, as credits make them")
def token_bucket(run: Run) -> Iterator[Finding]:
    """The rate, or the latency, is at one of two levels for long spells: a limit that saves up credits.

    A level that is left once and never again is an SSD's cache or a changed state, and not reported, unless it falls to
    the disks' rating. Stacks that keep data themselves and buffered writes are left out: those come in bursts by
    nature.
    """
    if not (run.access.direct or run.access.synced) or run.cached:
        return
    for pace in (*paces(run), *latency_paces(run)):
        levels = _two_levels(pace)
        if levels and (len(levels.spells) > 2 or _fell_to_rating(run, pace, levels)):
            yield _describe_levels(pace, levels)
            return


def _two_levels(pace: Pace) -> Levels | None:
    if pace.values.size < FEWEST_OF_LEVELS or (pace.values <= 0).any():
        return None
    logs = np.log(pace.values)
    ordered = np.sort(logs)
    split = _best_split(ordered, np.arange(1, ordered.size))
    high = logs > float(ordered[split - 1] + ordered[split]) / 2
    if not high.any() or high.all():
        return None
    low_at, high_at = float(np.median(logs[~high])), float(np.median(logs[high]))
    gap = high_at - low_at
    deviations = (np.abs(logs[high] - high_at), np.abs(logs[~high] - low_at))
    noise = NORMAL * max(float(np.median(deviation)) for deviation in deviations)
    between = np.abs(logs - (low_at + high_at) / 2) < gap / 4
    if gap < np.log(APART) or gap < SHARP * noise or between.mean() > BETWEEN:
        return None
    smooth = _majority(high)
    if (smooth != high).mean() > BETWEEN:
        return None
    return _level_spells(pace, smooth, low_at, high_at)


def _majority(high: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Majority of five neighbours: a lone interval is no spell."""
    padded = np.pad(high.astype(int), 2, mode="edge")
    return np.convolve(padded, np.ones(5, dtype=int), "valid") >= 3


def _level_spells(
    pace: Pace, high: NDArray[np.bool_], low_at: float, high_at: float
) -> Levels | None:
    starts = np.concatenate(([0], np.flatnonzero(np.diff(high)) + 1))
    lengths, at_high = np.add.reduceat(pace.spans, starts), high[starts]
    for spells in (lengths[at_high], lengths[~at_high]):
        least = LEAST * pace.duration_s
        if not spells.size or np.median(spells) < SPELL or spells.sum() < least:
            return None
    at_low = float(pace.spans[~high].sum()) / pace.duration_s
    return Levels(float(np.exp(low_at)), float(np.exp(high_at)), at_low, tuple(at_high.tolist()))


def _fell_to_rating(run: Run, pace: Pace, levels: Levels) -> bool:
    """True when it fell once, to what the disks are rated for."""
    ways = {"op/s": "rated_iops", "B/s": "rated_bandwidth"}
    names = run.active_disks
    fell = levels.spells == (True, False)
    if not fell or pace.unit not in ways or not set(names) <= set(run.devices):
        return False
    rated = [getattr(run.devices[name], ways[pace.unit]) for name in names]
    return all(rated) and abs(levels.low / sum(rated) - 1) <= RATED


def _describe_levels(pace: Pace, levels: Levels) -> Finding:
    changes = len(levels.spells) - 1
    times = "once" if changes == 1 else f"{changes} times"
    return Finding(
        f"the {pace.label.split(',')[0]} changed {times} between {rate(levels.high, pace.unit)} and "
        f"{rate(levels.low, pace.unit)}, where it was for {share(levels.at_low)} of the time: so does a limit that "
        "saves up credits, and the mean is of neither level",
        Severity.DOUBT,
        {
            "high": Number(levels.high, pace.unit, f"{pace.label}, the higher level"),
            "low": Number(levels.low, pace.unit, f"{pace.label}, the lower level"),
            "at_low": Number(levels.at_low, "1", "share of the time at the lower level"),
        },
        about=pace.window,
    )
