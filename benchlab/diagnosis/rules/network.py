# SPDX-License-Identifier: Apache-2.0
"""Durable writes over a network, and settings that make them fast and not safe."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agents.context.model import Fact
from benchlab.analysis.formats import share, times_text
from benchlab.diagnosis import wording
from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.loads import (
    at,
    before_and_after,
    changed,
    headline_text,
    is_network_target,
    loads_of,
    log_loads,
    network_mount,
    network_protocol,
    tests,
)
from benchlab.diagnosis.model import Diagnosis, NextStep, Proof, Stage, Verdict, rule

# NFS and iSCSI on one pool are at least that many times apart
PROTOCOL_COST = 3.0
# s of a synced write over a network: below it is the network's own round trip
SLOW_REMOTE = 0.002
# Durable writes a second that no medium without a protected cache makes: R29
BELIEVABLE_SYNC = 2000.0
SYNC_OFF = re.compile(r"zfs set sync=disabled (\S+)")
SYNC_CHANGE = re.compile(r"sync=(disabled|standard|always)|nobarrier|barrier=|exportfs|async")


@rule("R29", "Fast since nothing is made durable", Stage.BELIEVABLE)
def not_durable(evidence: Evidence) -> Iterator[Diagnosis]:
    """Synced writes on a data set, mount or export where sync does nothing."""
    facts = [*_unsafe(evidence), *_typed(evidence)]
    if not facts:
        return
    change = next(changed(evidence, SYNC_CHANGE, 2.0), None)
    for index, result in tests(evidence):
        operations = _durable_rate(result)
        pair = change is not None and index in (change[0], change[2])
        # Without a sync in the test the setting changes nothing.
        if operations is None or not (operations >= BELIEVABLE_SYNC or pair):
            continue
        fact, words = facts[0]
        results: tuple[int, ...] = (index,)
        if change is not None:
            result = max(change[1], change[3], key=lambda run: _durable_rate(run) or 0)
            operations = _durable_rate(result) or operations
        proofs = [
            Proof(words, at(fact.line)),
            Proof(f"{operations:,.0f} synced writes/s", at(_durable_line(result))),
        ]
        if change is not None:
            results = (change[0], change[2])
            proofs.append(
                Proof(
                    f"{headline_text(change[1])} and {headline_text(change[3])}: "
                    f"{times_text(max(change[4], 1 / change[4]))}",
                    at(change[1].headline(), change[3].headline()),
                )
            )
        yield Diagnosis(
            Verdict.DOUBT,
            f"{operations:,.0f} synced writes/s are fast since they are not durable: {words}. A power cut loses "
            "the last seconds of "
            "acknowledged writes.",
            "fsync returns before anything is on the medium. A database or a guest may be corrupt after a power cut.",
            tuple(proofs),
            ("Data that may be lost, such as scratch space, can live with it.",),
            (
                NextStep(
                    "Measure with sync in force, which is the rate that is safe.",
                    _safe_command(fact),
                    "The rate falls to what the medium or a log device makes durable.",
                    risk="Programs that relied on the speed become slow at once.",
                ),
                NextStep(
                    "For speed and safety use a log device (SLOG) or an SSD with power-loss protection."
                ),
            ),
            confidence=0.95,
            results=results,
            silences=("R18", "R22", "R07", "R23", "R28", "R32"),
        )
        return


def _unsafe(evidence: Evidence) -> Iterator[tuple[Fact, str]]:
    """Settings by which a synced write is not made durable."""
    for fact in evidence.facts:
        value = str(fact.value)
        options = set(re.split(r"[,\s()]+", value))
        if fact.name == "zfs.sync" and value == "disabled":
            yield fact, f"sync=disabled on {fact.subject or 'the dataset'}"
        elif fact.name == "mount.options" and {"nobarrier", "barrier=0"} & options:
            yield fact, f"{fact.subject} is mounted without barriers"
        elif fact.name == "export.options" and "async" in options:
            yield fact, f"the export {fact.subject} is async"


def _typed(evidence: Evidence) -> Iterator[tuple[Fact, str]]:
    """Commands in the paste that switched sync off."""
    for number, line in enumerate(evidence.lines, 1):
        match = SYNC_OFF.search(line) if "sync=disabled" in line else None
        if match:
            yield Fact(match[1], "zfs.sync", "disabled", number), f"sync=disabled on {match[1]}"


def _durable_rate(result: Result) -> float | None:
    """Durable writes a second; None for a test that syncs nothing."""
    if not result.durable:
        return None
    if result.kind == "pg_test_fsync":
        rates = [
            m.value
            for m in result.metrics
            if m.value and re.search(r"(^|\.)(fsync|fdatasync)\b", m.name)
        ]
        return max(rates, default=None)
    return result.operations


def _durable_line(result: Result) -> int:
    if result.kind == "pg_test_fsync":
        return next(
            (m.line for m in result.metrics if re.search(r"(^|\.)(fsync|fdatasync)\b", m.name)),
            result.first,
        )
    return result.headline()


def _safe_command(fact: Fact) -> str:
    if fact.name == "zfs.sync":
        return f"zfs set sync=standard {fact.subject or 'POOL/DATASET'}"
    return (
        f"mount -o remount,barrier {fact.subject}"
        if "barrier" in str(fact.value)
        else "exportfs -v"
    )


@rule("R32", "Synced writes over a network", Stage.LAYOUT)
def synced_over_network(evidence: Evidence) -> Iterator[Diagnosis]:
    """Writes to NFS or iSCSI of which each is a commit at the server."""
    logs = any(log_loads(loads_of(r, i)) for i, r in enumerate(evidence.results))
    pair = _protocol_pair(evidence)
    if pair is not None and not logs:
        yield _protocols(*pair)
        return
    for index, result in tests(evidence):
        if not is_network_target(evidence, result) or not result.writes:
            continue
        mount = network_mount(evidence, result)
        options = evidence.facts.find(mount.subject, "mount.options") if mount else None
        forced = options is not None and "sync" in re.split(r"[,\s()]+", str(options.value))
        seconds = result.latency or (
            (result.outstanding or 1) / result.operations if result.operations else None
        )
        if not (result.durable or forced) or not seconds or seconds < SLOW_REMOTE or logs:
            continue
        ping = next(
            (
                float(f.value)
                for f in evidence.facts.with_name("host.ping")
                if not isinstance(f.value, str)
            ),
            None,
        )
        if ping is not None and seconds < 3 * ping:
            continue
        ping_fact = next(iter(evidence.facts.with_name("host.ping")), None)
        kind = str(mount.value).upper().rstrip("4") if mount else "the network"
        proofs = [
            Proof(
                f"{headline_text(result)}: {wording.seconds(seconds)} a synced write",
                at(result.headline()),
            )
        ]
        if ping is not None and ping_fact is not None:
            proofs.append(
                Proof(
                    f"a round trip takes {wording.seconds(ping)}: {share(ping / seconds)} of it",
                    at(ping_fact.line),
                )
            )
        if mount is not None:
            proofs.append(
                Proof(
                    f"{mount.subject}: {mount.value}{' with sync' if forced else ''}",
                    at(mount.line, options.line if options else 0),
                )
            )
        yield Diagnosis(
            Verdict.LIMIT,
            f"Each write over {kind} is synced, and the server makes it durable before it answers: "
            f"{wording.seconds(seconds)} each "
            f"({headline_text(result)}). It is the latency of commits, not bandwidth.",
            "NFS commits what is written with sync, and at each close. The server's disks decide how long that "
            "takes; asynchronous "
            "writes such as iSCSI's usual ones are only collected.",
            tuple(proofs),
            ("A network that is slow itself: compare with ping.",),
            (
                NextStep(
                    "Run the same test on the server's own file system.",
                    wording.edit_command(
                        result,
                        **(
                            {"of": "/tank/test"}
                            if result.kind == "dd"
                            else {"directory": "/tank", "filename": None}
                        ),
                    ),
                    "As slow: the server's disks, to which a log device (SLOG) with power-loss protection "
                    "helps. Fast: the network.",
                ),
                NextStep(
                    "Do not set the export to async or sync=disabled for data that matters: acknowledged "
                    "writes would be lost."
                ),
            ),
            confidence=0.8,
            results=(index,),
            silences=("R18", "R23", "R22", "R64"),
        )
        return


def _protocol_pair(evidence: Evidence) -> tuple[int, Result, int, Result, float] | None:
    """The same writes over NFS and, faster, over iSCSI."""
    for first, one, second, other, ratio in before_and_after(evidence):
        protocols = [_protocol(evidence, result) for result in (one, other)]
        if one.writes and protocols == ["nfs", "iscsi"] and ratio >= PROTOCOL_COST:
            return first, one, second, other, ratio
        if one.writes and protocols == ["iscsi", "nfs"] and 1 / ratio >= PROTOCOL_COST:
            return second, other, first, one, 1 / ratio
    return None


def _protocol(evidence: Evidence, result: Result) -> str:
    mount = network_mount(evidence, result)
    if mount is not None and str(mount.value).startswith("nfs"):
        return "nfs"
    disks = evidence.runs_on(result)
    if any(evidence.facts.text(disk, "disk.transport") == "iscsi" for disk in disks):
        return "iscsi"
    named = re.search(r"nfs|iscsi", f"{result.target} {result.title}", re.IGNORECASE)
    return network_protocol(evidence, result) or (named[0].lower() if named else "")


def _protocols(first: int, slow: Result, second: int, quick: Result, ratio: float) -> Diagnosis:
    return Diagnosis(
        Verdict.LIMIT,
        f"NFS makes these writes durable and iSCSI does not: {headline_text(slow)} over NFS, "
        f"{headline_text(quick)} over iSCSI "
        f"({times_text(ratio)}).",
        "An NFS server commits synced writes before it answers; an iSCSI target may answer from memory until "
        "the guest flushes. "
        "They are two durabilities, not two speeds of one pool.",
        (
            Proof(
                f"{headline_text(slow)} and {headline_text(quick)}",
                at(slow.headline(), quick.headline()),
            ),
        ),
        ("Different networks or block sizes of the two.",),
        (
            NextStep(
                "Compare with sync on both sides: each write made durable.",
                wording.edit_command(quick, fdatasync=1)
                if quick.kind == "fio"
                else wording.edit_command(quick, oflag="dsync"),
                "About alike: NFS was only more honest. A log device (SLOG) with power-loss protection speeds "
                "both up.",
            ),
        ),
        confidence=0.8,
        results=(first, second),
        silences=("R18", "R23", "R22"),
    )
