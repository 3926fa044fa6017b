"""Layers of directories and files that grow, with a kernel made of a counter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from agents.contracts import Plan, Progress, Step, Target
from agents.layers import directory


@dataclass
class Kernel:
    """Kernel of the layer: `looks` more looks find it at work, by stage; how often it was asked."""

    looks: dict[int, int] = field(default_factory=dict)
    asked: list[tuple[int, int]] = field(default_factory=list)  # (stage, looks left)

    def awaits(self, stage: int) -> Progress | None:
        left = self.looks.get(stage, 0)
        self.asked.append((stage, left))
        if not left:
            return None
        self.looks[stage] = left - 1
        return Progress("reshape of toy", 1.0 / (left + 1), 30.0)


@dataclass(frozen=True, slots=True)
class Grow:
    by: int = 1


@dataclass(frozen=True, slots=True)
class NoOptions:
    pass


def _touch(target: Target, name: str) -> Step:
    return Step(("touch", f"{target.mount}/{name}"), name, root=False)


def bottom(kernel: Kernel) -> ModuleType:
    """A directory that grows by a file."""
    driver = ModuleType("toy")
    vars(driver).update(vars(directory), LABEL="Toy", Grow=Grow)

    def plan_growth(
        options: Any, grow: Grow, target: Target, more: Mapping[str, Any], facts: Any
    ) -> Plan:
        own = directory.plan(options, target, facts).target
        stages = int(target.kept.get("stages", "0")) + grow.by
        return Plan((_touch(own, f"grown-{stages}"),), own, {"stages": str(stages)})

    def background_progress(options: Any, target: Target, facts: Any) -> Progress | None:
        return kernel.awaits(int(target.kept.get("stages", "0")))

    vars(driver).update(plan_growth=plan_growth, background_progress=background_progress)
    return driver


def top() -> ModuleType:
    """A layer that follows by a file."""
    driver = ModuleType("toy_top")

    def plan_expansion(options: Any, target: Target, facts: Any) -> Plan:
        return Plan((_touch(target, "followed"),), target)

    vars(driver).update(
        LABEL="Toy top", NEEDS=(), USES={}, REQUIRES="mount", PROVIDES="mount", Options=NoOptions,
        required_programs=lambda options: (), plan_expansion=plan_expansion, verify=lambda options, target, facts: [],
        plan=lambda options, target, facts: Plan((), replace(target)),
        teardown=lambda options, target, facts: [],
    )  # fmt: skip
    return driver
