# SPDX-License-Identifier: Apache-2.0
"""Parts of pages for a single tool, from the modules `run_part` and `tool_files` of the room that owns the tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from benchlab import app_modules
from benchlab.runs.models import Attempt, Measurement


class RunPart(Protocol):
    """`TOOL` is the kind, `TEMPLATE` the room's part of a run's page, which has its own context as `tool_part`."""

    TOOL: str
    TEMPLATE: str

    def context(self, attempt: Attempt, measured: Sequence[Measurement]) -> dict[str, Any]: ...


class ToolFiles(Protocol):
    """`TOOL` is the kind. The mappings are {URL name of a file of a campaign, or of a workload by id: link text}."""

    TOOL: str
    OF_CAMPAIGN: Mapping[str, str]
    OF_WORKLOAD: Mapping[str, str]


def tool_context(attempt: Attempt, measured: Sequence[Measurement]) -> dict[str, Any]:
    """Return the context with its template; empty for a tool without a part of its own."""
    for part in (cast(RunPart, module) for module in app_modules.modules_named("run_part")):
        if attempt.run.tool == part.TOOL:
            return {"template": part.TEMPLATE, **part.context(attempt, measured)}
    return {}


def campaign_files(tool: str) -> dict[str, str]:
    """Return the files of the campaign's runs of this tool: the URL's name -> the link's words."""
    return {url: text for files in _tool_files(tool) for url, text in files.OF_CAMPAIGN.items()}


def workload_files(tool: str) -> dict[str, str]:
    return {url: text for files in _tool_files(tool) for url, text in files.OF_WORKLOAD.items()}


def _tool_files(tool: str) -> list[ToolFiles]:
    modules = (cast(ToolFiles, module) for module in app_modules.modules_named("tool_files"))
    return [files for files in modules if tool == files.TOOL]
