# SPDX-License-Identifier: Apache-2.0
"""Consoles of tools that must be played, not only started. Such a tool's room has a module `console`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Protocol

from agents.contracts import Job, Shell, Watch
from agents.facts.model import HostFacts
from agents.jobs import job
from agents.jobs.spool import Spool
from benchlab import app_modules
from benchlab.runs.models import Attempt
from benchlab.runs.states import Player
from benchlab.runs.verdict import Verdict

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
