"""Every layer, by its case files: {options, target, facts, and plan, gives, kept, teardown, verify, or error}.

A layer that grows: {grow: {options, more: {use: [disk]}, plan, gives, kept}}, with the new disks in `target` already;
one that follows: {stretch: {plan, gives}}; one that awaits: {awaits: null or {says, done, eta_s}}.

`target.devices` names disks of the facts by use; a word list in `plan` or `teardown` is one Step's argv. A case
says only what it is about: a missing key is not checked.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from agents import options, registry
from agents.contracts import AgentError, Claim, Part, Plan, Step, Target
from agents.facts.model import HostFacts
from tests.agents import made_up

CASES = Path(__file__).parents[1] / "cases" / "layers"
FILES = sorted(CASES.glob("*/*.json"))
ALL = registry.all_layers()


@pytest.mark.parametrize("kind", ALL)
def test_every_layer_has_a_case(kind):
    assert list((CASES / kind).glob("*.json")), f"add tests/cases/layers/{kind}/<case>.json"


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_case(path):
    case = json.loads(path.read_text())
    if "error" not in case:
        return _check(path.parent.name, case)
    with pytest.raises(AgentError) as raised:
        later = case.keys() & {"grow", "stretch"}
        _check(path.parent.name, case if later else case | {"plan": None})
    assert case["error"] in str(raised.value)


def _check(kind: str, case: dict[str, Any]) -> None:
    driver = ALL[kind]
    facts = made_up.facts(case.get("facts", {}))
    target = _target(case.get("target", {}), facts)
    chosen = options.build(driver.Options, case.get("options", {}))
    if "plan" in case:
        made = driver.plan(chosen, target, facts)
        assert isinstance(made, Plan)
        _check_plan(made, case)
    if "grow" in case:
        asked = case["grow"]
        more = _devices(asked.get("more", {}), facts)
        grow = options.build(driver.Grow, asked.get("options", {}))  # type: ignore[attr-defined]
        _check_plan(driver.grow(chosen, grow, target, more, facts), asked)  # type: ignore[attr-defined]
    if "stretch" in case:
        _check_plan(driver.stretch(chosen, target, facts), case["stretch"])  # type: ignore[attr-defined]
    if "awaits" in case:
        found = driver.awaits(chosen, target, facts)  # type: ignore[attr-defined]
        assert (asdict(found) if found else None) == case["awaits"]
    if "teardown" in case:
        assert _words(driver.teardown(chosen, target, facts)) == case["teardown"]
    if "verify" in case:
        assert driver.verify(chosen, target, facts) == case["verify"]


def _check_plan(made: Plan, said: dict[str, Any]) -> None:
    assert _words(made.steps) == said["plan"]
    given = asdict(made.target)
    for key, value in said.get("gives", {}).items():
        assert json.loads(json.dumps(given[key])) == value, key
    if "kept" in said:
        assert made.kept == said["kept"]


def _devices(said: dict[str, list[str]], facts: HostFacts) -> dict[str, tuple[Claim, ...]]:
    return {
        use: tuple(made_up.claim(device) for n in names if (device := facts.device(n)))
        for use, names in said.items()
    }


def _target(said: dict[str, Any], facts: HostFacts) -> Target:
    parts = {
        use: tuple(Part(**part) for part in given) for use, given in said.get("parts", {}).items()
    }
    devices = _devices(said.get("devices", {}), facts)
    return Target(**{"name": "bl17", **said, "devices": devices, "parts": parts})


def _words(steps: Any) -> list[list[str]]:
    # The kernel's answer is "busy" while udev has one of them open.
    assert all(step.quiet for step in steps if "--rereadpt" in step.argv)
    assert all(isinstance(step, Step) and step.says for step in steps)
    return [[str(word) for word in step.argv] for step in steps]


@pytest.mark.parametrize("kind", ALL)
def test_every_command_that_names_a_disk_claims_it(kind):
    """Else the guard would refuse it on a real host."""
    for path in (CASES / kind).glob("*.json"):
        case = json.loads(path.read_text())
        if "plan" not in case:
            continue
        facts = made_up.facts(case.get("facts", {}))
        target = _target(case.get("target", {}), facts)
        chosen = options.build(ALL[kind].Options, case.get("options", {}))
        for step in ALL[kind].plan(chosen, target, facts).steps:
            words = [str(word).replace("/proc/sys/dev/", "") for word in step.argv]
            if any("/dev/" in word for word in words):
                assert step.destroys, step.argv
