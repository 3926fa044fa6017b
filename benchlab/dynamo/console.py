# SPDX-License-Identifier: Apache-2.0
"""IOmeter's dynamo: a console beside it on the host, or played from here (dynamo_player.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from agents.contracts import AgentError, Job, Reason, Shell, Watch
from agents.drivers import registry
from agents.dynamo.wire import DynamoError
from agents.facts.model import HostFacts
from agents.jobs import job
from agents.jobs.spool import Spool
from agents.ssh.shell import SshShell
from agents.tools import dynamo
from benchlab.dynamo import dynamo_player, program_check
from benchlab.dynamo.models import Binary
from benchlab.engine.jobs import SAMPLE_INTERVAL_S, Console, ConsoleSession
from benchlab.hosts import ssh_access
from benchlab.hosts.models import Host
from benchlab.runs.models import Attempt
from benchlab.runs.states import Player
from benchlab.runs.verdict import Verdict


class Dynamo(Console):
    LOST = dynamo_player.LOST

    def is_played(self, facts: HostFacts) -> bool:
        return dynamo_player.is_player_needed(facts)

    def player(self, attempt: Attempt, facts: HostFacts) -> Player:
        if not self.is_played(facts):
            return Player.NONE
        if dynamo_player.is_played(attempt):
            return Player.PLAYING
        if not dynamo_player.is_transcript_stored(attempt):
            return Player.DIED
        return Player.OVERDUE if dynamo_player.is_late(attempt) else Player.STORED

    def fit(self, work: Job, facts: HostFacts) -> Job:
        """Job without the outputs that the console does not write on the host."""
        return replace(work, outputs=()) if self.is_played(facts) else work

    def filled(self, attempt: Attempt, work: Job) -> Job:
        """Add the uploaded program, if the options name one."""
        binary = str(attempt.run.options.get("binary", ""))
        if not binary.startswith(dynamo.STORED):
            return work
        digest = binary.removeprefix(dynamo.STORED)
        row = Binary.objects.filter(team=attempt.run.campaign.team_id, sha256=digest).first()
        if row is None:
            raise AgentError(
                f"No dynamo with SHA-256 {digest} was uploaded by this team: upload it again (page IOmeter's dynamo)",
                Reason.TOOL_MISSING,
            )
        return replace(work, inputs={**work.inputs, dynamo.UPLOADED_NAME: bytes(row.content)})

    def refusal(self, shell: Shell, trial: Job, facts: HostFacts) -> str:
        if self.is_played(facts):
            return dynamo_player.check_playable(shell, trial)
        return super().refusal(shell, trial, facts)

    def begin(
        self,
        attempt: Attempt,
        work: Job,
        facts: HostFacts,
        shell: Shell,
        spool: Spool,
        sampled: Sequence[str | Watch],
    ) -> ConsoleSession | None:
        if not self.is_played(facts):
            return super().begin(attempt, work, facts, shell, spool, sampled)
        try:
            return self._play(
                attempt, work, shell, spool, registry.sampled_sources(facts.os_family)
            )
        except DynamoError as error:
            raise AgentError(f"dynamo: {error}", Reason.TOOL_FAILED) from None

    def _play(
        self,
        attempt: Attempt,
        work: Job,
        shell: Shell,
        spool: Spool,
        sampled: Sequence[str | Watch],
    ) -> ConsoleSession:
        assert isinstance(shell, SshShell), "only these have tunnels"
        player = dynamo_player.Player(attempt, shell, work, spool)
        try:
            filled = self.filled(attempt, player.job)
            if job.start_job(shell, spool, filled, sampled, SAMPLE_INTERVAL_S).already:
                # a worker died right after it had started dynamo, which looks for a port that nobody has
                job.stop_job(shell, spool)
                job.remove_spool(shell, spool)
                job.start_job(shell, spool, filled, sampled, SAMPLE_INTERVAL_S)
        except BaseException:
            player.drop()
            raise
        return player

    def notes(self, playing: ConsoleSession | None) -> dict[str, str]:
        where = "in BenchLab, through SSH tunnels" if playing else "beside dynamo, on the host"
        return {"console": where}

    def judged(self, attempt: Attempt, verdict: Verdict, facts: HostFacts) -> Verdict:
        if self.is_played(facts) and verdict.reason != Reason.HOST_REBOOTED:
            return dynamo_player.judge_transcript(attempt)
        return verdict

    def ended(self, attempt: Attempt) -> None:
        dynamo_player.name_program(attempt)

    def is_kept(self, attempt: Attempt) -> bool:
        return dynamo_player.is_transcript_stored(attempt)

    def tidy(self, work: Job, shell: Shell) -> None:
        dynamo_player.remove_test_files(work, shell)

    def again(self, attempt: Attempt) -> None:
        dynamo_player.create_retry(attempt)


TOOL = "dynamo"
CONSOLE = Dynamo()


def check_program(host: Host, by: object, path: str) -> dict[str, Any]:
    """A host task (benchlab/hosts/host_tasks.py): what is seen of that program there. Raises AgentError."""
    return asdict(program_check.inspect_program(ssh_access.connect_to_host(host), path))
