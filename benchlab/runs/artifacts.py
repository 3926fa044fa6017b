# SPDX-License-Identifier: Apache-2.0
"""Artifacts of an attempt: raw output of any size from the host's spool directory, byte for byte, with its hashes.

They are stored, and read as tools read them, with flat memory: together they may be larger than it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from django.db import transaction
from django.db.models import Case, When
from django.utils import timezone

from agents.contracts import AgentError, ParseError, Shell
from agents.jobs import job, large_files
from agents.jobs.spool import PIECE, Spool, Waiting
from benchlab.runs import attempt_meta, transitions
from benchlab.runs.models import Artifact, ArtifactPiece, Attempt, Layout, LiveChunk
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
    """Store files of several attempts in one statement, but large ones in pieces: a statement is text several times as
    long as the bytes in it.
    """
    rows = []
    for attempt, files in outputs:
        for name, raw in files.items():
            row = Artifact(attempt=attempt, name=name, content=raw, size=len(raw))
            row.sha256 = hashlib.sha256(raw).hexdigest()
            if len(raw) > PIECE:
                _store_pieces(attempt, name, raw)
                row.content = b""
            rows.append(row)
    Artifact.objects.bulk_create(rows)


def _store_pieces(attempt: Attempt, name: str, raw: bytes) -> None:
    whole = memoryview(raw)
    for number, at in enumerate(range(0, len(raw), PIECE)):
        packed = zlib.compress(whole[at : at + PIECE], 1)
        ArtifactPiece.objects.create(attempt=attempt, name=name, number=number, packed=packed)


# bytes of a file that is read with the others of its kind, by one query
SMALL_BYTES = 256 << 10
# bytes of one file; more would fill the memory several times over
FILE_MAX_BYTES = 256 << 20
# bytes of the files together, where all of them are read
TOTAL_MAX_BYTES = 2 << 30


class Outputs(Mapping[str, bytes]):
    """Artifacts of an attempt by name: small ones are read at once, others on request and not cached.

    Raises ParseError for one that is too large to be read; it stays stored all the same.
    """

    def __init__(self, attempt: Attempt) -> None:
        self._rows = attempt.artifacts.all()
        content = Case(When(size__lte=SMALL_BYTES, then="content"), default=None)
        rows = self._rows.order_by("name").annotate(small=content)
        self._sizes: dict[str, int] = {}
        self._small: dict[str, bytes] = {}
        for name, size, small in rows.values_list("name", "size", "small"):
            self._sizes[name] = size
            # else it lies in pieces
            if small is not None and len(small) == size:
                self._small[name] = bytes(small)

    def __getitem__(self, name: str) -> bytes:
        _check_size(name, self._sizes[name], FILE_MAX_BYTES)
        if name in self._small:
            return self._small[name]
        return self._rows.get(name=name).read()

    def __iter__(self) -> Iterator[str]:
        return iter(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    def check_all(self, but: str) -> None:
        """Check the total size. Raises ParseError when the artifacts are too large to be read together, `but` one."""
        total = sum(size for name, size in self._sizes.items() if name != but)
        _check_size("what the tool wrote", total, TOTAL_MAX_BYTES)


def _check_size(what: str, size: int, most: int) -> None:
    if size > most:
        raise ParseError(
            f"{what} has {size / (1 << 20):,.0f} MiB, of which no more than {most >> 20:,} are read; "
            "it is kept whole"
        )


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
        store_fetched(attempt, output)
        return
    for waiting in output.waiting:
        for number in range(_stored_pieces(attempt, waiting), waiting.piece_count):
            packed = zlib.compress(large_files.read_piece(shell, spool, waiting, number), 1)
            ArtifactPiece.objects.create(
                attempt=attempt, name=waiting.name, number=number, packed=packed
            )
            # This may take long.
            transitions.store_fields(layout, seen_at=timezone.now())
    store_fetched(
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
