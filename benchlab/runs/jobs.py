"""An attempt's job as it can be done on this host, and where it lives there."""

from __future__ import annotations

from dataclasses import replace

from agents import options, registry
from agents.contracts import Job
from agents.spool import Spool
from benchlab.runs import planning
from benchlab.runs.models import Attempt, Layout


def of(attempt: Attempt, layout: Layout) -> Job:
    """The job of an attempt on its layout. Raises AgentError (OptionsError) when the options cannot be."""
    tool = registry.tool(attempt.run.tool)
    chosen = options.build(tool.Options, attempt.run.options)
    sudo = layout.facts_ready is None or bool(layout.facts_ready.facts["sudo"])
    return fit(tool.job(chosen, planning.target_of(layout, attempt.run)), sudo)


def fit(work: Job, sudo: bool) -> Job:
    """A user without sudo can still measure in a directory of theirs; the caches stay as they are, and that is said."""
    return work if sudo else replace(work, root=False, drop_caches=False)


def spool(attempt: Attempt, work: Job) -> Spool:
    return Spool(attempt.spool, root=work.root)
