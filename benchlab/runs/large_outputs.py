# SPDX-License-Identifier: Apache-2.0
"""Output of any size, from the host's spool directory into the database and out of it, with flat memory."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence

from django.utils import timezone

from agents.contracts import AgentError, Shell
from agents.jobs import job, large_files
from agents.jobs.spool import Spool, Waiting
from benchlab.runs import artifact_writer, attempt_meta, transitions
from benchlab.runs.models import Artifact, ArtifactPiece, Attempt, Layout

# bytes that are kept of one attempt
MAX_BYTES = 4 << 30


def store_outputs(
    layout: Layout,
    attempt: Attempt,
    shell: Shell,
    spool: Spool,
    outputs: Sequence[str],
    fetched: job.Fetched | None = None,
) -> None:
    """Store all that a job left on its host. A repeated call after an interruption goes on. Raises AgentError.

    More than MAX_BYTES stays there, but for what came at once; the attempt's meta then says so.
    """
    output = fetched or job.fetch(shell, spool, outputs)
    total = sum(waiting.size for waiting in output.waiting)
    if total > MAX_BYTES:
        attempt.meta[attempt_meta.ON_HOST] = _too_large(output.waiting, spool)
        artifact_writer.store_fetched(attempt, output)
        return
    for waiting in output.waiting:
        for number in range(_stored_pieces(attempt, waiting), waiting.piece_count):
            packed = zlib.compress(large_files.read_piece(shell, spool, waiting, number), 1)
            ArtifactPiece.objects.create(
                attempt=attempt, name=waiting.name, number=number, packed=packed
            )
            # This may take long.
            transitions.store_fields(layout, seen_at=timezone.now())
    artifact_writer.store_fetched(
        attempt, output, [_large_artifact(attempt, waiting) for waiting in output.waiting]
    )


def give_up(attempt: Attempt, spool: Spool, error: AgentError) -> None:
    """Note that the output cannot be fetched: another try would bring the same answer, and hold the host."""
    message = f"Its output could not be fetched: {error}. It stays on the host, in {spool}."
    attempt.meta[attempt_meta.ON_HOST] = message
    attempt.save(update_fields=["meta"])


def _stored_pieces(attempt: Attempt, waiting: Waiting) -> int:
    """Pieces that are stored already."""
    return ArtifactPiece.objects.filter(attempt=attempt, name=waiting.name).count()


def _large_artifact(attempt: Attempt, waiting: Waiting) -> Artifact:
    row = Artifact(attempt=attempt, name=waiting.name, content=b"", size=waiting.size)
    digest = hashlib.sha256()
    for piece in row.pieces():
        digest.update(piece)
    row.sha256 = digest.hexdigest()
    return row


def _too_large(waiting: Sequence[Waiting], spool: Spool) -> str:
    each = ", ".join(f"{file.name} {_mib(file.size)}" for file in waiting[:10])
    more = f" and {len(waiting) - 10} more" if len(waiting) > 10 else ""
    total = _mib(sum(file.size for file in waiting))
    return (
        f"It wrote {total} of large files ({each}{more}), and no more than {_mib(MAX_BYTES)} of one run are kept. "
        f"They stay on the host, in {spool}, until a person removes that directory."
    )


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MiB"
