# SPDX-License-Identifier: Apache-2.0
"""An attempt's job as it can be done on this host, its console, and the rows of a step that a decision is done to.

Most tools are started and polled alone. The room of one that must be played has a module `console`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol

from agents import options
from agents.contracts import Job, Shell, Target, Watch
from agents.drivers import registry
from agents.facts.model import HostFacts
from agents.jobs import job
from agents.jobs.spool import Spool
from agents.plans.chain import specs
from benchlab import app_modules
from benchlab.engine.checks import planning
from benchlab.engine.polls import PollAnswer
from benchlab.hosts import discovery
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.states import Player
from benchlab.runs.verdict import Verdict

# A tool's kind and its options; the same options, with paths that only root can change
TrustOptions = Callable[[str, Any], Any]
# Layers whose directory a person made, or the user who logs in
FOREIGN_LAYERS = {"directory", "manual", "reported"}


def build_job(attempt: Attempt, layout: Layout, trusted: TrustOptions | None = None) -> Job:
    """The job of an attempt on its layout. Raises AgentError (OptionsError) when the options cannot be.

    `trusted` checks the programs that root is to run, as agents.safety.root_only.trusted does: for a job that starts.
    """
    kind = attempt.run.tool
    tool, root = registry.tool(kind), _runs_as_root(layout)
    chosen = options.build_options(tool.Options, attempt.run.options)
    if root and trusted is not None:
        chosen = trusted(kind, chosen)
    target = planning.run_target(layout, attempt.run)
    work = fit_to_user(tool.build_job(chosen, target), root)
    if not root or layout.facts_ready_id is None:
        return work
    return with_user(work, kind, chosen, target, layout, planning.facts_at_ready(layout))


def with_user(
    work: Job, kind: str, built: Any, target: Target, layout: Layout, facts: HostFacts
) -> Job:
    """Run the job as a user of its own where that is possible; otherwise record the reason why root runs it."""
    why = why_root(kind, built, target, layout, facts)
    programs = registry.named_programs(kind, built)
    return replace(
        work,
        unprivileged=not why,
        why_root=why,
        place=target.mount or target.volume,
        program=programs[0] if programs else "",
        room=registry.required_bytes(kind, built, target) if target.mount else 0,
    )


def why_root(kind: str, built: Any, target: Target, layout: Layout, facts: HostFacts) -> str:
    """Reason why root runs the tool; "" where a user of its own does, who may open the target alone."""
    if reason := registry.root_reason(kind, built, target):
        return reason
    kinds = {spec.kind for spec in specs(layout.stack)}
    if (
        target.mount
        and kinds & FOREIGN_LAYERS
        and not ("directory" in kinds and layout.host.user == "root")
    ):
        return "the directory is not BenchLab's to hand over"
    if discovery.CONFINEMENT.program not in facts.tools:
        return "this host cannot confine it: that needs Linux with setpriv, unshare and flock, and mount namespaces"
    return ""


def _runs_as_root(layout: Layout) -> bool:
    sudo = layout.facts_ready_id is None or planning.facts_at_ready(layout).sudo
    return sudo and not runs_as_login_user(layout)


def runs_as_login_user(layout: Layout) -> bool:
    """True when its jobs run as the user who logs in, sudo or not: on this machine, where no disk is taken.

    What sudo starts here could neither be found nor ended by `down`, and would leave files in the scratch directory
    that its owner cannot remove. Raises PlanError when there is no plan.
    """
    host = layout.host
    return host.is_local and host.user != "root" and not planning.stored_plan(layout).claims


def fit_to_user(work: Job, root: bool) -> Job:
    """Fit the job to a user without root, who can still measure in a directory of theirs.

    The caches stay as they are, and the result says so.
    """
    return work if root else replace(work, root=False, drop_caches=False)


def job_spool(attempt: Attempt, work: Job) -> Spool:
    return Spool(attempt.spool, root=work.root)


# the samplers' tick
SAMPLE_INTERVAL_S = 1.0


class ConsoleSession(Protocol):
    """A console that is about to be played by this process, once `go` is called."""

    job: Job

    def go(self) -> None: ...


class Console:
    """Console of a tool that is started and polled, and needs nobody."""

    LOST = "The process driving the tool ended during the run; nothing was kept."

    def is_played(self, facts: HostFacts) -> bool:
        """True when a process of ours must play it on this host."""
        return False

    def player(self, attempt: Attempt, facts: HostFacts) -> Player:
        return Player.NONE

    def fit(self, work: Job, facts: HostFacts) -> Job:
        """The job as far as polling and collecting are concerned."""
        return work

    def filled(self, attempt: Attempt, work: Job) -> Job:
        """The job with what people provided for it. Raises AgentError if that is missing."""
        return work

    def refusal(self, shell: Shell, trial: Job, facts: HostFacts) -> str:
        """Reason why the job's options cannot work, by a trial on the host; "" when nothing is known."""
        ran = job.run_short(shell, trial)
        if ran.exit_code == 0:
            return ""
        message = (ran.stderr or ran.stdout).decode("utf-8", "replace").replace("\0", "").strip()
        return f"{' '.join(trial.argv)} refuses these options: {message[-1000:]}"

    def begin(
        self,
        attempt: Attempt,
        work: Job,
        facts: HostFacts,
        shell: Shell,
        spool: Spool,
        sampled: Sequence[str | Watch],
    ) -> ConsoleSession | None:
        """Start the job; what is returned waits to play it. Raises AgentError."""
        job.start_job(shell, spool, self.filled(attempt, work), sampled, SAMPLE_INTERVAL_S)
        return None

    def notes(self, playing: ConsoleSession | None) -> dict[str, str]:
        """Notes to store with the attempt."""
        return {}

    def judged(self, attempt: Attempt, verdict: Verdict, facts: HostFacts) -> Verdict:
        """The verdict, adjusted where the session knows better than the exit code."""
        return verdict

    def ended(self, attempt: Attempt) -> None:
        """React to the end of an attempt whose output was read."""

    def is_kept(self, attempt: Attempt) -> bool:
        """True when the session is over and stored."""
        return False

    def tidy(self, work: Job, shell: Shell) -> None:
        """Remove what an interrupted session laid out only half."""

    def again(self, attempt: Attempt) -> None:
        """Have the run tried again after an interrupted session."""


@cache
def all_consoles() -> dict[str, Console]:
    """All consoles by the kind of their tool. A module `console` names the kind as TOOL and its console as CONSOLE."""
    return {module.TOOL: module.CONSOLE for module in app_modules.modules_named("console")}


NO_CONSOLE = Console()


def attempt_console(attempt: Attempt) -> Console:
    return all_consoles().get(attempt.run.tool, NO_CONSOLE)


@dataclass(slots=True)
class StepRows:
    """Rows that a decision is done to."""

    layout: Layout
    attempt: Attempt | None
    # of a poll of the attempt
    answer: PollAnswer | None = None
    # content of the answer
    polled: job.Polled | None = None
    # of the samples that are here, where that is known
    offset: int | None = None

    @property
    def layout_and_attempt(self) -> tuple[Layout, Attempt]:
        assert self.attempt is not None, "what is started or polled is an attempt"
        return self.layout, self.attempt


def layout_team(layout_id: int) -> int | None:
    """The team whose host a layout is for. Raises Layout.DoesNotExist."""
    return Layout.objects.order_by().values_list("host__team", flat=True).get(pk=layout_id)
