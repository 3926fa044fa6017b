# SPDX-License-Identifier: Apache-2.0
"""Attempts of dynamo whose console is played by a process of ours, because there is no Python beside dynamo.

Who plays holds a lease in PostgreSQL. A process that dies frees it at once: then nothing of the test was kept, the
attempt ends as interrupted, and another one is made. A test is stored whole, in one transaction, or not at all.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import orjson
from django.db import connection, transaction
from django.utils import timezone

from agents.contracts import AgentError, Job, Reason, Shell
from agents.dynamo import areas, remote_probe, transcript, tunnel
from agents.dynamo.remote_probe import RemoteHost, has_python
from agents.dynamo.transcript import COMPLETED
from agents.dynamo.wire import DynamoError
from agents.facts.model import HostFacts
from agents.jobs import job
from agents.jobs.spool import Spool
from agents.ssh import shell
from agents.tools.dynamo import CONFIG, MESSAGES
from benchlab.dynamo.models import ConsoleLines
from benchlab.runs import artifacts, events, transitions
from benchlab.runs.models import Attempt
from benchlab.runs.states import AttemptPhase, Outcome
from benchlab.runs.verdict import Verdict
from benchlab.workers.lease import Lock, lease

log = logging.getLogger(__name__)

# attempts of a run that are made because who played died
MAX_TRIES = 3
EXIT_TIMEOUT = timedelta(seconds=15)
LOST = "The process driving dynamo (a BenchLab worker or its listener) ended during the run; nothing was kept."


def is_player_needed(facts: HostFacts) -> bool:
    """True when the console cannot run beside dynamo on this host."""
    return not has_python(facts.tools)


def check_playable(sh: Shell, work: Job) -> str:
    """Reason why it cannot work, before it is tried; "" when nothing is known."""
    try:
        tunnel.check_remote(sh, work, work.inputs[CONFIG])
    except DynamoError as error:
        return str(error)
    return ""


class Player:
    """Holds the lease from the beginning; plays once `go` was called. Raises AgentError or DynamoError when made."""

    def __init__(self, attempt: Attempt, sh: shell.SshShell, work: Job, spool: Spool) -> None:
        self._attempt, self._shell, self._spool = attempt, sh, spool
        self._tunnel = shell.Tunnel(sh.address)
        try:
            self._session = tunnel.Session(sh, self._tunnel, work, work.inputs[CONFIG])
            self.job = self._session.remote_job
        except BaseException:
            self._tunnel.close_tunnel()
            raise
        self._held, self._go, self._play = threading.Event(), threading.Event(), False
        self._thread = threading.Thread(
            target=self._hold_lease, name=f"play {attempt.pk}", daemon=True
        )
        self._thread.start()
        if not self._held.wait(30.0):
            self.drop()
            raise AgentError("another process plays this attempt", Reason.INTERNAL)

    def go(self) -> None:
        self._play = True
        self._go.set()

    def drop(self) -> None:
        self._go.set()

    def _hold_lease(self) -> None:
        try:
            with lease(self._attempt.pk, Lock.ATTEMPT) as held:
                if held:
                    self._held.set()
                    self._go.wait()
                    if self._play:
                        self._play_test()
        except Exception:
            log.exception("playing attempt %s", self._attempt.pk)
        finally:
            self._tunnel.close_tunnel()
            connection.close()

    def _play_test(self) -> None:
        halt = tunnel.Halt()
        try:
            messages = self._session.play(
                halt, self._is_job_over, lambda fields: publish_line(self._attempt, fields)
            )
        finally:
            halt.close()
        store_transcript(self._attempt, messages)

    def _is_job_over(self) -> bool:
        try:
            return job.poll(self._shell, self._spool).state.is_over
        except AgentError:
            # the tunnel tells whether the connection is lost
            return False


def publish_line(attempt: Attempt, fields: Mapping[str, Any]) -> None:
    """Store a line for the page of the running attempt. It is not part of the result."""
    row, _ = ConsoleLines.objects.get_or_create(attempt=attempt)
    lines = row.with_line(orjson.dumps(dict(fields)).decode())
    ConsoleLines.objects.filter(pk=row.pk).update(lines=lines)
    events.notify_pages(attempt.layout.campaign_id)


@transaction.atomic
def store_transcript(attempt: Attempt, messages: bytes, to: AttemptPhase | None = None) -> bool:
    """Keep the transcript, if the attempt still runs. With `to`, move it there at once."""
    row = (
        Attempt.objects.select_for_update(of=("self",)).select_related("layout").get(pk=attempt.pk)
    )
    if row.phase != AttemptPhase.RUNNING or row.artifacts.filter(name=MESSAGES).exists():
        return False
    artifacts.store_artifacts(row, {MESSAGES: messages})
    if to is not None:
        transitions.move_attempt(row, to, "the test is over")
    ConsoleLines.objects.filter(attempt=row).delete()
    return True


def is_played(attempt: Attempt) -> bool:
    with lease(attempt.pk, Lock.ATTEMPT) as held:
        return not held


def is_transcript_stored(attempt: Attempt) -> bool:
    return attempt.artifacts.filter(name=MESSAGES).exists()


def is_late(attempt: Attempt) -> bool:
    """dynamo had time to end since its session was over."""
    row = attempt.artifacts.filter(name=MESSAGES).first()
    return row is not None and timezone.now() - row.created_at > EXIT_TIMEOUT


def remove_test_files(work: Job, sh: Shell) -> None:
    """Remove dynamo's files: one that was not laid out to its end may be as long as it should, and have holes."""
    settings = areas.parse_settings(json.loads(work.inputs[CONFIG]))
    with contextlib.suppress(DynamoError):
        files = remote_probe.current_areas(RemoteHost(sh, work.root), settings)
        RemoteHost(sh, work.root).run_script(
            remote_probe.DELETE_FILES_SCRIPT, *(area.path for area in files if area.file_bytes())
        )


def transcript_notes(attempt: Attempt) -> dict[str, Any]:
    """The notes of the transcript, and how it ended; {} where it cannot be read."""
    row = attempt.artifacts.filter(name=MESSAGES).first()
    if row is None:
        return {}
    try:
        read = transcript.parse_transcript(row.read())
    except DynamoError:
        return {}
    notes = {key: value for _, note in read.notes for key, value in note.items()}
    return {**notes, "end": read.end}


def judge_transcript(attempt: Attempt) -> Verdict:
    """Judge the attempt by its transcript: dynamo's exit code says nothing."""
    end = transcript_notes(attempt).get("end") or {
        "outcome": "result",
        "text": "the session cannot be read",
    }
    if end["outcome"] == COMPLETED:
        return Verdict(Outcome.SUCCEEDED)
    if end["outcome"] == "cancelled":
        return Verdict(Outcome.INTERRUPTED, Reason.WORKER_LOST, LOST)
    return Verdict(Outcome.FAILED, Reason.TOOL_FAILED, f"dynamo: {end['text']}"[:2000])


def name_program(attempt: Attempt) -> None:
    """Store which dynamo it was, as far as it said: not the Python that played the console."""
    notes = transcript_notes(attempt)
    words = [
        str(notes.get("version", "")),
        f"SHA-256 {notes['sha256']}" if notes.get("sha256") else "",
    ]
    if version := ", ".join(filter(None, words)):
        Attempt.objects.filter(pk=attempt.pk).update(tool_version=version[:200])


def create_retry(attempt: Attempt) -> Attempt | None:
    """Another attempt of the run on the same layout, unless that was tried often enough."""
    ConsoleLines.objects.filter(attempt=attempt).delete()
    tried = attempt.run.attempts.filter(reason=Reason.WORKER_LOST).count()
    if tried >= MAX_TRIES:
        return None
    retry = Attempt.objects.create(
        run=attempt.run, layout=attempt.layout, number=attempt.number + 1
    )
    events.notify_pages(attempt.layout.campaign_id)
    return retry
