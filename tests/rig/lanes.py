"""Several layouts side by side on one host, each on disks of its own: one power loss then tries them all at once.

A lane knows every command of its layout's life: all of apply, then all of teardown. `go(n)` runs the first n of them
and stops, as a worker does that is killed, or whose host is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agents import apply, stack
from agents.blank import not_blank
from agents.chain import LayerSpec
from agents.contracts import Shell, Step
from agents.facts import linux
from agents.facts.model import HostFacts
from agents.guard import Spare

READ_EVERY_S = 1.5


@dataclass
class Lane:
    """One stack with its own name ("bl3") and disks."""

    name: str
    specs: tuple[LayerSpec, ...]
    spares: dict[str, Spare]
    made: stack.StackPlan | None = None

    @property
    def plan(self) -> stack.StackPlan:
        assert self.made is not None, "go() plans"
        return self.made

    def go(self, shell: Shell, count: int) -> int:
        """The first `count` commands of apply and teardown, guarded as always; says how many there are in all."""
        self.made = stack.plan(self.specs, self.name, linux.read(shell), self.spares.values())
        steps = self.plan.steps
        self._run(shell, steps[:count])
        if count <= len(steps):
            return len(steps) + 1  # there is a teardown too, whose length only a built layout shows
        down = stack.teardown(self.plan, linux.read(shell))
        self._run(shell, down[: count - len(steps)])
        return len(steps) + len(down)

    def take_down(self, shell: Shell) -> None:
        """What the engine does afterwards: from fresh facts, and again, up to three times."""
        for _ in range(3):
            facts = linux.read(shell)
            if not (left := not_blank(self.plan.claims, facts, self.name)):
                return
            self._run(shell, stack.teardown(self.plan, facts))
        raise AssertionError((self.name, left))

    def _run(self, shell: Shell, steps: Sequence[Step]) -> None:
        apply.apply(
            steps,
            shell,
            layout=self.name,
            spares=self.spares,
            read_facts=Recent(shell),
            log=lambda record: None,
            undo=False,
        )


class Recent:
    """Facts that are READ_EVERY_S old at most: a reading costs half a second here, and there are thousands."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.facts: HostFacts | None = None
        self.read_at = 0.0

    def __call__(self) -> HostFacts:
        if self.facts is None or time.monotonic() - self.read_at > READ_EVERY_S:
            self.facts, self.read_at = linux.read(self.shell), time.monotonic()
        return self.facts


def lanes_of(
    stacks: Sequence[tuple[LayerSpec, ...]], facts: HostFacts, disks: Sequence[str]
) -> list[Lane]:
    """Each stack with as many of the disks as it wants, in their order; every role is served by any disk."""
    left, made = list(disks), []
    for number, specs in enumerate(stacks, start=1):
        spares: dict[str, Spare] = {}
        for wanted in (wanted for spec in specs for wanted in spec.devices):
            for name in left[: wanted.count]:
                device = facts.device(name)
                assert device is not None, f"{name} is not there"
                spares[device.identity] = Spare(
                    device.identity, device.size, device.model, wanted.role
                )
            del left[: wanted.count]
        made.append(Lane(f"bl{number}", specs, spares))
    return made


def fresh(lanes: Sequence[Lane]) -> list[Lane]:
    return [replace(lane, made=None) for lane in lanes]
