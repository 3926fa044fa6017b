"""Case files of layers: {options, target, facts, and plan, gives, kept, teardown, verify, or error}.

A layer that grows: {grow: {options, more: {use: [disk]}, plan, gives, kept}}, with the new disks in `target` already;
one that follows: {stretch: {plan, gives}}; one that awaits: {awaits: null or {says, done, eta_s}}.

`target.devices` names disks of the facts by use; a word list in `plan` or `teardown` is one Step's argv, and a text the
name of a shared one (tests/agents/named_steps.py). A case says only what it is about: a missing key is not checked.
With --accept a case is written as the driver has it now; of one with options, target and facts alone, all of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agents import options
from agents.contracts import AgentError, Claim, Part, Plan, Step, Target
from agents.drivers import registry
from agents.facts.model import HostFacts
from tests.agents import made_up, named_steps

CASES = Path(__file__).parents[1] / "cases" / "layers"
FILES = sorted(CASES.glob("*/*.json"))
GIVES = ("volume", "pool", "mount", "size", "parts")
WIDE = 118
ANSWERS = ("error", "plan", "gives", "kept", "awaits", "teardown", "verify")


def as_now(kind: str, case: dict[str, Any]) -> dict[str, Any]:
    """The case with what the driver says to it now; one that says nothing yet is told all."""
    try:
        return json.loads(json.dumps(_told(registry.layer(kind), case)))
    except AgentError as error:
        said = case.get("error", "")
        asked = {key: _asked(case[key]) for key in case if key not in ANSWERS}
        return {**asked, "error": said if said and said in str(error) else str(error)}


def _told(driver: Any, case: dict[str, Any]) -> dict[str, Any]:
    facts = made_up.facts(case.get("facts", {}))
    target = target_of(case.get("target", {}), facts)
    chosen = options.build_options(driver.Options, case.get("options", {}))
    later = case.keys() & {"grow", "stretch"}
    told = {key: value for key, value in case.items() if key != "error"}
    if not later and not told.keys() & set(ANSWERS):
        told |= {"plan": [], "gives": dict.fromkeys(GIVES), "teardown": [], "verify": []}
    sizes = made_up.sizes(facts, target)
    if "plan" in told:
        told |= _planned(driver.plan(chosen, target, facts), told, sizes)
    if "grow" in case:
        more = _devices(case["grow"].get("more", {}), facts)
        grow = options.build_options(driver.Grow, case["grow"].get("options", {}))
        made = driver.plan_growth(chosen, grow, target, more, facts)
        told["grow"] = {**case["grow"], **_planned(made, case["grow"], sizes)}
    if "stretch" in case:
        made = driver.plan_expansion(chosen, target, facts)
        told["stretch"] = {**case["stretch"], **_planned(made, case["stretch"], sizes)}
    if "awaits" in told:
        found = driver.background_progress(chosen, target, facts)
        told["awaits"] = asdict(found) if found else None
    if "teardown" in told:
        told["teardown"] = _words(driver.teardown(chosen, target, facts), sizes)
    if "verify" in told:
        told["verify"] = driver.verify(chosen, target, facts)
    return told


def _planned(made: Plan, said: dict[str, Any], sizes: Mapping[str, int]) -> dict[str, Any]:
    assert isinstance(made, Plan)
    told: dict[str, Any] = {"plan": _words(made.steps, sizes)}
    given = asdict(made.target)
    if "gives" in said:
        told["gives"] = {key: given[key] for key in said["gives"]}
    if "kept" in said:
        told["kept"] = dict(made.kept)
    return told


def _asked(value: Any) -> Any:
    """Of a growth what is asked; the rest of a case is that anyway."""
    if not isinstance(value, dict):
        return value
    return {key: given for key, given in value.items() if key not in ANSWERS}


def written(case: dict[str, Any]) -> str:
    """A case as a file: each step in a line of its own, and what else fits into one."""
    return f"{_lines(case, 0)}\n"


def _lines(value: Any, deep: int) -> str:
    flat, inside = json.dumps(value, ensure_ascii=False), "  " * (deep + 1)
    if not isinstance(value, dict | list) or not value:
        return flat
    if deep and not _are_steps(value) and len(inside) + len(flat) <= WIDE:
        return flat
    if isinstance(value, list):
        rows, (opens, closes) = [_lines(one, deep + 1) for one in value], "[]"
    else:
        rows = [f"{json.dumps(key)}: {_lines(one, deep + 1)}" for key, one in value.items()]
        opens, closes = "{}"
    return f"{opens}\n{inside}" + f",\n{inside}".join(rows) + f"\n{'  ' * deep}{closes}"


def _are_steps(value: Any) -> bool:
    rows = value if isinstance(value, list) else ()
    return any(isinstance(one, list) or str(one).startswith("@") for one in rows)


def _devices(said: dict[str, list[str]], facts: HostFacts) -> dict[str, tuple[Claim, ...]]:
    return {
        use: tuple(made_up.claim(device) for n in names if (device := facts.find_device(n)))
        for use, names in said.items()
    }


def target_of(said: dict[str, Any], facts: HostFacts) -> Target:
    parts = {
        use: tuple(Part(**part) for part in given) for use, given in said.get("parts", {}).items()
    }
    devices = _devices(said.get("devices", {}), facts)
    return Target(**{"name": "bl17", **said, "devices": devices, "parts": parts})


def _words(steps: Iterable[Step], sizes: Mapping[str, int]) -> list[named_steps.Written]:
    # The kernel's answer is "busy" while udev has one of them open.
    assert all(step.quiet for step in steps if "--rereadpt" in step.argv)
    assert all(isinstance(step, Step) and step.says for step in steps)
    found = [[str(word) for word in step.argv] for step in steps]
    told = [named_steps.short(argv, sizes) for argv in found]
    assert [named_steps.whole(step, sizes) for step in told] == found
    return told


def commands(case: dict[str, Any]) -> Iterator[list[str]]:
    """The words of every step that it has."""
    facts = made_up.facts(case.get("facts", {}))
    sizes = made_up.sizes(facts, target_of(case.get("target", {}), facts))
    for said in (case, case.get("grow", {}), case.get("stretch", {})):
        for key in ("plan", "teardown"):
            yield from (named_steps.whole(step, sizes) for step in said.get(key) or ())
