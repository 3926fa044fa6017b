# SPDX-License-Identifier: Apache-2.0
"""The answer to "why is it slow": at most three diagnoses first, the rest behind them, or "nothing unusual"."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from agents.contracts import Unit
from benchlab.analysis.formats import join_names, times_text
from benchlab.diagnosis.evidence import Evidence, Result
from benchlab.diagnosis.limits import (
    durable_write,
    fault_lines,
    headline_figure,
    low_figures,
    supporting_proofs,
)
from benchlab.diagnosis.model import (
    Diagnosis,
    NextStep,
    Proof,
    Rule,
    Stage,
    Verdict,
    all_rules,
)
from benchlab.diagnosis.steps import own_paths, without_unnamed_risks
from benchlab.diagnosis.wording import edit_command, ops, per_second, rate, seconds

log = logging.getLogger(__name__)

# diagnoses that are shown first
MAX_SHOWN = 3
# rates of like results that are this far apart need an explanation
LEAST_APART = 1.5
# characters of a result's title in a sentence
TITLE = 40
# options that name a result or its target
NAMES = ("name", "filename", "directory", "of", "if", "volume")
# id of the answer that nothing is wrong
NOTHING_WRONG = "R00"


@dataclass(frozen=True, slots=True)
class Answer:
    """`shown` comes first, `folded` behind it; both are empty where nothing is unusual.

    `checked`: labels of the rules that were applied. `readable`: results that the evidence holds.
    """

    shown: tuple[Diagnosis, ...]
    folded: tuple[Diagnosis, ...]
    checked: tuple[str, ...]
    readable: int

    @property
    def nothing_unusual(self) -> bool:
        """True where figures were read and no diagnosis doubts or limits them."""
        diagnoses = (*self.shown, *self.folded)
        return bool(self.readable) and all(d.verdict == Verdict.FINE for d in diagnoses)


def diagnose(evidence: Evidence) -> Answer:
    """Apply every rule. Pure; a rule that fails is logged and costs only its own diagnosis."""
    diagnoses = [diagnosis for rule in all_rules().values() for diagnosis in _apply(rule, evidence)]
    own = own_paths(evidence)
    ranked = [without_unnamed_risks(d, own) for d in rank(told_once(diagnoses, evidence))]
    readable = sum(bool(result.metrics or result.series) for result in evidence.results)
    if not ranked and not evidence.results:
        ranked = [*state_only(evidence)]
    if not ranked and readable:
        ranked = [unexplained(evidence) or nothing_wrong(evidence)]
    return Answer(
        tuple(ranked[:MAX_SHOWN]),
        tuple(ranked[MAX_SHOWN:]),
        tuple(rule.label for rule in all_rules().values()),
        readable,
    )


def nothing_wrong(evidence: Evidence) -> Diagnosis:
    """The answer where figures were read and no rule doubts or limits them."""
    figures = [proof for result in evidence.results if (proof := _figures(result))]
    fio = [test for test in evidence.tests if test.kind == "fio"]
    return Diagnosis(
        Verdict.FINE,
        "Nothing unusual: the figures agree with each other, and no known cause of false or low figures fits them.",
        f"BenchLab looked for {len(all_rules())} causes, which the documentation lists.{_unknown_medium(evidence)}",
        (*figures[:MAX_SHOWN], *supporting_proofs(evidence)),
        ("A cause that leaves no trace in these lines, such as other load on the host.",),
        (
            NextStep(
                "If you expected more, measure at several depths and watch the disks meanwhile.",
                _deeper(fio[0]) if fio else "iostat -xy 5",
                "IOPS that grow with the depth are not at the storage's limit yet. "
                "Lines of lsblk beside the output tell what such a disk can do.",
                {"iodepth": [1, 4, 32]},
            ),
        ),
        confidence=0.5,
        rule=NOTHING_WRONG,
        label="nothing unusual",
    )


# facts that tell how an array, a pool or a volume is
STATES = (
    "md.level",
    "md.members",
    "md.bitmap",
    "pool.health",
    "pool.capacity",
    "pool.vdevs",
    "lv.type",
)


def state_only(evidence: Evidence) -> Iterator[Diagnosis]:
    """The answer to lines that tell how the storage is, and not how fast."""
    facts = [fact for fact in evidence.facts if fact.name in STATES]
    if not facts or next(fault_lines(evidence), None):
        return
    subjects = list(dict.fromkeys(fact.subject for fact in facts))
    shown = [
        Proof(f"{fact.subject}: {fact.name.partition('.')[2]} {fact.value}.", (fact.line,))
        for fact in facts
        if fact.subject == subjects[0] and isinstance(fact.value, str)
    ]
    yield Diagnosis(
        Verdict.FINE,
        f"{join_names(tuple(subjects[:MAX_SHOWN]))}: these lines show no missing member, fault, resync or scrub. "
        "They do not tell how fast it is.",
        "Whether it is slow takes a measurement, or what the disks do while it feels slow.",
        tuple(shown[:MAX_SHOWN]),
        ("A layout that does not suit the load: parity under small writes, for example.",),
        (
            NextStep(
                "Watch the disks while it is slow, and paste that below these lines.",
                "iostat -xy 5",
                "A member that waits longer than the others, or reads while you only write, names the cause.",
            ),
        ),
        confidence=0.5,
        rule=NOTHING_WRONG,
        label="the state alone",
    )


def _unknown_medium(evidence: Evidence) -> str:
    """A caveat where no line says what the storage is: then low figures may be all that it can do, or not."""
    about = ("disk.model", "disk.rotational", "disk.transport", "pool.vdevs", "md.level", "lv.type")
    if any(fact.name in about for fact in evidence.facts):
        return ""
    return " No line says what the storage is, so whether it should do more cannot be told: paste lsblk too."


def _deeper(result: Result) -> str:
    """fio's command with a depth that its engine keeps: one that waits for each I/O keeps none."""
    engine = {"ioengine": "libaio"} if result.blocking else {}
    depth = result.options.get("iodepth")
    deeper = max(32, 4 * depth) if isinstance(depth, int) and not result.blocking else 32
    return edit_command(result, iodepth=min(deeper, 256), direct=1, **engine)


def unexplained(evidence: Evidence) -> Diagnosis | None:
    """The answer where something is wrong that no rule explains; None where nothing is."""
    fault = next(fault_lines(evidence), None)
    if fault is not None:
        return _without_cause(
            f'Line {fault} tells of a fault: "{evidence.quote(fault)[:120]}". No known cause fits the figures, but '
            "they are not those of healthy storage.",
            (Proof("A fault that the system or a tool reports.", (fault,)),),
            NextStep(
                "Mend the fault first, and paste what the kernel says about it.",
                "dmesg -T | tail -50",
                "No new lines during a test, and then the same figures, mean that the fault is not the cause.",
            ),
        )
    low = next(low_figures(evidence), None)
    if low is not None:
        place, text, lines = low
        return _without_cause(
            f"{text}, and these lines do not show why.",
            (Proof(f"{text}.", lines),),
            NextStep(
                "Watch the disk during the test, and paste that and the state of its layers: lsblk, /proc/mdstat, "
                "zpool status, smartctl -a.",
                "iostat -xy 5",
                "A long await at the disk itself means that the disk, its link or other load is slow; a short one, "
                "that a layer above it is.",
            ),
            (place,),
        )
    return unexplained_difference(evidence)


def _without_cause(
    claim: str, proofs: tuple[Proof, ...], step: NextStep, results: tuple[int, ...] = ()
) -> Diagnosis:
    return Diagnosis(
        Verdict.DOUBT,
        claim,
        "",
        proofs,
        ("Other load on the host, which leaves no trace in these lines.",),
        (step,),
        confidence=0.5,
        results=results,
        rule=NOTHING_WRONG,
        label="no known cause",
    )


def unexplained_difference(evidence: Evidence) -> Diagnosis | None:
    """The answer where like results are far apart and no rule says why; None where none are."""
    pairs = [
        (former, other)
        for (_, former), (_, other) in itertools.combinations(evidence.numbered_tests, 2)
        if _is_like(former, other) and _apart(former, other) >= LEAST_APART
    ]
    if not pairs:
        return None
    former, other = max(pairs, key=lambda pair: _apart(*pair))
    places = tuple(evidence.results.index(result) for result in (former, other))
    figures = [proof for result in (former, other) if (proof := _figures(result))]
    names = _short_titles(former, other)
    return Diagnosis(
        Verdict.DOUBT,
        f"{names[0]} and {names[1]} are {times_text(_apart(former, other))} apart, and "
        "what was pasted does "
        "not say why: no known cause fits. They are not repeats of one measurement.",
        "Something differs between them that these lines do not show: the layout, its state, or other load.",
        tuple(figures),
        (),
        (
            NextStep(
                "Run both again in turns, and paste what differs beside them: the commands, lsblk, and the state of "
                "the layout (/proc/mdstat, zpool status, lvs -a) before each.",
                "iostat -xy 5",
                "Members that are busy, or requests of another size, show where the time goes.",
            ),
        ),
        confidence=0.5,
        results=places,
        rule=NOTHING_WRONG,
        label="a difference without a known cause",
    )


def _short_titles(former: Result, other: Result) -> tuple[str, str]:
    """Beginnings of both titles, without the parts that they share where the beginnings are the same."""
    if former.title[:TITLE] != other.title[:TITLE]:
        return former.title[:TITLE], other.title[:TITLE]
    if former.title == other.title:
        name = former.title[:TITLE]
        return f"{name} (line {former.headline()})", f"{name} (line {other.headline()})"
    parts = former.title.split(", "), other.title.split(", ")
    while len(parts[0]) > 1 and len(parts[1]) > 1 and parts[0][0] == parts[1][0]:
        parts = parts[0][1:], parts[1][1:]
    return ", ".join(parts[0])[:TITLE], ", ".join(parts[1])[:TITLE]


def _is_like(former: Result, other: Result) -> bool:
    """True for results of one tool with the same options, but for their names and targets."""
    keys = [
        (
            *(result.kind, result.reads, result.writes, result.random, result.block),
            {name: value for name, value in result.options.items() if name not in NAMES},
        )
        for result in (former, other)
    ]
    return keys[0] == keys[1] and bool(_speed(former)) and bool(_speed(other))


def _apart(former: Result, other: Result) -> float:
    low, high = sorted((_speed(former) or 1.0, _speed(other) or 1.0))
    return high / low


def _speed(result: Result) -> float | None:
    """B/s, or the operations a second of a tool that prints no more: durable writes, if it timed them."""
    write = durable_write(result)
    return result.rate or result.operations or (write.rate if write else None)


def _figures(result: Result) -> Proof | None:
    """The result's main figure with its line; None where it has none."""
    if result.watches:
        return _watched_figures(result)
    operations, transfer, line = result.operations, result.rate, result.headline()
    durable = durable_write(result)
    if durable is not None and not transfer:
        return Proof(f"{durable.call}: {seconds(durable.took)} each.", (durable.line,))
    if not operations and not transfer:
        first = next(
            (m for m in result.metrics if m.value and m.line and m.unit == Unit.BYTES_PER_SECOND),
            None,
        )
        return Proof(f"{first.name}: {rate(first.value or 0)}.", (first.line,)) if first else None
    if not line:
        return None
    figures = " and ".join(
        [*([ops(operations)] if operations else []), *([rate(transfer)] if transfer else [])]
    )
    waits = f", {seconds(result.latency)} each" if result.latency else ""
    return Proof(f"{result.title[:60]}: {figures}{waits}.", (line,))


def _watched_figures(result: Result) -> Proof | None:
    """Load of the busiest device that a watcher saw; None where it saw none."""
    prefix = "zpool." if result.kind == "zpool_iostat" else ""
    names = [f"{prefix}{way}.bandwidth" for way in ("read", "write")]
    loads = [(sum(result.number(name, d) or 0 for name in names), d) for d in result.devices]
    load, device = max(loads, default=(0.0, ""))
    line = result.line(names[0], device) or result.line(names[1], device) or result.first
    return Proof(f"{device}: {rate(load)} read and written.", (line,)) if load and line else None


def told_once(diagnoses: Sequence[Diagnosis], evidence: Evidence) -> list[Diagnosis]:
    """The diagnoses with those of one rule and verdict joined: the one that explains most speaks for all results."""
    groups: dict[tuple[str, Verdict], list[Diagnosis]] = {}
    for diagnosis in diagnoses:
        groups.setdefault((diagnosis.rule, diagnosis.verdict), []).append(diagnosis)
    return [_joined(group, evidence) for group in groups.values()]


def _joined(group: Sequence[Diagnosis], evidence: Evidence) -> Diagnosis:
    first = max(group, key=lambda d: d.share * d.confidence)
    others = [d for d in group if d is not first]
    if not others:
        return first
    places = tuple(dict.fromkeys(place for d in (first, *others) for place in d.results))
    more = [place for place in places if place not in first.results]
    names = tuple(dict.fromkeys(_title_and_figure(evidence.results[place]) for place in more))
    proofs = first.proofs
    if names:
        lines = tuple(evidence.results[place].headline() for place in more[:MAX_SHOWN])
        text = f"The same holds for {len(more)} more: {join_names(names)}."
        proofs = (*proofs, Proof(text, tuple(line for line in lines if line)))
    return replace(first, proofs=proofs, results=places)


def _title_and_figure(result: Result) -> str:
    """ "pg_test_fsync (6,676/s)"."""
    write = durable_write(result)
    if write is not None and not result.rate:
        return f"{result.title[:TITLE]} ({per_second(write.rate)})"
    known = result.rate or result.operations
    return f"{result.title[:TITLE]} ({headline_figure(result)})" if known else result.title[:TITLE]


def _apply(rule: Rule, evidence: Evidence) -> Iterable[Diagnosis]:
    try:
        return [
            replace(diagnosis, rule=rule.id, label=rule.label, stage=rule.stage)
            for diagnosis in rule.check(evidence)
        ]
    except Exception:
        log.exception("rule %s", rule.id)
        return []


def rank(diagnoses: Sequence[Diagnosis]) -> list[Diagnosis]:
    """The diagnoses that are not silenced: doubts and limits by stage, then by what they explain; then what is fine."""
    audible: list[Diagnosis] = []
    for diagnosis in sorted(diagnoses, key=_rank_key):
        if not any(_silences(other, diagnosis) for other in audible):
            audible = [*(d for d in audible if not _silences(diagnosis, d)), diagnosis]
    return [d for d in audible if not any(_explains_away(other, d) for other in audible)]


def _silences(former: Diagnosis, other: Diagnosis) -> bool:
    """True where `one` says that it explains the same results better."""
    same = not former.results or not other.results or bool(set(former.results) & set(other.results))
    return former is not other and same and other.rule in former.silences


def _explains_away(former: Diagnosis, other: Diagnosis) -> bool:
    """True where the other's figures are not what they seem by `one`, or where `one` shows that not all is fine."""
    covered = bool(other.results) and set(other.results) <= set(former.results)
    if not covered or former.verdict == Verdict.FINE:
        return False
    if other.verdict == Verdict.FINE:
        return other.stage != Stage.NOTE
    doubts = former.verdict == Verdict.DOUBT and Stage.BELIEVABLE <= former.stage <= Stage.IN_FLIGHT
    return doubts and former.stage < other.stage < Stage.NOTE


def _rank_key(diagnosis: Diagnosis) -> tuple[bool, bool, int, float, str]:
    note = diagnosis.stage == Stage.NOTE
    weight = diagnosis.share * diagnosis.confidence
    return diagnosis.verdict == Verdict.FINE, note, diagnosis.stage, -weight, diagnosis.rule
