"""Every topology preset with every workload: what the wizard thinks of the pair, the host's plan says too."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.core.exceptions import ValidationError

from agents import options
from agents.contracts import AgentError, OptionsError, Target
from agents.drivers import registry
from agents.facts.model import HostFacts
from agents.plans import stack
from agents.plans.chain import specs, stage_specs
from agents.safety.guard import Spare, job_refusals, refusals
from benchlab.campaigns import cost, matrix
from benchlab.campaigns.models import Workload
from benchlab.campaigns.workload_presets import ALL_PRESETS as WORKLOADS
from benchlab.hosts.models import Device
from benchlab.testing.profiles import drawn
from benchlab.topologies.host_shapes import ALL_PRESETS as PRESETS
from benchlab.topologies.host_shapes import Preset
from benchlab.topologies.models import Topology
from tests.agents import situations
from tests.agents.made_up import GIB, LAYOUT, disk, spare
from tests.agents.test_guard_plans import ABLE
from tests.each_case import check_each

SETTINGS = {
    "scheduler": "[none] mq-deadline kyber bfq",
    "read_ahead_kb": "128",
    "nr_requests": "256",
}
PLAIN = {
    "command": {"script": "echo done\n", "metrics": []},
    "dynamo": {"size": GIB},
}


def roles(preset: Preset) -> list[str]:
    return [role for role, count in preset.wants.items() for _ in range(count)]


def seen(preset: Preset):
    """A host with just the disks that it wants, and their spare marks."""
    disks = [disk(f"sd{chr(98 + number)}", number + 1, size=40 * GIB, queue=SETTINGS)
             for number in range(len(roles(preset)))]  # fmt: skip
    spares: dict[str, Spare] = {}
    for device, role in zip(disks, roles(preset), strict=True):
        spares |= spare(device, role=role)
    facts = situations.host_with([situations.see(d, situations.blank) for d in disks], **ABLE)
    return replace(facts, scheduler_modules=("bfq", "kyber"), sysctls=SYSCTLS), spares


SYSCTLS = {"vm.dirty_ratio": "20", "vm.dirty_background_ratio": "10", "vm.swappiness": "60"}


def planned(preset: Preset) -> tuple[Target, HostFacts, dict[str, Spare]]:
    facts, spares = seen(preset)
    plan = stack.plan_stack(
        specs(preset.stack), LAYOUT, facts, spares.values(), stage_specs(preset.stages)
    )
    assert [said for step in plan.steps for said in refusals(step, facts, spares, LAYOUT)] == []
    return plan.target, facts, spares


def likely(preset: Preset) -> Target:
    devices = [Device(name=f"d{i}", role=role, size=40 * GIB, spare=True)
               for i, role in enumerate(roles(preset))]  # fmt: skip
    return cost.likely_target(Topology(stack=preset.stack, stages=preset.stages), devices)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.slug)
def test_the_wizard_knows_what_a_preset_gives(preset):
    target, _, _ = planned(preset)
    thought = likely(preset)
    assert (bool(thought.mount), bool(thought.volume)) == (bool(target.mount), not target.mount)


def workloads() -> list[Workload]:
    found = [
        Workload(name=w.slug, tool=w.tool, options=w.options, sweep=w.sweep) for w in WORKLOADS
    ]
    plain = [
        Workload(name=tool, tool=tool, options=PLAIN.get(tool, {}), sweep={})
        for tool in registry.all_tools()
    ]
    return [*plain, *found]


def pairs() -> list[tuple[str, str]]:
    """Names of a preset and a workload. In ci each at least once."""
    return drawn(
        "presets with tools",
        [(preset.slug, workload.name) for preset in PRESETS for workload in workloads()],
        quick=60,
        more=60,
        proves=lambda pair: pair,
    )


@pytest.mark.draws
def test_what_the_wizard_takes_the_host_does():
    """The three scheduler presets of article 003 were refused to bonnie++: "no mount point"."""
    check_each(both_take_it, pairs())


def both_take_it(pair):
    slug, name = pair
    preset = next(preset for preset in PRESETS if preset.slug == slug)
    workload = next(workload for workload in workloads() if workload.name == name)
    target, facts, spares = planned(preset)
    driver = registry.tool(workload.tool)
    wizard = host = ""
    try:
        cost.workload_costs(workload, likely(preset))
    except ValidationError as error:
        wizard = str(error)
    try:
        for point in matrix.sweep_points(workload.sweep):
            built = options.build_options(driver.Options, {**workload.options, **point})
            job = driver.build_job(built, target)
            if not target.mount:
                assert job_refusals(job.argv, job.inputs, target, facts, spares, LAYOUT) == []
    except OptionsError as error:
        host = str(error)
    except AgentError as error:
        pytest.fail(f"{error}")
    assert bool(wizard) == bool(host), (wizard, host)
    if workload.tool in ("bonnie", "pg_test_fsync", "sysbench"):
        assert bool(host) == (not target.mount)


def test_every_tool_is_tried():
    assert {workload.tool for workload in workloads()} == set(registry.all_tools())
