"""The way of a piece of work through our modules, as it runs: which it enters, where a lower room calls a higher one.

Only this thread is followed. What connects and sends has a thread of its own (agents/ssh): there the way ends.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from benchlab.up.bootstrap import ROOT
from tests.testing.house import TOPS, levels

SHELL = ("agents/ssh/lasting_shell.py", "agents/ssh/shell.py")  # what runs a command on a host


class Call(NamedTuple):
    """From one module of ours into another, or within one."""

    giver: str  # file; "": it was not ours
    taker: str
    function: str
    stack: tuple[str, ...]  # files of ours, outermost first; of those that were asked for only

    @property
    def is_command(self) -> bool:
        return self.taker in SHELL and self.function.endswith(".run")


def follow(work: Callable[[], Any], stacks: Iterable[str] = ()) -> list[Call]:
    """Each call that `work` makes into a module of ours, in its order; with the stack of the functions in `stacks`."""
    calls, wanted = list[Call](), set(stacks)

    def look(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_qualname
        if event != "call" or name == "<module>" or not (taker := _ours(frame.f_code.co_filename)):
            return
        found = _stack(frame) if name in wanted else ()
        calls.append(Call(_giver(frame), taker, name, found))

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def first_command(calls: list[Call]) -> list[Call]:
    """Up to the first command on the host, which reads its facts."""
    return calls[: 1 + next(n for n, call in enumerate(calls) if call.is_command)]


def first_step(calls: list[Call]) -> list[Call]:
    """Up to the first command of the plan."""
    found = (
        n for n, call in enumerate(calls) if call.is_command and call.giver.endswith("apply.py")
    )
    return calls[: 1 + next(found)]


def files(calls: Iterable[Call]) -> list[str]:
    return list(dict.fromkeys(call.taker for call in calls))


def climbs(calls: Iterable[Call]) -> list[str]:
    """Hand-overs from a lower room to a higher one, each once."""
    found = ((call.giver, call.taker, call.function) for call in calls if call.giver)
    up = (one for one in found if _level(one[1]) < _level(one[0]))
    return [f"{giver} -> {taker}: {function}" for giver, taker, function in dict.fromkeys(up)]


def _level(file: str) -> int:
    """The lower the room, the larger."""
    top, room, *_ = Path(file).with_suffix("").parts
    lowest = len(levels())  # so are modules that stand alone
    return lowest if top == "agents" else levels().get(room, lowest)


@cache
def _ours(file: str) -> str:
    path = Path(file)
    found = path.relative_to(ROOT) if path.is_relative_to(ROOT) else Path()
    return str(found) if found.parts[:1] and found.parts[0] in TOPS else ""


def _stack(frame: FrameType | None) -> tuple[str, ...]:
    found = []
    while frame is not None:
        found.append(_ours(frame.f_code.co_filename))
        frame = frame.f_back
    return tuple(dict.fromkeys(file for file in reversed(found) if file))


def _giver(frame: FrameType) -> str:
    back = frame.f_back
    while back is not None:
        if file := _ours(back.f_code.co_filename):
            return file
        back = back.f_back
    return ""
