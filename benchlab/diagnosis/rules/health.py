# SPDX-License-Identifier: Apache-2.0
"""Disks and arrays that are not well: a missing member, bad sectors, and errors of links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agents.context.model import Fact
from benchlab.analysis.formats import join_names, rate
from benchlab.diagnosis.evidence import Evidence
from benchlab.diagnosis.loads import (
    VDEV,
    array_members,
    at,
    headline_text,
    tests,
    whole_disk,
)
from benchlab.diagnosis.model import Diagnosis, NextStep, Proof, Stage, Verdict, rule

# errors of a link that are no accident of one day
LEAST_LINK_ERRORS = 10
GOOD_STATES = ("ONLINE", "AVAIL", "INUSE", "in_sync", "active")


@rule("R68", "A degraded array or pool", Stage.DISTURBED)
def degraded(evidence: Evidence) -> Iterator[Diagnosis]:
    """Figures of an array or pool with a missing member."""
    facts = [fact for fact in evidence.facts.with_name("md.degraded") if fact.value is True]
    facts += [
        f
        for f in evidence.facts.with_name("pool.health")
        if str(f.value) in ("DEGRADED", "SUSPENDED")
    ]
    for fact in facts[:1] if evidence.results else ():
        action = evidence.facts.text(fact.subject, "md.sync_action")
        if (
            action in ("recovery", "resync")
            or evidence.facts.text(fact.subject, "pool.scan") == "resilver"
        ):
            continue
        bad = [f for f in evidence.facts.with_name("vdev.state") if str(f.value) not in GOOD_STATES]
        bad = [f for f in bad if not VDEV.fullmatch(f.subject) and f.subject != fact.subject]
        members = array_members(evidence, fact.subject)
        bad += [
            f
            for f in evidence.facts.with_name("disk.state")
            if f.subject in members and str(f.value) in ("faulty", "removed")
        ]
        pool = fact.name == "pool.health"
        yield Diagnosis(
            Verdict.LIMIT,
            f"{fact.subject} is degraded: {_missing_words(bad)}. {_read_words(evidence, fact.subject)}",
            "With parity each such read costs a read of every other member; a mirror reads from fewer sides. "
            "One more failure "
            "may lose the data.",
            (
                Proof(f"{fact.subject} degraded", at(fact.line)),
                *[Proof(f"{f.subject}: {f.value}", at(f.line)) for f in bad[:3]],
            ),
            ("The limit may be the same with all members: compare after the rebuild.",),
            (
                NextStep(
                    "Replace the missing member, wait for the rebuild, and measure again.",
                    f"zpool status -v {fact.subject}"
                    if pool
                    else f"mdadm --detail /dev/{fact.subject}",
                    "The rate of the whole array.",
                ),
            ),
            confidence=0.75,
        )


def _missing_words(bad: Sequence[Fact]) -> str:
    if not bad:
        return "a member is missing"
    names = join_names(tuple(dict.fromkeys(fact.subject for fact in bad)))
    return f"{names} {'is' if len(bad) == 1 else 'are'} {bad[0].value}"


def _read_words(evidence: Evidence, subject: str) -> str:
    """Sentence about reads of what the missing member held."""
    if evidence.facts.text(subject, "md.level") in ("raid1", "raid10"):
        return "Reads of its data come from fewer members."
    return "Reads of its data are computed from all others."


@rule("R69", "A disk that fails by SMART", Stage.DISTURBED)
def failing_disk(evidence: Evidence) -> Iterator[Diagnosis]:
    """A disk whose SMART data tells of bad sectors, beside figures."""
    bad = bad_health(evidence)
    if not bad or not evidence.results:
        return
    disk = bad[0].subject
    own = [fact for fact in bad if fact.subject == disk]
    texts = [_fault_text(fact) for fact in own]
    logged = all(fact.name == "disk.io_errors" for fact in own)
    shown = next(((index, result) for index, result in tests(evidence)), None)
    yield Diagnosis(
        Verdict.LIMIT,
        f"{disk} is failing: {join_names(tuple(texts))}{'' if logged else ' by SMART'}. A disk "
        "repeats reads of bad sectors for seconds, and the array waits.",
        "Replace it before anything is measured."
        + (f" {headline_text(shown[1])} is the figure of a failing disk." if shown else ""),
        tuple(
            Proof(f"{disk}: {text}", at(fact.line)) for text, fact in zip(texts, own, strict=True)
        ),
        ("Old reallocated sectors that no longer grow may be harmless.",),
        (
            NextStep(
                "Run a long self-test, and look whether the counts grow.",
                f"smartctl -t long /dev/{disk}; smartctl -a /dev/{disk}",
                "Counts that grow, or a self-test that fails: replace the disk.",
                risk="A self-test slows the disk down for hours, and stresses one that fails: save its data first.",
            ),
        ),
        confidence=0.8,
        silences=("R47",),
    )


def _fault_text(fact: Fact) -> str:
    if fact.name == "disk.io_errors":
        return "I/O errors in the kernel's log"
    value = f"{fact.value:,.0f}" if isinstance(fact.value, float | int) else str(fact.value)
    return f"{fact.name.partition('.')[2].replace('_', ' ')} {value}"


def bad_health(evidence: Evidence) -> list[Fact]:
    """Facts that tell of a failing disk."""
    facts = [
        fact for fact in evidence.facts.with_name("disk.health") if str(fact.value) == "failed"
    ]
    facts += [fact for fact in evidence.facts.with_name("disk.io_errors") if fact.value is True]
    for name, least in (("disk.pending", 1), ("disk.media_errors", 1), ("disk.reallocated", 50)):
        for fact in evidence.facts.with_name(name):
            if not isinstance(fact.value, str) and float(fact.value) >= least:
                facts.append(fact)
    return facts


@rule("R70", "Errors of a link", Stage.DISTURBED)
def link_errors(evidence: Evidence) -> Iterator[Diagnosis]:
    """A disk whose link repeats transfers, or is reset."""
    resets = [fact for fact in evidence.facts.with_name("disk.resets") if fact.value is True]
    if resets and evidence.results:
        yield _resets(resets[0])
        return
    for fact in evidence.facts.with_name("disk.crc_errors") if evidence.results else ():
        if isinstance(fact.value, str) or float(fact.value) < LEAST_LINK_ERRORS:
            continue
        speed = evidence.facts.find(fact.subject, "disk.link_speed")
        yield Diagnosis(
            Verdict.LIMIT,
            f"The link of {fact.subject} has {float(fact.value):,.0f} CRC errors: transfers are repeated, and "
            "the link may have "
            "fallen to a lower speed.",
            "CRC errors come from the cable, the backplane or the port, seldom from the disk.",
            (
                Proof(f"{float(fact.value):,.0f} CRC errors", at(fact.line)),
                *(
                    [Proof(f"link speed {rate(float(speed.value))}", at(speed.line))]
                    if speed and not isinstance(speed.value, str)
                    else []
                ),
            ),
            ("The counter never falls: an old cable's errors remain after it was replaced.",),
            (
                NextStep(
                    "Replace the cable or change the slot, and look whether the counter grows during a test.",
                    f"smartctl -A /dev/{whole_disk(fact.subject)} | grep -i crc; dmesg | grep -i 'link\\|reset'",
                    "A counter that stands still: the errors are old.",
                ),
            ),
            confidence=0.7,
            results=(),
        )
        return


def _resets(fact: Fact) -> Diagnosis:
    return Diagnosis(
        Verdict.LIMIT,
        f"The kernel resets {fact.subject or 'a disk'} or its link: I/O waits for seconds until a request times out.",
        "Resets come from cables, ports, power, and USB bridges whose UAS mode does not work.",
        (
            Proof(
                f"resets or timeouts of {fact.subject or 'a disk'} in the kernel's log",
                at(fact.line),
            ),
        ),
        ("A failing disk is reset as well: read its SMART data.",),
        (
            NextStep(
                "Watch the kernel's log during a test, then change cable, port or power supply; for a USB "
                "bridge try it "
                "without UAS (usb-storage.quirks).",
                "dmesg -T | grep -iE 'reset|timeout|link|uas'",
                "No more lines, and no more pauses: the link was the cause.",
            ),
        ),
        confidence=0.85,
        silences=("R16",),
    )
