# SPDX-License-Identifier: Apache-2.0
"""One run of fio that was printed several times: totals so far (--status-interval), or one format after another. Pure.

A run that is counted twice would be taken for a repeat, and repeats are what a spread is made of.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from agents.texts.parsed_result import ParsedResult

TWICE = "fio printed this run in another format as well: those lines are left out"
MAYBE = "the next line has higher totals: this may be an interim total of the same run (--status-interval)"


@dataclass(frozen=True, slots=True)
class Printed:
    block: ParsedResult
    # Differs between runs: a text's process ids, a document's options; "" is not known
    run: str = ""
    # the second when it was printed; a text need not tell
    at: float | None = None
    # how exact that is, in seconds
    step: float = 0.0


def last_totals(every: Iterable[Printed]) -> list[ParsedResult]:
    """Of each run, in the order of the text. The first total says what was asked for, also for the last."""
    kept: list[Printed] = []
    for one in every:
        if kept and _goes_on(kept[-1], one):
            one = replace(one, block=_instead(one.block, kept.pop().block))
        kept.append(one)
    return [_with_repeat_count(one.block) for one in kept]


def once(found: Iterable[ParsedResult], again: Iterable[ParsedResult]) -> list[ParsedResult]:
    """All, but those of `again` that are the same run as one of `found`."""
    kept = list(found)
    places: dict[tuple[str, float], list[int]] = defaultdict(list)
    for at, one in enumerate(kept):
        places[_result_key(one)].append(at)
    for one in again:
        same = next((at for at in places[_result_key(one)] if _same(kept[at], one)), None)
        if same is None:
            kept.append(one)
        else:
            lines = (*kept[same].also, (one.first, one.last), *one.also)
            notes = dict.fromkeys((*kept[same].notes, TWICE))
            kept[same] = replace(kept[same], also=lines, notes=tuple(notes))
    return kept


def without_jobs(
    found: Iterable[ParsedResult], lines: Iterable[ParsedResult]
) -> tuple[list[ParsedResult], list[ParsedResult]]:
    """All found, and the lines that are not theirs: terse prints each job of a run by itself, other formats all jobs
    as one result.
    """
    kept, left = list(found), list(lines)
    for at, one in enumerate(kept):
        if jobs := _jobs_of(one, left):
            its = left[jobs]
            del left[jobs]
            places = [place for line in its for place in ((line.first, line.last), *line.also)]
            notes = tuple(dict.fromkeys((*one.notes, TWICE)))
            kept[at] = replace(one, also=(*one.also, *places), notes=notes)
    return kept, left


def _jobs_of(one: ParsedResult, lines: Sequence[ParsedResult]) -> slice | None:
    """Two or more lines, each right below the other, that have moved as many bytes together in the same time."""
    wanted = _moved_bytes(one)
    if not any(wanted):
        return None
    low, sums = 0, [0.0, 0.0, 0.0]
    for high, line in enumerate(lines):
        if high and line.first != lines[high - 1].last + 1:
            low, sums = high, [0.0, 0.0, 0.0]
        sums = [was + more for was, more in zip(sums, _moved_bytes(line), strict=True)]
        while any(has > want for has, want in zip(sums, wanted, strict=True)) and low <= high:
            sums = [has - less for has, less in zip(sums, _moved_bytes(lines[low]), strict=True)]
            low += 1
        its = lines[low : high + 1]
        # each tells whole KiB
        lost = 1024 * len(its)
        if (
            len(its) > 1
            and all(want - has < lost for has, want in zip(sums, wanted, strict=True))
            and abs(max(map(_runtime, its)) - _runtime(one)) < 0.0015
        ):
            return slice(low, high + 1)
    return None


def _moved_bytes(one: ParsedResult) -> list[float]:
    """Read, written, trimmed; by all groups."""
    every = [m for m in one.metrics if m.value is not None and m.name.endswith(".bytes")]
    totals = [m for m in every if "group" not in m.labels] or every
    return [
        sum(m.value or 0.0 for m in totals if m.name == f"{way}.bytes")
        for way in ("read", "write", "trim")
    ]


def with_doubts(lines: Sequence[ParsedResult]) -> list[ParsedResult]:
    """Terse lines tell neither process nor time: who reads on may be told that they look like totals so far."""
    rising = {one.first for one, following in pairwise(lines) if _rises(one, following)}
    return [
        replace(one, notes=(*one.notes, MAYBE)) if one.first in rising else one for one in lines
    ]


def _goes_on(before: Printed, after: Printed) -> bool:
    """True when the later is a later total of the same run: it began before the other was printed, and all is more."""
    if not before.run or before.run != after.run or not _grown(before.block, after.block):
        return False
    if before.at is None or after.at is None:
        return before.at is after.at
    return after.at - before.at + after.step < _runtime(after.block)


def _grown(before: ParsedResult, after: ParsedResult) -> bool:
    counts = [_counts(one) for one in (before, after)]
    known = not before.trouble and not after.trouble and bool(counts[0])
    return known and all(value <= counts[1].get(key, -1.0) for key, value in counts[0].items())


def _rises(before: ParsedResult, after: ParsedResult) -> bool:
    later = _runtime(after) - _runtime(before)
    return before.title == after.title and later > 0.05 and _grown(before, after)


def _counts(one: ParsedResult) -> dict[tuple[str, str], float]:
    """Counts that only grow while a run goes on, by metric and group."""
    return {
        (m.name, m.labels.get("group", "")): m.value
        for m in one.metrics
        if m.value is not None and m.name.endswith((".ios", ".bytes", "runtime", ".max"))
    }


def _runtime(one: ParsedResult) -> float:
    return max((m.value or 0.0 for m in one.metrics if m.name == "runtime"), default=0.0)


def _instead(later: ParsedResult, earlier: ParsedResult) -> ParsedResult:
    return replace(
        later,
        title=earlier.title,
        also=(*earlier.also, (earlier.first, earlier.last)),
        options=later.options or earlier.options,
        outstanding=earlier.outstanding if later.outstanding is None else later.outstanding,
        version=later.version or earlier.version,
        command=later.command or earlier.command,
    )


def _with_repeat_count(one: ParsedResult) -> ParsedResult:
    if not one.also:
        return one
    many = f"{len(one.also)} earlier total{'s' * (len(one.also) > 1)}"
    return replace(one, notes=(*one.notes, f"{many} of this run (--status-interval) left out"))


def _result_key(one: ParsedResult) -> tuple[str, float]:
    return one.title.partition(", ")[0], round(_runtime(one), 3)


def _same(one: ParsedResult, other: ParsedResult) -> bool:
    """As much done in the same time to the millisecond: by the count of I/Os, or by rates cut to whole ones."""
    mine, others = (
        {
            (m.name, m.labels.get("group", "")): m.value
            for m in which.metrics
            if m.value is not None
            and m.name.endswith((".ios", "iops", "clat.mean"))
            # JSON alone has it
            and not m.name.startswith("steady.")
        }
        for which in (one, other)
    )
    shared = mine.keys() & others.keys()
    rates = {key for key in mine if key[0].endswith("iops")}
    return (
        rates != set()
        and rates == {key for key in others if key[0].endswith("iops")}
        and all(_figures_agree(key[0], mine[key], others[key]) for key in shared)
    )


def _figures_agree(name: str, one: float, other: float) -> bool:
    if name.endswith(".ios"):
        return one == other
    if name.endswith("iops"):
        # read and write are cut each
        return abs(one - other) < 2
    return abs(one - other) <= 0.01 * max(one, other) + 1.5e-6
