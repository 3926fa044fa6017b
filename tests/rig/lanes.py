"""Several layouts side by side on one host, each on disks of its own: one power loss then tries them all at once.

Lanes know every command of their layouts' lives: all of apply, then all of teardown. `go(count)` runs the first
`count` of each and stops, as a worker does that is killed; `live` runs all of them, one of each after the other. Facts
are read once for all lanes and phase: a reading costs half a second here, and there are a hundred rounds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from agents import guard, quote, stack
from agents.blank import not_blank
from agents.chain import LayerSpec
from agents.contracts import Shell, Step
from agents.facts import linux
from agents.facts.model import HostFacts
from agents.guard import Spare


@dataclass(frozen=True)
class Lane:
    """One stack with its own name ("bl3") and disks."""

    name: str
    spares: dict[str, Spare]
    plan: stack.StackPlan

    def run(self, shell: Shell, steps: Sequence[Step], facts: HostFacts) -> None:
        """Each guarded by these facts, then all in one go: that is faster than one by one.

        Raises GuardError, or AssertionError with what the command that failed has said.
        """
        for step in steps:
            guard.check(step, facts, self.spares, self.name)
            assert not step.stdin, "no layer's step reads its stdin"
        script = "\n".join(f"{quote.command_line(step.argv)} </dev/null || exit" for step in steps)
        ran = shell.run(("sh", "-c", script), root=True, timeout_s=300)
        said = f"{self.name}: {ran.stderr.decode(errors='replace')[-1500:]}"
        assert ran.exit_code == 0, said


class Lanes:
    """All lanes of one host, planned once while it is blank.

    Commands that only look or wait are not counted: what they leave is what the one before them left. With
    `disks_only` those that change no disk (mount, mkdir) are not either.
    """

    def __init__(
        self,
        stacks: Iterable[tuple[LayerSpec, ...]],
        shell: Shell,
        disks: Sequence[str],
        disks_only: bool = False,
    ) -> None:
        self.disks_only = disks_only
        self.blank = linux.read(shell)
        self.lanes: list[Lane] = []
        self.lengths: dict[str, int] = {}  # commands of those lives that were lived to the end
        left = list(disks)
        for number, specs in enumerate(stacks, start=1):
            spares = _take(specs, self.blank, left)
            plan = stack.plan(specs, f"bl{number}", self.blank, spares.values())
            self.lanes.append(Lane(f"bl{number}", spares, plan))

    def go(self, shell: Shell, count: int) -> bool:
        """The first `count` commands of every lane's life that has so many; whether any has more."""
        lanes = [one for one in self.lanes if self.lengths.get(one.name, count) >= count]
        for lane in lanes:
            lane.run(shell, self._first(lane.plan.steps, count), self.blank)
        built = [self._counted(lane.plan.steps) for lane in lanes]
        if not lanes or count <= min(built):
            return bool(lanes)
        facts = linux.read(shell)
        for lane, done in zip(lanes, built, strict=True):
            if count > done:
                down = stack.teardown(lane.plan, facts)
                lane.run(shell, self._first(down, count - done), facts)
                if count - done >= self._counted(down):
                    self.lengths[lane.name] = done + self._counted(down)
        return any(self.lengths.get(lane.name, count + 1) > count for lane in lanes)

    def live(self, shell: Shell) -> Iterator[int]:
        """The next command of every lane, all of them over and over until none has more: how many each has run."""
        lives = [self._life(lane, shell) for lane in self.lanes]
        for count in itertools.count(1):
            lives = [life for life in lives if next(life, False)]
            if not lives:
                return
            yield count

    def _life(self, lane: Lane, shell: Shell) -> Iterator[bool]:
        """One command that counts at a time, and after the last one those that do not."""
        for down in (False, True):
            facts = linux.read(shell) if down else self.blank
            steps = stack.teardown(lane.plan, facts) if down else lane.plan.steps
            done = 0
            for count in range(1, self._counted(steps) + 1):
                upto = self._first(steps, count)
                lane.run(shell, upto[done:], facts)
                done = len(upto)
                yield True
            lane.run(shell, steps[done:], facts)

    def _counts(self, step: Step) -> bool:
        return bool(step.destroys) if self.disks_only else not guard.only_looks(step.argv)

    def _counted(self, steps: Sequence[Step]) -> int:
        return sum(map(self._counts, steps))

    def _first(self, steps: Sequence[Step], count: int) -> Sequence[Step]:
        """Up to the `count`-th that counts; all of them when there are not so many."""
        ends = [n for n, step in enumerate(steps, 1) if self._counts(step)]
        return steps[: ends[count - 1]] if count <= len(ends) else steps

    def take_down(self, shell: Shell) -> None:
        """As the engine does afterwards: from fresh facts, and again, up to three times."""
        for _ in range(3):
            facts = linux.read(shell)
            left = {
                lane.name: said
                for lane in self.lanes
                if (said := not_blank(lane.plan.claims, facts, lane.name))
            }
            if not left:
                return
            for lane in self.lanes:
                if lane.name in left:
                    lane.run(shell, stack.teardown(lane.plan, facts), facts)
        raise AssertionError(left)


def _take(specs: tuple[LayerSpec, ...], facts: HostFacts, left: list[str]) -> dict[str, Spare]:
    """As many of the disks that are left as the stack wants, each with the role that it wants."""
    spares: dict[str, Spare] = {}
    for wanted in (wanted for spec in specs for wanted in spec.devices):
        for name in left[: wanted.count]:
            device = facts.device(name)
            assert device is not None, f"{name} is not there"
            spares[device.identity] = Spare(device.identity, device.size, device.model, wanted.role)
        del left[: wanted.count]
    return spares
