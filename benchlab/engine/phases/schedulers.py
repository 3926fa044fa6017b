"""The I/O scheduler that a run asks for: set before it, looked at again, and still there when the run is over.

The commands are those of the plan that a person agreed to, each guarded. What was there before is kept with the plan,
and every way down brings it back first (agents.plans.stack.teardown).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agents.contracts import AgentError, Claim, Reason, Shell, Step
from agents.facts import queues
from agents.facts.queues import Queues
from agents.plans import before_runs
from agents.safety.guard import claims_of
from benchlab.engine.checks import planning
from benchlab.engine.phases import step_log
from benchlab.runs.in_force import QUEUES
from benchlab.runs.models import Attempt, Layout, StepLog
from benchlab.runs.states import LAYOUT_IS_LOST, Outcome
from benchlab.runs.verdict import Verdict
from benchlab.topologies import moments

PART = "before a run"


def put_in_force(
    layout: Layout, attempt: Attempt, shell: Shell, gone: Collection[str] = ()
) -> Queues:
    """What the layout's disks have in force now, with the scheduler that the run asks for; {} where it asks for none.

    `gone`: nodes of disks that are not there, and measured without. Nothing is written where all is as asked. Raises
    AgentError, COMMAND_FAILED where the kernel refuses.
    """
    if not attempt.run.scheduler:
        return {}
    plan, stage = planning.stored(layout), moments.parse(attempt.run.stage).stage
    wanted, target = plan.swept.at(attempt.run.scheduler, stage), plan.at(stage)[-1].gives
    claims = claims_of(target)
    lost = [claim for claim in claims if claim.node in gone]
    nodes = [claim.node for claim in claims if claim not in lost]
    found = queues.read(shell, nodes)
    try:
        if before_runs.lacking(wanted, found):
            _run(layout, wanted.steps, lost, shell)
            found = queues.read(shell, nodes)
        if before_runs.not_as_before(wanted, plan.swept, target, found):
            _run(layout, wanted.as_before, lost, shell)
            found = queues.read(shell, nodes)
    except AgentError as error:
        if error.reason != Reason.COMMAND_FAILED:
            raise
        said = f"The I/O scheduler {wanted.scheduler} could not be set: {error}"
        raise AgentError(said, error.reason) from error
    if wrong := before_runs.lacking(wanted, found):
        raise AgentError(
            f"The I/O scheduler {wanted.scheduler} is not in force after it was set: {'; '.join(wrong)}. "
            "The kernel refuses it, or something else on the host sets another one.",
            Reason.COMMAND_FAILED,
        )
    return found


def _run(layout: Layout, steps: Sequence[Step], lost: Sequence[Claim], shell: Shell) -> None:
    commands = before_runs.without(steps, lost)
    step_log.run(layout, commands, shell, StepLog.Kind.APPLY, part=PART)


def held(attempt: Attempt, verdict: Verdict, shell: Shell) -> Verdict:
    """A run during which something else changed what was in force measured two states at once: no figure of either."""
    began: Queues = attempt.meta.get(QUEUES) or {}
    if not began or verdict.outcome != Outcome.SUCCEEDED:
        return verdict
    try:
        now = queues.read(shell, began)
    except AgentError as error:
        if error.reason in LAYOUT_IS_LOST:
            raise
        said = f"Nobody could look afterwards which I/O scheduler was in force: {error}"
        return Verdict(Outcome.FAILED, error.reason, said)
    changed = [
        f"{name} had {values[what]} when the run began and {now[name][what]} when it was over ({what})"
        for name, values in began.items()
        for what in queues.ATTRIBUTES
        if values[what] != now[name][what]
    ]
    if not changed:
        return verdict
    said = f"Something on the host changed a disk's queue during the run: {'; '.join(changed)}."
    return Verdict(Outcome.FAILED, Reason.CHANGED_MEANWHILE, said)
