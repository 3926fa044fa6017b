"""Decisions of the engine, case by case: tests/cases/engine has a file a situation, and in it a case an event.

A case is an event in words, a state (what differs from the default), perhaps what failed, and the decision.
"""

from __future__ import annotations

import json
from operator import itemgetter
from pathlib import Path
from typing import Any

import cattrs
import pytest

from agents.contracts import Reason
from benchlab.engine.access import all_accesses
from benchlab.engine.decide import failed
from benchlab.engine.decisions import Decision, LayoutState
from tests.each_case import check_each

CASES = Path(__file__).parents[1] / "cases" / "engine"
FILES = {path.stem: json.loads(path.read_text()) for path in sorted(CASES.glob("*.json"))}
converter = cattrs.Converter(forbid_extra_keys=True)
# outcome may be "": no member of the enumeration, which cattrs would ask for
converter.register_structure_hook_func(
    lambda kind: str(kind).endswith("Outcome | str"), lambda value, _: str(value)
)
# What may happen anywhere; each situation has a case for each.
ANYWHERE = (
    "nothing new",
    "cancelled",
    "paused",
    "cancelled while paused",
    "a person was asked",
    "a person says that it is done",
    "the worker was killed in commands",
    "no answer for a minute",
    "no answer for 20 minutes",
    "no answer for 20 minutes, cancel wished",
    "the host's key changed",
    "the guard refused",
    "the host was rebooted",
    "a command failed",
    "our own code broke",
)
BUILT = ("waiting", "provisioning", "ready_empty", "ready_queued", "ready_starting", "ready_running",
         "ready_collecting", "tearing_down")  # fmt: skip
# What may happen where only dynamo reaches the host: there is no SSH, so no host key, and no command of ours, so none
# that fails, nor a person's step. Who asks whether dynamo is there is refused while it is silent; others go on.
DIALLED_IN_ANYWHERE = (
    "nothing new",
    "cancelled",
    "paused",
    "cancelled while paused",
    "no answer for a minute",
    "no answer for 20 minutes",
    "no answer for 20 minutes, cancel wished",
    "our own code broke",
)
DIALLED_IN = tuple(f"dialled_in_{name}" for name in BUILT)
ALL = [(name, case) for name, cases in FILES.items() for case in cases]


def decided(name: str, case: dict[str, Any]) -> Decision:
    state = converter.structure(case["state"], LayoutState)
    access = all_accesses()["dynamo" if name.startswith("dialled_in") else "ssh"]
    decision = access.RULES[state.phase](state)
    if "broke" in case:
        return failed.decide_after_crash(state, case["broke"])
    if "refused" in case:
        reason, text = case["refused"]
        return failed.decide_after_refusal(state, "lab1", Reason(reason), text, decision)
    return decision


def told(decision: Decision) -> dict[str, Any]:
    fields = cattrs.unstructure(decision)
    return {"do": type(decision).__name__, **fields}


@pytest.mark.parametrize("name", FILES)
def test_case(name):
    check_each(lambda case: check_decision(name, case), FILES[name], name=itemgetter("event"))


def check_decision(name, case):
    assert told(decided(name, case)) == case["decides"]


def test_each_file_is_of_a_situation():
    assert set(FILES) == {*BUILT, *DIALLED_IN}


@pytest.mark.parametrize("name", FILES)
def test_each_situation_has_a_case_for_each_event(name):
    events = [case["event"] for case in FILES[name]]
    assert set(ANYWHERE if name in BUILT else DIALLED_IN_ANYWHERE) <= set(events)
    assert len(events) == len(set(events))


def test_every_decision_has_a_case_and_is_done_by_every_access_that_decides_it():
    kinds = {kind.__name__ for kind in Decision.__subclasses__()}
    assert kinds - {case["decides"]["do"] for _, case in ALL} == {"Nothing"}
    for access in all_accesses().values():
        assert {kind.__name__ for kind in access.ACTIONS} <= kinds
    built = {case["decides"]["do"] for name, case in ALL if name in BUILT}
    assert built <= {kind.__name__ for kind in all_accesses()["ssh"].ACTIONS}
    far = {case["decides"]["do"] for name, case in ALL if name not in BUILT}
    assert far <= {kind.__name__ for kind in all_accesses()["dynamo"].ACTIONS}
