"""A host on paper: its facts are what a test says, every command succeeds, and those that ran are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from agents.contracts import Ran
from agents.drivers import registry
from agents.facts import reading
from agents.facts.model import HostFacts
from agents.safety import apply
from benchlab.engine.checks import condition, previews
from benchlab.engine.checks.condition import Condition
from benchlab.hosts import discovery, ssh_access
from benchlab.hosts.models import Device, Host
from benchlab.runs.models import Layout
from tests.agents.growing import toy
from tests.hosts.conftest import disk, facts

DISKS = tuple(disk(name) for name in ("sdb", "sdc", "sdd"))
TOY: dict[str, Any] = {
    "kind": "toy", "options": {}, "devices": [{"use": "data", "role": "hdd", "count": 2}],
}  # fmt: skip
MORE: dict[str, Any] = {
    "layer": 1, "options": {}, "devices": [{"use": "data", "role": "hdd", "count": 1}],
}  # fmt: skip
__all__ = ["toy"]


@dataclass
class Paper:
    """`then`: what a command's end makes of the facts. Every disk can be opened exclusively, which is not in `ran`."""

    facts: HostFacts
    ran: list[tuple[str, ...]] = field(default_factory=list)
    condition: Condition = field(default_factory=Condition)
    then: Callable[[tuple[str, ...]], object] = lambda argv: None

    def run(self, argv: Any, **given: Any) -> Ran:
        words = tuple(str(word) for word in argv)
        if apply.OPEN in words:
            return Ran(words, 0, b"", b"", 0.0)
        self.ran.append(words)
        self.then(words)
        return Ran(words, 0, b"", b"", 0.0)

    def disks(self, *devices: Any) -> None:
        self.facts = facts(*devices)


@pytest.fixture
def paper(toy: Any, host: Host, monkeypatch: pytest.MonkeyPatch) -> Paper:
    """Three spare disks, sdb to sdd, and a toy array that is always as it should be."""
    made = Paper(facts(*DISKS))
    monkeypatch.setattr(ssh_access, "connect_to_host", lambda row: made)
    monkeypatch.setattr(reading, "read_facts", lambda shell, needs=(): made.facts)
    monkeypatch.setattr(condition, "check_layout", lambda layout, shell: made.condition)
    monkeypatch.setattr(apply, "FRESH_S", 0.0)  # the guard looks before each command
    monkeypatch.setattr(apply, "SAME_S", 0.0)
    monkeypatch.setattr(registry.all_layers()["toy"], "verify", lambda o, t, f: [])
    discovery.store_facts(host, made.facts)
    for row in Device.objects.filter(host=host).exclude(name="sda"):
        row.spare, row.role, row.spare_size, row.spare_model = True, "hdd", row.size, row.model
        row.save()
    return made


def confirmed(layout: Layout, *stack: dict[str, Any], stages: Any = ()) -> Layout:
    """The layout with this stack, planned and agreed to, about to be built."""
    Layout.objects.filter(pk=layout.pk).update(
        stack=list(stack), stages=list(stages), phase="draft"
    )
    previews.plan_draft(layout.pk)
    layout.refresh_from_db()
    assert layout.plan, layout.plan_error
    layout.phase, layout.confirmed_fingerprint = "provisioning", layout.plan_fingerprint
    layout.confirmed_by = "alice"
    layout.save()
    return layout
