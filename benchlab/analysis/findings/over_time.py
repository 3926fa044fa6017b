# SPDX-License-Identifier: Apache-2.0
"""Time and counts that mislead: the host's clock, dynamo's count, a rate that is not steady."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite

from benchlab.analysis.activity import Pace, courses
from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity, run_finding
from benchlab.analysis.formats import rate, share
from benchlab.analysis.steady import DRIFTING, UNSTEADY, Course, State

# s by which two readings of both clocks may differ
STEP = 0.25
# s per second by which a time service may correct a clock without a step
SLEW = 500e-6
# What the note begins with (agents.dynamo.crosscheck.kernel_count_note): the kernel counted fewer, or more.
BEGINS = ("not to be trusted: ", "disturbed: ")
# largest distance of a level from the rating
RATED = 0.05
# smallest change within the last third that is named
STILL_MOVING = 0.05


@run_finding("Clock jumped")
def clock_jumped(run: Run) -> Iterator[Finding]:
    """The host's clock was set during the run: what a tool computes from it is wrong."""
    if step := clock_step(run.meta):
        where = "forward" if step > 0 else "back"
        yield Finding(
            f"the host's clock was set {where} by {rate(abs(step), 's')} during the run: times and rates that the tool "
            "computed from it are wrong",
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


@run_finding("Not steady")
def not_steady(run: Run) -> Iterator[Finding]:
    """The rate changed while the run was measured, stood still, or alternated between levels (docs/analysis.md, 4)."""
    for pace, course in courses(run):
        if course.state in UNSTEADY:
            yield Finding(
                f"{f'{pace.window}: ' if pace.window else ''}{_describe_course(run, pace, course)}",
                _severity(run, course),
                _course_numbers(pace, course),
                about=pace.window,
            )


def _severity(run: Run, course: Course) -> Severity:
    """The mean of a drifting rate is of no state; that of an uneven one holds, and bursts are a cache's nature."""
    if course.state in DRIFTING:
        return Severity.DOUBT
    return Severity.NOTE if _is_buffered(run) else Severity.LIMIT


def _is_buffered(run: Run) -> bool:
    """True when a layer or the page cache keeps data on its own account."""
    is_past_cache = run.access.direct or run.access.synced
    return run.cached or not is_past_cache


def _describe_course(run: Run, pace: Pace, course: Course) -> str:
    noun = pace.label.split(",")[0]
    first, second = (rate(level, pace.unit) for level in (course.first, course.second))
    if course.state is State.STALLS:
        return (
            f"the {noun} fell below a fifth of its median {course.spells} times, for {share(course.share)} of the "
            f"{course.duration_s:.0f} s: the mean includes these standstills"
        )
    if course.state in (State.LEVELS, State.CYCLES):
        how = f"changed {course.spells - 1} times"
        if course.state is State.CYCLES:
            how = f"alternated every {course.period_s:.0f} s"
        causes = "burst credits, garbage collection, heat or a neighbour can cause that"
        if _is_buffered(run):
            causes = "a cache that fills and is written out can cause that"
        return (
            f"the {noun} {how} between {first} and {second}, and was at {second} for {share(course.share)} of the "
            f"time: {causes}"
        )
    if course.state is State.STEP:
        verb = "fell" if course.second < course.first else "rose"
        return (
            f"at {course.edge_s:.0f} s of {course.duration_s:.0f} s the {noun} {verb} from {first} to {second} and "
            f"stayed there: the mean describes neither{_at_rating(run, pace, course)}"
        )
    verb = "fell" if course.change < 0 else "rose"
    how = "" if course.state is State.TREND else ", unevenly"
    return (
        f"the {noun} {verb} by {share(abs(course.change))} over {course.duration_s:.0f} s{how}: the last third did "
        f"{rate(course.last_third, pace.unit)}{_last_slope(course)}, the mean is {rate(course.mean, pace.unit)}"
    )


def _last_slope(course: Course) -> str:
    if abs(course.last_slope) < STILL_MOVING:
        return ""
    verb = "falling" if course.last_slope < 0 else "rising"
    return f", still {verb} by {share(abs(course.last_slope))}"


def _at_rating(run: Run, pace: Pace, course: Course) -> str:
    """Say that the rate fell to what the disks are rated for, if it did."""
    ways = {"op/s": "rated_iops", "B/s": "rated_bandwidth"}
    names = run.active_disks
    if pace.unit not in ways or not set(names) <= set(run.devices):
        return ""
    rated = [getattr(run.devices[name], ways[pace.unit]) for name in names]
    if not rated or not all(rated) or abs(course.second / sum(rated) - 1) > RATED:
        return ""
    return "; its disks are rated for the second rate, so burst credits may have ended"


def _course_numbers(pace: Pace, course: Course) -> dict[str, Number]:
    """Amounts of a course, those first that its sentence names."""
    after = (
        ("before", "after")
        if course.state is State.STEP
        else ("the higher level", "the lower level")
    )
    amounts = {
        "edge": (course.edge_s, "s", "start to the step"),
        "first": (course.first, pace.unit, f"{pace.label}, {after[0]}"),
        "second": (course.second, pace.unit, f"{pace.label}, {after[1]}"),
        "change": (course.change, "1", f"{pace.label}, from the first tenth to the last one"),
        "share": (course.share, "1", "share of the time so low"),
        "spells": (course.spells, "1", "number of spells"),
        "period": (course.period_s, "s", "length of a cycle"),
    }
    numbers = {name: Number(*amount) for name, amount in amounts.items() if amount[0]}
    numbers["mean"] = Number(course.mean, pace.unit, f"{pace.label}, mean")
    if course.comparable_share is not None:
        numbers["last_third"] = Number(
            course.last_third, pace.unit, f"{pace.label}, mean of the last third"
        )
    return numbers
