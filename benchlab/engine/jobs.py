# SPDX-License-Identifier: Apache-2.0
"""An attempt's job as it can be done on this host, and where it lives there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agents import options
from agents.contracts import Job, Target
from agents.drivers import registry
from agents.facts.model import HostFacts
from agents.jobs.spool import Spool
from agents.plans.chain import specs
from benchlab.engine.checks import planning
from benchlab.hosts import services as hosts
from benchlab.runs.models import Attempt, Layout

# A tool's kind and its options; the same options, with paths that only root can change
Trusted = Callable[[str, Any], Any]
# Layers whose directory a person made, or the user who logs in
BY_OTHERS = {"directory", "manual", "reported"}


def of(attempt: Attempt, layout: Layout, trusted: Trusted | None = None) -> Job:
    """The job of an attempt on its layout. Raises AgentError (OptionsError) when the options cannot be.

    `trusted` checks the programs that root is to run, as agents.safety.root_only.trusted does: for a job that starts.
    """
    kind = attempt.run.tool
    tool, root = registry.tool(kind), _by_root(layout)
    chosen = options.build_options(tool.Options, attempt.run.options)
    if root and trusted is not None:
        chosen = trusted(kind, chosen)
    target = planning.target_of(layout, attempt.run)
    work = fit(tool.build_job(chosen, target), root)
    if not root or layout.facts_ready_id is None:
        return work
    return as_user(work, kind, chosen, target, layout, planning.at_ready(layout))


def as_user(
    work: Job, kind: str, built: Any, target: Target, layout: Layout, facts: HostFacts
) -> Job:
    """The job as a user of its own is to run it where that may be; else with the reason why root does."""
    why = why_root(kind, built, target, layout, facts)
    named = registry.named_programs(kind, built)
    return replace(
        work,
        unprivileged=not why,
        why_root=why,
        place=target.mount or target.volume,
        program=named[0] if named else "",
        room=registry.required_bytes(kind, built, target) if target.mount else 0,
    )


def why_root(kind: str, built: Any, target: Target, layout: Layout, facts: HostFacts) -> str:
    """Reason why root runs the tool; "" where a user of its own does, who may open the target alone."""
    if said := registry.root_reason(kind, built, target):
        return said
    kinds = {spec.kind for spec in specs(layout.stack)}
    if (
        target.mount
        and kinds & BY_OTHERS
        and not ("directory" in kinds and layout.host.user == "root")
    ):
        return "the directory is not BenchLab's to hand over"
    if hosts.CONFINES.program not in facts.tools:
        return "this host cannot confine it: that needs Linux with setpriv, unshare and flock, and mount namespaces"
    return ""


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
