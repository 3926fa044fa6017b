"""An attempt's job as it can be done on this host, and where it lives there."""

from __future__ import annotations

from dataclasses import replace

from agents import options, registry
from agents.contracts import AgentError, Job, Reason
from agents.spool import Spool
from agents.tools import dynamo
from benchlab.dynamo.models import Binary
from benchlab.runs import planning
from benchlab.runs.models import Attempt, Layout


def of(attempt: Attempt, layout: Layout) -> Job:
    """The job of an attempt on its layout. Raises AgentError (OptionsError) when the options cannot be."""
    tool = registry.tool(attempt.run.tool)
    chosen = options.build(tool.Options, attempt.run.options)
    sudo = layout.facts_ready is None or bool(layout.facts_ready.facts["sudo"])
    work = tool.job(chosen, planning.target_of(layout, attempt.run))
    return fit(work, sudo and not is_plain(layout))


def is_plain(layout: Layout) -> bool:
    """Whether its jobs run as the user who logs in, sudo or not: on this machine, where no disk is taken.

    What sudo starts here could neither be found nor ended by `down`, and would leave files in the scratch directory
    that its owner cannot remove. Raises PlanError when there is no plan.
    """
    host = layout.host
    return host.is_local and host.user != "root" and not planning.stored(layout).claims


def fit(work: Job, root: bool) -> Job:
    """A user without root can still measure in a directory of theirs; the caches stay as they are, and that is said."""
    return work if root else replace(work, root=False, drop_caches=False)


def filled(attempt: Attempt, work: Job) -> Job:
    """With the program that a person uploaded, where the options name one. Raises AgentError when it is not there."""
    wanted = str(attempt.run.options.get("binary", ""))
    if attempt.run.tool != "dynamo" or not wanted.startswith(dynamo.STORED):
        return work
    digest = wanted.removeprefix(dynamo.STORED)
    row = Binary.objects.filter(team=attempt.run.campaign.team_id, sha256=digest).first()
    if row is None:
        raise AgentError(
            f"No dynamo with SHA-256 {digest} was uploaded by this team: upload it again (page IOmeter's dynamo)",
            Reason.TOOL_MISSING,
        )
    return replace(work, inputs={**work.inputs, dynamo.SENT: bytes(row.content)})


def spool(attempt: Attempt, work: Job) -> Spool:
    return Spool(attempt.spool, root=work.root)
