"""A toy layer that grows, awaits and is followed, for tests: a mirror whose kernel work is a word in the facts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import ModuleType

import pytest

from agents.contracts import Claim, Need, Plan, Progress, Step, Target, Use
from agents.drivers import registry
from agents.facts.model import HostFacts
from agents.steps.common import is_claimed

KIND = "toy"
WORK = "toy works"  # a fact's `members` value begins so while the kernel works on: "toy works 0.25"


@dataclass(frozen=True, slots=True)
class Options:
    level: int = 5


@dataclass(frozen=True, slots=True)
class Grow:
    backup: bool = field(default=False, metadata={"help": "Keep a copy"})


def _volume(target: Target, devices: int) -> Target:
    size = sum(claim.size for claim in target.devices["data"][:devices])
    return replace(target, volume=f"/dev/md/{target.name}", size=size)


def required_programs(options: Options) -> tuple[Need, ...]:
    return ()


def plan(options: Options, target: Target, facts: HostFacts) -> Plan:
    nodes = tuple(claim.node for claim in target.devices["data"])
    step = Step(("toy", "create", *nodes), "Create", destroys=target.devices["data"])
    return Plan((step,), _volume(target, len(nodes)), kept={"made": "yes"})


def plan_growth(
    options: Options,
    grow: Grow,
    target: Target,
    more: dict[str, tuple[Claim, ...]],
    facts: HostFacts,
) -> Plan:
    nodes = tuple(claim.node for claim in more["data"])
    argv = ("toy", "grow", *(["--backup"] if grow.backup else []), *nodes)
    step = Step(argv, "Grow", destroys=target.devices["data"])
    return Plan((step,), _volume(target, len(target.devices["data"])), kept={"grown": "yes"})


def background_progress(options: Options, target: Target, facts: HostFacts) -> Progress | None:
    for owner in facts.members.values():
        if owner.startswith(WORK):
            return Progress(f"reshape of {target.name}", float(owner.removeprefix(WORK)), 120.0)
    return None


def teardown(options: Options, target: Target, facts: HostFacts) -> list[Step]:
    nodes = tuple(claim.node for claim in target.devices["data"] if is_claimed(claim, facts))
    return [Step(("toy", "destroy", *nodes), "Destroy", destroys=target.devices["data"])]


def verify(options: Options, target: Target, facts: HostFacts) -> list[str]:
    return [f"looked for {len(target.devices['data'])} disks, kept {sorted(target.kept)}"]


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The layer `toy`, known to the registry for one test."""
    driver = ModuleType(KIND)
    vars(driver).update(
        {name: value for name, value in globals().items() if not name.startswith("_")},
        LABEL="Toy array",
        NEEDS=(),
        USES={"data": Use("members", least=2)},
        PROVIDES="volume",
        REQUIRES="own",
    )
    monkeypatch.setitem(registry.all_layers(), KIND, driver)
    return driver
