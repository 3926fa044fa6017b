# SPDX-License-Identifier: Apache-2.0
"""Durable writes of ZFS: what a log device (SLOG) does, or would do."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchlab.analysis.formats import rate, times_text
from benchlab.diagnosis import wording
from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.limits import durable_write
from benchlab.diagnosis.loads import (
    Load,
    all_loads,
    at,
    before_and_after,
    headline_text,
    is_network_target,
    is_zfs,
    lines_between,
    loads_of,
    log_loads,
    pool_names,
    tests,
    writes_only,
)
from benchlab.diagnosis.model import Diagnosis, NextStep, Proof, Stage, Verdict, rule

# s of a durable write above which a log device on flash would help
SLOW_SYNC = 0.003
LOG_CHANGE = re.compile(r"zpool (add|create|remove|attach)\b.*|^\s*logs\b")


@rule("R26", "Durable writes and the log device of ZFS", Stage.LAYOUT)
def log_device(evidence: Evidence) -> Iterator[Diagnosis]:
    """The gain by a log device (SLOG) for the load, had or missed."""
    pairs = list(_log_pairs(evidence))
    if pairs:
        yield _log_pair(evidence, *pairs[0])
        return
    if not is_zfs(evidence):
        return
    logs = [load for loads in all_loads(evidence) for load in log_loads(loads)]
    facts = [f for f in evidence.facts.with_name("pool.log") if str(f.value)]
    for index, test in tests(evidence):
        flushes = test.kind == "pveperf" and bool(test.number("fsync.ops"))
        if not (writes_only(test) or flushes) or test.kind == "pg_test_fsync":
            continue
        # a disk of its own, not the pool
        if test.target.startswith("/dev/") and not test.target.startswith(("/dev/zvol", "/dev/zd")):
            continue
        if test.durable is False and logs and max(load.writes for load in logs) < 1:
            yield _idle_log(index, test, logs)
            return
        slow = (test.durable or flushes) and (_time_of(test) or 0) >= SLOW_SYNC
        network = is_network_target(evidence, test)
        if slow and not logs and not facts and not network and not _sync_disabled(evidence):
            yield _missing_log(evidence, index, test)
            return


def _sync_disabled(evidence: Evidence) -> bool:
    return any(str(fact.value) == "disabled" for fact in evidence.facts.with_name("zfs.sync"))


def _time_of(test: Result) -> float | None:
    """s of one durable write, at one I/O in flight."""
    write = durable_write(test)
    if write is not None:
        return write.took
    if test.latency:
        return test.latency
    return 1 / test.operations if test.operations else None


def _log_pairs(evidence: Evidence) -> Iterator[tuple[int, Result, int, Result, float, Load | None]]:
    """Pairs of tests of the same work between which a log device came or went."""
    logs = [
        (i, group[0])
        for i, r in enumerate(evidence.results)
        if (group := log_loads(loads_of(r, i)))
    ]
    begin = logs[0][0] if logs else None
    zfs = is_zfs(evidence)
    for first, before, second, after, ratio in before_and_after(evidence):
        lines = lines_between(evidence, before, after, LOG_CHANGE)
        added = any("log" in evidence.quote(line) for line in lines)
        appears = zfs and begin is not None and begin > second
        if added or appears:
            load = next((load for place, load in logs if place > second), None)
            yield first, before, second, after, ratio, load


def _log_pair(
    evidence: Evidence,
    first: int,
    before: Result,
    second: int,
    after: Result,
    ratio: float,
    log: Load | None,
) -> Diagnosis:
    lines = lines_between(evidence, before, after, LOG_CHANGE)
    proofs = [
        Proof(
            f"{_each(before)} before, {_each(after)} after: {times_text(max(ratio, 1 / ratio))}",
            at(before.headline(), after.headline()),
        ),
        Proof("a log device was added between", at(*lines[:1])),
    ]
    if log is not None:
        written = f", {rate(log.write_bandwidth)}" if log.write_bandwidth else ""
        proofs.append(
            Proof(f"log device {log.name}: {log.writes:,.0f} writes/s{written}", at(log.line))
        )
    if not before.durable:
        claim = (
            f"The log device (SLOG) makes no difference ({headline_text(before)}, {headline_text(after)}): it "
            "takes synced writes "
            "only, and these writes are not synced."
        )
        verdict, meaning = (
            Verdict.FINE,
            "Writes that are not synced go to memory, and to the pool with the next transaction group.",
        )
    elif ratio >= 1.3:
        claim = (
            f"The log device (SLOG) made durable writes {times_text(ratio)} as fast: {_each(before)} before, "
            f"{_each(after)} after."
        )
        verdict = Verdict.LIMIT
        meaning = (
            "Before, each synced write waited for the pool's disks (ZIL in the pool). Now it ends on "
            "the log device."
        )
    else:
        claim = (
            f"The log device (SLOG) does not help: a durable write takes {_each(after)} with it and "
            f"{_each(before)} without, so it "
            "makes a write durable no sooner than the pool does."
        )
        verdict = Verdict.LIMIT
        meaning = (
            "A log device helps by the time of its own flush. An SSD without power-loss protection "
            "takes milliseconds."
        )
    return Diagnosis(
        verdict,
        claim,
        meaning,
        tuple(proofs),
        ("logbias=throughput or a sync setting of the dataset bypasses the log device.",),
        (
            NextStep(
                "Check that the log device has power-loss protection: without it, it is slow, or fast and not safe.",
                f"cat /sys/block/{log.name if log else 'nvme0n1'}/queue/write_cache; smartctl -i "
                f"/dev/{log.name if log else 'nvme0n1'}",
                "write through: no volatile cache that a power cut could empty.",
            ),
            NextStep(
                "Run the same test without sync: a log device must not change it.",
                wording.edit_command(before, oflag=None)
                if before.kind == "dd"
                else wording.edit_command(before, fsync=None, fdatasync=None, sync=None),
                "The same rate with and without the log device.",
            ),
        ),
        confidence=0.95,
        results=(first, second),
        silences=("R18", "R32", "R22", "R23", "R64", "R37", "R09"),
    )


def _each(test: Result) -> str:
    """Time of one durable write, else the rate."""
    seconds = _time_of(test)
    durable = test.durable or test.kind == "pveperf"
    return f"{wording.seconds(seconds)} a write" if durable and seconds else headline_text(test)


def _rate_text(test: Result) -> str:
    flushes = test.number("fsync.ops")
    alone = test.kind == "pveperf" and flushes
    return f"{wording.per_second(flushes or 0)} with fsync" if alone else headline_text(test)


def _idle_log(index: int, test: Result, logs: list[Load]) -> Diagnosis:
    return Diagnosis(
        Verdict.FINE,
        f"The log device {logs[0].name} is idle, as it should be: it takes synced writes only, and this test "
        "syncs nothing "
        f"({headline_text(test)}).",
        "Writes that are not synced go to memory, and to the pool with the next transaction group.",
        (
            Proof(f"log device: {logs[0].writes:,.0f} writes/s", at(logs[0].line)),
            Proof(f"{headline_text(test)} without sync, fsync or fdatasync", at(test.headline())),
        ),
        ("logbias=throughput bypasses the log device for synced writes as well.",),
        (
            NextStep(
                "Measure what a log device is for.",
                wording.edit_command(test, fdatasync=1),
                "The log device takes about as many writes as the tool.",
            ),
        ),
        results=(index,),
    )


def _missing_log(evidence: Evidence, index: int, test: Result) -> Diagnosis:
    pool = next(iter(pool_names(evidence)), "POOL")
    lines = [f for f in evidence.facts.with_name("pool.vdevs") if f.line]
    return Diagnosis(
        Verdict.LIMIT,
        f"Each durable write takes {_each(test).removesuffix(' a write')} on the pool's own disks: the pool has "
        "no log device "
        "(SLOG).",
        "A synced write waits until the ZIL is on the medium. Without a log device that is the pool itself.",
        (
            Proof(f"{_rate_text(test)}, {_each(test)}, each made durable", at(test.headline())),
            *[Proof(f"{f.subject}: {f.value}, no log", at(f.line)) for f in lines[:1]],
        ),
        ("A pool that is busy with other work answers late as well.",),
        (
            NextStep(
                "Try an SSD with power-loss protection as log device (it can be removed again).",
                f"zpool add {pool} log /dev/disk/by-id/SSD",
                "Durable writes of 0.1 ms or less; the rate without sync does not change.",
                risk="The SSD is overwritten. Without power-loss protection a power cut loses what was acknowledged.",
            ),
        ),
        confidence=0.7,
        results=(index,),
        silences=("R22", "R23", "R37"),
    )
