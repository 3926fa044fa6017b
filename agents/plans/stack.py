# SPDX-License-Identifier: Apache-2.0
"""A topology's layers made into one plan for one host, and taken apart again. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from agents import options
from agents.contracts import (
    NOTHING,
    Claim,
    ManualTask,
    Need,
    Plan,
    PlanError,
    Progress,
    Step,
    Target,
    claims_of,
)
from agents.drivers import protocols, registry
from agents.drivers.protocols import Layer
from agents.facts.graph import Graph
from agents.facts.model import HostFacts
from agents.plans import before_runs, plan_fingerprint
from agents.plans.before_runs import SchedulerSweep
from agents.plans.chain import DiskRequest, LayerSpec, StageSpec, check_chain, check_stages
from agents.safety.guard import Spare
from agents.steps import scripts
from agents.steps.common import settle

# the use under which a layer gets all disks of the layers beneath it
BELOW = "below"


@dataclass(frozen=True, slots=True)
class Placed:
    """A layer on its host: `target` is what was given to its plan(), with what that plan kept."""

    spec: LayerSpec
    target: Target
    gives: Target
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """One growth: the layer's commands, what those above it need when the kernel is through, and the layers then."""

    spec: StageSpec
    grow: tuple[Step, ...]
    # A reshape gives its space when it is over: earlier there is nothing to follow
    follow: tuple[Step, ...]
    layers: tuple[Placed, ...]

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.grow + self.follow


@dataclass(frozen=True, slots=True)
class StackPlan:
    """The layers bottom up, then how they grow. `fingerprint` changes when the commands, or the disks, do.

    `swept`: what is set before each run, where runs of the layout differ in that.
    """

    name: str
    layers: tuple[Placed, ...]
    fingerprint: str
    stages: tuple[Stage, ...] = ()
    swept: SchedulerSweep = field(default_factory=SchedulerSweep)

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps: of the build, of the stages, then those before runs."""
        built = tuple(step for layer in self.layers for step in layer.steps)
        grown = tuple(step for stage in self.stages for step in stage.steps)
        return built + grown + self.swept.steps

    @property
    def target(self) -> Target:
        """Target of the tools before any stage."""
        return self.layers[-1].gives

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Every disk that may be destroyed, also by a later stage."""
        # agents.plans.applied_part: nothing of it was begun
        if not self.layers:
            return ()
        return claims_of(self.layers_after(len(self.stages))[-1].gives)

    def layers_after(self, stage: int) -> tuple[Placed, ...]:
        """The layers after the first `stage` stages."""
        return self.stages[stage - 1].layers if stage else self.layers

    def target_at(self, stage: int, growing: bool = False) -> Target:
        """Target of the tools after `stage` stages; `growing`: while the last of them still goes on."""
        after = self.layers_after(stage)[-1].gives
        if not (growing and stage):
            return after
        return replace(after, size=self.layers_after(stage - 1)[-1].gives.size)


def plan_stack(
    specs: Sequence[LayerSpec],
    name: str,
    facts: HostFacts,
    pool: Iterable[Spare],
    stages: Sequence[StageSpec] = (),
    schedulers: Sequence[str] = (),
) -> StackPlan:
    """The layers, bottom up, on disks of the pool; runs ask for one of `schedulers`, where there are any.

    Raises PlanError or OptionsError saying which layer.
    """
    check_chain(specs)
    check_stages(specs, stages)
    free = free_disks(facts, pool)
    placed: list[Placed] = []
    for number, spec in enumerate(specs, start=1):
        with _layer_errors(f"layer {number} ({spec.kind})"):
            placed.append(lay(spec, placed, name, facts, free))
    check_top(placed[-1])
    if facts.os_family != "freebsd":
        placed = _settled(placed)
    grown: list[Stage] = []
    for number, stage in enumerate(stages, start=1):
        with _layer_errors(f"stage {number}"):
            grown.append(
                _plan_stage(stage, grown[-1].layers if grown else tuple(placed), free, facts)
            )
    gives = [placed[-1].gives, *(stage.layers[-1].gives for stage in grown)]
    swept = before_runs.plan_scheduler_sweep(schedulers, specs, gives, facts)
    made_up = StackPlan(name, tuple(placed), "", tuple(grown), swept)
    return replace(
        made_up, fingerprint=plan_fingerprint.plan_fingerprint(made_up.steps, made_up.claims, facts)
    )


def lay(
    spec: LayerSpec,
    below: Sequence[Placed],
    name: str,
    facts: HostFacts,
    free: dict[str, list[Claim]],
) -> Placed:
    """One layer on those that are laid already. Takes its disks from `free`. Raises PlanError or OptionsError."""
    target = _layer_target(below, name, _pick(spec.devices, free))
    driver = registry.layer(spec.kind)
    plan = driver.plan(options.build_options(driver.Options, spec.options), target, facts)
    return _place_layer(spec, target, plan)


def free_disks(facts: HostFacts, pool: Iterable[Spare]) -> dict[str, list[Claim]]:
    """Role -> spare disks of this host in a lasting order. One that is not unambiguously here is left out."""
    free: dict[str, list[Claim]] = {}
    for spare in sorted(pool, key=lambda spare: spare.identity):
        devices = [d for d in facts.devices if d.identity == spare.identity]
        if len(devices) == 1 and (devices[0].size, devices[0].model) == (spare.size, spare.model):
            claim = Claim(spare.identity, devices[0].path, spare.size, spare.model)
            free.setdefault(spare.role, []).append(claim)
    return free


def _pick(
    devices: Iterable[DiskRequest], free: dict[str, list[Claim]]
) -> dict[str, tuple[Claim, ...]]:
    """Takes from `free`, so that no disk is used twice."""
    picked = {}
    for request in devices:
        candidates = free.get(request.role, [])
        if len(candidates) < request.count:
            raise PlanError(
                f"{request.use} needs {request.count} {request.role or 'disk'}(s), but the host has"
                f" {len(candidates)} spare: mark more disks spare with that role, or ask for fewer"
            )
        picked[request.use] = tuple(candidates[: request.count])
        del candidates[: request.count]
    return picked


def check_top(top: Placed) -> None:
    """A tool works on one thing. Raises PlanError."""
    parts = [part for part_claims in top.gives.parts.values() for part in part_claims]
    if parts and not (top.gives.volume or top.gives.mount):
        driver = registry.layer(top.spec.kind)
        raise PlanError(
            f"{driver.LABEL} gives {len(parts)} volumes here and a tool needs one: add a layer that joins them"
            " (LVM, md) on top, or use one disk"
        )


@contextmanager
def _layer_errors(where: str) -> Iterator[None]:
    try:
        yield
    except PlanError as error:
        raise PlanError(f"{where}: {error}", error.reason) from None


def _layer_target(
    placed: Sequence[Placed], name: str, devices: Mapping[str, tuple[Claim, ...]]
) -> Target:
    """Target given to a layer: what the one below gives, with the layer's own disks."""
    if not placed:
        return Target(name, devices=devices)
    below = placed[-1].gives
    under = {BELOW: claims_of(below)} if claims_of(below) else {}
    return replace(below, devices={**devices, **under}, kept={})


def _place_layer(
    spec: LayerSpec, target: Target, plan: Plan, previous: Mapping[str, str] = NOTHING
) -> Placed:
    gives = replace(plan.target, devices=target.devices, kept={})
    return Placed(spec, replace(target, kept={**previous, **plan.kept}), gives, plan.steps)


def _settled(placed: Sequence[Placed]) -> list[Placed]:
    """Udev, which quiet Steps kept from the disks, is waited for before somebody needs it: not between two layers of
    which the upper one begins with such Steps, or waits itself after its first (mkfs, which needs the volume alone).
    """
    settled = list[Placed]()
    for layer, above in zip(placed, [*placed[1:], None], strict=True):
        ends, begins = layer.steps[-1:], above.steps[:1] if above else ()
        soon = settle() in above.steps[1:2] if above else False
        waits = any(step.quiet for step in ends) and not (
            soon or any(step.quiet for step in begins)
        )
        settled.append(replace(layer, steps=(*layer.steps, settle())) if waits else layer)
    return settled


def _plan_stage(
    stage: StageSpec, layers: Sequence[Placed], free: dict[str, list[Claim]], facts: HostFacts
) -> Stage:
    """The layer takes its new disks; those above it follow."""
    old = layers[stage.layer - 1]
    driver = registry.implements(old.spec.kind, protocols.Growable)
    assert driver is not None, "check_stages looked"
    more = _pick(stage.devices, free)
    devices = {
        use: old.target.devices.get(use, ()) + more.get(use, ())
        for use in {**old.target.devices, **more}
    }
    target = replace(old.target, devices=devices)
    built = options.build_options(driver.Options, old.spec.options)
    plan = driver.plan_growth(
        built, options.build_options(driver.Grow, stage.options), target, more, facts
    )
    after = [*layers[: stage.layer - 1], _place_layer(old.spec, target, plan, old.target.kept)]
    follow: list[Step] = []
    for layer in layers[stage.layer :]:
        after.append(_stretched(layer, after, facts))
        follow += after[-1].steps
    return Stage(stage, plan.steps, tuple(follow), tuple(after))


def _stretched(layer: Placed, below: Sequence[Placed], facts: HostFacts) -> Placed:
    own = {use: claims for use, claims in layer.target.devices.items() if use != BELOW}
    target = replace(_layer_target(below, layer.target.name, own), kept=layer.target.kept)
    driver = registry.implements(layer.spec.kind, protocols.Expandable)
    # it gives what is below it
    if driver is None:
        return _place_layer(layer.spec, target, Plan((), target), layer.target.kept)
    plan = driver.plan_expansion(
        options.build_options(driver.Options, layer.spec.options), target, facts
    )
    return _place_layer(layer.spec, target, plan, layer.target.kept)


def missing_programs(specs: Iterable[LayerSpec], facts: HostFacts) -> list[Need]:
    """Programs that the layers need, but the host has not, each once."""
    needs_by_program = {need.program: need for need in required_programs(specs)}
    return [need for need in needs_by_program.values() if need.program not in facts.tools]


def required_programs(specs: Iterable[LayerSpec]) -> list[Need]:
    """Programs that the layers use, with their options."""
    drivers = [(registry.layer(spec.kind), spec.options) for spec in specs]
    return [
        need
        for driver, option_values in drivers
        for need in driver.required_programs(options.build_options(driver.Options, option_values))
    ]


def teardown_stack(stack: StackPlan, facts: HostFacts) -> list[Step]:
    """Top down; only what is there, with the disks of all stages. The order within a layer is the layer's.

    First what was set for runs: also where a layer cannot be taken down, the host has that as it was.
    """
    if not stack.layers:
        return []
    back = before_runs.put_back(stack.swept, stack.layers_after(len(stack.stages))[-1].gives, facts)
    steps = [*back, *(step for _, steps in by_layer(stack, facts) for step in steps)]
    return [step if "--rereadpt" in step.argv else _unheld(step) for step in steps]


def by_layer(stack: StackPlan, facts: HostFacts) -> list[tuple[Placed, list[Step]]]:
    """The layers, top down, with what takes each of them down."""
    groups, steps = list[tuple[Placed, list[Step]]](), list[Step]()
    for layer in reversed(stack.layers_after(len(stack.stages))):
        driver, built = _driver(layer)
        groups.append((layer, driver.teardown(built, layer.target, _facts_after(facts, steps))))
        steps += groups[-1][1]
    return groups


def _unheld(step: Step) -> Step:
    """One after which udev may read the disks at once: a blank one takes it 20 ms, and kept from one it comes back up
    to half a second later. Where something is built it would read each disk after every command instead.
    """
    return replace(step, quiet=False)


def _facts_after(facts: HostFacts, steps: Iterable[Step]) -> HostFacts:
    """Without what will be gone by then, for the layers above have seen to it: partitions that the kernel has
    forgotten, and mapped volumes.
    """
    graph, cut, removed = Graph(facts), set[str](), set[str]()
    for step in steps:
        words = [str(word) for word in step.argv]
        if "--rereadpt" in words:
            cut |= {disk.name for word in words if (disk := graph.find_device(word))}
        if scripts.DM_REMOVE in words:
            removed |= set(words[words.index(scripts.DM_REMOVE) + 2 :])
    if not cut and not removed:
        return facts
    remaining = (
        device
        for device in facts.devices
        if not (device.type == "part" and cut & set(device.parents))
        and device.path.removeprefix("/dev/mapper/") not in removed
    )
    tables = (t for t in facts.dm_tables if t.split()[0].removesuffix(":") not in removed)
    return replace(facts, devices=tuple(remaining), dm_tables=tuple(tables))


def verify_stack(
    stack: StackPlan,
    facts: HostFacts,
    upto: int | None = None,
    stage: int = 0,
    growing: bool = False,
) -> list[str]:
    """Differences between plan and host in the lowest `upto` layers (by default all) after `stage` stages.

    Below the top a layer is hidden by what stands on it, so only the top one of them can be looked at in full; a
    layer that gives what is below it (tuning) hides nothing, and nothing hides it. `growing`: the last stage
    still goes on, so the layer that grows is between its old state and its new one, and is not looked at.
    """
    differences: list[str] = []
    hidden = False
    grows = stack.stages[stage - 1].spec.layer if growing and stage else 0
    for number, layer in reversed(list(enumerate(stack.layers_after(stage)[:upto], start=1))):
        driver, built = _driver(layer)
        hidden = hidden or number == grows
        if hidden and driver.PROVIDES != "same":
            continue
        kind = layer.spec.kind
        differences += [f"{kind}: {wrong}" for wrong in driver.verify(built, layer.target, facts)]
        hidden = hidden or driver.PROVIDES != "same"
    return differences


def manual_task(layer: Placed) -> ManualTask | None:
    """Task of a person for this layer; None: the engine makes it."""
    driver = registry.implements(layer.spec.kind, protocols.ManualStep)
    return driver.manual_task(_driver(layer)[1], layer.target) if driver else None


def not_restored(stack: StackPlan, facts: HostFacts) -> list[str]:
    """After teardown: settings of the host that are not as they were before the plan."""
    differences: list[str] = []
    for layer in stack.layers_after(len(stack.stages)):
        if driver := registry.implements(layer.spec.kind, protocols.RestoresSettings):
            differences += driver.unrestored_settings(_driver(layer)[1], layer.target, facts)
    if stack.layers:
        top = stack.layers_after(len(stack.stages))[-1]
        differences += before_runs.not_put_back(stack.swept, top.gives, facts)
    return differences


def not_grown(stack: StackPlan, stage: int, before: HostFacts, after: HostFacts) -> list[str]:
    """Volumes that the last of `stage` stages should have made larger, and that are as large as they were."""
    old, new = Graph(before), Graph(after)
    differences = []
    for was, now in zip(stack.layers_after(stage - 1), stack.layers_after(stage), strict=True):
        node = now.gives.volume
        if not node or now.gives.size <= was.gives.size:
            continue
        device, earlier = new.find_device(node), old.find_device(node)
        if device is None:
            differences.append(f"{node} is not there any more")
        elif earlier and device.size <= earlier.size:
            differences.append(f"{node} has {device.size} B, no more than before it grew")
    return list(dict.fromkeys(differences))


def awaited(stack: StackPlan, facts: HostFacts, stage: int = 0) -> list[Progress]:
    """Work that the kernel still does in the layers after `stage` stages: resync, reshape."""
    steps = []
    for layer in stack.layers_after(stage):
        driver = registry.implements(layer.spec.kind, protocols.BackgroundWork)
        if driver is not None:
            built = options.build_options(driver.Options, layer.spec.options)
            steps.append(driver.background_progress(built, layer.target, facts))
    return [progress for progress in steps if progress]


def _driver(layer: Placed) -> tuple[Layer[Any], Any]:
    driver = registry.layer(layer.spec.kind)
    return driver, options.build_options(driver.Options, layer.spec.options)
