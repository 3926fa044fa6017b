"""Something that a person does to the host: change the cache setting of a cloud disk, pull a cable, reboot.

The layout waits at this point until somebody says that it is done; then the check, if there is one, must agree. Where
no command has run on the host before it (only other manual layers are below), the host may have been rebooted.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from agents import guard
from agents.contracts import Ask, Need, OptionsError, Plan, Step, Target, Use
from agents.facts.model import HostFacts

LABEL = "A person's step"
NEEDS: tuple[Need, ...] = ()
USES: dict[str, Use] = {}
WANTS = "any"
GIVES = "same"
# Beside what the guard knows to look only.
LOOKING = {"grep", "test", "uname", "nproc", "lscpu", "lspci", "lsmod", "modinfo", "hostname"}
MOST_S = 60.0


@dataclass(frozen=True, slots=True)
class Options:
    instructions: str = field(metadata={"help": "What the person does", "multiline": True})
    check: tuple[str, ...] = field(
        default=(),
        metadata={
            "help": "A command that only looks and ends with 0 when it is done, word by word"
        },
    )
    expect: str = field(default="", metadata={"help": "Text that the check must print as well"})
    undo_instructions: str = field(
        default="", metadata={"help": "How the person takes it back at the end", "multiline": True}
    )

    def __post_init__(self) -> None:
        if not self.instructions.strip():
            raise OptionsError("instructions: say what the person does")
        if self.expect and not self.check:
            raise OptionsError("expect: there is no check whose output could have it")
        if self.check:
            _check_words(self.check)


def _check_words(words: tuple[str, ...]) -> None:
    """It runs on a host without anybody reading it: so only what cannot change anything."""
    if any(not word or not word.isprintable() for word in words):
        raise OptionsError("check: a word is empty or has a control character")
    if "/" in words[0] or not (words[0] in LOOKING or guard.only_looks(words)):
        known = ", ".join(sorted({*LOOKING, *guard.LOOKING}))
        raise OptionsError(f"check: {words[0]!r} may do more than look; it may be {known}")
    if words[0] in ("cat", "grep"):
        for word in words[1:]:
            path = PurePosixPath(word)
            if ".." in path.parts or (path.is_absolute() and path.parts[1:2] not in (("proc",), ("sys",))):  # fmt: skip
                raise OptionsError(f"check: {words[0]} may read below /proc and /sys, not {word}")


def needs(options: Any) -> tuple[Need, ...]:
    return NEEDS


def asks(options: Any, target: Target) -> Ask:
    """The check runs without root."""
    check = None
    if options.check:
        says = "Check what the person did"
        check = Step(tuple(options.check), says, root=False, timeout_s=MOST_S)
    return Ask(options.instructions.strip(), options.undo_instructions.strip(), check, options.expect)  # fmt: skip


def plan(options: Any, target: Target, facts: HostFacts) -> Plan:
    """No command of ours: what the person is asked is part of what the layout is."""
    said = " ".join(options.instructions.split())
    return Plan((), replace(target, notes=(*target.notes, f"by a person: {said}")))


def teardown(options: Any, target: Target, facts: HostFacts) -> list[Step]:
    """Nothing: the person is asked to take it back once the disks are blank."""
    return []


def verify(options: Any, target: Target, facts: HostFacts) -> list[str]:
    """The check saw it when the person said so; facts do not show it."""
    return []
