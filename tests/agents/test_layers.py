"""Every layer, by its case files: {options, target, facts, and plan, gives, teardown, verify, or error}.

`target.devices` names disks of the facts by use; a word list in `plan` or `teardown` is one Step's argv. A case
says only what it is about: a missing key is not checked.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agents import options, registry
from agents.contracts import AgentError, Plan, Step, Target
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
        _check(path.parent.name, case | {"plan": None})
    assert case["error"] in str(raised.value)


def _check(kind: str, case: dict[str, Any]) -> None:
    driver = ALL[kind]
    facts = made_up.facts(case.get("facts", {}))
    target = _target(case.get("target", {}), facts)
    chosen = options.build(driver.Options, case.get("options", {}))
    if "plan" in case:
        made = driver.plan(chosen, target, facts)
        assert isinstance(made, Plan)
        assert _words(made.steps) == case["plan"]
        for key, value in case.get("gives", {}).items():
            given = getattr(made.target, key)
            assert (list(given) if key == "notes" else given) == value, key
    if "teardown" in case:
        assert _words(driver.teardown(chosen, target, facts)) == case["teardown"]
    if "verify" in case:
        assert driver.verify(chosen, target, facts) == case["verify"]


def _target(said: dict[str, Any], facts: HostFacts) -> Target:
    devices = {
        use: tuple(made_up.claim(device) for n in names if (device := facts.device(n)))
        for use, names in said.get("devices", {}).items()
    }
    return Target(**{"name": "bl17", **said, "devices": devices})


def _words(steps: Any) -> list[list[str]]:
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
            if any("/dev/" in str(word) for word in step.argv):
                assert step.destroys, step.argv
