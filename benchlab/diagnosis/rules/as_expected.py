# SPDX-License-Identifier: Apache-2.0
"""Figures held against what such disks do, and results of one paste held against each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from benchlab.diagnosis import media
from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.limits import Sign, durable_write, limit_lines, medium_limit
from benchlab.diagnosis.model import Diagnosis, NextStep, Proof, Stage, Verdict, rule
from benchlab.diagnosis.wording import count, edit_command, ops, per_second, rate, seconds, size

# layers by whose design a figure above the medium's is right
CACHES = ("cache.", "controller.", "pool.cache", "pool.log")
# s; a healthy disk that spins answers 99 % of single requests within this
SLOW_TAIL_S = 0.2
# s a read of 4 to 16 KiB from flash takes at depth 1, cheapest SATA disk included
FLASH_RANGE_S = (media.FLASH_READ_S, 300e-6)
# share of the tool's I/Os that remain at the disk where the kernel merged them
FEWER = 0.5
# two results nearer than that need no explanation
ALIKE = 1.5
# more results than that are a series of measurements, not a question
A_FEW = 6


@rule("R06", "Figures against what such a disk does", Stage.BELIEVABLE)
def as_such_a_disk_is(evidence: Evidence) -> Iterator[Diagnosis]:
    for place, result in evidence.numbered_tests:
        disks = evidence.runs_on(result)
        spins = evidence.all_rotational(disks)
        reaches = result.direct or (
            result.random is False and (result.reads or result.flushed_at_end)
        )
        if not disks or not reaches or result.durable or spins is None:
            continue
        judged = (
            _judge_spinning(evidence, result, disks) if spins else _judge_flash(evidence, result)
        )
        if judged is not None:
            verdict, claim, text, step = judged
            yield Diagnosis(
                verdict,
                claim,
                ""
                if verdict == Verdict.FINE
                else "Memory, a cache or blocks never written answered.",
                (
                    Proof(
                        text,
                        tuple(dict.fromkeys((result.headline(), *limit_lines(evidence, result)))),
                    ),
                ),
                ("A controller's cache, reads of a small area, or blocks never written.",)
                if verdict == Verdict.DOUBT
                else ("A slower figure than usual would show in the tail of the latencies.",),
                (step,),
                confidence=0.8,
                results=(place,),
                silences=("R20",),
            )


Judgement = tuple[Verdict, str, str, NextStep]


def _judge_spinning(evidence: Evidence, result: Result, disks: tuple[str, ...]) -> Judgement | None:
    facts, number = evidence.facts, len(disks)
    disk = media.spinning_disk(
        facts.text(disks[0], "disk.model"), facts.number(disks[0], "disk.rpm")
    )
    operations, transfer, requested = result.operations, result.rate, result.asked_in_flight
    if not operations or not transfer or not requested or result.random is None:
        return None
    if not result.random:
        return _judge_streaming(evidence, result, disk, number)
    low, high = disk.single
    most = (high if requested == 1 else disk.queued) * number
    if result.writes:
        # a disk's own write cache reorders
        most = 1.5 * disk.queued * number
    if operations > 1.6 * most and not _has_cache(evidence):
        claim = f"{ops(operations)} at random are more than {_disks(number)} can do: at most about {ops(most)}."
        text = f"{disk.rpm:,} rpm: a turn takes {seconds(disk.revolution)}; {number} x {ops(most / number)}."
        step = NextStep(
            "Watch the disks meanwhile.",
            "iostat -xy 5",
            "r/s and w/s below the tool's IOPS mean that a cache answers; equal ones mean that the medium is another.",
        )
        return Verdict.DOUBT, claim, text, step
    tail = result.number("clat.p99") or result.number("read.clat.p99") or 0
    if (
        requested == 1
        and low * 0.9 <= operations <= most
        and tail < SLOW_TAIL_S
        and (result.block or 0) <= 65536
    ):
        claim = (
            f"{ops(operations)} is normal for a disk that spins: one random "
            f"{'write' if result.writes else 'read'} at a time takes a seek and "
            f"half a turn, {seconds(1 / high)} to {seconds(1 / low)}. It is not slow."
        )
        text = (
            f"{ops(operations)} x {seconds(result.latency or 1 / operations)} = 1 in flight; usual "
            f"are {low:.0f} to {high:.0f} IOPS."
        )
        step = NextStep(
            "For more IOPS let several wait; for MB/s read in order.",
            edit_command(result, iodepth=32, ioengine="libaio"),
            f"Expect {1.5 * low * number:.0f} to {disk.queued * number:.0f} IOPS at depth 32, and 100 "
            "to 250 MB/s with --rw=read --bs=1M.",
            {"iodepth": [1, 4, 32]},
        )
        return Verdict.FINE, claim, text, step
    if requested > 1 and low * number <= operations <= most and tail < 10 * SLOW_TAIL_S:
        claim = f"{ops(operations)} at random is normal for {_disks(number)}, which seek for each request."
        text = f"{requested} in flight: {count(low * number)} to {count(most)} IOPS are usual."
        step = NextStep(
            "For MB/s measure in order.",
            edit_command(result, rw="write" if result.writes else "read", bs="1M"),
            "Expect 100 to 250 MB/s of each disk.",
        )
        return Verdict.FINE, claim, text, step
    return None


def _disks(number: int) -> str:
    return "a disk that spins" if number == 1 else f"{number} disks that spin"


def _has_cache(evidence: Evidence) -> bool:
    return any(fact.name.startswith(CACHES) for fact in evidence.facts)


def _judge_streaming(
    evidence: Evidence, result: Result, disk: media.Spinning, number: int
) -> Judgement | None:
    transfer, block = result.rate or 0, result.block or 0
    most = disk.in_order * number
    if transfer > 1.1 * most and result.direct and not _has_cache(evidence):
        claim = f"{rate(transfer)} is more than {_disks(number)} can give in order: at most {rate(most)}."
        step = NextStep(
            "Watch the disks meanwhile.",
            "iostat -xy 5",
            "rkB/s far below the tool's figure means a cache.",
        )
        return Verdict.DOUBT, claim, f"{number} x {rate(disk.in_order)}.", step
    if (
        block >= 65536
        and transfer / number >= 0.3 * 250e6
        and (result.jobs or 1) == 1
        and transfer <= most
    ):
        claim = f"{rate(transfer)} in order is normal for {_disks(number)}."
        text = (
            f"{rate(transfer / number)} a disk; 80 to {disk.in_order / 1e6:.0f} MB/s are usual, "
            "less on the inner tracks."
        )
        step = NextStep(
            "For IOPS measure at random.",
            _at_random(result),
            "60 to 350 IOPS of each disk.",
        )
        return Verdict.FINE, claim, text, step
    return None


def _judge_flash(evidence: Evidence, result: Result) -> Judgement | None:
    limit, transfer, latency = medium_limit(evidence, result), result.rate or 0, result.latency
    if limit and transfer > 1.05 * limit[0] and not _has_cache(evidence):
        claim = f"{rate(transfer)} is more than {limit[1]} carries: at most {rate(limit[0])}."
        step = NextStep(
            "Watch the disk meanwhile.",
            "iostat -xy 5",
            "rkB/s far below the tool's figure means a cache.",
        )
        return Verdict.DOUBT, claim, f"{rate(transfer)} against {rate(limit[0])}.", step
    single = result.asked_in_flight == 1 and result.random and not result.writes
    small = (result.block or 1e9) <= 16 << 10
    if single and small and latency and FLASH_RANGE_S[0] <= latency <= FLASH_RANGE_S[1]:
        claim = (
            f"{ops(result.operations or 0)} is normal for flash with one read in flight: each takes "
            f"{seconds(latency)}. "
            f"The IOPS on the box need many in flight."
        )
        text = (
            f"1 / {seconds(latency)} = {ops(1 / latency)}; {seconds(FLASH_RANGE_S[0])} to "
            f"{seconds(FLASH_RANGE_S[1])} are usual."
        )
        step = NextStep(
            "Ask for more at once.",
            edit_command(result, ioengine="io_uring", iodepth=32),
            "IOPS grow nearly with the depth until the disk or its link is full.",
            {"iodepth": [1, 4, 32]},
        )
        return Verdict.FINE, claim, text, step
    return None


@rule("R63", "Small requests in order that the kernel merges", Stage.NOTE)
def merged_in_order(evidence: Evidence) -> Iterator[Diagnosis]:
    for place, result in evidence.numbered_tests:
        operations, transfer, block = result.operations, result.rate, result.block
        if (
            result.random is not False
            or not operations
            or not transfer
            or not block
            or block > 65536
        ):
            continue
        limit = medium_limit(evidence, result)
        if (limit and transfer > 1.05 * limit[0]) or (result.jobs or 1) > 1 or result.durable:
            continue
        spins = evidence.all_rotational(evidence.runs_on(result))
        merged = _merged(evidence, result)
        surprising = spins and operations > media.ANY_SPINNING.queued
        if spins is False or (not merged and not (surprising and result.direct is not False)):
            continue
        mean = f" {merged[0]}" if merged else ""
        yield Diagnosis(
            Verdict.FINE,
            f"{ops(operations)} are no bug: the {'writes' if result.writes else 'reads'} are in order (sequential), so "
            f"the kernel merges them and the disk streams."
            f"{' Few hundred IOPS are its limit for random ones only.' if spins else ''}{mean}",
            f"{rate(transfer)} is what counts here{', and it is plausible for such a disk' if spins else ''}.",
            (
                Proof(
                    f"{result.pattern}: in order, {size(block)} each, {rate(transfer)}.",
                    (result.first, result.headline()),
                ),
                *((Proof(*merged),) if merged else ()),
            ),
            (),
            (
                NextStep(
                    "For IOPS measure at random, for MB/s with large blocks.",
                    _at_random(result),
                    "60 to 350 IOPS at random are normal for a disk that spins, thousands for an SSD.",
                    {"rw": ["randread", "read"]},
                ),
            ),
            confidence=0.9,
            results=(place,),
            silences=("R06", "R18"),
        )


def _at_random(result: Result) -> str:
    """The test at random; of another tool than fio reads at random of its file."""
    if result.kind == "fio":
        return edit_command(result, rw="randwrite" if result.writes else "randread")
    return (
        f"fio --name=random --filename={result.target or 'FILE'} --rw=randread --bs=4k --direct=1 --ioengine=libaio "
        f"--iodepth=1 --runtime=60 --time_based"
    )


def _merged(evidence: Evidence, result: Result) -> Sign | None:
    way = "write" if result.writes else "read"
    at_disk, merges, counted = result.lowest_ios(way), result.disk_merges(way), result.counted
    if at_disk and counted and merges > 0.5 * counted and at_disk < FEWER * counted:
        mean = size((result.bytes_moved or 0) / at_disk)
        text = f"{count(counted)} of the tool's are {count(at_disk)} at the disk, {count(merges)} merged: {mean} each."
        return text, (result.headline(), result.disk_line(way))
    for watcher in evidence.watchers:
        if watcher.kind != "iostat" or evidence.watched_test(watcher) is not result:
            continue
        for device in watcher.devices:
            request = watcher.number(f"{way}.request.size", device)
            moved = watcher.number(f"{way}.bandwidth", device) or 0
            if (
                request
                and result.block
                and request >= 4 * result.block
                and moved > 0.3 * (result.rate or 0)
            ):
                text = f"At {device} a request has {size(request)}: {request / result.block:.0f} of the tool's merged."
                return text, (watcher.line(f"{way}.request.size", device) or watcher.first,)
    return None


@rule("R18", "Results that were measured in different ways", Stage.COMPARED)
def measured_differently(evidence: Evidence) -> Iterator[Diagnosis]:
    tests = [
        (p, r)
        for p, r in evidence.numbered_tests
        if r.kind in ("fio", "dd", "sysbench", "hdparm") and r.rate
    ]
    if not 2 <= len(tests) <= A_FEW:
        return
    pairs = [
        (former, other)
        for i, former in enumerate(tests)
        for other in tests[i + 1 :]
        if _comparable(evidence, former[1], other[1])
        and _essential(_differences(former[1], other[1]))
    ]
    if not pairs:
        return
    (_, former), (_, other) = max(pairs, key=lambda pair: _apart(pair[0][1], pair[1][1]))
    differences = _differences(former, other)
    listed = "; ".join(f"{name}: {left} against {right}" for name, left, right in differences)
    if _flush_is_faster(former, other, differences):
        yield _order_decides(tests, former, other)
        return
    yield Diagnosis(
        Verdict.DOUBT,
        f"{rate(former.rate or 0)} and {rate(other.rate or 0)} are two measurements, not two answers to one question: "
        f"they differ in {', '.join(name for name, _, _ in differences)}.",
        "Never pool them or take a mean: each answers its own question.",
        (
            Proof(
                f"{rate(former.rate or 0)} against {rate(other.rate or 0)}: {_apart(former, other):.1f} times apart.",
                (former.headline(), other.headline()),
            ),
            Proof(f"{listed}.", (former.first, other.first)),
            *_durable_proofs(result for _, result in tests),
        ),
        ("Zeros from /dev/zero compress; fio's data do not.",)
        if "dd" in (former.kind, other.kind)
        else (),
        (
            NextStep(
                "Change one thing at a time: repeat the second with the first's options.",
                _made_alike(former, other),
                "The option whose change moves the figure is the cause.",
            ),
        ),
        confidence=0.75,
        results=tuple(dict.fromkeys(p for pair in pairs for p, _ in pair)),
    )


def _durable_proofs(results: Iterable[Result]) -> Iterator[Proof]:
    """Time of a durable write of the runs that make each write durable, which is no bandwidth."""
    for result in results:
        write = durable_write(result)
        if write is not None:
            text = (
                f"{write.call}: {seconds(write.took)} each durable write, {per_second(write.rate)}."
            )
            yield Proof(text, (write.line,))
            return


def _flush_is_faster(
    former: Result, other: Result, differences: Sequence[tuple[str, str, str]]
) -> bool:
    """True where the run that flushes is the faster one, and nothing else differs: a flush only adds time."""
    if {name for name, _, _ in differences} - {"durable writes", "flush at the end"}:
        return False
    fast, slow = sorted((former, other), key=lambda result: result.rate or 0, reverse=True)
    return bool(fast.durable or fast.flushed_at_end) and not (slow.durable or slow.flushed_at_end)


def _order_decides(tests: Sequence[tuple[int, Result]], former: Result, other: Result) -> Diagnosis:
    fast, slow = sorted((former, other), key=lambda result: result.rate or 0, reverse=True)
    return Diagnosis(
        Verdict.DOUBT,
        f"{rate(fast.rate or 0)} with a flush and {rate(slow.rate or 0)} without one: a flush only adds time, so "
        "something else made the slower run slow.",
        "The order of the runs may decide (the second overwrites blocks that the first allocated), or other load "
        "on the disk.",
        (
            Proof(
                f"{rate(fast.rate or 0)} against {rate(slow.rate or 0)}: {_apart(former, other):.1f} times apart.",
                (fast.headline(), slow.headline()),
            ),
        ),
        ("Data of the slower run that the kernel was still writing from its memory.",),
        (
            NextStep(
                "Repeat both in turns, three times each, and watch the disk meanwhile (iostat -xy 1).",
                edit_command(fast),
                "A rate that belongs to the first run of all, and not to an option, shows that the order decided.",
            ),
        ),
        confidence=0.7,
        results=tuple(place for place, result in tests if result in (former, other)),
    )


def _apart(former: Result, other: Result) -> float:
    low, high = sorted((former.rate or 1, other.rate or 1))
    return high / low


def _comparable(evidence: Evidence, former: Result, other: Result) -> bool:
    """True for results in one direction, on targets that may be the same, whose rates are far apart."""
    same_way = (former.reads, former.writes) == (
        other.reads,
        other.writes,
    ) and former.random == other.random
    devices = former.target.startswith("/dev/") and other.target.startswith("/dev/")
    return (
        same_way
        and _apart(former, other) > ALIKE
        and not (devices and former.target != other.target)
    )


def _differences(former: Result, other: Result) -> list[tuple[str, str, str]]:
    """Differences between the two: name and both values, where both are known."""
    pairs: list[tuple[str, object, object]] = [
        ("tool", former.kind, other.kind),
        ("block size", former.block and size(former.block), other.block and size(other.block)),
        ("direct I/O", former.direct, other.direct),
        ("durable writes", former.durable, other.durable),
        ("flush at the end", former.flushed_at_end, other.flushed_at_end),
        ("I/Os in flight", former.asked_in_flight, other.asked_in_flight),
        ("data", _data(former), _data(other)),
    ]
    if not former.writes:
        pairs = [
            pair for pair in pairs if pair[0] not in ("durable writes", "flush at the end", "data")
        ]
    return [
        (name, _yes(a), _yes(b))
        for name, a, b in pairs
        if a is not None and b is not None and a != b
    ]


def _yes(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _data(result: Result) -> str | None:
    if result.kind == "dd":
        return "zeros" if str(result.options.get("source", "")) == "zero" else None
    return "random" if result.kind == "fio" else None


def _essential(differences: list[tuple[str, str, str]]) -> bool:
    """True where more than a sweep's own option differs."""
    names = {name for name, _, _ in differences}
    return bool(names & {"tool", "direct I/O", "durable writes", "flush at the end"})


def _operand(result: Result, name: str) -> str | None:
    """Value of a dd operand as a command has it; None where it was not given."""
    value = result.options.get(name)
    return value if isinstance(value, str) else ",".join(value or ()) or None


def _made_alike(former: Result, other: Result) -> str:
    if other.kind == "fio" and former.block:
        return edit_command(
            other, bs=f"{former.block:.0f}", direct=int(bool(former.direct)), iodepth=1
        )
    if other.kind == "dd" and former.kind == "dd":
        names = ("conv", "oflag") if other.writes else ("iflag",)
        return edit_command(other, **{name: _operand(former, name) for name in names})
    return (
        edit_command(former, bs=f"{other.block:.0f}")
        if former.kind == "fio" and other.block
        else ""
    )
