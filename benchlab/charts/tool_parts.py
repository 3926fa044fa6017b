"""What the page of a run shows of its tool alone: told by the module `run_part` of the room that knows the tool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

from benchlab import app_modules
from benchlab.runs.models import Attempt, Measurement


class RunPart(Protocol):
    """`TOOL`: the kind. The page has what `of` gives under that name, for the room's own templates."""

    TOOL: str

    def of(self, attempt: Attempt, measured: Sequence[Measurement]) -> dict[str, Any]: ...


def of(attempt: Attempt, measured: Sequence[Measurement]) -> dict[str, dict[str, Any]]:
    """By the tool's kind; empty for a tool of which no room knows more."""
    parts = (cast(RunPart, module) for module in app_modules.named("run_part"))
    return {one.TOOL: one.of(attempt, measured) for one in parts if attempt.run.tool == one.TOOL}
