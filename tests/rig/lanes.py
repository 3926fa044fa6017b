"""Several layouts side by side on one host, each on disks of its own: one power loss then tries them all at once.

Lanes know every command of their layouts' lives: all of apply, of growth, of teardown. `go(count)` runs the first
`count` of each and stops, as a worker does that is killed; `live` runs all of them, one of each after the other. Facts
are read once for all lanes and phase: a reading costs half a second here, and there are a hundred rounds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from agents import quote
from agents.contracts import Shell, Step
from agents.facts import reading
from agents.facts.model import HostFacts
from agents.plans import stack
from agents.plans.applied_part import reached
from agents.plans.blank import not_blank
from agents.plans.chain import LayerSpec, StageSpec
from agents.safety import guard
from agents.safety.guard import Spare


@dataclass(frozen=True)
class Lane:
    """One stack with its own name ("bl3") and disks."""

    name: str
    spares: dict[str, Spare]
    plan: stack.StackPlan
    # Identities of disks, as the engine's log of commands has them
    touched: set[str] = field(default_factory=set)

    def run(self, shell: Shell, steps: Sequence[Step], facts: HostFacts) -> None:
        """Each guarded by these facts, then all in one go: that is faster than one by one.

        Raises GuardError, or AssertionError with what the command that failed has said.
        """
        for step in steps:
            guard.check_step(step, facts, self.spares, self.name)
            assert not step.stdin, "no layer's step reads its stdin"
            self.touched.update(claim.identity for claim in step.destroys)
        script = "\n".join(f"{_line(step)} </dev/null || exit" for step in steps)
        ran = shell.run(("sh", "-c", script), root=True, timeout_s=300)
        said = f"{self.name}: {ran.stderr.decode(errors='replace')[-1500:]}"
        assert ran.exit_code == 0, said

    def take_down(self, shell: Shell, facts: HostFacts) -> bool:
        """As the engine does, disks that no command has touched left alone; False when there is nothing to do."""
        plan = reached(self.plan, self.touched)
        if not not_blank(plan.claims, facts, self.name):
            return False
        self.run(shell, stack.teardown_stack(plan, facts), facts)
        return True


@dataclass(frozen=True)
class Grows:
    """A stack, and how it grows once it stands."""

    layers: tuple[LayerSpec, ...]
    stages: tuple[StageSpec, ...] = ()


class Lanes:
    """All lanes of one host, planned once while it is blank.

    Commands that only look or wait are not counted: what they leave is what the one before them left. With
    `disks_only` those that change no disk (mount, mkdir) are not either.
    """

    def __init__(
        self,
        stacks: Iterable[Grows],
        shell: Shell,
        disks: Sequence[str],
        disks_only: bool = False,
    ) -> None:
        self.disks_only = disks_only
        self.blank = reading.read_facts(shell)
        self.lanes: list[Lane] = []
        self.lengths: dict[str, int] = {}  # commands of those lives that were lived to the end
        self.moments: dict[int, list[set[str]]] = {}  # what each had touched, by command of `live`
        # By command of `live`: the kinds of layer that it builds, grows or takes down, in any lane.
        self.proves: dict[int, set[tuple[str, str]]] = {}
        left = list(disks)
        for number, grows in enumerate(stacks, start=1):
            spares = _take((*grows.layers, *grows.stages), self.blank, left)
            plan = stack.plan_stack(
                grows.layers, f"bl{number}", self.blank, spares.values(), grows.stages
            )
            self.lanes.append(Lane(f"bl{number}", spares, plan))

    def go(self, shell: Shell, count: int) -> bool:
        """The first `count` commands of every lane's life that has so many; whether any has more."""
        self.forget()
        lanes = [one for one in self.lanes if self.lengths.get(one.name, count) >= count]
        for lane in lanes:
            lane.run(shell, self._first(lane.plan.steps, count), self.blank)
        built = [self._counted(lane.plan.steps) for lane in lanes]
        if not lanes or count <= min(built):
            return bool(lanes)
        facts = reading.read_facts(shell)
        for lane, done in zip(lanes, built, strict=True):
            if count > done:
                down = stack.teardown_stack(lane.plan, facts)
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
            self.moments[count] = [set(lane.touched) for lane in self.lanes]
            yield count

    def forget(self) -> None:
        """Nothing of any lane has run yet."""
        for lane in self.lanes:
            lane.touched.clear()

    def go_back(self, count: int) -> None:
        """To what the lanes knew after `count` commands of `live`."""
        for lane, touched in zip(self.lanes, self.moments[count], strict=True):
            lane.touched.clear()
            lane.touched.update(touched)

    def _life(self, lane: Lane, shell: Shell) -> Iterator[bool]:
        """One command that counts at a time, and after the last one those that do not."""
        before = 0
        for down in (False, True):
            facts = reading.read_facts(shell) if down else self.blank
            steps = stack.teardown_stack(lane.plan, facts) if down else lane.plan.steps
            kinds = down_kinds(lane.plan, facts) if down else up_kinds(lane.plan)
            for step, proven in zip(steps, kinds, strict=True):
                if self._counts(step):
                    before += 1
                    self.proves.setdefault(before, set()).add(proven)
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
            facts = reading.read_facts(shell)
            left = [lane.name for lane in self.lanes if lane.take_down(shell, facts)]
            if not left:
                return
        raise AssertionError(f"three times taken down, and not blank: {left}")


def up_kinds(plan: stack.StackPlan) -> list[tuple[str, str]]:
    """Of each of the plan's steps: the kind of layer, and what happens to it."""
    kinds = [(layer.spec.kind, "up") for layer in plan.layers for _ in layer.steps]
    for stage in plan.stages:
        kind = plan.layers[stage.spec.layer - 1].spec.kind
        kinds += [(kind, "grows") for _ in stage.steps]
    return kinds


def down_kinds(plan: stack.StackPlan, facts: HostFacts) -> list[tuple[str, str]]:
    """The same for the steps of its teardown."""
    return [
        (layer.spec.kind, "down") for layer, steps in stack.by_layer(plan, facts) for _ in steps
    ]


def _line(step: Step) -> str:
    """udev reads a partition under a shared lock of its disk: the kernel forgets none while it is open."""
    nodes = [claim.node for claim in step.destroys] if "--rereadpt" in step.argv else []
    locks = (word for node in nodes for word in ("flock", "-o", "-w", "60", node))
    return quote.command_line((*locks, *step.argv))


def _take(
    specs: Sequence[LayerSpec | StageSpec], facts: HostFacts, left: list[str]
) -> dict[str, Spare]:
    """As many of the disks that are left as the stack and its stages want, each with the role that it wants."""
    spares: dict[str, Spare] = {}
    for wanted in (wanted for spec in specs for wanted in spec.devices):
        for name in left[: wanted.count]:
            device = facts.find_device(name)
            assert device is not None, f"{name} is not there"
            spares[device.identity] = Spare(device.identity, device.size, device.model, wanted.role)
        del left[: wanted.count]
    return spares
