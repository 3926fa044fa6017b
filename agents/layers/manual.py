# SPDX-License-Identifier: Apache-2.0
"""Something that a person does to the host: change the cache setting of a cloud disk, pull a cable, reboot.

The layout waits at this point until somebody says that it is done; then the check, if there is one, must agree. Where
no command has run on the host before it (only other manual layers are below), the host may have been rebooted.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from agents import look_only
from agents.contracts import ManualTask, Need, OptionsError, Plan, Step, Target, Use
from agents.facts.model import HostFacts
from agents.options import option

LABEL = "Manual step"
NEEDS: tuple[Need, ...] = ()
USES: dict[str, Use] = {}
REQUIRES = "any"
PROVIDES = "same"
MOST_S = 60.0


@dataclass(frozen=True, slots=True)
class Options:
    instructions: str = field(metadata={"help": "What to do", "multiline": True})
    check: tuple[str, ...] = option(
        (), "A read-only command that exits with 0 once the step is done, word by word"
    )
    expect: str = option("", "Text that the output of the check must also contain")
    undo_instructions: str = option("", "How to undo it at the end", multiline=True)

    def __post_init__(self) -> None:
        if not self.instructions.strip():
            raise OptionsError("instructions: say what is to be done")
        if self.expect and not self.check:
            raise OptionsError("expect: needs a check")
        if self.check:
            _check_words(self.check)


def _check_words(words: tuple[str, ...]) -> None:
    """It runs on a host without anybody reading it: so only what cannot change anything."""
    if any(not word or not word.isprintable() for word in words):
        raise OptionsError("check: a word is empty or has a control character")
    if "/" in words[0] or words[0] not in look_only.known_programs():
        raise OptionsError(
            f"check: {words[0]!r} is not known as read-only; allowed are {', '.join(look_only.known_programs())}"
        )
    if not look_only.only_looks(words):
        raise OptionsError(
            f"check: {' '.join(words)[:200]!r} is not among the forms of {words[0]} that can only look: a flag or a"
            " place of it is not allowed (agents/look_only.py lists them)"
        )


def required_programs(options: Options) -> tuple[Need, ...]:
    return NEEDS


def manual_task(options: Options, target: Target) -> ManualTask:
    """The check runs without root."""
    check = None
    if options.check:
        purpose = "Check the manual step"
        check = Step(tuple(options.check), purpose, root=False, timeout_s=MOST_S)
    return ManualTask(
        options.instructions.strip(), options.undo_instructions.strip(), check, options.expect
    )


def plan(options: Options, target: Target, facts: HostFacts) -> Plan:
    """Plan no command: the task of the person is part of the layout."""
    instructions = " ".join(options.instructions.split())
    return Plan((), replace(target, notes=(*target.notes, f"manual step: {instructions}")))


def teardown(options: Options, target: Target, facts: HostFacts) -> list[Step]:
    """No steps: the person is asked to undo the change once the disks are blank."""
    return []


def verify(options: Options, target: Target, facts: HostFacts) -> list[str]:
    """No differences: the check ran when the person confirmed the task, and facts do not show it."""
    return []
