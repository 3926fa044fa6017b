# SPDX-License-Identifier: Apache-2.0
"""Pools of ZFS: block sizes, raidz, a pool that is full, and transaction groups."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import mean, median

from agents.context.model import Fact
from benchlab.analysis.formats import rate, share, times_text
from benchlab.diagnosis import wording
from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.loads import (
    Load,
    all_loads,
    any_rotational,
    at,
    changed,
    headline_text,
    is_zfs,
    pool_names,
    reads_only,
    tests,
    vdev_groups,
    whole_pools,
    writes_only,
    zpool_loads,
)
from benchlab.diagnosis.model import Diagnosis, NextStep, Proof, Stage, Verdict, rule

# docs/diagnosis.md R36: metadata and parity stay below this
LEAST_AMPLIFICATION = 4.0
# requests of the disks against the tool's, and blocks of ZFS against the tool's
LEAST_LARGER = 2.0
# OpenZFS advises to stay below 80 %; R39 speaks from here on
FULL, FRAGMENTED = 0.85, 0.50
# A pool that streams large blocks needs no small pieces up to here.
FULL_FOR_STREAMS = 0.95
# op/s of random reads of one disk that spins, with a queue
DISK_MOST = 400.0
# B: OpenZFS's default recordsize
DEFAULT_RECORD = 128 * 1024
# IOPS above which a block size that is too large does not hurt enough to speak of it unwatched
FAST = 20_000.0
# share of the peak below which a pool is idle between transaction groups
IDLE_SHARE = 0.1
# s: a run that is shorter may end with much of its data in memory (zfs_dirty_data_max is 4 GiB at most by default)
SHORT_S = 60.0
# ratio of a tool's rate to the pool's highest sample that no rounding explains, and B/s below which a pool is idle
ABOVE_POOL, LEAST_PEAK = 1.15, 10e6
# s: zfs_txg_timeout is 5
TXG_SECONDS = (2.5, 10.5)
BLOCK_CHANGE = re.compile(r"recordsize|volblocksize")


def _block_fact(evidence: Evidence) -> Fact | None:
    """The volume's block, else the dataset's record."""
    for name in ("zfs.volblocksize", "zfs.recordsize"):
        facts = [f for f in evidence.facts.with_name(name) if not isinstance(f.value, str)]
        if facts:
            return facts[0]
    return None


def _is_full(evidence: Evidence) -> bool:
    return any(_fill(evidence, name)[0] >= FULL for name in pool_names(evidence)) or any(
        float(f.value) >= FRAGMENTED
        for f in evidence.facts.with_name("pool.fragmentation")
        if not isinstance(f.value, str)
    )


def _fill(evidence: Evidence, pool: str) -> tuple[float, int]:
    """Share of the pool that is full, and the line that tells it."""
    fact = evidence.facts.find(pool, "pool.capacity")
    if fact is not None and not isinstance(fact.value, str):
        return float(fact.value), fact.line
    for _, result, _ in zpool_loads(evidence):
        alloc, free = result.number("zpool.alloc", pool), result.number("zpool.free", pool)
        if alloc is not None and free is not None and alloc + free:
            return alloc / (alloc + free), result.line("zpool.alloc", pool)
    return 0.0, 0


@rule("R36", "Blocks of ZFS that are larger than the requests", Stage.LAYOUT)
def large_blocks(evidence: Evidence) -> Iterator[Diagnosis]:
    """Small requests for which ZFS moves whole records or volume blocks."""
    pair = next(changed(evidence, BLOCK_CHANGE, 1.5), None)
    if pair is not None:
        yield _block_change(evidence, pair)
        return
    for _, watcher, loads in zpool_loads(evidence):
        test = evidence.watched_test(watcher)
        for pool in whole_pools(loads) if test is not None else ():
            assert test is not None
            for way in ("write", "read"):
                found = _amplified(evidence, test, pool, way)
                if found is not None:
                    yield found
                    return
    yield from _block_by_facts(evidence)


def _amplified(evidence: Evidence, test: Result, pool: Load, way: str) -> Diagnosis | None:
    """Diagnosis where the pool moves many times the tool's bytes in larger pieces."""
    only = writes_only(test) if way == "write" else reads_only(test)
    own = test.number(f"{way}.bandwidth") or (test.rate if only else None)
    moved = pool.write_bandwidth if way == "write" else pool.read_bandwidth
    operations = pool.writes if way == "write" else pool.reads
    if not only or not own or not moved or not operations or not test.block or _is_full(evidence):
        return None
    factor, piece = moved / own, moved / operations
    fact = _block_fact(evidence)
    text = float(fact.value) if fact and not isinstance(fact.value, str) else None
    explains = text is not None and text >= LEAST_LARGER * test.block
    reads_too = way == "write" and (pool.read_bandwidth or 0) >= 0.2 * moved
    if (
        factor < LEAST_AMPLIFICATION
        or piece < LEAST_LARGER * test.block
        or not (explains or reads_too or text is None)
    ):
        return None
    # Larger pieces explain the bytes only up to about their own ratio; the rest is other load.
    if factor > LEAST_AMPLIFICATION * piece / test.block:
        return None
    word = fact.name.partition(".")[2] if fact and explains else _block_word(test)
    whole = text if text and explains else None
    block = f"a block of {wording.size(whole)}" if whole else "a whole block"
    acts = "read, change and write" if way == "write" else "read and check"
    proofs = [
        Proof(
            f"the tool {way}s {rate(own)}, the pool {rate(moved)}: {times_text(factor)}",
            at(test.headline(), pool.line),
        ),
        Proof(
            f"{rate(moved)} / {operations:,.0f} a second = {wording.size(piece)} a {way} of the pool, against "
            f"{wording.size(test.block)} of the tool",
            at(pool.line),
        ),
    ]
    if fact and whole:
        proofs.append(
            Proof(
                f"{word} {wording.size(whole)} = {whole / test.block:.0f} times the tool's block",
                at(fact.line),
            )
        )
    if reads_too:
        proofs.append(
            Proof(
                f"the pool reads {rate(pool.read_bandwidth or 0)} while the tool only writes",
                at(pool.line),
            )
        )
    return Diagnosis(
        Verdict.LIMIT,
        f"Each {wording.size(test.block)} {way} makes ZFS {acts} {block} ({word}): the "
        f"pool {way}s "
        f"{times_text(factor)} what the tool does.",
        "ZFS checks and writes whole blocks. A request that is smaller than the block pays for all of it.",
        tuple(proofs),
        ("Parity and metadata add at most twice; compression hides a part of the factor.",),
        _block_steps(test, fact, word, whole),
        confidence=0.95 if explains else 0.75,
        results=(pool.result, evidence.index(test)),
        silences=("R33", "R22", "R20", "R41"),
    )


def _block_word(test: Result) -> str:
    """Property that sets the block below the test's target: of a volume, or of a file's dataset."""
    if not test.target:
        return "volblocksize or recordsize"
    return "volblocksize" if test.target.startswith("/dev/") else "recordsize"


def _block_steps(
    test: Result, fact: Fact | None, word: str, whole: float | None
) -> tuple[NextStep, ...]:
    """Steps towards a block that fits; the first asks for its size where no line tells it (`whole` is None)."""
    smaller = max(int(test.block or 0), 16 * 1024) // 1024
    volume = test.target.removeprefix("/dev/zvol/") if "/dev/zvol/" in test.target else ""
    dataset = fact.subject if fact and fact.subject else volume or "POOL/DATASET"
    if word == "recordsize":
        change = f"zfs set recordsize={smaller}K {dataset}"
        told = "Set a recordsize near the block. It applies to files that are written after it."
    else:
        parent = dataset.rpartition("/")[0] or dataset
        change = f"zfs create -V 32G -o volblocksize={smaller}K {parent}/small-blocks"
        told = "Make a new volume with a smaller volblocksize (it cannot be changed later), and move the data."
    better = NextStep(
        told,
        change,
        "The factor falls towards 1, and the rate rises.",
        risk="Data that is there keeps its old blocks until it is written again.",
    )
    if whole is None:
        look = f"zfs get volblocksize,recordsize,compression {dataset}"
        text = "Look how large the blocks are."
        return NextStep(text, look, "Several times the requests: they are the cause."), better
    block = f"{int(whole) // 1024}k"
    return (
        better,
        NextStep(
            f"To prove it, run the test with requests of {wording.size(whole)}.",
            wording.edit_command(test, bs=block),
            "The pool moves about as much as the tool.",
            {"block_size": int(whole)},
        ),
    )


def _block_change(
    evidence: Evidence, pair: tuple[int, Result, int, Result, float, tuple[int, ...]]
) -> Diagnosis:
    first, before, second, after, ratio, lines = pair
    facts = [f for f in evidence.facts if f.name in ("zfs.recordsize", "zfs.volblocksize")]
    word = facts[0].name.partition(".")[2] if facts else "recordsize"
    sizes = " and ".join(
        wording.size(float(f.value)) for f in facts[:2] if not isinstance(f.value, str)
    )
    return Diagnosis(
        Verdict.LIMIT,
        f"The {word} decides: {headline_text(before)} before its change and {headline_text(after)} after it, "
        f"{times_text(max(ratio, 1 / ratio))} apart{f' ({sizes})' if sizes else ''}.",
        "ZFS checks and writes whole blocks: a smaller request makes it read, change and write all of one.",
        (
            Proof(
                f"{headline_text(before)}, then {headline_text(after)}",
                at(before.headline(), after.headline()),
            ),
            Proof("the change between the two", lines),
        ),
        ("A file that was written before the change keeps its old blocks.",),
        _block_steps(before, facts[0] if facts else None, word, DEFAULT_RECORD),
        results=(first, second),
        silences=("R18",),
    )


def _block_by_facts(evidence: Evidence) -> Iterator[Diagnosis]:
    """Small random writes to a volume or dataset of large blocks, without a watcher."""
    fact = _block_fact(evidence)
    if fact is None or isinstance(fact.value, str) or _is_full(evidence):
        return
    whole = float(fact.value)
    for index, test in tests(evidence):
        small = test.block and whole >= LEAST_AMPLIFICATION * test.block
        slow = (test.operations or FAST) < FAST
        if not (small and slow and writes_only(test) and test.random) or test.durable:
            continue
        word = fact.name.partition(".")[2]
        yield Diagnosis(
            Verdict.LIMIT,
            f"The {word} of {wording.size(whole)} is {whole / (test.block or 1):.0f} times the "
            f"{wording.size(test.block or 0)} of "
            f"the requests: ZFS reads, changes and writes a whole block for each ({headline_text(test)}).",
            "The pool then moves many times the tool's bytes.",
            (
                Proof(f"{word} {wording.size(whole)}", at(fact.line)),
                Proof(
                    f"{headline_text(test)} of {wording.size(test.block or 0)}", at(test.headline())
                ),
            ),
            ("Blocks that are in the ARC need no read.",),
            (
                NextStep(
                    "Watch the pool during the test.",
                    "zpool iostat -v 5",
                    "Many times the tool's bytes: the block size is the cause. About the same: it is not.",
                ),
                *_block_steps(test, fact, word, whole),
            ),
            confidence=0.55,
            results=(index,),
        )
        return


@rule("R37", "Random reads of raidz", Stage.LAYOUT)
def raidz_reads(evidence: Evidence) -> Iterator[Diagnosis]:
    """Random reads that keep all disks of a raidz vdev busy with one block each."""
    facts = [f for f in evidence.facts.with_name("pool.vdevs") if "raidz" in str(f.value)]
    groups = [
        (name, group)
        for loads in all_loads(evidence)
        for name, group in vdev_groups(loads).items()
        if "raidz" in name
    ]
    if not facts and not groups:
        return
    vdevs = max(len({name for name, _ in groups}), *(str(f.value).count("raidz") for f in facts), 1)
    for index, test in tests(evidence):
        operations = test.operations
        if not (
            reads_only(test) and test.random and operations and operations <= DISK_MOST * vdevs
        ):
            continue
        busy = [load for _, group in groups for load in group]
        alike = busy and median(load.reads for load in busy) >= 0.4 * operations / vdevs
        # Flash does thousands, so so few reads come from disks that spin.
        if not alike and any_rotational(evidence) is False:
            continue
        proofs = [Proof(f"{headline_text(test)} of random reads", at(test.headline()))]
        proofs += [Proof(f"{f.subject}: {f.value}", at(f.line)) for f in facts[:1]]
        if busy:
            proofs.append(
                Proof(
                    f"each of the {len(busy)} disks does about {median(load.reads for load in busy):,.0f} "
                    "reads/s for "
                    f"{operations:,.0f} of the tool",
                    at(*(load.line for load in busy)),
                )
            )
        yield Diagnosis(
            Verdict.LIMIT,
            f"A raidz vdev does the random reads of one disk: {headline_text(test)} over {vdevs} "
            f"vdev{'s' * (vdevs > 1)}.",
            "ZFS spreads each block over all data disks of the vdev, and reads it as a whole to check it. More "
            "disks in the vdev "
            "add bandwidth, not IOPS.",
            tuple(proofs),
            ("One slow disk makes the whole vdev slow: see whether its await stands out.",),
            (
                NextStep(
                    "Compare with mirrors of the same disks: each side reads on its own.",
                    "zpool iostat -v 5",
                    "On raidz each disk shows nearly all reads; on mirrors they are divided among the disks.",
                ),
                NextStep(
                    "Or build several narrow raidz vdevs, a cache (ARC) that holds the hot blocks, or flash."
                ),
            ),
            confidence=0.9 if alike else 0.8,
            results=(index,),
            silences=("R36",),
        )
        return


@rule("R39", "A pool that is nearly full", Stage.LAYOUT)
def full_pool(evidence: Evidence) -> Iterator[Diagnosis]:
    """Writes to a pool whose free space is little or in pieces."""
    for pool in pool_names(evidence):
        fill, line = _fill(evidence, pool)
        crumbs = evidence.facts.find(pool, "pool.fragmentation")
        fragmented = float(crumbs.value) if crumbs and not isinstance(crumbs.value, str) else 0.0
        test = next((r for _, r in tests(evidence) if r.writes), None)
        watched = [load for _, _, loads in zpool_loads(evidence) for load in whole_pools(loads)]
        watched = [load for load in watched if load.device == pool and load.writes > load.reads]
        if (fill < FULL and fragmented < FRAGMENTED) or not (test or watched):
            continue
        streams = test is not None and test.random is False and (test.block or 0) >= 1 << 20
        if streams and fill < FULL_FOR_STREAMS:
            continue
        proofs = [Proof(f"{pool} is {share(fill)} full (CAP)", at(line))]
        if crumbs and fragmented:
            proofs.append(Proof(f"free space in pieces: FRAG {share(fragmented)}", at(crumbs.line)))
        own = test.rate if test and writes_only(test) else None
        if own and watched and (watched[0].write_bandwidth or 0) > 2 * own:
            moved = watched[0].write_bandwidth or 0
            proofs.append(
                Proof(
                    f"the tool writes {rate(own)}, the pool {rate(moved)}: {times_text(moved / own)}",
                    at(test.headline() if test else 0, watched[0].line),
                )
            )
        if watched and watched[0].write_size:
            proofs.append(
                Proof(
                    f"{wording.size(watched[0].write_size)} a write to the disks",
                    at(watched[0].line),
                )
            )
        pieces = f" and its free space is in pieces (FRAG {share(fragmented)})"
        pieces = pieces if fragmented and fill >= FULL else ""
        state = f"{share(fill)} full" if fill >= FULL else f"fragmented ({share(fragmented)})"
        yield Diagnosis(
            Verdict.LIMIT,
            f"The pool {pool} is "
            f"{state}{pieces}: "
            "ZFS has to search for space and to write many small pieces.",
            "As free space runs out, ZFS splits records into gang blocks and searches more of its space maps "
            "for each write.",
            tuple(proofs),
            (
                "A record that is larger than the requests multiplies writes as well, but on an empty pool, too.",
            ),
            (
                NextStep(
                    "Free space until the pool is below 80 % (for random writes better 50 %), by deleting data "
                    "and snapshots or "
                    "with a larger pool.",
                    f"zfs list -o space -r {pool}; zpool list -v {pool}",
                    "The rate of an emptier pool. Fragmentation falls only as data is rewritten.",
                ),
            ),
            confidence=0.9 if fill >= FULL else 0.6,
            silences=("R36", "R11", "R22", "R49", "R67"),
        )
        return


@rule("R67", "Writes of ZFS in bursts", Stage.LAYOUT)
def bursts(evidence: Evidence) -> Iterator[Diagnosis]:
    """A pool that is idle for seconds between bursts of writes: transaction groups."""
    if not is_zfs(evidence):
        return
    for index, result in enumerate(evidence.results):
        for series in result.series:
            writes = series.metric in ("zpool.write.bandwidth", "write.bandwidth")
            if not writes or "/" in series.device:
                continue
            values = [value for value in series.values if value == value]
            period = _period(series.times, series.values)
            if not values:
                continue
            if period is None:
                yield from _into_memory(evidence, index, result, series.device, values)
                continue
            test = evidence.watched_test(result) if result.watches else None
            own = test.rate if test and writes_only(test) else None
            level, peak = mean(values), max(values)
            doubt = own is not None and own > 1.3 * level
            quiet = sum(value < IDLE_SHARE * peak for value in values)
            yield Diagnosis(
                Verdict.DOUBT if doubt else Verdict.FINE,
                f"ZFS writes in bursts every {period:.0f} s: it collects writes in memory as a transaction "
                "group, and writes them at "
                "once. "
                + (
                    f"{rate(own)} is the rate into memory; the pool writes {rate(level)}."
                    if doubt and own
                    else "That is normal."
                ),
                "A short test measures the memory of dirty data (zfs_dirty_data_max) and not the pool.",
                (
                    Proof(
                        f"{series.device}: {quiet} of {len(values)} samples are nearly idle, the others up to "
                        f"{rate(peak)}; mean {rate(level)}",
                        at(result.line(series.metric, series.device)),
                    ),
                    *(
                        [Proof(f"the tool: {rate(own)}", at(test.headline()))]
                        if test and own
                        else []
                    ),
                ),
                ("A tool that itself writes in bursts.",),
                (
                    NextStep(
                        "Run for longer than dirty data lasts: 60 s or more, and count the flush at the end.",
                        wording.edit_command(test, runtime=120, time_based=1, end_fsync=1)
                        if test
                        else "zpool iostat 1",
                        "The mean is what the pool sustains.",
                    ),
                    NextStep(
                        "For steadier writes, look at the limits.",
                        "cat /sys/module/zfs/parameters/zfs_{txg_timeout,dirty_data_max}",
                    ),
                ),
                confidence=0.8,
                results=(index,),
                silences=("R11",),
            )
            return


def _into_memory(
    evidence: Evidence, index: int, watcher: Result, pool: str, values: Sequence[float]
) -> Iterator[Diagnosis]:
    """A short run of buffered writes that is faster than the pool ever was meanwhile: the rest is in memory."""
    test = evidence.watched_test(watcher)
    peak = max(values)
    compresses = any(
        str(fact.value) not in ("off", "-") for fact in evidence.facts.with_name("zfs.compression")
    )
    if test is None or not writes_only(test) or test.direct or test.durable or compresses:
        return
    short = (test.number("runtime") or SHORT_S) < SHORT_S
    zeros = str(test.options.get("source", "")) == "zero"
    if not test.rate or not short or zeros or test.rate < ABOVE_POOL * peak or peak < LEAST_PEAK:
        return
    yield Diagnosis(
        Verdict.DOUBT,
        f"{rate(test.rate)} is the rate into memory: the pool wrote {rate(peak)} at most meanwhile. ZFS collects "
        "writes as a transaction group and writes them at once, so a short run ends with much of its data in memory.",
        "The dirty data that memory holds (zfs_dirty_data_max) counts as written. A writer below the pool's rate sees "
        "bursts every few seconds, which is normal.",
        (
            Proof(f"the tool: {rate(test.rate)}", at(test.headline())),
            Proof(
                f"{pool}: {rate(peak)} at most over {len(values)} samples",
                at(watcher.line("zpool.write.bandwidth", pool) or watcher.first),
            ),
            *(
                Proof(f"dirty data up to {wording.size(float(fact.value))}", at(fact.line))
                for fact in evidence.facts.with_name("host.zfs_dirty_max")
                if not isinstance(fact.value, str)
            ),
        ),
        ("Data that compresses needs fewer bytes at the pool.",),
        (
            NextStep(
                "Run for longer than dirty data lasts: 60 s or more, and count the flush at the end.",
                wording.edit_command(test, runtime=120, time_based=1, end_fsync=1),
                "The mean is what the pool sustains.",
            ),
            NextStep(
                "Look at the limits.",
                "cat /sys/module/zfs/parameters/zfs_txg_timeout "
                "/sys/module/zfs/parameters/zfs_dirty_data_max",
            ),
        ),
        confidence=0.85,
        results=(index, evidence.index(test)),
        silences=("R02", "R11", "R36"),
    )


def _period(times: tuple[float, ...], values: tuple[float, ...]) -> float | None:
    """Mean s between the beginnings of bursts; None where there are no regular ones."""
    size = [(t, v) for t, v in zip(times, values, strict=True) if v == v]
    if len(size) < 10:
        return None
    peak = max(v for _, v in size)
    quiet = [v < IDLE_SHARE * peak for _, v in size]
    if peak <= 0 or sum(quiet) < 0.4 * len(size):
        return None
    starts = [size[i][0] for i in range(1, len(size)) if quiet[i - 1] and not quiet[i]]
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    if len(gaps) < 2 or max(gaps) > 2 * min(gaps):
        return None
    period = mean(gaps)
    return period if TXG_SECONDS[0] <= period <= TXG_SECONDS[1] else None
