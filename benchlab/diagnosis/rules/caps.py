# SPDX-License-Identifier: Apache-2.0
"""Limits that stay flat: a full CPU core, a volume's cap as sold, one request at a time, replicas, idle states."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from statistics import fmean, pstdev

from agents.context.model import Fact
from benchlab.analysis.formats import join_names
from benchlab.diagnosis import media
from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.limits import durable_write
from benchlab.diagnosis.model import Diagnosis, NextStep, Proof, Stage, Verdict, rule
from benchlab.diagnosis.wording import count, edit_command, ops, percent, rate, seconds

CORE_FULL = 0.97
# share of idle time below which a host's CPU is full, and of the disks' busy time above which they may be a limit too
NO_IDLE, DISKS_FREE = 0.02, 0.5
# s; a shorter run's CPU share is that of its start
LONG_ENOUGH_S = 5.0
# context switches per I/O below which a thread never slept
NEVER_SLEEPS = 0.01
# spread of the samples of a rate that something limits (a disk varies by more)
FLAT = 0.01
FLAT_RANGE = 0.03
# the same, and how near a cap must be, where no line tells of a cloud: SSDs are steady to 1 % as well
VERY_FLAT = 0.004
EXACT = 0.006
# IOPS; more is rarely sold, and is what an SSD of one's own may do
MOST_SOLD = 20_500
# A token bucket lets a burst through first, so the maximum of the samples says nothing. A real one of 500 IOPS: spread
# 2.4 %, minimum 2.6 % below the mean, median 32 ms and 90th percentile 35 ms. Full disks spread far more at a depth.
BUCKET_SPREAD, BUCKET_DIP, BUCKET_BAND = 0.03, 0.05, 1.12
# share of the tool's latency below which the device itself does not hold the rate
DEVICE_SHARE = 0.3
CAPPED_S = 30.0
# share by which a rate may miss a limit that the text names: the first burst and the last wait are in the mean
AT_THROTTLE = 0.05
# IOPS of a sweep that differ by less do not grow with the depth
SAME_RATE = 0.07
# the same of three depths and more: a real nbd device did 181 to 198 IOPS at depths of 1 to 64
ENOUGH_DEPTHS, SAME_RATE_OF_MANY = 3, 0.15
DEEP = 8
# s; one request after another takes longer than that where a network answers, less where a thread of the host does
NETWORK_S = 5e-4
REPLICA_S = 10e-3
# devices whose names tell that their data are replicated over a network
KIND_OF_DEVICE = {"rbd": "Ceph RBD", "drbd": "DRBD", "longhorn/": "Longhorn"}
REPLICATED_DEVICE = re.compile(r"/dev/(rbd|drbd|longhorn/)\S+")
POLLING = ("hipri", "sqthread_poll", "hipri_percentage")


@rule("R53", "A CPU core without time left", Stage.CAP)
def core_is_full(evidence: Evidence) -> Iterator[Diagnosis]:
    yield from _watched_cores(evidence)
    for place, result in evidence.numbered_tests:
        user, system = result.number("cpu.user"), result.number("cpu.system")
        operations, took = result.operations, result.number("runtime") or 60
        if result.kind != "fio" or user is None or system is None or not operations:
            continue
        if user + system < CORE_FULL or took < LONG_ENOUGH_S or result.direct is False:
            continue
        jobs = result.jobs or 1
        each = jobs / operations
        lines = (result.line("cpu.user") or result.line("cpu.system"), result.headline())
        proofs = [
            Proof(
                f"usr {percent(user)} + sys {percent(system)} = {percent(user + system)} of each job's time.",
                lines,
            )
        ]
        switches, counted = result.number("ctx"), result.counted
        if switches is not None and counted and switches / counted < NEVER_SLEEPS:
            text = f"{count(switches)} context switches for {count(counted)} I/Os: it never sleeps."
            proofs.append(Proof(text, (result.line("ctx"),)))
        proofs.append(
            Proof(f"{jobs} / {ops(operations)} = {seconds(each)} of CPU for each I/O.", lines[1:])
        )
        polls = any(result.options.get(name) not in (None, False, 0, "0") for name in POLLING)
        if polls:
            yield _polling(place, result, tuple(proofs))
            continue
        threads = "thread has" if jobs == 1 else f"{jobs} threads have"
        yield Diagnosis(
            Verdict.LIMIT,
            f"fio's {threads} no CPU time left ({percent(user + system)} of a core each): "
            f"{seconds(each)} of CPU for each "
            f"I/O. {ops(operations)} is the limit of the CPU, not of the storage.",
            "More depth finds no CPU; more threads on other cores do.",
            tuple(proofs),
            ("Interrupts of the disk on the same core take their share.",),
            (
                NextStep(
                    "Use more jobs, one a core near the disk.",
                    edit_command(result, numjobs=4 * jobs, group_reporting=1),
                    "IOPS that grow with the jobs confirm it. --registerfiles, --fixedbufs and "
                    "--hipri cost less CPU each.",
                    {"numjobs": [1, 2, 4, 8]},
                ),
            ),
            confidence=0.9 if result.direct else 0.7,
            results=(place,),
            silences=("R06", "R20"),
        )


def _watched_cores(evidence: Evidence) -> Iterator[Diagnosis]:
    """A CPU without idle time beside disks that are not busy, as iostat alone shows it."""
    for place, watcher in enumerate(evidence.results):
        idle, waits = watcher.track("cpu.idle", ""), watcher.track("cpu.iowait", "")
        utils = [t.values for d in watcher.devices if (t := watcher.track("util", d))]
        if watcher.kind != "iostat" or evidence.tests or not idle or not waits or not utils:
            continue
        # The first report of iostat without -y is the mean since boot.
        first = 1 if len(idle.values) > 1 else 0
        free, waiting = max(idle.values[first:]), max(waits.values[first:])
        busiest = max(max(values[first:] or values) for values in utils)
        if free > NO_IDLE or waiting > NO_IDLE or busiest > DISKS_FREE:
            continue
        yield Diagnosis(
            Verdict.LIMIT,
            f"The CPU is full ({percent(free)} idle) and the disks are not: the busiest works {percent(busiest)} of "
            "the time. The limit is the CPU, not the storage.",
            "Nothing waits for the disks (iowait), so faster ones would change little. The first report of iostat "
            "is the mean since boot, unless -y leaves it out.",
            (
                Proof(
                    f"idle {percent(free)}, iowait {percent(waiting)}, %util at most {percent(busiest)}.",
                    (watcher.line("cpu.idle") or watcher.first,),
                ),
            ),
            ("Work of another program than the one that you ask about.",),
            (
                NextStep(
                    "See which program takes the CPU.",
                    "pidstat -u 5 1",
                    "A program with 100 % or more of a core is the one to look at; %steal means the host.",
                ),
            ),
            confidence=0.75,
            results=(place,),
            silences=("R20",),
        )
        return


def _polling(place: int, result: Result, proofs: tuple[Proof, ...]) -> Diagnosis:
    return Diagnosis(
        Verdict.FINE,
        "fio polls for completions here, so a full CPU core is by design and says nothing about a limit.",
        "",
        proofs,
        ("A core may be the limit as well.",),
        (
            NextStep(
                "Measure without polling.",
                edit_command(result, hipri=None, sqthread_poll=None),
                "Equal IOPS with a core that is not full mean that the storage sets them.",
            ),
        ),
        confidence=0.6,
        results=(place,),
        silences=("R06",),
    )


@rule("R57", "A cap as it is sold or set", Stage.CAP)
def capped(evidence: Evidence) -> Iterator[Diagnosis]:
    throttled = list(_throttled(evidence))
    if throttled:
        yield from throttled
        return
    capped_tests = [
        (place, *cap)
        for place, result in evidence.numbered_tests
        if (cap := _cap(evidence, result))
    ]
    if not capped_tests:
        yield from _watched_caps(evidence)
        return
    results = evidence.results
    for place, text, _ in capped_tests:
        wait = _device_await(evidence, results[place])
        if wait and wait[0] < DEVICE_SHARE * (results[place].latency or 0):
            yield _host_limit(evidence, place, text, wait)
            return
    caps = list(dict.fromkeys(text for _, text, _ in capped_tests))
    proofs: list[Proof] = []
    for place, _, names in capped_tests:
        proofs += _flat_proofs(results[place], names)
    cloud = _cloud_fact(evidence)
    if cloud:
        proofs.append(Proof(f"The volume is {cloud[0]}.", (cloud[1],)))
    first = results[capped_tests[0][0]]
    yield Diagnosis(
        Verdict.LIMIT,
        f"{' and '.join(caps)}: {'the caps' if len(caps) > 1 else 'a cap'} of the volume as it is provisioned, "
        f"not a limit of a device. A limiter holds the rate, and more depth only waits.",
        _crossing([results[place] for place, _, _ in capped_tests]),
        tuple(proofs),
        (
            "The instance or virtual machine has caps of its own.",
            "A limit that the host sets for a guest looks the same.",
        ),
        (
            NextStep(
                "Measure with large blocks, then with small ones: the cap of the bandwidth and of the IOPS.",
                edit_command(first, bs="256k" if (first.block or 0) < 65536 else "4k"),
                "At its other cap the volume is as flat. A higher rate comes from more provisioned IOPS or throughput.",
                {"block_size": [4096, 65536, 262144]},
            ),
        ),
        confidence=0.95 if cloud else 0.7,
        results=tuple(place for place, _, _ in capped_tests),
        silences=("R52", "R18", "R06", "R20"),
    )


def _throttled(evidence: Evidence) -> Iterator[Diagnosis]:
    """Results at a limit that a line of the text sets: of a cgroup, or of a hypervisor for its guest's disk."""
    for place, result in evidence.numbered_tests:
        fact = next((f for f in evidence.facts.all if _sits_at(evidence, result, f)), None)
        if fact is None:
            continue
        limit = float(fact.value)
        by_iops = fact.name.endswith("iops")
        figure, cap = (
            (ops(result.operations or 0), ops(limit))
            if by_iops
            else (rate(result.rate or 0), rate(limit))
        )
        kind = fact.name.removeprefix("throttle.").replace("_", " ").replace("iops", "IOPS")
        proofs = [
            Proof(f"{kind} of {fact.subject or 'the disk'}: a limit of {cap}.", (fact.line,)),
            *_flat_proofs(result, []),
        ]
        wait = _device_await(evidence, result)
        if wait and wait[0] < DEVICE_SHARE * (result.latency or 0):
            text = f"await at the device: {seconds(wait[0])}, so the requests wait above it."
            proofs.append(Proof(text, (wait[1],)))
        yield Diagnosis(
            Verdict.LIMIT,
            f"{figure} is the limit of {cap} that is set for {fact.subject or 'the disk'}, not one of the device.",
            "A limiter holds the rate, and more depth only waits.",
            tuple(proofs),
            ("The device may have a limit close to it as well.",),
            (
                NextStep(
                    "Run the same outside of the limited cgroup or guest, or with a higher limit.",
                    edit_command(result),
                    "A higher figure is the device's.",
                ),
            ),
            confidence=0.95,
            results=(place,),
            silences=("R52", "R18", "R06", "R20", "R22"),
        )


def _sits_at(evidence: Evidence, result: Result, fact: Fact) -> bool:
    """True where the result is as fast as the throttle of its device lets through."""
    if not fact.name.startswith("throttle.") or isinstance(fact.value, str) or not fact.value:
        return False
    way = "read" if "read" in fact.name else "write" if "write" in fact.name else ""
    name = "iops" if fact.name.endswith("iops") else "bandwidth"
    whole = result.operations if name == "iops" else result.rate
    value = result.number(f"{way}.{name}") if way else whole
    if way and value is None and (result.reads, result.writes) == (way == "read", way == "write"):
        value = whole
    device = result.target.removeprefix("/dev/")
    own = fact.subject in ("", device, *evidence.runs_on(result)) or not device
    return bool(value) and own and abs((value or 0) / fact.value - 1) < AT_THROTTLE


def _watched_caps(evidence: Evidence) -> Iterator[Diagnosis]:
    """The cap of a cloud's volume that a watcher saw, whatever made the load."""
    cloud = _cloud_fact(evidence)
    for place, watcher in enumerate(evidence.results):
        for device in watcher.devices if watcher.kind == "iostat" and cloud else ():
            operations = _flat_level(watcher, device, "iops")
            transfer = _flat_level(watcher, device, "bandwidth")
            waits = (watcher.number("queue", device) or 0) >= 2
            if operations is None or transfer is None or not waits or cloud is None:
                continue
            at_iops, at_rate = media.caps_at_iops(operations), media.caps_at_bandwidth(transfer)
            volumes = [v for v in (*at_iops, *at_rate) if _holds(v, operations, transfer)]
            if not volumes:
                continue
            figure = ops(operations) if at_iops else rate_words(transfer)
            names = join_names(tuple(dict.fromkeys(volume.kind for volume in volumes)))
            line = watcher.line("read.iops", device) or watcher.first
            yield Diagnosis(
                Verdict.LIMIT,
                f"{figure} at {device}: a cap of the volume as it is provisioned, not a limit of a device. A limiter "
                f"holds the rate, and more depth only waits.",
                "The same volume with another block size meets its other cap.",
                (
                    Proof(
                        f"{figure} in each sample, within {percent(FLAT)}. Known for it: {names}.",
                        (line,),
                    ),
                    Proof(f"The volume is {cloud[0]}.", (cloud[1],)),
                ),
                ("The instance or virtual machine has caps of its own.",),
                (
                    NextStep(
                        "Measure with large blocks, then with small ones: the cap of the bandwidth and of the IOPS.",
                        f"fio --name=cap --filename=/dev/{device} --rw=randread --bs=256k --direct=1 --ioengine=libaio "
                        f"--iodepth=32 --runtime=60 --time_based",
                        "At its other cap the volume is as flat.",
                    ),
                ),
                confidence=0.85,
                results=(place,),
                silences=("R20",),
            )


def _flat_level(watcher: Result, device: str, name: str) -> float | None:
    """Mean of reads and writes together, over samples that hardly vary; None where they do."""
    tracks = [
        s.values for way in ("read", "write") if (s := watcher.track(f"{way}.{name}", device))
    ]
    totals: Sequence[float] = [sum(values) for values in zip(*tracks, strict=False)]
    if len(totals) < 5 or not fmean(totals) > 0:
        return None
    return fmean(totals) if pstdev(totals) < FLAT * fmean(totals) else None


def _cap(evidence: Evidence, result: Result) -> tuple[str, list[str]] | None:
    """The cap that the result sits at, in words, and the volumes sold with it; None where it sits at none."""
    operations, transfer, requested = result.operations, result.rate, result.asked_in_flight or 1
    took = result.number("runtime") or 0
    if not operations or not transfer or took < CAPPED_S * 0.95 or result.durable:
        return None
    cloud = _cloud_fact(evidence)
    flat = _is_flat(result, FLAT if cloud else VERY_FLAT)
    disks = evidence.runs_on(result)
    local = any(_is_local(evidence, disk) for disk in disks)
    if flat is False or (local and not cloud) or (not cloud and (not flat or requested < 4)):
        return None
    near = media.CAP_TOLERANCE if cloud else EXACT
    at_iops = [v for v in media.caps_at_iops(operations, near) if _holds(v, operations, transfer)]
    if not cloud and operations > MOST_SOLD:
        at_iops = []
    at_rate = [
        v for v in media.caps_at_bandwidth(transfer, near) if _holds(v, operations, transfer)
    ]
    provisioned = [
        f for f in evidence.facts.with_name("cloud.iops") if _near(operations, float(f.value))
    ]
    provisioned += [
        f for f in evidence.facts.with_name("cloud.bandwidth") if _near(transfer, float(f.value))
    ]
    if provisioned and provisioned[0].name == "cloud.iops":
        return ops(operations), [f"{provisioned[0].subject}: provisioned with that many IOPS"]
    if provisioned:
        return rate_words(transfer), [f"{provisioned[0].subject}: provisioned with that bandwidth"]
    if at_iops and (not at_rate or (result.block or 0) <= 32 << 10):
        return ops(operations), [f"{v.kind} with {ops(v.iops)}" for v in at_iops]
    if at_rate:
        return rate_words(transfer), [volume.kind for volume in at_rate]
    baseline = _gp2_baseline(evidence, disks)
    if baseline and _near(operations, baseline):
        return ops(operations), [f"gp2 of that size: {media.GP2_IOPS_PER_GIB} IOPS per GiB"]
    return None


def _holds(volume: media.CloudVolume, operations: float, transfer: float) -> bool:
    """True where the volume allows both the IOPS and the bandwidth."""
    room = 1 + media.CAP_TOLERANCE
    iops = not volume.iops or operations <= room * volume.iops
    return iops and (not volume.bandwidth or transfer <= room * volume.bandwidth)


def _near(value: float, cap: float) -> bool:
    return bool(cap) and abs(value / cap - 1) <= media.CAP_TOLERANCE


def _gp2_baseline(evidence: Evidence, disks: tuple[str, ...]) -> float | None:
    sizes = [s for disk in disks if (s := evidence.facts.number(disk, "disk.size"))]
    return media.gp2_baseline(sizes[0]) if sizes and _cloud_fact(evidence) else None


def rate_words(transfer: float) -> str:
    """ "125 MiB/s (131 MB/s)": caps are sold in either unit."""
    return f"{transfer / media.MIB:.0f} MiB/s ({rate(transfer)})"


def _is_flat(result: Result, most: float) -> bool | None:
    """True where the spread of the rate's samples is below that share; None where the text shows no spread."""
    is_flat = None
    for way in ("read", "write"):
        for name in ("iops", "bandwidth"):
            mean = result.number(f"{way}.{name}.mean")
            spread = result.number(f"{way}.{name}.stddev")
            least, top = result.number(f"{way}.{name}.min"), result.number(f"{way}.{name}.max")
            if not mean or spread is None:
                continue
            ranged = least is None or top is None or (top - least) / mean < FLAT_RANGE
            is_flat = spread / mean < most and ranged
            if is_flat or (least and _is_bucket(result, way, spread / mean, least / mean)):
                return True
    return is_flat


def _is_bucket(result: Result, way: str, spread: float, least: float) -> bool:
    """True where a token bucket sets the pace: steady after its first burst, with nearly equal latencies."""
    middle, late = result.number(f"{way}.clat.p50"), result.number(f"{way}.clat.p90")
    steady = spread < BUCKET_SPREAD and least > 1 - BUCKET_DIP
    return bool(middle and late and steady and late / middle < BUCKET_BAND)


def _device_await(evidence: Evidence, result: Result) -> tuple[float, int] | None:
    """s that the device takes for each of the test's I/Os by an iostat beside it, and the line; None without one."""
    for watcher in evidence.watchers:
        if watcher.kind != "iostat" or evidence.watched_test(watcher) is not result:
            continue
        way = "write" if result.writes else "read"
        for device in watcher.devices:
            rate_there = watcher.number(f"{way}.iops", device) or 0
            wait = watcher.number(f"{way}.await", device)
            if wait and abs(rate_there / (result.operations or 1) - 1) < SAME_RATE:
                return wait, watcher.line(f"{way}.await", device) or watcher.first
    return None


def _host_limit(evidence: Evidence, place: int, figure: str, wait: tuple[float, int]) -> Diagnosis:
    """The rate is held above the device, which itself answers at once."""
    result = evidence.results[place]
    return Diagnosis(
        Verdict.LIMIT,
        f"{figure}: a limit that this host sets above the device. The device answers in {seconds(wait[0])}, and the "
        f"tool waits {seconds(result.latency or 0)}.",
        "A cgroup (io.max) or another throttle holds the rate, and more depth only waits.",
        (
            *_flat_proofs(result, []),
            Proof(f"await at the device: {seconds(wait[0])}.", (wait[1],)),
        ),
        ("A layer between the tool and the device, such as dm-crypt or a queue of one thread.",),
        (
            NextStep(
                "Look for a limit of the tool's cgroup, then run it outside.",
                "grep -r . /sys/fs/cgroup --include=io.max",
                "rbps, wbps, riops or wiops at the measured figure is the limit.",
            ),
        ),
        confidence=0.9,
        results=(place,),
        silences=("R52", "R18", "R06", "R20"),
    )


def _cloud_fact(evidence: Evidence) -> tuple[str, int] | None:
    """Model or kind that only a cloud's volume has, and its line."""
    for fact in evidence.facts:
        cloudy = fact.name == "disk.model" and media.is_cloud_disk(str(fact.value))
        if cloudy or fact.name == "cloud.kind":
            return str(fact.value), fact.line
    return None


def _is_local(evidence: Evidence, disk: str) -> bool:
    """True for a disk that one can buy, by its transport or the form of its model."""
    facts = evidence.facts
    if media.is_cloud_disk(facts.text(disk, "disk.model")):
        return False
    return facts.text(disk, "disk.transport") in ("sata", "sas", "usb", "nvme")


def _flat_proofs(result: Result, names: list[str]) -> Iterator[Proof]:
    operations, transfer, requested = (
        result.operations or 0,
        result.rate or 0,
        result.asked_in_flight or 1,
    )
    spreads = [
        (spread / mean, result.line(f"{way}.iops.stddev"))
        for way in ("read", "write")
        if (mean := result.number(f"{way}.iops.mean"))
        and (spread := result.number(f"{way}.iops.stddev")) is not None
    ]
    flat = f", with a spread of {percent(spreads[0][0])} over its samples" if spreads else ""
    is_flat = f" A cap that is sold: {join_names(tuple(names))}." if names else ""
    lines = tuple(line for line in (result.headline(), *(line for _, line in spreads)) if line)
    yield Proof(f"{ops(operations)}, {rate_words(transfer)}{flat}.{is_flat}", lines)
    if result.latency:
        text = (
            f"Latency is depth over rate: {requested} / {ops(operations)} = "
            f"{seconds(requested / operations)}; measured {seconds(result.latency)}."
        )
        yield Proof(
            text, (result.line("lat.mean") or result.line("read.lat.mean") or result.headline(),)
        )


def _crossing(results: list[Result]) -> str:
    most = max((r.operations or 0 for r in results), default=0)
    widest = max((r.rate or 0 for r in results), default=0)
    if len(results) < 2 or not most:
        return "The same volume with another block size meets its other cap."
    return f"Both caps meet at requests of {widest / most / 1024:.1f} KiB."


@rule("R52", "One request at a time", Stage.CAP)
def one_at_a_time(evidence: Evidence) -> Iterator[Diagnosis]:
    for places in _sweeps(evidence):
        single, deep = (evidence.results[places[0]], evidence.results[places[-1]])
        took = (single.asked_in_flight or 1) / (single.operations or 1)
        replicas = deep.writes or any(evidence.facts.with_name("replicated.kind"))
        if took >= NETWORK_S and replicas:
            continue
        if evidence.all_rotational(evidence.runs_on(single)):
            continue
        if single.blocking and (single.depth or 1) != (deep.depth or 1):
            continue
        guest = [
            f
            for f in evidence.facts
            if f.name in ("vm.iothread", "vm.aio", "vm.bus", "vm.controller")
        ]
        proofs = [*_sweep_proofs(evidence, places)]
        proofs += [
            Proof(f"{f.subject or 'The guest'}: {f.name.removeprefix('vm.')} {f.value}.", (f.line,))
            for f in guest
        ]
        yield Diagnosis(
            Verdict.LIMIT,
            f"Something below serves one request at a time, {seconds(took)} each: IOPS stay at "
            f"{ops(deep.operations or 0)}, "
            f"and latency grows with the depth.",
            "In a virtual machine that is mostly the emulation of the disk: one thread that waits for each request.",
            tuple(proofs),
            ("A cap of the volume is flat as well, but then depth 1 is below it.",),
            (
                NextStep(
                    "Repeat the sweep on the host, below the guest.",
                    edit_command(single, iodepth=32),
                    "If the host's IOPS grow with the depth, give the disk virtio-scsi-single with iothread, "
                    "aio=io_uring or native, and cache=none.",
                    {"iodepth": [1, 8, 32]},
                ),
            ),
            confidence=0.9,
            results=tuple(places),
            silences=("R57", "R18", "R06", "R58", "R60"),
        )


@rule("R64", "Writes that wait for replicas in a row", Stage.CAP)
def replicas_in_a_row(evidence: Evidence) -> Iterator[Diagnosis]:
    provisioned = [f for f in evidence.facts if f.name == "replicated.kind"]
    provisioned = provisioned or list(_replicated_targets(evidence))
    yield from _synced_replicas(evidence, provisioned)
    groups = [tuple(places) for places in _sweeps(evidence)]
    alone = [
        (place,)
        for place, r in evidence.numbered_tests
        if provisioned and (r.asked_in_flight or 9) == 1
    ]
    for places in groups or alone[:1]:
        single, deep = evidence.results[places[0]], evidence.results[places[-1]]
        took = (single.asked_in_flight or 1) / (single.operations or 1e9)
        share = (deep.rate or 0) / (evidence.facts.number("", "host.network") or 117e6)
        if (
            not NETWORK_S <= took <= 2 * REPLICA_S
            or share > 0.3
            or not (deep.writes or provisioned)
        ):
            continue
        if evidence.all_rotational(evidence.runs_on(single)) and not provisioned:
            continue
        proofs = list(_sweep_proofs(evidence, list(places)))
        proofs += [
            Proof(f"{f.subject} is replicated by {f.value}.", (f.line,)) for f in provisioned
        ]
        text = (
            f"{rate(deep.rate or 0)} is {percent(share)} of the network's "
            f"{rate((deep.rate or 0) / share if share else 0)}."
        )
        proofs.append(Proof(text, (deep.headline(),)))
        yield Diagnosis(
            Verdict.LIMIT,
            f"The volume takes one write at a time, {seconds(took)} each: the network, the replicas "
            "and their disks in a "
            f"row. That is latency and not bandwidth.",
            "More jobs wait in the same row.",
            tuple(proofs),
            ("One thread of the volume's server handles all requests.",),
            (
                NextStep(
                    "Measure the same with one replica, then on a node's own disk, and ping between the nodes.",
                    edit_command(single),
                    "The step at which most of the time goes away is the one to change; often it is the disks' flush.",
                ),
            ),
            confidence=0.85 if provisioned else 0.7,
            results=tuple(places),
            silences=("R52", "R57", "R18", "R06", "R22"),
        )


def _synced_replicas(evidence: Evidence, replicated: Sequence[Fact]) -> Iterator[Diagnosis]:
    """Durable writes of pg_test_fsync to a volume with replicas, which take a round trip each."""
    ping = evidence.facts.find("", "host.ping")
    for place, result in evidence.numbered_tests:
        write = durable_write(result)
        if result.kind != "pg_test_fsync" or write is None or not replicated:
            continue
        if not NETWORK_S <= write.took <= 2 * REPLICA_S:
            continue
        fact = replicated[0]
        proofs = [
            Proof(f"{write.call}: {seconds(write.took)} each.", (write.line,)),
            Proof(f"{fact.subject or 'The volume'} is replicated by {fact.value}.", (fact.line,)),
        ]
        trip = ""
        if ping and isinstance(ping.value, float):
            proofs.append(Proof(f"A round trip takes {seconds(ping.value)} (ping).", (ping.line,)))
            share = percent(min(ping.value / write.took, 1))
            trip = f" The round trip of {seconds(ping.value)} is {share} of that."
        yield Diagnosis(
            Verdict.LIMIT,
            f"Each durable write waits {seconds(write.took)} until a replica over the network has it as well.{trip}",
            "A single client cannot commit faster than one write after another is acknowledged by both sides.",
            tuple(proofs),
            ("The flush of the replica's own disk is a part of that time.",),
            (
                NextStep(
                    "Measure the same on a local disk of each side, without the replication.",
                    "pg_test_fsync -f /LOCAL/t",
                    "What is left above that and the round trip is the replication's own. Asynchronous replication, or "
                    "group commit, hides the latency; the former may lose the last commits.",
                ),
            ),
            confidence=0.9 if trip else 0.8,
            results=(place,),
            silences=("R22", "R18", "R06"),
        )


def _replicated_targets(evidence: Evidence) -> Iterator[Fact]:
    """Kind of the replicated devices that the tests' own paths name, as facts."""
    for result in evidence.tests:
        match = REPLICATED_DEVICE.match(result.target)
        if match:
            kind = KIND_OF_DEVICE[match[1]]
            yield Fact(result.target.removeprefix("/dev/"), "replicated.kind", kind, result.first)


def _sweeps(evidence: Evidence) -> Iterator[list[int]]:
    """Results of one test at a rising number of I/Os in flight whose IOPS stay and whose latency grows."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for place, result in evidence.numbered_tests:
        if result.kind in ("fio", "sysbench") and result.operations and result.asked_in_flight:
            key = (
                result.kind,
                result.pattern,
                result.block,
                result.target,
                result.direct,
                result.durable,
            )
            groups.setdefault(key, []).append(place)
    for places in groups.values():
        ordered = sorted(places, key=lambda p: evidence.results[p].asked_in_flight or 0)
        first, last = evidence.results[ordered[0]], evidence.results[ordered[-1]]
        low, high = first.asked_in_flight or 1, last.asked_in_flight or 1
        rates = [evidence.results[p].operations or 0 for p in ordered]
        most = SAME_RATE if len(rates) < ENOUGH_DEPTHS else SAME_RATE_OF_MANY
        flat = max(rates) <= (1 + most) * min(rates)
        if low <= 2 and high >= DEEP * low * 0.99 and flat and _is_proportional(first, last):
            yield ordered


def _is_proportional(first: Result, last: Result) -> bool:
    """True where latency grew as the I/Os in flight did; where it is not printed, flat IOPS imply it."""
    if not first.latency or not last.latency:
        return True
    grown = last.latency / first.latency
    return 0.7 < grown / ((last.asked_in_flight or 1) / (first.asked_in_flight or 1)) < 1.3


def _sweep_proofs(evidence: Evidence, places: list[int]) -> Iterator[Proof]:
    for place in places:
        result = evidence.results[place]
        requested, latency = result.asked_in_flight or 1, result.latency
        wait = (
            f", {seconds(latency)} each = {requested} x {seconds(latency / requested)}"
            if latency
            else ""
        )
        yield Proof(
            f"{requested} in flight: {ops(result.operations or 0)}{wait}.", (result.headline(),)
        )


@rule("R62", "A CPU that sleeps between requests", Stage.CAP)
def idle_states(evidence: Evidence) -> Iterator[Diagnosis]:
    tests = [pair for pair in evidence.numbered_tests if pair[1].latency and pair[1].operations]
    for place, slow in tests:
        if not slow.is_paced:
            continue
        for other, fast in tests:
            alike = (
                slow.pattern == fast.pattern and slow.block == fast.block and slow.kind == fast.kind
            )
            fewer = 5 * (slow.operations or 0) < (fast.operations or 0)
            depth = (slow.asked_in_flight or 1) <= (fast.asked_in_flight or 1)
            worse = (slow.latency or 0) > 1.5 * (fast.latency or 1)
            near = (fast.latency or 1) > (slow.latency or 0) / 10
            if not (alike and fewer and depth and worse and near):
                continue
            if (
                slow.target != fast.target
                or (slow.latency or 1) > 2e-3
                or slow.direct is not fast.direct
            ):
                continue
            yield Diagnosis(
                Verdict.LIMIT,
                f"At {ops(slow.operations or 0)} an I/O takes {seconds(slow.latency or 0)}, at "
                f"{ops(fast.operations or 0)} only "
                f"{seconds(fast.latency or 0)}: between rare requests the CPU or the disk falls into "
                "an idle state and has to wake.",
                "The storage is not slower at a low rate; the host is.",
                (
                    Proof(
                        f"{ops(slow.operations or 0)}: {seconds(slow.latency or 0)}.",
                        (slow.headline(),),
                    ),
                    Proof(
                        f"{ops(fast.operations or 0)}: {seconds(fast.latency or 0)}.",
                        (fast.headline(),),
                    ),
                ),
                (
                    "Power states of an NVMe disk (APST) or of the link (ASPM) have the same effect.",
                ),
                (
                    NextStep(
                        "Switch deep C-states off for a trial, then measure at the low rate again.",
                        "cpupower idle-set -D 10",
                        "A latency as at the high rate confirms it. cpupower idle-set -E brings the states back.",
                        risk="The CPU takes more power meanwhile.",
                    ),
                ),
                confidence=0.75,
                results=(place, other),
                silences=("R18", "R17"),
            )
            break
