"""A plan as a person reads it before saying yes: a picture, the commands with marks, and what is lost. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from agents.contracts import Claim, Step
from agents.facts.model import HostFacts
from agents.plans.destroyed import Destroyed, what_is_destroyed
from agents.plans.stack import StackPlan
from agents.quote import shown
from benchlab.topologies import drawing

NODE = re.compile(r"/dev/[^\s'\",:;]+")
UUID = re.compile(r"\b(?:\w{8}-\w{4}-\w{4}-\w{4}-\w{12}|\w{6}(?:-\w{4}){5}-\w{6})\b")
ALIKE = 3  # so many blocks of commands that differ in the device only are folded into one line
LONGEST = 8  # commands of such a block


@dataclass(frozen=True, slots=True)
class Command:
    mark: str  # "-" destroys what was on a disk, "+" makes something that is undone later, "~" changes or waits
    text: str
    says: str
    argv: tuple[str, ...] = ()

    @property
    def css(self) -> str:
        return {"+": "add", "~": "change", "-": "remove"}[self.mark]


@dataclass(frozen=True, slots=True)
class Commands:
    """A run of commands. With `says` they are one block for each of several devices, and are shown on demand."""

    rows: tuple[Command, ...]
    first: int  # the number of its first command
    says: tuple[Command, ...] = ()  # the block in general words
    times: int = 0

    @property
    def span(self) -> str:
        return f"{self.first} to {self.first + len(self.rows) - 1}"


@dataclass(frozen=True, slots=True)
class Chapter:
    """What is done at one time. `title` is empty for the building itself."""

    title: str
    parts: list[Commands]


@dataclass(frozen=True, slots=True)
class Planned:
    commands: list[Command] = field(default_factory=list)
    chapters: list[Chapter] = field(default_factory=list)
    destroyed: list[Destroyed] = field(default_factory=list)
    picture: drawing.Drawing | None = None


def read(plan: StackPlan, facts: HostFacts | None) -> Planned:
    """`facts`: those that the plan was made from; None when they are gone, which hides no disk.

    Raises AgentError for a plan with a layer that there is no driver for any more.
    """
    lost = what_is_destroyed(plan, facts) if facts else [_unknown(claim) for claim in plan.claims]
    rows = commands(plan.steps)
    return Planned(rows, _chapters(plan, rows), lost, drawing.draw(plan, facts))


def _chapters(plan: StackPlan, rows: Sequence[Command]) -> list[Chapter]:
    """The building, then each stage: what grows, and what follows when the kernel is through."""
    counts = [("", len(rows) - sum(len(stage.steps) for stage in plan.stages))]
    for number, stage in enumerate(plan.stages, start=1):
        counts.append((f"Stage {number}: it grows", len(stage.grow)))
        counts.append((f"Stage {number}: what stands on it follows", len(stage.follow)))
    found, at = [], 0
    for title, count in counts:
        if count:
            found.append(Chapter(title, fold(rows[at : at + count], at)))
        at += count
    return found


def _unknown(claim: Claim) -> Destroyed:
    return Destroyed(
        claim.node, claim.identity, claim.model, "", claim.size, ("not known any more",)
    )


def commands(steps: Iterable[Step]) -> list[Command]:
    """The first step that claims a disk destroys what was on it; the later ones meet only what we made ourselves."""
    lost: set[str] = set()
    found = []
    for step in steps:
        claimed = {claim.identity for claim in step.destroys}
        mark = "-" if claimed - lost else "+" if step.undo else "~"
        found.append(Command(mark, shown(step.argv), step.says, tuple(map(str, step.argv))))
        lost |= claimed
    return found


def fold(rows: Sequence[Command], before: int = 0) -> list[Commands]:
    """The same commands in the same order, repetitions for one device after the other as one.

    `before` commands come before the first of these.
    """
    found: list[Commands] = []
    start = at = 0  # the rows from `start` to `at` are shown as they are
    while at < len(rows):
        length, times = _repeats(rows, at)
        if times < ALIKE:
            at += 1
            continue
        if start < at:
            found.append(Commands(tuple(rows[start:at]), before + start + 1))
        block, end = rows[at : at + length], at + length * times
        found.append(Commands(tuple(rows[at:end]), before + at + 1, _general(block), times))
        start = at = end
    return [*found, Commands(tuple(rows[start:]), before + start + 1)] if start < at else found


def _repeats(rows: Sequence[Command], at: int) -> tuple[int, int]:
    """Length of the block that begins here, and how often it comes: the one that covers most, the shortest of those."""
    best = (1, 1)
    for length in range(1, LONGEST + 1):
        block = rows[at : at + length]
        if not all(NODE.search(row.text) for row in block):
            break
        first = [_shape(row) for row in block]
        times = 1
        while [_shape(r) for r in rows[at + times * length : at + (times + 1) * length]] == first:
            times += 1
        if times >= ALIKE and times * length > best[0] * best[1]:
            best = (length, times)
    return best


def _shape(row: Command) -> tuple[str, str, str]:
    """What stays when devices, their UUIDs and numbers are taken away."""
    text = UUID.sub("UUID", NODE.sub("DEVICE", row.text))
    return row.mark, re.sub(r"\b\d+\b", "N", text), NODE.sub("DEVICE", row.says)


def _general(block: Sequence[Command]) -> tuple[Command, ...]:
    return tuple(Command(row.mark, row.text, NODE.sub("each", row.says)) for row in block)


def phrase(destroyed: Iterable[tuple[str, Destroyed]]) -> str:
    """What a person types to agree that these disks (host's name, disk) are lost; "" when none is."""
    lost = {(host, disk.identity) for host, disk in destroyed}
    if not lost:
        return ""
    hosts = ", ".join(sorted({host for host, _ in lost}))
    return f"destroy {len(lost)} disk{'s' if len(lost) > 1 else ''} on {hosts}"


def agreed(typed: str, wanted: str) -> bool:
    """Whether the phrase was typed; how it was spaced does not matter."""
    return " ".join(typed.split()) == " ".join(wanted.split())
