# SPDX-License-Identifier: Apache-2.0
"""Cache layers with few hits, or that are waited for, and snapshots that copy."""

from __future__ import annotations

from collections.abc import Iterator

from agents.context.model import Fact
from benchlab.analysis.formats import join_names, share, times_text
from benchlab.diagnosis import wording
from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.loads import (
    Load,
    all_loads,
    any_rotational,
    at,
    before_and_after,
    disk_loads,
    headline_text,
    is_rotational,
    tests,
    writes_only,
)
from benchlab.diagnosis.model import Diagnosis, NextStep, Proof, Stage, Verdict, rule

# docs/diagnosis.md R42: with fewer hits a cache makes reads at most twice as fast, 1 / (1 - hits)
FEW_HITS = 0.50
# share of hits below which the rate is that of the disks behind, within what other things vary
USELESS = 0.20
# IOPS that no disks behind a cache of few hits give
FAST = 10_000.0
# share of its blocks that a cache has filled, below which it is still cold
WARM = 0.90
# Reads of a cache device for each of its writes while the tool only writes: R43.
LEAST_CACHE_READS = 0.1
# op/s below which a cache device does too little
LEAST_RATE = 20.0
# R45: a first write copies; the second pass is this many times faster
LEAST_SECOND_PASS = 2.0


@rule("R42", "A cache layer with few hits", Stage.LAYOUT)
def few_hits(evidence: Evidence) -> Iterator[Diagnosis]:
    """A cache that serves little of the load, by its own counters."""
    test = next(((index, result) for index, result in tests(evidence)), None)
    if test is None:
        return
    index, result = test
    for device, hits, lines, way in _hit_shares(evidence):
        quick = hits >= USELESS and (result.operations or 0) > FAST
        if (
            hits >= FEW_HITS
            or quick
            or (way == "read" and not result.reads)
            or (way == "write" and not result.writes)
        ):
            continue
        size = evidence.facts.find(device, "cache.size")
        cutoff = evidence.facts.find(device, "cache.sequential_cutoff")
        area = _area(evidence, result, device)
        used = evidence.facts.number(device, "cache.used_share")
        promotions = evidence.facts.number(device, "cache.promotions")
        proofs = [Proof(f"{device or 'the cache'} served {share(hits)} of the {way}s", at(*lines))]
        proofs.append(Proof(headline_text(result), at(result.headline())))
        reason = "the data that is read again is larger than the cache, or nothing is read twice"
        if used is not None and used < WARM:
            line = evidence.fact_line(device, "cache.used_share")
            proofs.append(Proof(f"{share(used)} of the cache's blocks are used", at(line)))
            reason = f"it is not warm yet: {share(used)} of its blocks are used"
        elif size and area and not isinstance(size.value, str):
            fits = float(size.value) / float(area)
            proofs.append(
                Proof(
                    f"cache {wording.size(float(size.value))} for {wording.size(float(area))} of data: {share(fits)}",
                    at(size.line),
                )
            )
            reason = "uniform random I/O hits a cache only as often as its share of the data"
        elif (
            cutoff
            and result.random is False
            and not isinstance(cutoff.value, str)
            and float(cutoff.value) > 0
        ):
            proofs.append(
                Proof(f"sequential_cutoff {wording.size(float(cutoff.value))}", at(cutoff.line))
            )
            reason = "I/O in order bypasses the cache (sequential_cutoff)"
        elif promotions == 0:
            reason = "nothing is promoted into it"
        yield Diagnosis(
            Verdict.LIMIT,
            f"The cache {_help_words(hits)}: it served {share(hits)} of the {way}s, so {headline_text(result)} is "
            f"{'' if hits < USELESS else 'near '}the rate of the disks behind it. The likely reason: {reason}.",
            "A cache is as fast as its hits. Misses cost the slow device's time, and the copy into the cache.",
            tuple(proofs),
            ("A cache that is not warm yet: promotions still grow, and hits with them.",),
            (
                NextStep(
                    "Run the load for longer, or with a hot set as real loads have.",
                    wording.edit_command(
                        result, random_distribution="zipf:1.1", runtime=600, time_based=1
                    ),
                    "The hits rise: it was cold. They stay: the set is too large for the cache.",
                ),
            ),
            confidence=0.85,
            results=(index,),
        )
        return


def _help_words(hits: float) -> str:
    if hits < USELESS:
        return "does not help"
    return f"helps little (at most {times_text(1 / (1 - hits))} the rate without it)"


def _area(evidence: Evidence, result: Result, device: str) -> float | None:
    """B that the test covers: its own size, else that of the cached volume it works on as a whole."""
    option = result.option("size")
    if isinstance(option, int | float):
        return float(option)
    whole = result.target.removeprefix("/dev/") == device
    return evidence.facts.number(device, "lv.size") if whole else None


def _hit_shares(evidence: Evidence) -> Iterator[tuple[str, float, tuple[int, ...], str]]:
    """Devices of caches with their share of hits, its lines, and "read" or "write"."""
    for fact in evidence.facts.with_name("cache.hit_share"):
        if not isinstance(fact.value, str):
            yield fact.subject, float(fact.value), (fact.line,), "read"
    for fact in evidence.facts.with_name("host.arc_hit_share"):
        if not isinstance(fact.value, str):
            yield "the ARC", float(fact.value), (fact.line,), "read"
    for way in ("read", "write"):
        for fact in evidence.facts.with_name(f"cache.{way}_hits"):
            misses = evidence.facts.find(fact.subject, f"cache.{way}_misses")
            if misses is None or isinstance(fact.value, str) or isinstance(misses.value, str):
                continue
            both = float(fact.value) + float(misses.value)
            if both >= 1000:
                yield fact.subject, float(fact.value) / both, (fact.line, misses.line), way


@rule("R43", "A cache that is read, or waited for, under writes", Stage.LAYOUT)
def cache_under_writes(evidence: Evidence) -> Iterator[Diagnosis]:
    """A cache layer that costs writes more than it gives."""
    if not _has_cache(evidence):
        return
    test = next(((index, result) for index, result in tests(evidence) if writes_only(result)), None)
    for loads in all_loads(evidence):
        disks = disk_loads(loads)
        slow = [load for load in disks if is_rotational(evidence, load.device)]
        quick = [load for load in disks if is_rotational(evidence, load.device) is False]
        quick = [load for load in quick if load.writes >= LEAST_RATE]
        reading = [
            load
            for load in quick
            if load.reads >= LEAST_CACHE_READS * load.writes and load.reads >= LEAST_RATE
        ]
        origin_reads = sum(load.reads for load in slow)
        if reading and (test is not None or origin_reads < 1):
            yield _cache_read(evidence, reading[0], slow, test)
            return
    through = [
        f
        for f in evidence.facts.with_name("cache.mode")
        if str(f.value) in ("writethrough", "writearound")
    ]
    if (
        through
        and test is not None
        and (test[1].operations or 0) < 1000
        and any_rotational(evidence)
    ):
        index, result = test
        yield Diagnosis(
            Verdict.LIMIT,
            f"The cache is in {through[0].value} mode: each write waits for the slow device "
            f"({headline_text(result)}).",
            "Only write-back acknowledges a write from the cache; writethrough helps reads alone.",
            (
                Proof(f"cache mode {through[0].value}", at(through[0].line)),
                Proof(headline_text(result), at(result.headline())),
            ),
            ("A write-back cache that is full of dirty blocks is as slow.",),
            (
                NextStep(
                    "Try write-back, if the cache device is mirrored or the data can be lost with it.",
                    f"lvchange --cachemode writeback {through[0].subject}"
                    if "/" in through[0].subject
                    else f"echo writeback > /sys/block/{through[0].subject or 'bcache0'}/bcache/cache_mode",
                    "The rate of the cache device, until it is full.",
                    risk="If the cache device fails, the writes that only it holds are lost.",
                ),
            ),
            confidence=0.75,
            results=(index,),
        )


def _cache_read(
    evidence: Evidence, cache: Load, slow: list[Load], test: tuple[int, Result] | None
) -> Diagnosis:
    origin = (
        f"; {join_names(tuple(load.device for load in slow))} {sum(load.writes for load in slow):,.0f} writes/s"
        if slow
        else ""
    )
    index = test[0] if test else cache.result
    return Diagnosis(
        Verdict.LIMIT,
        f"The cache device {cache.device} is read while the tool only writes ({cache.reads:,.0f} reads/s beside "
        f"{cache.writes:,.0f} writes/s): the cache writes back meanwhile, or flushes through to the slow disks.",
        "A write-back cache reads what it has to move to the origin, and each flush of the tool goes down to "
        "the origin's disks.",
        (
            Proof(
                f"{cache.device}: {cache.reads:,.0f} reads/s, {cache.writes:,.0f} writes/s{origin}",
                at(cache.line, *(load.line for load in slow)),
            ),
            *(
                [Proof(f"the tool only writes: {headline_text(test[1])}", at(test[1].headline()))]
                if test
                else []
            ),
            *[
                Proof(f"cache mode {f.value}", at(f.line))
                for f in evidence.facts.with_name("cache.mode")[:1]
            ],
        ),
        ("Another program that reads cached data.",),
        (
            NextStep(
                "Raise the threshold of writing back, or give the cache time to empty, and compare.",
                "dmsetup message VG-LV 0 migration_threshold 8192; lvs "
                "-o+cache_dirty_blocks,cache_read_hits,cache_write_hits",
                "The reads stop when no dirty block is moved; if the rate stays, flushes are the limit.",
                risk="A low threshold leaves more dirty blocks on the cache device alone.",
            ),
        ),
        confidence=0.8,
        results=(index,),
        silences=("R40",),
    )


def _has_cache(evidence: Evidence) -> bool:
    if any(fact.name.startswith("cache.") for fact in evidence.facts):
        return True
    if any("cache" in str(fact.value) for fact in evidence.facts.with_name("lv.type")):
        return True
    return any(
        device.startswith("bcache") for result in evidence.results for device in result.devices
    )


@rule("R45", "A snapshot or a thin volume that copies first", Stage.LAYOUT)
def copy_on_write(evidence: Evidence) -> Iterator[Diagnosis]:
    """Writes to the origin of a snapshot, or first writes to a thin volume."""
    kinds = evidence.facts.with_name("lv.type")
    snapshots = [f for f in kinds if str(f.value) == "snapshot"]
    thin = [f for f in kinds if str(f.value) in ("thin", "thin-pool", "thin-snapshot")]
    for first, before, second, after, ratio in (
        before_and_after(evidence) if thin or snapshots else ()
    ):
        faster = ratio >= LEAST_SECOND_PASS
        slower = 1 / ratio >= LEAST_SECOND_PASS
        writes = before.writes or before.kind == "bonnie"
        if not writes or not (faster or (slower and snapshots)):
            continue
        fact = (snapshots or thin)[0]
        yield _copying(
            fact,
            (first, second),
            headline_text(before),
            headline_text(after),
            max(ratio, 1 / ratio),
            at(before.headline(), after.headline()),
        )
        return
    test = next(((i, r) for i, r in tests(evidence) if writes_only(r)), None)
    if snapshots and test is not None:
        yield _copying(
            snapshots[0], (test[0],), headline_text(test[1]), "", None, at(test[1].headline())
        )


def _copying(
    fact: Fact,
    results: tuple[int, ...],
    before: str,
    after: str,
    ratio: float | None,
    lines: tuple[int, ...],
) -> Diagnosis:
    snapshot = str(fact.value) == "snapshot"
    what = "snapshot" if snapshot else "thin volume"
    told = f"{before}, then {after}: {times_text(ratio)}" if ratio else before
    acts = (
        "the first write to each chunk reads the old data, writes it to the snapshot's store and updates its table"
        if snapshot
        else "the first write to each chunk allocates it, and on a snapshot copies it"
    )
    return Diagnosis(
        Verdict.LIMIT,
        f"The {what} {fact.subject} costs copies ({told}): {acts}.",
        "Copy-on-write makes first writes 2 to 10 times as slow. A second pass over the same blocks is fast.",
        (Proof(told, lines), Proof(f"{fact.subject}: {what}", at(fact.line))),
        ("A cache that warmed up between the passes.",),
        (
            NextStep(
                "Run the same test twice over the same blocks, and once without the snapshot.",
                "lvs -a -o name,origin,data_percent,snap_percent",
                "The second pass shows the rate without copies.",
            ),
        ),
        confidence=0.8 if ratio else 0.55,
        results=results,
        silences=("R18", "R11", "R13"),
    )
