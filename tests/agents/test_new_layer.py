"""A layer is its file and its cases: one that is added in folders of its own is planned, guarded and taken down."""

from __future__ import annotations

import json

import pytest

from agents import options
from agents.contracts import AgentError, OptionsError
from agents.drivers import registry
from agents.plans import chain, stack
from agents.safety.name_places import names_in
from tests.agents import layer_cases, stacks_of_layers, typed_drivers
from tests.agents.new_layer import CASE
from tests.agents.new_layer import added as added  # a fixture
from tests.agents.test_guard_plans import Case, harms_none, of_the_others
from tests.agents.test_teardown_oracle import leaves_nothing, plans_of

SEEDS = 300


def test_it_is_found_and_describes_itself(added):
    driver = registry.layer(added)
    schema = options.schema(driver.Options)
    assert schema["properties"]["virtual_size"]["x-unit"] == "B"
    with pytest.raises(
        OptionsError, match="no option 'compress'; known: compression, virtual_size"
    ):
        options.build_options(driver.Options, {"compress": True})


def test_its_case_is_checked_and_told(added):
    told = layer_cases.as_now(added, json.loads(CASE))
    assert "error" not in told and "@zero sdb sdc" in told["plan"]
    assert told["gives"]["volume"] == "/dev/bl17/vdo"


def test_mypy_is_told_of_it(added):
    assert "of_layer_vdo: protocols.Layer[layer_vdo.Options] = layer_vdo" in typed_drivers.text()


def test_it_stands_in_stacks(added):
    [specs] = stacks_of_layers.of(added)
    chain.check_chain([*specs, chain.LayerSpec("filesystem")])
    assert dict(of_the_others()) == {added: specs}
    assert [need.program for need in stack.required_programs(specs)] == ["lvm", "dmsetup"]


def test_the_guard_is_asked_about_it(added):
    [specs] = stacks_of_layers.of(added)
    planned = 0
    for seed in range(SEEDS):
        try:
            case = Case(specs, seed)
        except AgentError:
            continue  # too few spare disks
        planned += 1
        harms_none(case)
    assert planned > SEEDS / 2


def test_the_guard_knows_its_own_commands_and_scripts(added):
    """Word by word: what else is said to them counts as a name."""
    [tune] = [script for script in registry.layer_scripts() if script.startswith("vdostats")]
    assert names_in(["vdoformat", "--force", "--slab-bits", "1", "data"], "") == [
        "",
        "",
        "",
        "",
        "data",
        "",
    ]
    assert names_in(["vdoformat", "--verbose", "1"], "") == ["vdoformat", "--verbose", "1", ""]
    script = ["sh", "-c", tune, "tune", "data", "1", "/sys/block/dm-0/queue/scheduler"]
    assert names_in(script, "") == ["", "", "", "", "data", "", "", ""]
    assert names_in([*script[:5], "one", script[6]], "")[2] == tune


def test_without_it_they_are_nobodys():
    assert names_in(["vdoformat", "--force", "data"], "") == ["vdoformat", "--force", "data", ""]


def test_nothing_of_it_survives_a_teardown(added):
    [plan] = plans_of(added)
    for done in range(len(plan.steps) + 1):
        leaves_nothing(plan, done)
