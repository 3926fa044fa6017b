# SPDX-License-Identifier: Apache-2.0
"""Store the contents of a spool directory as artifacts: raw output, byte for byte, with its hashes."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence

from django.db import transaction

from agents.jobs import job
from benchlab.runs import transitions
from benchlab.runs.models import Artifact, Attempt, LiveChunk
from benchlab.runs.states import AttemptPhase

# artifacts beside what the tool wrote
SAMPLES, LOG = "samples", "runner.log"


def store_fetched(
    attempt: Attempt, fetched: job.Fetched, large: Sequence[Artifact] = (), over: str = ""
) -> None:
    """Store the raw output byte for byte, and what the runner recorded of it. `large`: artifacts that came in pieces.

    `over`: why the attempt, which was running, is to be collected from now on. Raises Moved, and stores nothing then.
    """
    # Notes from the attempt's start stay.
    attempt.meta |= dataclasses.asdict(fetched.meta)
    attempt.exit_code = fetched.meta.exit_code
    recorded = {"meta": attempt.meta, "exit_code": attempt.exit_code}
    if over:
        transitions.move_attempt(
            attempt,
            AttemptPhase.COLLECTING,
            over,
            also=lambda: _store_output(attempt, fetched, large),
            seen_at=attempt.seen_at,
            **recorded,
        )
        return
    with transaction.atomic():
        _store_output(attempt, fetched, large)
        attempt.save(update_fields=list(recorded))


def _store_output(attempt: Attempt, fetched: job.Fetched, large: Sequence[Artifact]) -> None:
    files = {**fetched.files, SAMPLES: fetched.samples}
    if fetched.log:
        files[LOG] = fetched.log
    came = {row.name for row in large}
    store_artifacts(attempt, {name: raw for name, raw in files.items() if name not in came})
    Artifact.objects.bulk_create(large)
    LiveChunk.objects.filter(attempt=attempt).delete()


def store_artifacts(attempt: Attempt, files: Mapping[str, bytes]) -> None:
    """Store files of an attempt as artifacts, with their hashes."""
    store_all_artifacts([(attempt, files)])


def store_all_artifacts(outputs: Iterable[tuple[Attempt, Mapping[str, bytes]]]) -> None:
    """Store files of several attempts in one statement: together they should be small."""
    Artifact.objects.bulk_create(
        Artifact(
            attempt=attempt,
            name=name,
            content=raw,
            size=len(raw),
            sha256=hashlib.sha256(raw).hexdigest(),
        )
        for attempt, files in outputs
        for name, raw in files.items()
    )
