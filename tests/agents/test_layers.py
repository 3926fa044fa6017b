"""Every layer, by its case files (tests/agents/layer_cases.py)."""

from __future__ import annotations

import json
from operator import attrgetter

import pytest

from agents import options
from agents.drivers import registry
from tests.agents import made_up
from tests.agents.layer_cases import CASES, as_now, target_of, written
from tests.each_case import check_each

ALL = registry.all_layers()


@pytest.mark.parametrize("kind", ALL)
def test_every_layer_has_a_case(kind):
    assert list((CASES / kind).glob("*.json")), f"add tests/cases/layers/{kind}/<case>.json"


@pytest.mark.parametrize("kind", ALL)
def test_case(kind, accepted):
    cases = sorted((CASES / kind).glob("*.json"))
    check_each(lambda path: check_case(path, accepted), cases, name=attrgetter("stem"))


def check_case(path, accepted):
    case = json.loads(path.read_text())
    now = as_now(path.parent.name, case)
    if now != case:
        accepted(path, written(now))
        pytest.fail(f"{path.name} says the same in other words: {case} is {now}")


@pytest.mark.parametrize("kind", ALL)
def test_every_command_that_names_a_disk_claims_it(kind):
    """Else the guard would refuse it on a real host."""
    for path in (CASES / kind).glob("*.json"):
        case = json.loads(path.read_text())
        if "plan" not in case:
            continue
        facts = made_up.facts(case.get("facts", {}))
        target = target_of(case.get("target", {}), facts)
        chosen = options.build_options(ALL[kind].Options, case.get("options", {}))
        for step in ALL[kind].plan(chosen, target, facts).steps:
            words = [str(word).replace("/proc/sys/dev/", "") for word in step.argv]
            if any("/dev/" in word for word in words):
                assert step.destroys, step.argv
