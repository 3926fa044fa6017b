# SPDX-License-Identifier: Apache-2.0
"""Guests, clouds, network mounts, encryption, and settings that are fast and not safe."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agents.context.model import Fact
from benchlab.analysis.formats import rate, share, times_text
from benchlab.diagnosis import media, wording
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

# docs/diagnosis.md R56, R60 and R59: the two runs are at least that many times apart
CRYPT_COST, GUEST_COST, FIRST_PASS = 1.6, 2.0, 3.0
# share of what one core encrypts, below which the cipher is not the limit
CIPHER_SHARE = 0.5
# B/s of cryptsetup benchmark below which the CPU has no AES instructions
NO_AES = 500e6
# share of the CPU time that a host takes away: R61
STEAL = 0.05
# s of a synced write over a network: below it is the network's own round trip
SLOW_REMOTE = 0.002
# Durable writes a second that no medium without a protected cache makes: R29
BELIEVABLE_SYNC = 2000.0

SYNC_OFF = re.compile(r"zfs set sync=disabled (\S+)")
SYNC_CHANGE = re.compile(r"sync=(disabled|standard|always)|nobarrier|barrier=|exportfs|async")
CRYPT_CHANGE = re.compile(
    r"cryptsetup (refresh|luksFormat|reencrypt|open)|no_(read|write)_workqueue", re.IGNORECASE
)
GUEST_CHANGE = re.compile(r"\bqm set\b|iothread|virtio-scsi|io_uring|virsh|cache=", re.IGNORECASE)
CRYPT_NAME = re.compile(r"crypt|luks|/dev/mapper/(?!vg|.*-lv)", re.IGNORECASE)
GUEST_NAME = re.compile(r"guest|\bvm\b|inside|/dev/vd|virtio", re.IGNORECASE)
HOST_NAME = re.compile(r"host|hypervisor|proxmox|bare", re.IGNORECASE)


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
            silences=("R23", "R22", "R64"),
        )
        return


def _protocol_pair(evidence: Evidence) -> tuple[int, Result, int, Result, float] | None:
    """The same writes over NFS and, faster, over iSCSI."""
    for first, one, second, other, ratio in before_and_after(evidence):
        protocols = [_protocol(evidence, result) for result in (one, other)]
        if one.writes and protocols == ["nfs", "iscsi"] and ratio >= FIRST_PASS:
            return first, one, second, other, ratio
        if one.writes and protocols == ["iscsi", "nfs"] and 1 / ratio >= FIRST_PASS:
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


@rule("R56", "Encryption that costs more than the cipher", Stage.LAYOUT)
def encryption(evidence: Evidence) -> Iterator[Diagnosis]:
    """A run on dm-crypt beside one on the raw disk, or at the rate of the cipher."""
    encrypted = any(f.name.startswith("crypt.") for f in evidence.facts)
    benchmarks = [
        f
        for name in ("crypt.benchmark_decrypt", "crypt.benchmark_encrypt")
        for f in evidence.facts.with_name(name)
        if not isinstance(f.value, str)
    ]
    aes = [f for f in benchmarks if "aes" in f.subject.lower()] or benchmarks
    core = min((float(f.value) for f in aes), default=None)
    encrypted = encrypted or any(
        str(f.value) == "crypt" for f in evidence.facts.with_name("disk.type")
    )
    pair = _crypt_pair(evidence)
    if pair is not None and (
        encrypted
        or any(
            "crypt" in _name(r).lower() or "luks" in _name(r).lower() for r in (pair[1], pair[3])
        )
    ):
        yield _crypt_diagnosis(evidence, pair, aes[0] if aes else None, core)
        return
    for index, result in tests(evidence):
        if (
            core
            and result.rate
            and encrypted
            and CRYPT_NAME.search(_name(result))
            and core < NO_AES
            and result.rate >= 0.6 * core
        ):
            yield Diagnosis(
                Verdict.LIMIT,
                f"Encryption is the limit: {rate(result.rate)} is about what one core encrypts ({rate(core)} by "
                "cryptsetup "
                "benchmark). The CPU does not use AES instructions.",
                "",
                (
                    Proof(headline_text(result), at(result.headline())),
                    Proof(f"{aes[0].subject}: {rate(core)}", at(aes[0].line)),
                ),
                ("A guest to which the host does not pass the CPU's flags on.",),
                (
                    NextStep(
                        "See whether AES instructions are there and used.",
                        "grep -m1 -o aes /proc/cpuinfo; grep -A3 aesni /proc/crypto",
                        "Without them: cpu type host for a guest, or xchacha12,aes-adiantum.",
                    ),
                ),
                confidence=0.8,
                results=(index,),
                silences=("R53",),
            )
            return


def _name(result: Result) -> str:
    """Words that tell where a test ran: its title, target and command."""
    return f"{result.title} {result.target} {result.command}"


def _crypt_pair(evidence: Evidence) -> tuple[int, Result, int, Result, float] | None:
    """A run on the raw disk and a slower one on its encrypted device."""
    for first, one, second, other, ratio in before_and_after(evidence):
        marks = [bool(CRYPT_NAME.search(_name(result))) for result in (one, other)]
        if marks == [False, True] and 1 / ratio >= CRYPT_COST:
            return first, one, second, other, 1 / ratio
        if marks == [True, False] and ratio >= CRYPT_COST:
            return second, other, first, one, ratio
    change = next(changed(evidence, CRYPT_CHANGE, CRYPT_COST), None)
    if change is not None and change[4] > 1:
        return change[2], change[3], change[0], change[1], change[4]
    return None


def _crypt_diagnosis(
    evidence: Evidence,
    pair: tuple[int, Result, int, Result, float],
    benchmark: Fact | None,
    core: float | None,
) -> Diagnosis:
    first, raw, second, crypt, ratio = pair
    used = crypt.rate / core if core and crypt.rate else None
    slow_cipher = used is not None and used >= CIPHER_SHARE
    flags = [f for f in evidence.facts.with_name("crypt.flags") if "workqueue" in str(f.value)]
    sector = next(
        (f for f in evidence.facts.with_name("crypt.sector") if not isinstance(f.value, str)), None
    )
    small = sector is not None and float(str(sector.value)) < 4096
    proofs = [
        Proof(
            f"{headline_text(raw)} raw, {headline_text(crypt)} encrypted: {times_text(ratio)}",
            at(raw.headline(), crypt.headline()),
        )
    ]
    if raw.latency and crypt.latency:
        proofs.append(
            Proof(
                f"mean latency {wording.seconds(raw.latency)} raw, {wording.seconds(crypt.latency)} encrypted",
                at(
                    raw.line("read.lat.mean") or raw.line("write.lat.mean"),
                    crypt.line("read.lat.mean") or crypt.line("write.lat.mean"),
                ),
            )
        )
    if core and crypt.rate and benchmark is not None:
        proofs.append(
            Proof(
                f"{rate(crypt.rate)} is {share(used or 0)} of {rate(core)}, which one core encrypts by "
                "cryptsetup benchmark",
                at(crypt.headline(), benchmark.line),
            )
        )
    if sector is not None:
        proofs.append(
            Proof(
                f"sector size {sector.value:.0f} B"
                if isinstance(sector.value, float | int)
                else "",
                at(sector.line),
            )
        )
    cause = (
        "the cipher itself: one core's rate is reached"
        if slow_cipher
        else "not the cipher, but dm-crypt's work queues (kcryptd), to which each request is handed and back"
        + (f", on sectors of {float(str(sector.value)):.0f} B" if small and sector else "")
    )
    if flags and not slow_cipher:
        cause = "dm-crypt, though its work queues are bypassed: " + (
            "sectors of 512 B" if small else "the CPU's time per request"
        )
    return Diagnosis(
        Verdict.LIMIT,
        f"dm-crypt leaves {headline_text(crypt)} of {headline_text(raw)} ({times_text(ratio)} apart): {cause}.",
        "On fast devices the switch to another thread costs more than AES does.",
        tuple(proof for proof in proofs if proof.text),
        ("A CPU without AES instructions, or one core that is full.",),
        (
            NextStep(
                "Bypass the work queues, and compare.",
                "cryptsetup refresh --perf-no_read_workqueue --perf-no_write_workqueue NAME",
                "Several times the IOPS at lower latency: the queues were the cost.",
                risk="It changes the open device until it is closed; it asks for the passphrase.",
            ),
            NextStep(
                "On a new device use 4096 B sectors; see whether AES-NI is in use.",
                "cryptsetup benchmark -c aes-xts -s 512; grep -A3 aesni /proc/crypto",
                "One core far above the run's rate: the cipher is not the limit.",
            ),
        ),
        confidence=0.9,
        results=(first, second),
        silences=("R18", "R52", "R53"),
    )


@rule("R59", "The first read of each block of a cloud volume", Stage.BELIEVABLE)
def first_touch(evidence: Evidence) -> Iterator[Diagnosis]:
    """A first pass over a cloud volume that is much slower than the second."""
    cloud = [f for f in evidence.facts.with_name("disk.model") if media.is_cloud_disk(str(f.value))]
    cloud += evidence.facts.with_name("cloud.kind")
    for first, before, second, after, ratio in before_and_after(evidence) if cloud else ():
        reads = before.reads and not before.writes
        if (
            not reads
            or ratio < FIRST_PASS
            or before.direct is False
            or before.target != after.target
        ):
            continue
        yield Diagnosis(
            Verdict.DOUBT,
            f"The first pass reads {headline_text(before)} and the second {headline_text(after)} "
            f"({times_text(ratio)}): the volume "
            "comes from a snapshot, and each block is loaded at its first read (lazy loading).",
            "The first figure is of the snapshot's store and not of the volume.",
            (
                Proof(
                    f"{headline_text(before)}, then {headline_text(after)} of the same command",
                    at(before.headline(), after.headline()),
                ),
                Proof(f"{cloud[0].subject}: {cloud[0].value}", at(cloud[0].line)),
            ),
            ("A cache of the host between, or credits that came back.",),
            (
                NextStep(
                    "Read the whole volume once (initialise it), then measure; or create it with fast snapshot "
                    "restore.",
                    f"fio --name=init --filename={before.target or '/dev/nvme1n1'} --readonly --rw=read --bs=1M "
                    "--iodepth=32 "
                    "--ioengine=libaio --direct=1",
                    "Later runs are alike and as fast as the second.",
                ),
            ),
            confidence=0.85,
            results=(first, second),
            silences=("R18", "R13", "R57", "R58", "R01"),
        )
        return


@rule("R60", "A guest's disk that is slower than the host's", Stage.LAYOUT)
def guest_stack(evidence: Evidence) -> Iterator[Diagnosis]:
    """A guest far below its host, by the bus, controller or thread of its virtual disk."""
    facts = _guest_settings(evidence)
    pair = _guest_pair(evidence)
    change = next((p for p in changed(evidence, GUEST_CHANGE, 1.5) if p[4] > 1), None)
    if not any(f.name.startswith("vm.") for f in evidence.facts):
        return
    settings = ", ".join(words for _, words in facts)
    proofs = [Proof(words, at(fact.line)) for fact, words in facts]
    steps = (
        NextStep(
            "Give the disk virtio-scsi-single with an I/O thread, and io_uring or native AIO without a host cache.",
            "qm set VMID --scsihw virtio-scsi-single --scsi0 STORAGE:VOLUME,iothread=1,aio=io_uring,cache=none",
            "The guest's rate at depth comes near the host's. If not, its CPU or a nested host is the limit.",
            risk="The guest must be stopped, and needs a driver for virtio before its boot disk is changed.",
        ),
    )
    both = pair or (change[:5] if change is not None else None)
    if both is not None:
        first, slow, second, quick, ratio = both
        told = f" ({settings})" if settings else ""
        where = (
            "the guest does {} and the host {}"
            if pair
            else "{} before the change of the virtual disk and {} after it"
        )
        yield Diagnosis(
            Verdict.LIMIT,
            f"The virtual disk's stack costs {times_text(ratio)}: "
            f"{where.format(headline_text(slow), headline_text(quick))}{told}.",
            "An emulated bus or a single main loop of the hypervisor handles each request in turn.",
            (
                Proof(
                    f"{headline_text(slow)} and {headline_text(quick)}",
                    at(slow.headline(), quick.headline()),
                ),
                *proofs,
            ),
            ("Nested virtualisation, or a guest that lacks CPU time (steal).",),
            steps,
            confidence=0.85 if settings else 0.7,
            results=(first, second),
            silences=("R18", "R52"),
        )
        return
    bad = [(f, words) for f, words in facts if f.name in ("vm.bus", "vm.controller")]
    shown = next(((i, r) for i, r in tests(evidence)), None)
    if bad and shown is not None:
        index, result = shown
        yield Diagnosis(
            Verdict.LIMIT,
            f"The guest's disk is emulated ({settings}): {headline_text(result)} is what that bus lets through.",
            "IDE and SATA in a guest are emulated register by register, with one request or one thread at a time.",
            (*proofs, Proof(headline_text(result), at(result.headline()))),
            ("The host's storage itself: run the same test on the host.",),
            steps,
            confidence=0.7,
            results=(index,),
        )


def _guest_settings(evidence: Evidence) -> list[tuple[Fact, str]]:
    """Settings of the virtual disk that cost I/O, with words for each."""
    found = []
    buses = [str(f.value) for f in evidence.facts.with_name("vm.bus")]
    for fact in evidence.facts:
        value = str(fact.value).lower()
        if fact.name == "vm.bus" and value in ("ide", "sata"):
            found.append((fact, f"bus {value}"))
        elif (
            fact.name == "vm.controller"
            and value.startswith(("lsi", "megasas", "pvscsi"))
            and "virtio" not in buses
        ):
            found.append((fact, f"controller {value}"))
        elif fact.name == "vm.iothread" and fact.value is False:
            found.append((fact, "no I/O thread (iothread)"))
        elif fact.name == "vm.aio" and value == "threads":
            found.append((fact, "aio=threads"))
        elif fact.name == "vm.cache" and value in ("writethrough", "directsync"):
            found.append((fact, f"cache={value}"))
    return found


def _guest_pair(evidence: Evidence) -> tuple[int, Result, int, Result, float] | None:
    """A run in the guest and a faster one of the same work on the host."""
    for first, one, second, other, ratio in before_and_after(evidence):
        guest = [bool(GUEST_NAME.search(_context(evidence, result))) for result in (one, other)]
        host = [bool(HOST_NAME.search(_context(evidence, result))) for result in (one, other)]
        if (guest[0] or host[1]) and not (guest[1] and not host[1]) and ratio >= GUEST_COST:
            return first, one, second, other, ratio
        if (guest[1] or host[0]) and not (guest[0] and not host[0]) and 1 / ratio >= GUEST_COST:
            return second, other, first, one, 1 / ratio
    return None


def _context(evidence: Evidence, result: Result) -> str:
    """The test's command, and the role or the line above it by which people say where it ran."""
    roles = [f for f in evidence.facts if f.name == "host.role" and f.line <= result.first]
    if roles:
        return f"{_name(result)} {roles[-1].value}"
    above = range(max(result.first - 3, 1), result.first + 1)
    return " ".join([_name(result), *(evidence.quote(line) for line in above)])


@rule("R61", "CPU time that the host takes away", Stage.DISTURBED)
def steal(evidence: Evidence) -> Iterator[Diagnosis]:
    """A guest whose CPU time goes to others while it measures."""
    for index, result in enumerate(evidence.results):
        value = result.number("cpu.steal")
        if value is None or value < STEAL:
            continue
        shown = next((r for _, r in tests(evidence)), None)
        yield Diagnosis(
            Verdict.LIMIT,
            f"The host takes {share(value)} of this guest's CPU time away (%steal): I/O waits for the CPU, and "
            "figures change from "
            "hour to hour" + (f" ({headline_text(shown)})." if shown else "."),
            "Neighbours on the same host, or a CPU limit of the guest, use that time.",
            (
                Proof(
                    f"%steal {100 * value:.1f}",
                    at(_steal_line(evidence, result) or result.line("cpu.steal") or result.first),
                ),
            ),
            ("A limit on the guest's CPU that somebody set.",),
            (
                NextStep(
                    "Measure at another hour or on another host, with the CPU watched.",
                    "iostat -xyc 5; vmstat 5",
                    "Without steal the latency falls: neighbours were the cause.",
                ),
            ),
            confidence=0.8,
            results=(index,),
        )
        return


def _steal_line(evidence: Evidence, result: Result) -> int:
    """Line of the first row of CPU shares."""
    lines = range(result.first, result.last + 1)
    heads = (line for line in lines if "%steal" in evidence.quote(line))
    return next((line + 1 for line in heads), 0)
