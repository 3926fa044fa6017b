# SPDX-License-Identifier: Apache-2.0
"""I/Os that were really in flight: clocks, rates, stalls, engines that block, submission that waits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchlab.diagnosis.evidence import DIRECTIONS, Evidence, Result
from benchlab.diagnosis.limits import headline_figure
from benchlab.diagnosis.model import Diagnosis, NextStep, Proof, Stage, Verdict, rule
from benchlab.diagnosis.wording import count, count_of, edit_command, ops, percent, rate, seconds

# share of the time of each job that it spent in submission, from which its depth is there (0.9 to 1.05: batches add up)
IN_SUBMISSION = (0.9, 1.08)
# requests that the kernel holds for one queue (nr_requests) unless it was changed
QUEUE = 256
# IOPS x latency may exceed the I/Os asked for by rounding; above that a clock was wrong
TOO_MANY_IN_FLIGHT = 1.15
# s; fio 2 prints whole microseconds, so shorter latencies say nothing about the clock
ROUNDED_S = 50e-6
# the kernel's message of a full disk (ENOSPC)
NO_SPACE = "No space left on device"
# share of a job's time from which its core is full
CORE_FULL = 0.97


@rule("R19", "A clock that jumped", Stage.CLOCK)
def clock_jumped(evidence: Evidence) -> Iterator[Diagnosis]:
    for place, result in evidence.numbered_tests:
        if result.kind != "fio":
            continue
        proofs = [*_more_than_asked(result), *_no_time_at_all(result)]
        if not proofs:
            continue
        yield Diagnosis(
            Verdict.DOUBT,
            "The latencies cannot be right: the clock of the host or guest jumped or stood still while fio measured.",
            "IOPS over the whole run may still hold; mean, maximum and percentiles do not.",
            tuple(proofs),
            ("fio measured a part of the jobs only.",),
            (
                NextStep(
                    "Look at the clock source, then measure again with fio's own choice of clock.",
                    edit_command(result, clocksource="clock_gettime"),
                    "cat /sys/devices/system/clocksource/clocksource0/current_clocksource should say tsc or kvm-clock. "
                    "IOPS times latency must equal the depth.",
                ),
            ),
            confidence=0.85,
            results=(place,),
            silences=("R16", "R62"),
        )


def _more_than_asked(result: Result) -> Iterator[Proof]:
    requested, in_queue, latency = result.asked_in_flight, result.in_flight, result.latency
    alone = result.number("depth.level.1")
    believed = result.blocking is not None and not (
        requested == result.jobs and alone is not None and alone < 0.95
    )
    if not (requested and in_queue and latency and believed) or latency < ROUNDED_S:
        return
    if in_queue > TOO_MANY_IN_FLIGHT * max(requested, result.outstanding or 0):
        text = (
            f"{ops(result.operations or 0)} x {seconds(latency)} = {count(in_queue)} in flight, "
            f"but only {requested} were asked for."
        )
        yield Proof(
            text, (result.headline(), result.line("lat.mean") or result.line("read.lat.mean"))
        )


def _no_time_at_all(result: Result) -> Iterator[Proof]:
    for way in DIRECTIONS:
        least, middle = result.number(f"{way}.clat.min"), result.number(f"{way}.clat.p50")
        mean = result.number(f"{way}.clat.mean") or 0
        early = result.number(f"{way}.clat.p5")
        last = result.number(f"{way}.clat.p99.9") or 0
        jump = 0.9 < last < 1.05 and mean < last / 100 and (middle or 1) < last / 100
        zero = least == 0 and early == 0 and (middle or 0) > ROUNDED_S
        if least == 0 and mean > ROUNDED_S and (jump or zero):
            text = f"The shortest {way} took 0 s, the median {seconds(middle or 0)}, p99.9 {seconds(last)}."
            yield Proof(text, (result.line(f"{way}.clat.min"),))


@rule("R17", "A rate or pause that the test asked for", Stage.ASKED)
def did_as_asked(evidence: Evidence) -> Iterator[Diagnosis]:
    for place, result in evidence.numbered_tests:
        if result.kind != "fio":
            continue
        requested = _asked_rate(result) or _asked_pause(result) or _asked_shortness(result)
        if requested is None:
            continue
        option, claim, proof, verdict = requested
        yield Diagnosis(
            verdict,
            claim,
            "The figure tells nothing about what the storage could do.",
            (Proof(proof, (result.headline(), result.first)), *_tail_proofs(result)),
            ("The storage may have a limit close to it as well.",),
            (
                NextStep(
                    f"Measure without {option}.",
                    edit_command(result, **{option: 60 if option == "runtime" else None}),
                    "A higher figure is the storage's own.",
                ),
            ),
            confidence=0.9,
            results=(place,),
            silences=("R03", "R06", "R18", "R52", "R57"),
        )


def _tail_proofs(result: Result) -> Iterator[Proof]:
    """Latency that the storage kept at the rate that was asked for."""
    for way in DIRECTIONS:
        tail = result.number(f"{way}.clat.p99.9")
        if tail:
            text = f"99.9 % of the {way}s ended within {seconds(tail)} at that rate."
            yield Proof(text, (result.line(f"{way}.clat.p99.9"),))


def _asked_rate(result: Result) -> tuple[str, str, str, Verdict] | None:
    """The rate that was set, where the result reaches it within 5 %; None otherwise."""
    for option, measured, show in (
        ("rate_iops", result.operations, ops),
        ("rate", result.rate, rate),
    ):
        limits = _numbers(str(result.options.get(option) or ""))
        jobs = result.jobs or 1
        for limit in {sum(limits), *limits} if limits else ():
            if measured and abs(measured / (limit * jobs) - 1) < 0.05:
                text = f"{option}={result.options[option]} x {count_of(jobs, 'job')}: {show(limit * jobs)}."
                claim = f"{show(measured)} is the rate that {option} asked for, not a limit of the storage."
                return option, claim, text, Verdict.FINE
    return None


def _numbers(text: str) -> list[float]:
    """Values of an option such as "10m,5m"; sizes are binary."""
    numbers = re.findall(r"(\d+(?:\.\d+)?)([kmgKMG]?)", text)
    return [float(number) * 1024 ** " kmg".index(unit.lower() or " ") for number, unit in numbers]


def _asked_pause(result: Result) -> tuple[str, str, str, Verdict] | None:
    pause = _numbers(str(result.options.get("thinktime") or ""))
    latency, operations, jobs = result.latency, result.operations, result.jobs or 1
    if not pause or not pause[0] or not latency or not operations:
        return None
    wait = pause[0] / 1e6
    if wait < latency:
        return None
    claim = (
        f"{ops(operations)} is what the pause leaves: with thinktime each job waits {seconds(wait)} "
        f"between I/Os that take {seconds(latency)}."
    )
    text = f"1 / ({seconds(wait)} + {seconds(latency)}) x {jobs} = {ops(jobs / (wait + latency))}."
    return "thinktime", claim, text, Verdict.LIMIT


def _asked_shortness(result: Result) -> tuple[str, str, str, Verdict] | None:
    requested = result.options.get("runtime", result.options.get("runtime_s"))
    took = result.number("runtime")
    values = _numbers(str(requested or ""))
    if not values or values[0] > 2 or not took or took > 2.5:
        return None
    claim = f"The test ran for {seconds(took)} because runtime={requested}: too short to say what the storage sustains."
    text = f"{headline_figure(result)} over {seconds(took)}."
    return "runtime", claim, text, Verdict.DOUBT


@rule("R73", "A run that ended with an error", Stage.BELIEVABLE)
def ended_with_error(evidence: Evidence) -> Iterator[Diagnosis]:
    for place, result in evidence.numbered_tests:
        messages = [
            fact
            for fact in evidence.facts.all
            if fact.name == "tool.error" and result.first <= fact.line <= result.last
        ]
        if not result.number("errors") and not messages:
            continue
        line = messages[-1].line if messages else result.line("errors") or result.first
        reason = str(messages[-1].value) if messages else ""
        full = reason == NO_SPACE
        # dd without a count ends so when it has filled a device
        if full and result.kind == "dd" and "count" not in result.options:
            continue
        why = f" ({reason})" if reason else ""
        took = result.number("runtime")
        after = f" after {seconds(took)}" if took else ""
        figure = (
            f"{headline_figure(result)} covers only what came before it, and is no measurement"
            if result.rate or result.operations
            else "nothing was measured"
        )
        proofs = [Proof(f"{result.kind} ended with an error{why}{after}.", (line,))]
        proofs += [
            Proof(f"{fact.subject} is {percent(float(fact.value))} full.", (fact.line,))
            for fact in evidence.facts.all
            if fact.name == "fs.used_share" and not isinstance(fact.value, str)
        ]
        yield Diagnosis(
            Verdict.DOUBT,
            f"The run ended with an error{why}{after}: {figure}.",
            "A full disk or a failing one answers in other ways than a healthy one.",
            tuple(proofs),
            ("An error of a single job lets the others go on.",),
            (
                NextStep(
                    "Free space or use a smaller file, then run it again."
                    if full
                    else "Look for the error in the kernel's log, mend it, then run it again.",
                    f"df -h {result.target if result.target.startswith('/') else '.'}"
                    if full
                    else "dmesg -T | tail -50",
                    "A run without an error over its whole time.",
                ),
            ),
            confidence=0.95,
            results=(place,),
            silences=("R02", "R04", "R06", "R16", "R17", "R18", "R57", "R66"),
        )


@rule("R16", "Stalls that percentiles hide", Stage.DISTURBED)
def stalled(evidence: Evidence) -> Iterator[Diagnosis]:
    for place, result in evidence.numbered_tests:
        proofs = [*_long_maximum(result), *_empty_interval(result), *_fewer_than_rate(result)]
        if not proofs:
            continue
        longest = max((result.number(f"{way}.clat.max") or 0 for way in DIRECTIONS), default=0)
        still = f" for up to {seconds(longest)}" if longest >= 1 else ""
        if len(proofs) == 1 and result.options.get("rate_iops") and longest < 1:
            yield _rate_missed(place, result, proofs[0])
            continue
        yield Diagnosis(
            Verdict.DOUBT,
            f"The storage stood still{still}. A closed loop asks nothing meanwhile, so the stall counts as a few "
            f"slow I/Os, and percentiles look better than users will find it (coordinated omission).",
            "The mean hides it as well. Only the course over time shows how often it happens.",
            tuple(proofs),
            (
                "A flush of a write cache, garbage collection, a reset of the link, or a paused guest.",
            ),
            (
                NextStep(
                    "Log each second, and look into dmesg for resets at the same time.",
                    edit_command(
                        result, write_lat_log="stall", write_iops_log="stall", log_avg_msec=1000
                    ),
                    "Stalls at equal distances are a background task; resets show in dmesg.",
                ),
            ),
            confidence=0.75,
            results=(place,),
        )


def _rate_missed(place: int, result: Result, proof: Proof) -> Diagnosis:
    return Diagnosis(
        Verdict.LIMIT,
        f"The storage does not keep the rate that the test asks for: {ops(result.operations or 0)} of "
        f"rate_iops={result.options['rate_iops']}. Requests that should have begun earlier are not in the latencies, "
        f"so percentiles look better than users will find it (coordinated omission).",
        "",
        (proof,),
        ("A depth too small for the rate has the same effect.",),
        (
            NextStep(
                "Measure the rate that it keeps.",
                edit_command(result, rate_iops=round(0.7 * (result.operations or 1))),
                "At a rate that is kept the latencies hold.",
            ),
        ),
        confidence=0.8,
        results=(place,),
        silences=("R06",),
    )


def _long_maximum(result: Result) -> Iterator[Proof]:
    for way in DIRECTIONS:
        longest, tail = result.number(f"{way}.clat.max"), result.number(f"{way}.clat.p99.9")
        if longest and tail and longest >= 1 and longest >= 1000 * tail:
            text = f"Maximum {seconds(longest)}, but 99.9 % of the {way}s ended within {seconds(tail)}."
            yield Proof(text, (result.line(f"{way}.clat.max"), result.line(f"{way}.clat.p99.9")))


def _empty_interval(result: Result) -> Iterator[Proof]:
    for way in DIRECTIONS:
        least, samples = result.number(f"{way}.iops.min"), result.number(f"{way}.iops.samples")
        mean = result.number(f"{way}.iops.mean") or result.number(f"{way}.iops") or 0
        if (
            least == 0
            and mean >= 50
            and (samples or 10) >= 10
            and not result.options.get("thinktime")
        ):
            text = f"In at least one interval no {way} ended; the mean is {ops(mean)}."
            yield Proof(text, (result.line(f"{way}.iops.min") or result.headline(),))


def _fewer_than_rate(result: Result) -> Iterator[Proof]:
    limits = _numbers(str(result.options.get("rate_iops") or ""))
    counted, took = result.counted, result.number("runtime")
    if not limits or not counted or not took or result.options.get("latency_target"):
        return
    expected = limits[0] * took * (result.jobs or 1)
    if counted < 0.97 * expected:
        text = f"rate_iops asks for {count(expected)} I/Os in {seconds(took)}; {count(counted)} were made."
        yield Proof(text, (result.headline(),))


@rule("R03", "A depth that a blocking engine ignores", Stage.IN_FLIGHT)
def depth_ignored(evidence: Evidence) -> Iterator[Diagnosis]:
    for place, result in evidence.numbered_tests:
        depth, jobs = result.depth, result.jobs or 1
        if result.kind != "fio" or not result.blocking or not depth or depth < 2:
            continue
        if not _really_one_each(evidence, result, jobs):
            continue
        latency = result.latency
        each = f" for {seconds(latency)}" if latency else ""
        one = "one I/O was in flight" if jobs == 1 else f"{jobs} I/Os, one a job, were in flight"
        yield Diagnosis(
            Verdict.DOUBT,
            f"{result.engine} waits for each I/O{each}: {one} and not {depth * jobs}. iodepth={depth} "
            f"has no effect on a synchronous engine.",
            f"{headline_figure(result)} is what {count_of(jobs, 'waiting thread')} can get, "
            f"not what the storage can do.",
            tuple(_one_each_proofs(result, depth, jobs)),
            ("The target may be memory or a cache, if the latency is below that of the medium.",),
            (
                NextStep(
                    "Use an asynchronous engine.",
                    edit_command(result, ioengine="io_uring", iodepth=depth, direct=1),
                    "Higher IOPS show what the storage does at that depth. --ioengine=libaio works as well.",
                    {"ioengine": "io_uring", "iodepth": [1, 4, depth], "direct": True},
                ),
                NextStep(
                    "Or let that many threads wait.",
                    edit_command(result, numjobs=depth * jobs, iodepth=1, group_reporting=1),
                    "IOPS should rise about as with the asynchronous engine.",
                ),
            ),
            confidence=0.95,
            results=(place,),
            silences=("R06", "R53"),
        )


def _really_one_each(evidence: Evidence, result: Result, jobs: int) -> bool:
    """False where figures contradict a blocking engine, as with one that the text does not name."""
    alone, in_queue = result.number("depth.level.1"), result.in_flight
    if alone is not None and alone < 0.9:
        return False
    if "ioengine" not in result.options:
        windows = evidence.facts.text("", "host.os") == "Windows"
        if windows or (alone is None and (in_queue is None or in_queue > 1.2 * jobs)):
            return False
    return in_queue is None or in_queue <= 1.3 * jobs


def _one_each_proofs(result: Result, depth: int, jobs: int) -> Iterator[Proof]:
    yield Proof(f"ioengine={result.engine} with iodepth={depth}.", (result.first,))
    in_queue, latency = result.in_flight, result.latency
    if in_queue and latency:
        over = count_of(jobs, "job")
        text = f"{ops(result.operations or 0)} x {seconds(latency)} = {in_queue:.2g} in flight over {over}."
        line = (
            result.line("lat.mean") or result.line("read.lat.mean") or result.line("write.lat.mean")
        )
        yield Proof(text, (result.headline(), line) if line else (result.headline(),))
    alone = result.number("depth.level.1")
    if alone is not None:
        yield Proof(
            f"IO depths: {percent(alone)} of the time at 1.", (result.line("depth.level.1"),)
        )


@rule("R04", "Submission that blocks", Stage.IN_FLIGHT)
def submission_blocks(evidence: Evidence) -> Iterator[Diagnosis]:
    for place, result in evidence.numbered_tests:
        if not _waits_in_submission(result) or _fills_the_queue(evidence, result):
            continue
        depth, jobs = (result.asked_in_flight or 0), result.jobs or 1
        buffered = result.direct is False
        if not buffered and _core_full(result):
            continue
        where = (
            "without direct=1 each submission copies into the page cache and waits there, so the depth of "
            f"{depth} is bookkeeping"
            if buffered
            else f"each submission waits for the I/O itself, so about {jobs} and not {depth} are under way"
        )
        kind = (
            "the page cache takes the I/O"
            if buffered
            else "the file system or device has no asynchronous path"
        )
        yield Diagnosis(
            Verdict.DOUBT,
            f"{headline_figure(result)} is not a figure of {depth} I/Os at the disk: {where}.",
            f"{result.engine} is asynchronous only if submission returns at once; here {kind}.",
            tuple(_submission_proofs(result)),
            (
                "A full queue of the device makes submission wait as well.",
                "A CPU without time left looks alike, but then user and system time add up to 100 %.",
            ),
            (_other_path(result, buffered, depth),),
            confidence=0.9 if buffered else 0.75,
            results=(place,),
            silences=("R02", "R06", "R10", "R53", "R57", "R66"),
        )


def _other_path(result: Result, buffered: bool, depth: int) -> NextStep:
    if not buffered:
        return NextStep(
            "Let threads wait instead, and try the device below the file system with reads.",
            edit_command(result, numjobs=max(depth, 1), iodepth=1, group_reporting=1),
            "More IOPS with jobs than with depth confirm it.",
            {"numjobs": [1, 4, 16], "iodepth": 1},
        )
    last = {"end_fsync": 1} if result.writes else {}
    return NextStep(
        "Use direct I/O for the disk's figure, and watch the disk with iostat -xy 1 meanwhile.",
        edit_command(result, direct=1),
        f"The lower figure is the disk's at depth {depth}. For what an application gets keep it buffered"
        f"{' and add --end_fsync=1' if last else ''}.",
        {"direct": True, "iodepth": [1, 4, 16]},
    )


def _waits_in_submission(result: Result) -> bool:
    """True where each job is nearly always inside submission although the engine is asynchronous."""
    requested, jobs = result.asked_in_flight, result.jobs or 1
    if result.kind != "fio" or result.blocking is not False or not requested or requested <= jobs:
        return False
    inside = _submission_share(result)
    if inside is None:
        return False
    return IN_SUBMISSION[0] <= inside <= IN_SUBMISSION[1]


def _submission_share(result: Result) -> float | None:
    """Share of each job's time inside submission: IOPS x slat / jobs; None where slat is not printed."""
    parts = [
        (result.number(f"{way}.iops") or 0) * slat
        for way in DIRECTIONS
        if (slat := result.number(f"{way}.slat.mean"))
    ]
    return sum(parts) / (result.jobs or 1) if parts else None


def _core_full(result: Result) -> bool:
    busy = (result.number("cpu.user") or 0) + (result.number("cpu.system") or 0)
    return busy >= CORE_FULL


def _submission_proofs(result: Result) -> Iterator[Proof]:
    jobs = result.jobs or 1
    for way in DIRECTIONS:
        slat, operations = result.number(f"{way}.slat.mean"), result.number(f"{way}.iops")
        if not slat or not operations:
            continue
        line = result.line(f"{way}.slat.mean")
        inside = f"{slat * operations / jobs:.2f}"
        text = (
            f"slat {seconds(slat)} x {count(operations)}/s / {count_of(jobs, 'job')} = {inside}: "
        )
        yield Proof(text + "the job is always inside submission.", (line,))
    at_disk, counted = result.disk_ios("write" if result.writes else "read"), result.counted
    if at_disk is not None and counted and at_disk < 0.8 * counted:
        text = f"The disk did {count(at_disk)} of the {count(counted)} I/Os that fio counted."
        yield Proof(
            text, (result.disk_line("write" if result.writes else "read"), result.headline())
        )
    if result.direct is False:
        yield Proof("Neither the command nor the output has direct=1.", (result.first,))


@rule("R66", "A device queue that is full", Stage.IN_FLIGHT)
def queue_full(evidence: Evidence) -> Iterator[Diagnosis]:
    for place, result in evidence.numbered_tests:
        if (
            not _waits_in_submission(result)
            or not _fills_the_queue(evidence, result)
            or _core_full(result)
        ):
            continue
        requested, room = result.asked_in_flight or 0, _queue_length(evidence, result)
        yield Diagnosis(
            Verdict.DOUBT,
            f"{requested} I/Os were asked to be in flight, but the queue of the device is full: the rest waits inside "
            f"submission. A greater depth adds latency and nothing else.",
            f"{headline_figure(result)} is what the device gives with a full queue of about {room}.",
            tuple(_submission_proofs(result)),
            ("A file system without asynchronous direct I/O blocks at any depth.",),
            (
                NextStep(
                    "Measure at depths up to the queue's length.",
                    edit_command(result, iodepth=32, numjobs=1),
                    "The same IOPS at a lower latency confirm it.",
                    {"iodepth": [1, 8, 32, 128]},
                ),
            ),
            confidence=0.8,
            results=(place,),
            silences=("R04", "R53"),
        )


def _queue_length(evidence: Evidence, result: Result) -> int:
    """Requests that the device's queue holds: nr_requests where a line tells, else the usual one."""
    disks = evidence.runs_on(result)
    lengths = [n for d in disks if (n := evidence.facts.number(d, "disk.nr_requests"))]
    if lengths:
        return int(min(lengths))
    sata = any(evidence.facts.text(d, "disk.transport") == "sata" for d in disks)
    return 32 if sata else QUEUE


def _fills_the_queue(evidence: Evidence, result: Result) -> bool:
    return result.direct is True and (result.asked_in_flight or 0) >= _queue_length(
        evidence, result
    )
