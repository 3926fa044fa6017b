"""An attempt's job as it can be done on this host, and where it lives there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agents import options
from agents.contracts import Job
from agents.drivers import registry
from agents.jobs.spool import Spool
from benchlab.engine.checks import planning
from benchlab.runs.models import Attempt, Layout

# A tool's kind and its options; the same options, with paths that only root can change
Trusted = Callable[[str, Any], Any]


def of(attempt: Attempt, layout: Layout, trusted: Trusted | None = None) -> Job:
    """The job of an attempt on its layout. Raises AgentError (OptionsError) when the options cannot be.

    `trusted` checks the programs that root is to run, as agents.safety.root_only.trusted does: for a job that starts.
    """
    kind = attempt.run.tool
    tool, root = registry.tool(kind), _by_root(layout)
    chosen = options.build(tool.Options, attempt.run.options)
    if root and trusted is not None:
        chosen = trusted(kind, chosen)
    return fit(tool.job(chosen, planning.target_of(layout, attempt.run)), root)


def _by_root(layout: Layout) -> bool:
    sudo = layout.facts_ready_id is None or planning.at_ready(layout).sudo
    return sudo and not is_plain(layout)


def is_plain(layout: Layout) -> bool:
    """True when its jobs run as the user who logs in, sudo or not: on this machine, where no disk is taken.

    What sudo starts here could neither be found nor ended by `down`, and would leave files in the scratch directory
    that its owner cannot remove. Raises PlanError when there is no plan.
    """
    host = layout.host
    return host.is_local and host.user != "root" and not planning.stored(layout).claims


def fit(work: Job, root: bool) -> Job:
    """A user without root can still measure in a directory of theirs; the caches stay as they are, and that is said."""
    return work if root else replace(work, root=False, drop_caches=False)


def spool(attempt: Attempt, work: Job) -> Spool:
    return Spool(attempt.spool, root=work.root)
