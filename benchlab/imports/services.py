# SPDX-License-Identifier: Apache-2.0
"""Storing results that were measured elsewhere, so that every page treats them like our own.

A campaign of such results has runs, attempts, artifacts, measurements and series; its layouts are over from the start,
and its hosts need not be reachable. Figures are read from what is stored as artifacts, by what reads those of measured
attempts, so `manage.py reparse` rebuilds them.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import ValidationError
from django.db import OperationalError, transaction
from django.utils import timezone

from agents.texts.parsed_result import ParsedResult
from benchlab.campaigns.models import Campaign, Run, Workload
from benchlab.engine.checks import condition
from benchlab.findings import storing
from benchlab.hosts.models import Host
from benchlab.imports.models import Source
from benchlab.imports.workloads import NamedWorkload, Work, name_workloads
from benchlab.runs import artifact_figures, artifacts, attempt_meta, conclusion
from benchlab.runs.artifact_figures import Figures
from benchlab.runs.models import Attempt, Layout
from benchlab.runs.states import AttemptPhase, LayoutPhase, Outcome
from benchlab.team.models import Team
from benchlab.team.services import Person
from benchlab.topologies.models import Topology

log = logging.getLogger(__name__)

# results that are stored together
MAX_BATCH_RESULTS = 50
# bytes of their texts, from which on no more are read before these are stored
MAX_BATCH_BYTES = 1 << 20

# with its artifacts, and the figures read from them
BuiltAttempt = tuple[Attempt, Mapping[str, bytes], Figures]


@dataclass(frozen=True, slots=True)
class TextExcerpt:
    """The lines of a text that hold one result."""

    parsed: ParsedResult
    # of the file it is in
    name: str
    # Those lines, every line of the file when it is the whole; or how to get them once they are needed: an import of
    # a thousand files would not fit into memory.
    text: str | Callable[[], str]
    # the point of its sweep: Found.points
    point_labels: Mapping[str, str] = field(default_factory=dict)
    # the name that its reader gets, where that tells more than the file's
    reader_name: str = ""

    @property
    def read_content(self) -> bytes:
        return (self.text if isinstance(self.text, str) else self.text()).encode()

    @property
    def artifact_name(self) -> str:
        """A name that no other piece of the file has."""
        stem, dot, suffix = self.name.rpartition(".")
        lines = f"lines-{self.parsed.first}-{self.parsed.last}"
        return f"{stem}.{lines}.{suffix}" if dot and stem else f"{self.name}.{lines}"


@dataclass(frozen=True, slots=True)
class Result:
    """A result that a person agreed to store, with what the text does not say."""

    piece: TextExcerpt
    host: Host
    topology: Topology
    # its name; empty: from what tells it from the others
    workload: str
    # what it varies: {"iodepth": 4}
    point: Mapping[str, Any] = field(default_factory=dict)
    outstanding: int | None = None
    # what watched meanwhile: iostat
    beside: tuple[TextExcerpt, ...] = ()
    # Role -> names, as the source tells
    disks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # Role -> "iops" (op/s) and "bandwidth" (B/s) of each of its disks, likewise
    rated: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoreRequest:
    """A campaign to be made of results. `sources`: the files as they came, or a function that stores them for it.

    `allow_failures`: a result that cannot be stored does not keep the others from being stored.
    `are_repeats`: a person says so of results of equal options, however far apart their figures are.
    """

    team: Team
    user: Person | None
    name: str
    question: str
    results: Sequence[Result]
    sources: Mapping[str, bytes] | Callable[[Campaign], None]
    source: str = Campaign.Source.IMPORTED
    origin: Mapping[str, str] = field(default_factory=dict)
    allow_failures: bool = False
    are_repeats: bool = True


@transaction.atomic
def store_results(
    request: StoreRequest, report_progress: Callable[[int], None] = lambda handled: None
) -> tuple[Campaign, list[tuple[TextExcerpt, str]]]:
    """Store a campaign; returns it, and each excerpt that could not be stored, with the error.

    `report_progress` gets the number of results that were handled.
    Raises ValidationError naming what cannot be stored; then nothing was stored.
    """
    results = request.results
    if not results:
        raise ValidationError("There is no result to store.")
    _check_results(request.team, results)
    campaign = Campaign(
        team=request.team,
        name=request.name,
        question=request.question,
        source=request.source,
        origin=dict(request.origin),
        repeats=1,
        order=Campaign.Order.AS_WRITTEN,
        seed=secrets.randbelow(2**31),
        created_by_id=request.user.pk if request.user else None,
        started_at=timezone.now(),
    )
    campaign.full_clean(exclude=["created_by"])
    campaign.save()
    if callable(request.sources):
        request.sources(campaign)
    else:
        _store_sources(campaign, request.sources)
    runs = _create_runs(campaign, results, are_repeats=request.are_repeats)
    layouts = _create_layouts(campaign, results)
    failed: list[tuple[TextExcerpt, str]] = []
    handled = 0
    for batch in _prepare_batches(zip(runs, results, strict=True), layouts):
        for result, error in _store_batch(batch):
            if error and not request.allow_failures:
                raise ValidationError(error)
            failed += [(result.piece, error)] if error else []
        handled += len(batch)
        # Free the memory: the next results are read now.
        batch.clear()
        report_progress(handled)
    if len(failed) == len(results):
        raise ValidationError([error for _, error in failed])
    stored = Attempt.objects.filter(run__campaign=campaign).order_by("pk")
    storing.find_for_attempts(stored.values_list("pk", flat=True))
    return campaign, failed


@dataclass(slots=True)
class _PreparedResult:
    """A result that was read and is not stored yet; `error`: why it cannot be."""

    run: Run
    result: Result
    built: BuiltAttempt | None = None
    error: str = ""

    @property
    def byte_count(self) -> int:
        return sum(map(len, self.built[1].values())) if self.built else 0


def _prepare_batches(
    runs: Iterable[tuple[Run, Result]], layouts: Mapping[tuple[int, int], Layout]
) -> Iterator[list[_PreparedResult]]:
    """Read as many results as are stored together; the last one of a batch may be large."""
    batch: list[_PreparedResult] = []
    size = 0
    for run, result in runs:
        batch.append(_prepare_result(run, layouts[run.host_id, run.topology_id], result))
        size += batch[-1].byte_count
        if len(batch) == MAX_BATCH_RESULTS or size >= MAX_BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _prepare_result(run: Run, layout: Layout, result: Result) -> _PreparedResult:
    prepared = _PreparedResult(run, result)
    with _recording_error(prepared):
        prepared.built = _build_attempt(run, layout, result)
    return prepared


@contextmanager
def _recording_error(prepared: _PreparedResult) -> Iterator[None]:
    """Record why the result cannot be stored."""
    try:
        yield
    except ValidationError as error:
        prepared.error = "; ".join(error.messages)
    except OperationalError:
        # the database is gone, not the result
        raise
    except Exception:
        # one of a thousand files must not keep the others from being stored
        piece = prepared.result.piece
        log.exception("storing %s, line %s", piece.name, piece.parsed.first)
        prepared.error = f"{piece.artifact_name}: a bug in BenchLab; see the log"


def _store_batch(batch: Sequence[_PreparedResult]) -> Iterator[tuple[Result, str]]:
    """Store each result completely or not at all, with the error: together, or one by one if one of them fails."""
    good = [prepared for prepared in batch if not prepared.error]
    try:
        with transaction.atomic():
            _insert_batch(good)
    except OperationalError:
        raise
    except Exception:
        for prepared in good:
            with _recording_error(prepared), transaction.atomic():
                _insert_batch([prepared])
    for prepared in batch:
        if prepared.error:
            prepared.run.delete()
        yield prepared.result, prepared.error


def _insert_batch(batch: Sequence[_PreparedResult]) -> None:
    """Attempts with their artifacts and figures. Raises whatever the database says of one of them."""
    built = [prepared.built for prepared in batch if prepared.built is not None]
    for attempt, _, _ in built:
        # of what was undone
        attempt.pk = None
    Attempt.objects.bulk_create([attempt for attempt, _, _ in built])
    artifacts.store_all_artifacts((attempt, files) for attempt, files, _ in built)
    conclusion.store_all_figures([(attempt, figures) for attempt, _, figures in built])


def _check_results(team: Team, results: Sequence[Result]) -> None:
    for result in results:
        for row in (result.host, result.topology):
            if row.team_id != team.pk:
                raise ValidationError(f"{row} does not belong to {team}.")
        for piece in (result.piece, *result.beside):
            if piece.parsed.trouble:
                raise ValidationError(
                    f"{piece.name}, line {piece.parsed.first}: {piece.parsed.trouble}"
                )


def _store_sources(campaign: Campaign, sources: Mapping[str, bytes]) -> None:
    # one in memory at a time, where `sources` reads them late
    for name, raw in sources.items():
        digest = hashlib.sha256(raw).hexdigest()
        Source.objects.create(
            campaign=campaign, name=name, content=raw, size=len(raw), sha256=digest
        )


def _create_runs(campaign: Campaign, results: Sequence[Result], *, are_repeats: bool) -> list[Run]:
    """One per result; those that are alike in everything are repeats."""
    works = [
        Work(
            result.piece.parsed, result.workload, (result.host.pk, result.topology.pk), result.point
        )
        for result in results
    ]
    named_workloads = name_workloads(works, are_repeats=are_repeats)
    workloads: dict[str, Workload] = {}
    repeats: Counter[str] = Counter()
    runs = []
    for position, (result, work, named) in enumerate(
        zip(results, works, named_workloads, strict=True)
    ):
        key = repr((named.name, work.tool))
        if key not in workloads:
            workloads[key] = _find_or_create_workload(campaign, named, work.tool)
        point = {**named.point, **result.point}
        cell = repr((result.host.pk, result.topology.pk, key, sorted(point.items())))
        repeats[cell] += 1
        runs.append(
            Run(
                campaign=campaign,
                host=result.host,
                topology=result.topology,
                workload=workloads[key],
                tool=work.tool,
                options={**result.piece.parsed.options, **result.point},
                point=point,
                outstanding=result.outstanding,
                repeat=repeats[cell],
                position=position,
            )
        )
    campaign.repeats = max(repeats.values())
    campaign.save(update_fields=["repeats"])
    return Run.objects.bulk_create(runs, batch_size=1000)


def _find_or_create_workload(campaign: Campaign, named: NamedWorkload, tool: str) -> Workload:
    """The team's imported workload of that name, tool and options; a name that another has gets a number."""
    existing = {row.name: row for row in Workload.objects.filter(team=campaign.team)}
    tried, number = named.name, 1
    while tried in existing:
        row = existing[tried]
        if row.imported and row.tool == tool and row.options == named.options:
            return row
        number += 1
        tried = f"{named.name} ({number})"
    workload = Workload(
        team=campaign.team,
        created_by=campaign.created_by,
        name=tried,
        tool=tool,
        options=named.options,
        imported=True,
    )
    workload.full_clean(exclude=["created_by"])
    workload.save()
    return workload


def _create_layouts(campaign: Campaign, results: Sequence[Result]) -> dict[tuple[int, int], Layout]:
    """A layout that is over for each host and topology: what measured results have, too."""
    pairs = {(r.host.pk, r.topology.pk): r.topology for r in results}
    now = timezone.now()
    layouts = Layout.objects.bulk_create(
        Layout(
            campaign=campaign,
            host_id=host,
            topology=topology,
            stack=topology.stack,
            stages=topology.stages,
            position=position,
            phase=LayoutPhase.DONE,
            outcome=Outcome.SUCCEEDED,
            planned_at=now,
            ended_at=now,
        )
        for position, ((host, _), topology) in enumerate(pairs.items())
    )
    return {(layout.host_id, layout.topology_id): layout for layout in layouts}


def _build_attempt(run: Run, layout: Layout, result: Result) -> BuiltAttempt:
    """Build the attempt, its artifacts and the figures read from them. Nothing is stored. Raises ValidationError."""
    pieces = {piece.artifact_name: piece for piece in (result.piece, *result.beside)}
    parsed = result.piece.parsed
    readers = [_reader_meta(name, piece) for name, piece in pieces.items()]
    attempt = Attempt(
        run=run,
        layout=layout,
        phase=AttemptPhase.DONE,
        outcome=Outcome.SUCCEEDED,
        tool_version=parsed.version[:200],
        argv=[parsed.command] if parsed.command else [],
        fingerprint=condition.parts_digest(
            {
                "elsewhere": True,
                "host": run.host_id,
                "stack": layout.stack,
                "tool": run.tool,
                "tool_version": parsed.version,
                "options": run.options,
            }
        ),
        meta={
            attempt_meta.READERS: readers,
            **_disk_meta(result),
        },
    )
    files = {name: piece.read_content for name, piece in pieces.items()}
    figures = artifact_figures.read_imported(files, readers)
    if figures.errors:
        raise ValidationError("; ".join(figures.errors))
    return attempt, files, figures


def _disk_meta(result: Result) -> dict[str, object]:
    """Disks by role, and their ratings, as the source tells them."""
    disks = {role: list(names) for role, names in result.disks.items()}
    rated = {role: dict(most) for role, most in result.rated.items()}
    by_key = {attempt_meta.DISKS: disks, attempt_meta.RATED: rated}
    return {key: by_role for key, by_role in by_key.items() if by_role}


def _reader_meta(artifact: str, piece: TextExcerpt) -> list[Any]:
    """Artifact, reader and name to read it as, and the point of the sweep that it holds, if it holds one."""
    row: list[Any] = [artifact, piece.parsed.kind, piece.reader_name or piece.name]
    return [*row, dict(piece.point_labels)] if piece.point_labels else row
