# SPDX-License-Identifier: Apache-2.0
"""Guests, volumes of clouds, and encryption."""

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
    reads_only,
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
CRYPT_CHANGE = re.compile(
    r"cryptsetup (refresh|luksFormat|reencrypt|open)|no_(read|write)_workqueue", re.IGNORECASE
)
GUEST_CHANGE = re.compile(r"\bqm set\b|iothread|virtio-scsi|io_uring|virsh|cache=", re.IGNORECASE)
CRYPT_NAME = re.compile(r"crypt|luks|/dev/mapper/(?!vg|.*-lv)", re.IGNORECASE)
GUEST_NAME = re.compile(r"guest|\bvm\b|inside|/dev/vd|virtio", re.IGNORECASE)
HOST_NAME = re.compile(r"host|hypervisor|proxmox|bare", re.IGNORECASE)

AES_INSTRUCTIONS = NextStep(
    "See whether AES instructions are there and used.",
    "grep -m1 -o aes /proc/cpuinfo; grep -A3 aesni /proc/crypto",
    "Without them: cpu type host for a guest, or xchacha12,aes-adiantum.",
)


@rule("R56", "Encryption that costs more than the cipher", Stage.LAYOUT)
def encryption(evidence: Evidence) -> Iterator[Diagnosis]:
    """A run on dm-crypt beside one on the raw disk, or at the rate of the cipher."""
    encrypted = any(f.name.startswith("crypt.") for f in evidence.facts)
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
        yield _crypt_diagnosis(evidence, pair)
        return
    for index, result in tests(evidence):
        benchmark = _cipher_rate(evidence, result)
        core = float(benchmark.value) if benchmark else None
        if (
            core
            and benchmark
            and result.rate
            and encrypted
            and CRYPT_NAME.search(_name(result))
            and core < NO_AES
            and result.rate >= 0.6 * core
        ):
            yield Diagnosis(
                Verdict.LIMIT,
                f"Encryption is the limit: {rate(result.rate)} is about what one core {_cipher_verb(result)} "
                f"({rate(core)} by "
                "cryptsetup "
                "benchmark). The CPU does not use AES instructions.",
                "",
                (
                    Proof(headline_text(result), at(result.headline())),
                    Proof(f"{benchmark.subject}: {rate(core)}", at(benchmark.line)),
                ),
                ("A guest to which the host does not pass the CPU's flags on.",),
                (AES_INSTRUCTIONS,),
                confidence=0.8,
                results=(index,),
                silences=("R53",),
            )
            return


def _cipher_rate(evidence: Evidence, result: Result) -> Fact | None:
    """Fact of what one core does of the result's work by cryptsetup benchmark: it decrypts reads, encrypts writes.

    dm-crypt's own cipher comes first: aes-xts, with a key of 512 bits.
    """
    way = "decrypt" if reads_only(result) else "encrypt"
    facts = evidence.facts.with_name(f"crypt.benchmark_{way}")
    rates = [fact for fact in facts if not isinstance(fact.value, str)]
    words = ("aes", "xts", "512")
    return max(rates, key=lambda f: sum(word in f.subject.lower() for word in words), default=None)


def _cipher_verb(result: Result) -> str:
    return "decrypts" if reads_only(result) else "encrypts"


def _name(result: Result) -> str:
    """Words that tell where a test ran: its title, target and command."""
    return f"{result.title} {result.target} {result.command}"


def _crypt_pair(evidence: Evidence) -> tuple[int, Result, int, Result, float] | None:
    """A run on the raw disk and a slower one on its encrypted device."""
    for first, left, second, other, ratio in before_and_after(evidence):
        marks = [bool(CRYPT_NAME.search(_name(result))) for result in (left, other)]
        if marks == [False, True] and 1 / ratio >= CRYPT_COST:
            return first, left, second, other, 1 / ratio
        if marks == [True, False] and ratio >= CRYPT_COST:
            return second, other, first, left, ratio
    change = next(changed(evidence, CRYPT_CHANGE, CRYPT_COST), None)
    if change is not None and change[4] > 1:
        return change[2], change[3], change[0], change[1], change[4]
    return None


def _crypt_diagnosis(
    evidence: Evidence,
    pair: tuple[int, Result, int, Result, float],
) -> Diagnosis:
    first, raw, second, crypt, ratio = pair
    benchmark = _cipher_rate(evidence, crypt)
    core = float(benchmark.value) if benchmark else None
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
                f"{rate(crypt.rate)} is {share(used or 0)} of {rate(core)}, which one core "
                f"{_cipher_verb(crypt)} by cryptsetup benchmark",
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
    likely = "most likely" if used is None else "not the cipher, but"
    queues = f"{likely} dm-crypt's work queues (kcryptd)"
    cause = (
        "the cipher itself: one core's rate is reached"
        if slow_cipher
        else f"{queues}, to which each request is handed and back"
        + (f", on sectors of {float(str(sector.value)):.0f} B" if small and sector else "")
    )
    if flags and not slow_cipher:
        cause = "dm-crypt, though its work queues are bypassed: " + (
            "sectors of 512 B" if small else "the CPU's time per request"
        )
    return Diagnosis(
        Verdict.LIMIT,
        f"dm-crypt leaves {headline_text(crypt)} of {headline_text(raw)} ({times_text(ratio)} apart): {cause}.",
        "dm-crypt cannot be faster than the CPU's cipher."
        if slow_cipher
        else "On fast devices the switch to another thread costs more than AES does.",
        tuple(proof for proof in proofs if proof.text),
        ("A CPU without AES instructions, or one core that is full.",),
        (AES_INSTRUCTIONS,)
        if slow_cipher
        else (
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
            Verdict.LIMIT,
            f"The first pass reads {headline_text(before)} and the second {headline_text(after)} "
            f"({times_text(ratio)}): the volume "
            "comes from a snapshot, and each block is loaded at its first read (lazy loading).",
            "The first figure is right, and it is that of the snapshot's store and not of the volume.",
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
    matches = []
    buses = [str(f.value) for f in evidence.facts.with_name("vm.bus")]
    for fact in evidence.facts:
        value = str(fact.value).lower()
        if fact.name == "vm.bus" and value in ("ide", "sata"):
            matches.append((fact, f"bus {value}"))
        elif (
            fact.name == "vm.controller"
            and value.startswith(("lsi", "megasas", "pvscsi"))
            and "virtio" not in buses
        ):
            matches.append((fact, f"controller {value}"))
        elif fact.name == "vm.iothread" and fact.value is False:
            matches.append((fact, "no I/O thread (iothread)"))
        elif fact.name == "vm.aio" and value == "threads":
            matches.append((fact, "aio=threads"))
        elif fact.name == "vm.cache" and value in ("writethrough", "directsync"):
            matches.append((fact, f"cache={value}"))
    return matches


def _guest_pair(evidence: Evidence) -> tuple[int, Result, int, Result, float] | None:
    """A run in the guest and a faster one of the same work on the host."""
    for first, left, second, other, ratio in before_and_after(evidence):
        guest = [bool(GUEST_NAME.search(_context(evidence, result))) for result in (left, other)]
        host = [bool(HOST_NAME.search(_context(evidence, result))) for result in (left, other)]
        if (guest[0] or host[1]) and not (guest[1] and not host[1]) and ratio >= GUEST_COST:
            return first, left, second, other, ratio
        if (guest[1] or host[0]) and not (guest[0] and not host[0]) and 1 / ratio >= GUEST_COST:
            return second, other, first, left, 1 / ratio
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
