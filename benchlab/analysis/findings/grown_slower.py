# SPDX-License-Identifier: Apache-2.0
"""After a growth the layout is slower than before, or than one that was built with that size at once."""

from __future__ import annotations

from collections.abc import Sequence

from benchlab.analysis.evidence import Line, Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings._set_ups import (
    SIZES,
    Pair,
    comparable_pairs,
    depths_text,
    stack_signature,
)
from benchlab.analysis.findings.cpu import busiest
from benchlab.analysis.formats import share
from benchlab.analysis.verdicts import Conclusion

LABEL = "Slower after growth"
METHOD = "Findings"

# Busy share of one CPU over the measured time, from which it can do no more.
BUSY = 0.95
# prefix of the moments of runs after a growth: benchlab.topologies.moments
AFTER = "after-"


def compares(lines: Sequence[Line]) -> list[Finding]:
    """Compare grown set-ups with what they were before, or with one that was built with that size at once.

    The ratio of single repeats is reported only if it is below 1.
    """
    return [
        finding
        for pair in comparable_pairs(lines, _is_grown)
        if (finding := _describe_growth(pair))
    ]


def _is_grown(other: Line, grown: Line) -> bool:
    if other.runs[0].stage or not grown.runs[0].stage.startswith(AFTER):
        return False
    return other.topology == grown.topology or _stack_size(other) == _stack_size(grown)


def _stack_size(line: Line) -> object:
    """Stack and number of disks; the options for how it reached that size may differ."""
    return stack_signature(line.layers, ignore=SIZES), len(line.runs[0].layout_disks)


def _describe_growth(pair: Pair) -> Finding | None:
    """Report all depths together if none contradicts, else the depths that are slower by themselves."""
    than = (
        "before it" if pair.first.topology == pair.second.topology else "one built so large at once"
    )
    slower = pair.certain_depths(Conclusion.SLOWER)
    severity = Severity.LIMIT
    if (
        pair.unanimous
        and (verdict := pair.certain_verdict())
        and verdict.conclusion == Conclusion.SLOWER
    ):
        sentence = f"after its growth it is slower than {than}: {pair.ratio_sentence()}"
    elif slower:
        where, pair = depths_text(slower), pair.at_worst_of(slower)
        sentence = " ".join(filter(None, [f"after its growth it is slower than {than}", where]))
        sentence = f"{sentence}: {pair.ratio_sentence()}"
    elif pair.single and pair.overall.ratio < 1:
        sentence, severity = (
            f"whether it is slower than {than} is open: {pair.ratio_sentence('did')}",
            Severity.NOTE,
        )
    else:
        return None
    sentence, numbers = f"{sentence} ({pair.interval_text()})", pair.ratio_numbers()
    if cpu := _busiest_cpu(pair.second.runs, max(pair.comparison.points)):
        sentence += f"; meanwhile its busiest CPU was {share(cpu.value)} busy"
        numbers["cpu"] = cpu
    return Finding(sentence, severity, numbers, about=pair.about, runs=pair.run_ids)


def _busiest_cpu(runs: Sequence[Run], deepest: int) -> Number | None:
    """Busy time of the busiest CPU at the `deepest` outstanding I/Os, if it had no time left; None otherwise.

    Waiting for I/O does not count as work.
    """
    cores = [
        (busy, name, run.run)
        for run in runs
        if (run.access.outstanding or 0) == deepest
        for name, busy in [busiest(run)]
        if busy >= BUSY
    ]
    if not cores:
        return None
    busy, name, run = max(cores)
    return Number(busy, "1", "busy time of a CPU", run=run, device=name, metric="cpu.idle")
