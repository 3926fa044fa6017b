"""Teardown leaves nothing: every layer, every preset, from wherever the plan was broken off (tests/agents/machine.py).

The oracle knows no layer's teardown. What is left and carries the layout's name, or lies on its disks, is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import cache
from operator import itemgetter

import pytest

from agents.contracts import AgentError, Step
from agents.drivers import registry
from agents.facts.model import BlockDevice
from agents.plans import chain, stack
from agents.plans.chain import LayerSpec, StageSpec
from agents.safety.guard import only_looks, refusals
from agents.steps import scripts
from benchlab.topologies.host_shapes import PRESETS
from tests.agents import made_up, stacks_of_layers
from tests.agents.machine import Machine, Refused
from tests.agents.made_up import LAYOUT
from tests.agents.named_steps import NAMES, SETTLE
from tests.agents.test_guard_plans import ABLE, STACKS
from tests.each_case import check_each

SIZE = 64 << 30
ROLES = {"hdd": "bcdefghijklm", "ssd": "nopqrstuvwxyz"}  # disks of each: sdb to sdm, sdn to sdz
QUEUE = {"scheduler": "[none] mq-deadline kyber bfq", "nr_requests": "64", "read_ahead_kb": "128",
         "nomerges": "0", "rq_affinity": "1"}  # fmt: skip
HOST = {**ABLE, "governors": {"policy0": "powersave"}, "governor_choices": ("performance", "powersave"),
        "sysctls": {"vm.dirty_ratio": "20", "vm.dirty_bytes": "0"}}  # fmt: skip


def disks() -> dict[str, BlockDevice]:
    names = [f"sd{letter}" for letters in ROLES.values() for letter in letters]
    return {n: made_up.disk(n, at, size=SIZE, queue=QUEUE) for at, n in enumerate(names, start=1)}


DISKS = disks()
SPARES = {
    identity: known
    for role, letters in ROLES.items()
    for identity, known in made_up.spare(*(DISKS[f"sd{x}"] for x in letters), role=role).items()
}

# What a teardown sends although nothing is left. Facts tell neither of directories nor of what libblkid does not know:
# these look for themselves, and do nothing where nothing is; disks are blanked as often as they are to be proven blank.
LOOK_THEMSELVES = {"remove_empty", "remove_marked", "bcache_release"}
BLANK = {"wipefs", "zero"}


def planned(specs: Sequence[LayerSpec], stages: Sequence[StageSpec] = ()) -> stack.StackPlan:
    return stack.plan_stack(
        specs, LAYOUT, Machine(LAYOUT, DISKS).facts(**HOST), SPARES.values(), stages
    )


def take_down(host: Machine, plan: stack.StackPlan) -> None:
    """As the engine does: the steps by one reading, the guard's word by what is there when each begins."""
    for step in stack.teardown_stack(plan, host.facts(**HOST)):
        assert refusals(step, host.facts(**HOST), SPARES, LAYOUT) == [], step.argv
        host.run(step, down=True)


def leaves_nothing(plan: stack.StackPlan, done: int) -> None:
    """Its first steps are carried out, then it is taken down twice."""
    host = built(plan, done)
    for _ in range(2):
        take_down(host, plan)
        assert host.left() == [], f"after {done} of {len(plan.steps)} steps"


def built(plan: stack.StackPlan, done: int) -> Machine:
    """A host with the disks of `plan`, its first steps carried out."""
    claimed = {claim.node for claim in plan.claims}
    host = Machine(LAYOUT, {name: disk for name, disk in DISKS.items() if disk.path in claimed})
    for step in plan.steps[:done]:
        host.run(step)
    return host


def removes(step: Step, plan: stack.StackPlan) -> bool:
    """True when it takes something away, other than what is on the layout's own disks."""
    words = [str(word) for word in step.argv]
    name = NAMES.get(words[2], "sh") if words[0] == "sh" else words[0]
    if words == SETTLE or only_looks(step.argv) or name in LOOK_THEMSELVES:
        return False
    nodes = {word for word in words if word.startswith("/dev/")}
    return name not in BLANK or not nodes <= {claim.node for claim in plan.claims}


Named = tuple[str, stack.StackPlan]


def of_presets() -> Iterator[Named]:
    for slug, preset in PRESETS.items():
        layers, stages = chain.specs(preset.stack), chain.stage_specs(preset.stages)
        yield f"preset {slug}", planned(layers, stages)


def of_stacks() -> Iterator[Named]:
    yield from ((name, planned(specs)) for name, specs in STACKS.items())


def of_layer(kind: str) -> Iterator[Named]:
    for number, plan in enumerate(plans_of(kind), start=1):
        yield f"{kind} {number}", plan


@cache
def plans(source: str) -> tuple[Named, ...]:
    """Named plans of a source: all presets, all the guard's stacks, or a layer's own cases."""
    if source == "presets":
        return tuple(of_presets())
    return tuple(of_stacks() if source == "stacks" else of_layer(source))


def check_plans(source: str, check: Callable[[stack.StackPlan], None]) -> None:
    """Nothing for a layer without plans; which may have none is a test of its own."""
    if plans(source) or source not in registry.all_layers():
        check_each(lambda named: check(named[1]), plans(source), name=itemgetter(0))


def plans_of(kind: str) -> Iterator[stack.StackPlan]:
    """Those that this host can have: a case may be about another."""
    for specs in stacks_of_layers.of(kind):
        with suppress(AgentError):
            yield planned(specs)


every_source = pytest.mark.parametrize("source", ["presets", "stacks", *registry.all_layers()])


@pytest.mark.parametrize("kind", registry.all_layers())
def test_every_layer_is_looked_at(kind):
    assert any(plans_of(kind)) or not stacks_of_layers.takes_disks(kind)


@every_source
def test_nothing_survives_the_teardown(source):
    check_plans(source, lambda plan: leaves_nothing(plan, len(plan.steps)))


@every_source
def test_what_is_removed_already_is_not_removed_again(source):
    check_plans(source, removes_nothing_twice)


def removes_nothing_twice(plan):
    host = built(plan, len(plan.steps))
    take_down(host, plan)
    before = deepcopy(vars(host))
    again = stack.teardown_stack(plan, host.facts(**HOST))
    assert [step.argv for step in again if removes(step, plan)] == []
    take_down(host, plan)
    assert vars(host) == before


@every_source
def test_each_volume_is_removed_once_and_udev_is_kept_from_no_disk(source):
    """But where the kernel is to read a disk's partitions again: it says "busy" while udev reads one of them."""
    check_plans(source, removes_each_volume_once)


def removes_each_volume_once(plan):
    steps = stack.teardown_stack(plan, built(plan, len(plan.steps)).facts(**HOST))
    removed = [n for step in steps if scripts.DM_REMOVE in step.argv for n in step.argv[4:]]
    assert len(removed) == len(set(removed))
    assert all("--rereadpt" in step.argv for step in steps if step.quiet)


@pytest.mark.parametrize(
    "kind", ["dm_crypt", "filesystem", "flashcache", "lvm", "md", "partition", "zfs", "zpool"]
)
def test_what_is_removed_the_first_time_is_seen(kind):
    """Else the test above could pass by calling nothing a removal."""
    for plan in plans_of(kind):
        host = built(plan, len(plan.steps))
        assert any(removes(step, plan) for step in stack.teardown_stack(plan, host.facts(**HOST)))


@pytest.mark.one_in(1)
@pytest.mark.slow
@every_source
def test_nothing_survives_wherever_it_was_broken_off(source):
    check_plans(source, leaves_nothing_after_any_step)


def leaves_nothing_after_any_step(plan):
    for done in range(len(plan.steps)):
        leaves_nothing(plan, done)


@pytest.mark.parametrize("kind", ["bcache", "directory", "filesystem", "flashcache", "lvm", "md", "partition",
                                  "zfs", "zpool"])  # fmt: skip
def test_a_layer_that_forgets_its_teardown_is_seen(kind, monkeypatch):
    """Else the oracle could pass by seeing nothing."""
    monkeypatch.setattr(registry.layer(kind), "teardown", lambda options, target, facts: [])
    for plan in plans_of(kind):
        with pytest.raises((AssertionError, Refused)):
            leaves_nothing(plan, len(plan.steps))
