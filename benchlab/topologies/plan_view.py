# SPDX-License-Identifier: Apache-2.0
"""A plan as a person reads it before saying yes: a picture, marked commands, what is lost, and a script. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from agents.contracts import Claim, Secret, Step
from agents.drivers import protocols, registry
from agents.facts.model import HostFacts
from agents.plans import stack
from agents.plans.applied_part import Destroyed, what_is_destroyed
from agents.plans.stack import Placed, StackPlan
from agents.quote import command_line, format_command
from benchlab.topologies import plan_drawing

NODE = re.compile(r"/dev/[^\s'\",:;]+")
PHRASE = re.compile(r"destroy (\d+) disks? on (.+)")
UUID = re.compile(r"\b(?:\w{8}-\w{4}-\w{4}-\w{4}-\w{12}|\w{6}(?:-\w{4}){5}-\w{6})\b")
# so many blocks of commands that differ in the device only are folded into one line
MIN_REPEATS = 3
# commands of such a block
MAX_BLOCK = 8
# In the order of a summary: the class of the page's style, the sign, the word.
MARKS = {"+": ("add", "+", "make"), "~": ("change", "~", "change"), "-": ("remove", "−", "erase")}
TAKE_DOWN = "Take down: "


@dataclass(frozen=True, slots=True)
class Command:
    # "-" destroys what was on a disk, "+" makes something that is undone later, "~" changes or waits
    mark: str
    text: str
    says: str
    argv: tuple[str, ...] = ()
    # Of a teardown: what is done to the disks themselves when the layers are gone
    of_disks: bool = False

    @property
    def css(self) -> str:
        return MARKS[self.mark][0]

    @property
    def sign(self) -> str:
        """Sign as it is printed: a minus, not a hyphen."""
        return MARKS[self.mark][1]

    @property
    def verb(self) -> str:
        return MARKS[self.mark][2]


@dataclass(frozen=True, slots=True)
class Commands:
    """Consecutive commands. With `says` they are one block for each of several devices, and are shown on demand."""

    rows: tuple[Command, ...]
    # the block in general words
    says: tuple[Command, ...] = ()
    times: int = 0


@dataclass(frozen=True, slots=True)
class Chapter:
    """Commands that are run at one time. `title` is empty for the building itself."""

    title: str
    parts: list[Commands]


class LostDisk(NamedTuple):
    """Disk that is destroyed, with its host and the layouts that take it."""

    host: str
    disk: Destroyed
    layouts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanView:
    """Plan as a page shows it.

    `down`: what is taken down afterwards, in words; its commands are made from what is there then. `script`: all of it
    for a shell.

    `before_runs`: what is set before each run, in words; each run has one of these.
    """

    commands: list[Command] = field(default_factory=list)
    chapters: list[Chapter] = field(default_factory=list)
    destroyed: list[Destroyed] = field(default_factory=list)
    picture: plan_drawing.Drawing | None = None
    down: list[Command] = field(default_factory=list)
    before_runs: str = ""
    script: str = ""

    @property
    def mark_counts(self) -> list[tuple[Command, int]]:
        """One command of each mark that occurs, with the number of commands that have it."""
        commands = {row.mark: row for row in reversed(self.commands)}
        counts = Counter(row.mark for row in self.commands)
        return [(commands[mark], counts[mark]) for mark in MARKS if mark in commands]


def view_plan(plan: StackPlan, facts: HostFacts | None) -> PlanView:
    """View of a plan. `facts`: those that the plan was made from; None when they are gone, which hides no disk.

    Raises AgentError for a plan with a layer that there is no driver for any more.
    """
    lost = (
        what_is_destroyed(plan, facts) if facts else [_unknown_disk(claim) for claim in plan.claims]
    )
    as_before = [step for setting in plan.swept.each for step in setting.as_before]
    rows = plan_commands([*plan.steps, *as_before])
    return PlanView(
        rows,
        _chapters(plan, rows),
        lost,
        plan_drawing.draw_plan(plan, facts),
        [*_teardown_commands(plan, lost)],
        _before_runs(plan),
        plan_script(plan, (disk.node for disk in lost)),
    )


def _before_runs(plan: StackPlan) -> str:
    """Words such as "set the I/O scheduler of sda, sdb to none / mq-deadline"."""
    if not plan.swept.each:
        return ""
    nodes = ", ".join(claim.node.removeprefix("/dev/") for claim in plan.claims)
    return f"set the I/O scheduler of {nodes} to {' / '.join(plan.swept.schedulers)}"


def _teardown_commands(plan: StackPlan, lost: Sequence[Destroyed]) -> Iterator[Command]:
    """Commands that undo what was set for runs, and the layers, the top one first; then what is proven."""
    if plan.swept.each:
        where = " ".join(claim.node for claim in plan.claims)
        yield Command("~", where, "Restore the previous I/O scheduler")
    nodes = {disk.node for disk in lost}
    for layer in reversed(plan.layers_after(len(plan.stages))):
        gives, goes = layer.gives.mount or layer.gives.volume, _undo_text(layer)
        # a raw disk is what it was
        if gives not in nodes or not goes.startswith(TAKE_DOWN):
            yield Command("-", gives, goes)
    if lost:
        what, where = _disk_count(str(len(lost))), " ".join(disk.node for disk in lost)
        yield Command("-", where, f"Erase what is left on {what}", of_disks=True)
        yield Command("~", where, f"Read the host again: prove {what} blank", of_disks=True)


def _undo_text(layer: Placed) -> str:
    label = registry.layer(layer.spec.kind).LABEL
    if stack.manual_task(layer):
        return f"{label}: a person undoes it"
    if registry.implements(layer.spec.kind, protocols.RestoresSettings):
        return f"{label}: restore the previous settings"
    return f"{TAKE_DOWN}{label}"


def _chapters(plan: StackPlan, rows: Sequence[Command]) -> list[Chapter]:
    """The building, then each stage: what grows, and what follows when the kernel is through; then what is set."""
    counts = [("", sum(len(layer.steps) for layer in plan.layers))]
    for number, stage in enumerate(plan.stages, start=1):
        counts.append((f"Stage {number}: it grows", len(stage.grow)))
        counts.append((f"Stage {number}: what stands on it follows", len(stage.follow)))
    for at, title in enumerate(_scheduler_titles(plan)):
        some = [setting for setting in plan.swept.each if setting.stage == at]
        counts.append((title, sum(len(setting.steps) for setting in some)))
    same = sum(len(setting.as_before) for setting in plan.swept.each)
    counts.append(("With the scheduler that was there before, also", same))
    chapters, at = [], 0
    for title, count in counts:
        if count:
            chapters.append(Chapter(title, fold_commands(rows[at : at + count])))
        at += count
    return chapters


def _scheduler_titles(plan: StackPlan) -> list[str]:
    """Title of each stage, from the layout as built on, that says when the commands before runs are run."""
    title = "Before each run, the one that it asks for"
    later = [f"{title}, after growth {number}" for number in range(1, len(plan.stages) + 1)]
    return [f"{title}, as built" if later else title, *later]


def _unknown_disk(claim: Claim) -> Destroyed:
    return Destroyed(
        claim.node, claim.identity, claim.model, "", claim.size, ("not known any more",)
    )


def plan_commands(steps: Iterable[Step]) -> list[Command]:
    """Marked commands. The first step that claims a disk destroys what was on it; later ones meet only our own data."""
    lost: set[str] = set()
    rows = []
    for step in steps:
        claimed = {claim.identity for claim in step.destroys}
        mark = "-" if claimed - lost else "+" if step.undo else "~"
        rows.append(Command(mark, format_command(step.argv), step.says, tuple(map(str, step.argv))))
        lost |= claimed
    return rows


def fold_commands(rows: Sequence[Command]) -> list[Commands]:
    """Fold commands that repeat for one device after the other into one. The order stays."""
    blocks: list[Commands] = []
    # the rows from `start` to `at` are shown as they are
    start = at = 0
    while at < len(rows):
        length, times = _repeats(rows, at)
        if times < MIN_REPEATS:
            at += 1
            continue
        if start < at:
            blocks.append(Commands(tuple(rows[start:at])))
        block, end = rows[at : at + length], at + length * times
        blocks.append(Commands(tuple(rows[at:end]), _general(block), times))
        start = at = end
    return [*blocks, Commands(tuple(rows[start:]))] if start < at else blocks


def _repeats(rows: Sequence[Command], at: int) -> tuple[int, int]:
    """Length and repetitions of the block that begins here: the one that covers most, the shortest of those."""
    best = (1, 1)
    for length in range(1, MAX_BLOCK + 1):
        block = rows[at : at + length]
        if not all(NODE.search(row.text) for row in block):
            break
        first = [_shape(row) for row in block]
        times = 1
        while [_shape(r) for r in rows[at + times * length : at + (times + 1) * length]] == first:
            times += 1
        if times >= MIN_REPEATS and times * length > best[0] * best[1]:
            best = (length, times)
    return best


def _shape(row: Command) -> tuple[str, str, str]:
    """Shape of a command: what stays when devices, their UUIDs and numbers are taken away."""
    text = UUID.sub("UUID", NODE.sub("DEVICE", row.text))
    return row.mark, re.sub(r"\b\d+\b", "N", text), NODE.sub("DEVICE", row.says)


def _general(block: Sequence[Command]) -> tuple[Command, ...]:
    return tuple(Command(row.mark, row.text, NODE.sub("each", row.says)) for row in block)


def destroy_phrase(destroyed: Iterable[tuple[str, Destroyed] | LostDisk]) -> str:
    """Phrase that a person types to agree that these disks (host's name, disk) are lost; "" when none is."""
    lost = {(entry[0], entry[1].identity) for entry in destroyed}
    if not lost:
        return ""
    hosts = ", ".join(sorted({host for host, _ in lost}))
    return f"destroy {_disk_count(str(len(lost)))} on {hosts}"


def is_agreed(typed: str, expected: str) -> bool:
    """True when the phrase was typed; how it was spaced does not matter."""
    return _normalize_spaces(typed) == _normalize_spaces(expected)


def agreement_error(typed: str, expected: str) -> str:
    """Error for a typed phrase that is not the expected one, for the page that asks for it."""
    typed_match, expected_match = (
        PHRASE.fullmatch(_normalize_spaces(typed)),
        PHRASE.fullmatch(_normalize_spaces(expected)),
    )
    if typed_match and expected_match and typed_match[1] != expected_match[1]:
        wrong = f"This says {_disk_count(typed_match[1])}. The plan destroys {expected_match[1]}."
    elif typed_match and expected_match and typed_match[2] != expected_match[2]:
        wrong = f"This says {typed_match[2]}. The disks are on {expected_match[2]}."
    else:
        wrong = f"Type “{expected}” to confirm."
    return f"Nothing was done. {wrong}"


def _disk_count(number: str) -> str:
    return f"{number} disk" + "s" * (number != "1")


def _normalize_spaces(text: str) -> str:
    return " ".join(text.split())


def merge_lost_disks(lost: Iterable[LostDisk]) -> list[LostDisk]:
    """Merge the entries of each disk into one that names all layouts that take it."""
    merged: dict[tuple[str, str], LostDisk] = {}
    for entry in lost:
        previous = merged.get((entry.host, entry.disk.identity), entry._replace(layouts=()))
        holds = tuple(dict.fromkeys((*previous.disk.holds, *entry.disk.holds)))
        merged[entry.host, entry.disk.identity] = LostDisk(
            entry.host, replace(previous.disk, holds=holds), (*previous.layouts, *entry.layouts)
        )
    return list(merged.values())


WARNING = "# Careful: this erases {disks}. BenchLab looks at the disks right before each command; a script does not."
BUILD_HEAD = """# For root, on that host. Nothing is done before you say: build
build() (
set -eu"""
TEARDOWN_HEAD = """
# Taken down, the top first. BenchLab makes the commands from what it finds on the host then, and proves the
# disks blank; what undoes single steps, the last one first, is:"""


def plan_script(plan: StackPlan, erased: Iterable[str]) -> str:
    """Shell script of the plan; "" where there is nothing to do. `erased`: nodes of the disks."""
    if not plan.steps:
        return ""
    warning = WARNING.format(disks=", ".join(erased) or "no disk")
    lines = [line for layer in plan.layers for line in _build_lines(layer)]
    for number, stage in enumerate(plan.stages, start=1):
        lines += [f"\n# Stage {number}: it grows", *_step_lines(stage.steps)]
    down = [
        line
        for layer in reversed(plan.layers_after(len(plan.stages)))
        for line in _undo_lines(layer)
    ]
    return (
        "\n".join([warning, BUILD_HEAD, *lines, ")", *_scheduler_lines(plan), TEARDOWN_HEAD, *down])
        + "\n"
    )


def _script_label(layer: Placed) -> str:
    return registry.layer(layer.spec.kind).LABEL


def _build_lines(layer: Placed) -> Iterator[str]:
    yield f"\n# {_script_label(layer)}"
    if manual_step := stack.manual_task(layer):
        yield _comment(f"A manual step is needed here: {manual_step.instruction}")
    yield from _step_lines(layer.steps)


def _scheduler_lines(plan: StackPlan) -> Iterator[str]:
    """Yield the scheduler's commands as comments: each run sets the scheduler that it asks for."""
    if plan.swept.each:
        yield "\n# Before each run, the one that it asks for:"
    for step in plan.swept.steps:
        yield _comment(f"  {_step_line(step)}")


def _step_lines(steps: Iterable[Step]) -> Iterator[str]:
    for step in steps:
        yield _comment(step.says)
        yield _step_line(step)


def _step_line(step: Step) -> str:
    if any(isinstance(word, Secret) for word in step.argv):
        return _comment(f"(left out, for it holds a secret) {format_command(step.argv)}")
    line = command_line(step.argv)
    return f"printf %s {command_line([step.stdin])} | {line}" if step.stdin else line


def _undo_lines(layer: Placed) -> Iterator[str]:
    undo = [command for step in reversed(layer.steps) for command in step.undo]
    yield f"# {_script_label(layer)}{'' if undo else ': nothing by itself'}"
    yield from (_comment(f"  {_step_line(command)}") for command in undo)


def _comment(text: str) -> str:
    """Comment out each line, so that no part of a text is a command."""
    return "\n".join(f"# {line}" for line in text.splitlines())
