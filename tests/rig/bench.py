"""A real host for layer tests: plan, build, grow, take down, lose power; and the test's own look at what is left."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from agents.contracts import Secret, Shell, Step
from agents.facts import health, reading, settings
from agents.facts.health import Health
from agents.facts.model import HostFacts
from agents.plans import applied_part as plan_settings
from agents.plans import layout_faults, stack
from agents.plans.blank import not_blank
from agents.plans.chain import DiskRequest, LayerSpec, StageSpec
from agents.safety import apply
from agents.safety.apply import Look
from agents.safety.guard import Spare
from agents.ssh.lasting_shell import lasting
from agents.ssh.shell import Address, connect_shell, offered_host_key
from benchlab.practice import PracticeHost
from tests.rig.blank import assert_blank

LAYOUT = "bl17"
RAW = LayerSpec("raw", {}, (DiskRequest("data", "ssd"),))


def filesystem(kind: str, **options: object) -> LayerSpec:
    return LayerSpec("filesystem", {"type": kind, **options})


def shell_on(host: PracticeHost, user: str = "root") -> Shell:
    shown = offered_host_key("127.0.0.1", host.port).public_key
    key = Secret(host.key_path.read_text())
    return connect_shell(Address("127.0.0.1", host.port, user, key, shown))


class Bench:
    """A host, a shell on it, and its disks (all but the root's) marked spare as a person found them."""

    # Read the facts once for each apply, and not again before something ran: that saves most of a test's time, and
    # the guard sees less.
    quick = False
    seen: HostFacts | None = None

    def __init__(self, host: PracticeHost, user: str = "root", role: str = "ssd") -> None:
        self.host, self.user, self.shell = host, user, shell_on(host, user)
        facts = self.facts()
        devices = [d for d in facts.devices if re.fullmatch(r"(ubd|vd)[b-z]", d.name)]
        self.disks = tuple(d.name for d in devices)
        self.spares = {
            d.identity: Spare(d.identity, d.size, d.model, role, facts.boot_id) for d in devices
        }
        self.records: list[apply.StepRecord] = []
        self.touched: set[str] = set()  # identities of the disks of what stands

    def facts(self) -> HostFacts:
        if self.seen is None or not self.quick:
            self.seen = reading.read_facts(self.shell)
        return self.seen

    def plan(self, *specs: LayerSpec, stages: Sequence[StageSpec] = ()) -> stack.StackPlan:
        return stack.plan_stack(specs, LAYOUT, self.facts(), self.spares.values(), stages)

    def apply(self, steps: Sequence[Step], undo: bool = True, look: Look | None = None) -> None:
        """Whoever changes the host by other means than this and `run` forgets `seen`."""
        logged = len(self.records)
        try:
            with self.quicker():  # only a lasting shell keeps udev away
                apply.apply(steps, self.shell, layout=LAYOUT, spares=self.spares, read_facts=self.facts,
                            log=self.records.append, undo=undo, look=look, touched=self.touched)  # fmt: skip
        finally:
            ran = {identity for record in self.records[logged:] for identity in record.destroys}
            self.touched = self.touched | ran if undo else set()
            self.seen = None if steps else self.seen

    @contextmanager
    def quicker(self) -> Iterator[None]:
        """The block's commands share a channel, as the engine's do."""
        plain = self.shell
        with lasting(plain) as self.shell:
            try:
                yield
            finally:
                self.shell = plain

    def build(self, made: stack.StackPlan, look: Look | None = None) -> None:
        """Layer by layer, as the engine does: the look that verifies one serves the next one's first step."""
        with self.quicker():
            self._build(made, look)

    def _build(self, made: stack.StackPlan, look: Look | None) -> None:
        for number, layer in enumerate(made.layers, start=1):
            self.apply(layer.steps, look=look)
            began = time.monotonic()
            look = Look(self.facts(), began)
            assert stack.verify_stack(made, look.facts, upto=number) == []
        assert self.ails(made) == []

    def ails(self, made: stack.StackPlan, stage: int = 0) -> list[str]:
        return layout_faults.stack_faults(made, self.health(made, stage), stage)

    def health(self, made: stack.StackPlan, stage: int = 0) -> Health:
        gives = [layer.gives for layer in made.layers_after(stage)]
        pool = next((target.pool for target in gives if target.pool), "")
        return health.read_health(
            self.shell, layout_faults.layout_nodes(made, stage), gives[-1].mount, pool
        )

    def changes(self, made: stack.StackPlan, before: HostFacts, stage: int = 0) -> list[str]:
        """Settings that differ now from those of the facts `before`, in words."""
        scope = plan_settings.scope(made, stage)
        was = settings.settings_from_facts(before, scope)
        now = settings.settings_from_health(self.health(made, stage), scope)
        assert was, "every layout has some"
        return [one.describe("before", "now") for one in settings.changed_settings(was, now)]

    def grow(self, made: stack.StackPlan, stage: int = 1) -> None:
        self.apply(made.stages[stage - 1].steps)
        assert stack.verify_stack(made, self.facts(), stage=stage) == []
        assert self.ails(made, stage) == []

    def wait(self, made: stack.StackPlan, stage: int = 0, seconds: float = 300) -> int:
        """Until nothing is awaited any more; says how often something was."""
        for seen in range(int(seconds * 2)):
            if not stack.awaited(made, self.facts(), stage):
                return seen
            self.seen = None
            time.sleep(0.5)
        raise AssertionError(stack.awaited(made, self.facts(), stage))

    def take_down(self, made: stack.StackPlan) -> None:
        with self.quicker():
            began = time.monotonic()
            look = Look(self.facts(), began)
            self.apply(stack.teardown_stack(made, look.facts), undo=False, look=look)

    def assert_taken_down(self, made: stack.StackPlan) -> None:
        """Take it down, see blank disks by two pairs of eyes, and take it down again: no harm."""
        self.take_down(made)
        self.assert_blank(made)
        self.take_down(made)
        self.assert_blank(made)

    def assert_blank(self, made: stack.StackPlan) -> None:
        assert not_blank(made.claims, self.facts(), LAYOUT) == []
        assert_blank(self.host, *(claim.node.removeprefix("/dev/") for claim in made.claims))

    def power_loss(self) -> None:
        self.host.kill()
        self.host.restart()
        self.seen = None
        self.shell = shell_on(self.host, self.user)
        self.confirm()

    def confirm(self) -> None:
        """Mark the same disks spare again, as a person does after a boot: one of them has no serial."""
        boot = self.facts().boot_id
        self.spares = {i: replace(spare, boot=boot) for i, spare in self.spares.items()}
        self.seen = None

    def run(self, script: str) -> str:
        self.seen = None
        return self.host.ssh("bash", "-c", f"set -e; exec </dev/null; {script}", timeout=120).stdout
