# SPDX-License-Identifier: Apache-2.0
"""A plan as a shell script, to read or to carry away: each step under what it does, what undoes it as comments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agents.contracts import Secret, Step
from agents.drivers import registry
from agents.plans import stack
from agents.plans.stack import Placed, StackPlan
from agents.quote import command_line, format_command

WARNING = "# Careful: this erases {disks}. BenchLab looks at the disks right before each command; a script does not."
BUILD_HEAD = """# For root, on that host. Nothing is done before you say: build
build() (
set -eu"""
TEARDOWN_HEAD = """
# Taken down, the top first. BenchLab makes the commands from what it finds on the host then, and proves the
# disks blank; what undoes single steps, the last one first, is:"""


def plan_script(plan: StackPlan, erased: Iterable[str]) -> str:
    """Shell script of the plan; "" where there is nothing to do. `erased`: nodes of the disks."""
    if not plan.steps:
        return ""
    warning = WARNING.format(disks=", ".join(erased) or "no disk")
    lines = [line for layer in plan.layers for line in _build_lines(layer)]
    for number, stage in enumerate(plan.stages, start=1):
        lines += [f"\n# Stage {number}: it grows", *_step_lines(stage.steps)]
    down = [
        line
        for layer in reversed(plan.layers_after(len(plan.stages)))
        for line in _undo_lines(layer)
    ]
    return (
        "\n".join([warning, BUILD_HEAD, *lines, ")", *_scheduler_lines(plan), TEARDOWN_HEAD, *down])
        + "\n"
    )


def _layer_label(layer: Placed) -> str:
    return registry.layer(layer.spec.kind).LABEL


def _build_lines(layer: Placed) -> Iterator[str]:
    yield f"\n# {_layer_label(layer)}"
    if manual_step := stack.manual_task(layer):
        yield _comment(f"A manual step is needed here: {manual_step.instruction}")
    yield from _step_lines(layer.steps)


def _scheduler_lines(plan: StackPlan) -> Iterator[str]:
    """Yield the scheduler's commands as comments: each run sets the scheduler that it asks for."""
    if plan.swept.each:
        yield "\n# Before each run, the one that it asks for:"
    for step in plan.swept.steps:
        yield _comment(f"  {_step_line(step)}")


def _step_lines(steps: Iterable[Step]) -> Iterator[str]:
    for step in steps:
        yield _comment(step.says)
        yield _step_line(step)


def _step_line(step: Step) -> str:
    if any(isinstance(word, Secret) for word in step.argv):
        return _comment(f"(left out, for it holds a secret) {format_command(step.argv)}")
    line = command_line(step.argv)
    return f"printf %s {command_line([step.stdin])} | {line}" if step.stdin else line


def _undo_lines(layer: Placed) -> Iterator[str]:
    undo = [command for step in reversed(layer.steps) for command in step.undo]
    yield f"# {_layer_label(layer)}{'' if undo else ': nothing by itself'}"
    yield from (_comment(f"  {_step_line(command)}") for command in undo)


def _comment(text: str) -> str:
    """Comment out each line, so that no part of a text is a command."""
    return "\n".join(f"# {line}" for line in text.splitlines())
