# SPDX-License-Identifier: Apache-2.0
"""Results of fio that are the same run: totals printed while it goes on, and one run in several formats. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from agents.texts.parsed_result import ParsedResult

OTHER_FORMAT = "fio printed this run in another format as well: those lines are left out"
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
    """The last total of each run, in the order of the text, with the options that the first one prints."""
    last_prints: list[Printed] = []
    for printed in every:
        if last_prints and _goes_on(last_prints[-1], printed):
            printed = replace(printed, block=_instead(printed.block, last_prints.pop().block))
        last_prints.append(printed)
    return [_with_repeat_count(printed.block) for printed in last_prints]


def once(results: Iterable[ParsedResult], again: Iterable[ParsedResult]) -> list[ParsedResult]:
    """All results, without those of `again` that are the same run as one of `results`."""
    unique_results = list(results)
    places: dict[tuple[str, float], list[int]] = defaultdict(list)
    for at, result in enumerate(unique_results):
        places[_result_key(result)].append(at)
    for result in again:
        same = next(
            (at for at in places[_result_key(result)] if _same(unique_results[at], result)), None
        )
        if same is None:
            unique_results.append(result)
        else:
            lines = (*unique_results[same].also, (result.first, result.last), *result.also)
            notes = dict.fromkeys((*unique_results[same].notes, OTHER_FORMAT))
            unique_results[same] = replace(unique_results[same], also=lines, notes=tuple(notes))
    return unique_results


def without_jobs(
    results: Iterable[ParsedResult], lines: Iterable[ParsedResult]
) -> tuple[list[ParsedResult], list[ParsedResult]]:
    """All found, and the lines that are not theirs: terse prints each job of a run by itself, other formats all jobs
    as one result.
    """
    results_without_jobs, remaining_lines = list(results), list(lines)
    for at, result in enumerate(results_without_jobs):
        if jobs := _jobs_of(result, remaining_lines):
            its = remaining_lines[jobs]
            del remaining_lines[jobs]
            places = [place for line in its for place in ((line.first, line.last), *line.also)]
            notes = tuple(dict.fromkeys((*result.notes, OTHER_FORMAT)))
            results_without_jobs[at] = replace(result, also=(*result.also, *places), notes=notes)
    return results_without_jobs, remaining_lines


def _jobs_of(result: ParsedResult, lines: Sequence[ParsedResult]) -> slice | None:
    """Two or more lines, each right below the other, that have moved as many bytes together in the same time."""
    totals = _moved_bytes(result)
    if not any(totals):
        return None
    low, sums = 0, [0.0, 0.0, 0.0]
    for high, line in enumerate(lines):
        if high and line.first != lines[high - 1].last + 1:
            low, sums = high, [0.0, 0.0, 0.0]
        sums = [was + more for was, more in zip(sums, _moved_bytes(line), strict=True)]
        while any(has > want for has, want in zip(sums, totals, strict=True)) and low <= high:
            sums = [has - less for has, less in zip(sums, _moved_bytes(lines[low]), strict=True)]
            low += 1
        its = lines[low : high + 1]
        # each tells whole KiB
        lost = 1024 * len(its)
        if (
            len(its) > 1
            and all(want - has < lost for has, want in zip(sums, totals, strict=True))
            and abs(max(map(_runtime, its)) - _runtime(result)) < 0.0015
        ):
            return slice(low, high + 1)
    return None


def _moved_bytes(result: ParsedResult) -> list[float]:
    """Read, written, trimmed; by all groups."""
    every = [m for m in result.metrics if m.value is not None and m.name.endswith(".bytes")]
    totals = [m for m in every if "group" not in m.labels] or every
    return [
        sum(m.value or 0.0 for m in totals if m.name == f"{way}.bytes")
        for way in ("read", "write", "trim")
    ]


def with_doubts(lines: Sequence[ParsedResult]) -> list[ParsedResult]:
    """Terse lines tell neither process nor time: who reads on may be told that they look like totals so far."""
    rising = {result.first for result, following in pairwise(lines) if _rises(result, following)}
    return [
        replace(result, notes=(*result.notes, MAYBE)) if result.first in rising else result
        for result in lines
    ]


def _goes_on(before: Printed, after: Printed) -> bool:
    """True when the later is a later total of the same run: it began before the other was printed, and all is more."""
    if not before.run or before.run != after.run or not _grown(before.block, after.block):
        return False
    if before.at is None or after.at is None:
        return before.at is after.at
    return after.at - before.at + after.step < _runtime(after.block)


def _grown(before: ParsedResult, after: ParsedResult) -> bool:
    counts = [_counts(result) for result in (before, after)]
    comparable = not before.trouble and not after.trouble and bool(counts[0])
    return comparable and all(value <= counts[1].get(key, -1.0) for key, value in counts[0].items())


def _rises(before: ParsedResult, after: ParsedResult) -> bool:
    later = _runtime(after) - _runtime(before)
    return before.title == after.title and later > 0.05 and _grown(before, after)


def _counts(result: ParsedResult) -> dict[tuple[str, str], float]:
    """Counts that only grow while a run goes on, by metric and group."""
    return {
        (m.name, m.labels.get("group", "")): m.value
        for m in result.metrics
        if m.value is not None and m.name.endswith((".ios", ".bytes", "runtime", ".max"))
    }


def _runtime(result: ParsedResult) -> float:
    return max((m.value or 0.0 for m in result.metrics if m.name == "runtime"), default=0.0)


def _instead(later: ParsedResult, earlier: ParsedResult) -> ParsedResult:
    return replace(
        later,
        title=earlier.title,
        also=(*earlier.also, (earlier.first, earlier.last)),
        options=later.options or earlier.options,
        options_complete=later.options_complete or earlier.options_complete,
        outstanding=earlier.outstanding if later.outstanding is None else later.outstanding,
        version=later.version or earlier.version,
        command=later.command or earlier.command,
    )


def _with_repeat_count(result: ParsedResult) -> ParsedResult:
    if not result.also:
        return result
    many = f"{len(result.also)} earlier total{'s' * (len(result.also) > 1)}"
    return replace(
        result, notes=(*result.notes, f"{many} of this run (--status-interval) left out")
    )


def _result_key(result: ParsedResult) -> tuple[str, float]:
    return result.title.partition(", ")[0], round(_runtime(result), 3)


def _same(result: ParsedResult, other: ParsedResult) -> bool:
    """True for equal work in the same milliseconds, by the count of I/Os or by rates cut to integers."""
    mine, others = (
        {
            (m.name, m.labels.get("group", "")): m.value
            for m in which.metrics
            if m.value is not None
            and m.name.endswith((".ios", "iops", "clat.mean"))
            # JSON alone has it
            and not m.name.startswith("steady.")
        }
        for which in (result, other)
    )
    shared = mine.keys() & others.keys()
    rates = {key for key in mine if key[0].endswith("iops")}
    return (
        rates != set()
        and rates == {key for key in others if key[0].endswith("iops")}
        and all(_figures_agree(key[0], mine[key], others[key]) for key in shared)
    )


def _figures_agree(name: str, figure: float, other: float) -> bool:
    if name.endswith(".ios"):
        return figure == other
    if name.endswith("iops"):
        # read and write are cut each
        return abs(figure - other) < 2
    return abs(figure - other) <= 0.01 * max(figure, other) + 1.5e-6
