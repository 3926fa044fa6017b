# SPDX-License-Identifier: Apache-2.0
"""Storage of drafts: agreeing checks a person's answers at once, and a worker reads the files again and stores them.

Pages and API both end here, so both check the same. One transaction stores a whole agreement and locks the draft's row:
a worker that dies leaves nothing behind and releases the row, and the next one starts anew. The progress goes through
the cache, outside of the transaction, and is never worth a failure.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from functools import cache, partial
from typing import Any

from django.core.cache import cache as progress_cache
from django.core.exceptions import ValidationError
from django.db import OperationalError, connection, transaction
from django.utils import timezone

from agents.texts.parsed_result import LineIndex, ParsedResult
from benchlab.campaigns.models import Campaign
from benchlab.dynamo import iometer_files
from benchlab.hosts.models import Host
from benchlab.imports import agreements, drafts
from benchlab.imports.agreements import Agreement, Refused, ResultChoice
from benchlab.imports.models import Draft, DraftFile
from benchlab.imports.readings import Key, OfferedResult, offered_results
from benchlab.imports.services import Result, StoreRequest, TextExcerpt, store_results
from benchlab.team.models import Team
from benchlab.team.services import Person
from benchlab.topologies.models import Topology
from benchlab.workers import messages

log = logging.getLogger(__name__)

STORE = "benchlab.imports.tasks.store_draft"
DIED = "Storing it crashed its worker several times: it may need more memory than there is. Send it in parts."
FAULT = "Storing it failed because of a bug in BenchLab; see the worker's log. Nothing was stored."
EVERY_S = 0.3
KEPT_S = 24 * 3600
NO_CACHE = "the cache does not answer, no progress of draft %s is shown: %s"
SOURCES = """
INSERT INTO imports_source (campaign_id, name, content, size, sha256, created_at)
SELECT %s, name, content, size, sha256, now() FROM imports_draftfile WHERE id = ANY(%s) ORDER BY position
"""


def set_progress(pk: int, stored: int) -> None:
    try:
        progress_cache.set(_cache_key(pk), stored, KEPT_S)
    except Exception as error:
        # whatever the cache's client raises
        log.warning(NO_CACHE, pk, error)


def get_progress(pk: int) -> int:
    try:
        return int(progress_cache.get(_cache_key(pk)) or 0)
    except Exception as error:
        log.warning(NO_CACHE, pk, error)
        return 0


def throttled_reporter(pk: int) -> Callable[[int], None]:
    """Return a function that stores the progress, but only a few times a second."""
    last = time.monotonic()

    def report(stored: int) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY_S:
            last = time.monotonic()
            set_progress(pk, stored)

    return report


def _cache_key(pk: int) -> str:
    return f"import-{pk}-stored"


class State(Enum):
    """State of a draft."""

    READING = "reading"
    READ = "read"
    STORING = "storing"
    STORED = "stored"


def draft_state(draft: Draft, waits: bool | None = None) -> State:
    """`waits`: drafts.WAITS, where that is known; else it is asked for."""
    if draft.stored_at:
        return State.STORED
    if draft.agreed_at:
        return State.STORING
    if waits is None:
        waits = not drafts.reading_progress(draft).is_complete
    return State.READING if waits else State.READ


@dataclass(frozen=True, slots=True)
class FailedResult:
    """A result that could not be stored, and why. Its file was kept with the others."""

    file: str
    # line
    first: int
    says: str


@dataclass(frozen=True, slots=True)
class StoreOutcome:
    """`campaign` is None where only workloads were taken. `stored` counts results and workloads."""

    campaign: int | None
    stored: int
    workloads: Sequence[int] = ()
    failed: Sequence[FailedResult] = ()

    @classmethod
    def of_draft(cls, draft: Draft) -> StoreOutcome:
        """Return what became of a draft that is stored."""
        stored: dict[str, Any] = draft.outcome or {}
        return cls(**{**stored, "failed": [FailedResult(**row) for row in stored["failed"]]})

    def stored_campaign(self) -> Campaign | None:
        """Unless it was deleted since."""
        return Campaign.objects.filter(pk=self.campaign or 0).first()


def agree(draft: Draft, agreement: Agreement, *, user: Person | None) -> None:
    """Have a worker store what was chosen, see `state`. Raises Refused, and then nothing will be stored."""
    if not drafts.reading_progress(draft).is_complete:
        raise _general_error("It is still being read; wait until every file is through.")
    results_by_key = {result.result_key: result for result in offered_results(draft)}
    agreement = agreements.validate_agreement(agreement, results_by_key, draft)
    with transaction.atomic():
        # Twice at the same moment: one agrees, the other finds no draft.
        row = Draft.objects.select_for_update().filter(pk=draft.pk, agreed_at=None).first()
        if row is None:
            raise _general_error("It was stored or discarded by somebody in the meantime.")
        row.agreement, row.trouble, row.tries = agreements.to_json(agreement), "", 0
        row.agreed_at = timezone.now()
        row.agreed_by_id = user.pk if user else None
        row.save(update_fields=["agreement", "trouble", "tries", "agreed_at", "agreed_by"])
        set_progress(row.pk, 0)
        queue_storing(row.pk)


def _general_error(message: str) -> Refused:
    return Refused({(None, ""): [message]})


def queue_storing(pk: int) -> None:
    """Have it stored by a worker, once what was written is visible to it."""
    messages.after_commit(STORE, [pk])


def _locked_draft(pk: int) -> Draft | None:
    """The row, held until the transaction ends, if it is to be stored and nobody else holds it."""
    rows = Draft.objects.select_for_update(skip_locked=True, of=("self",))
    return rows.filter(pk=pk, agreed_at__isnull=False, stored_at=None).first()


def draft_team(pk: int) -> int | None:
    """The team that a draft is of; None: it is gone."""
    return Draft.objects.filter(pk=pk).values_list("team", flat=True).first()


def store_draft(pk: int) -> None:
    """Store what was agreed to, unless that is done or another is at it. Safe to call at any time."""
    with transaction.atomic():
        row = _locked_draft(pk)
        if row is None:
            return
        row.tries += 1
        row.save(update_fields=["tries"])
    with transaction.atomic():
        if (row := _locked_draft(pk)) is None:
            return
        if row.tries > drafts.MAX_TRIES:
            _reopen_draft(row, DIED)
            return
        try:
            with transaction.atomic():
                _mark_stored(row, _store_agreed(row))
        except (ValidationError, Refused) as error:
            _reopen_draft(row, "; ".join(getattr(error, "messages", None) or [str(error)]))
        except OperationalError:
            # the database went away: the sweep comes back to it
            raise
        except Exception:
            log.exception("storing draft %s", pk)
            _reopen_draft(row, FAULT)


def _mark_stored(row: Draft, outcome: StoreOutcome) -> None:
    """Record the outcome and delete the files, which now belong to the campaign."""
    row.outcome = asdict(outcome)
    row.agreement = None
    row.stored_at = timezone.now()
    row.save(update_fields=["outcome", "agreement", "stored_at"])
    # else each row is read first, with its content
    row.files.only("pk").delete()


def _reopen_draft(row: Draft, message: str) -> None:
    """Make it an open draft again, with the reason."""
    row.agreement = row.agreed_at = row.agreed_by = None
    row.trouble = message
    row.save(update_fields=["agreement", "agreed_at", "agreed_by", "trouble"])


def due_drafts() -> list[int]:
    """Drafts whose message was lost, or whose worker died. One that is being stored is passed over by `store`."""
    waiting = Draft.objects.filter(
        agreed_at__lt=timezone.now() - drafts.QUEUE_TIMEOUT, agreed_at__isnull=False, stored_at=None
    )
    return list(
        waiting.order_by("pk").values_list("pk", flat=True)[: drafts.MAX_MESSAGES_PER_SWEEP]
    )


def count_agreed(row: Draft) -> int:
    """Results and workloads that are agreed to, or were; what only watched is a part of its result."""
    if row.outcome:
        outcome = StoreOutcome.of_draft(row)
        return outcome.stored + len(outcome.failed)
    chosen: list[dict[str, Any]] = (row.agreement or {}).get("chosen", [])
    return sum(choice["take"] and not choice["beside"] for choice in chosen)


def _store_agreed(draft: Draft) -> StoreOutcome:
    """Raises ValidationError, Refused; then nothing is stored."""
    results_by_key = {result.result_key: result for result in offered_results(draft)}
    stored_agreement = agreements.from_json(draft.agreement or {})
    agreement = agreements.validate_agreement(stored_agreement, results_by_key, draft)
    report_progress = throttled_reporter(draft.pk)
    measured: list[ResultChoice] = []
    workloads: list[int] = []
    for choice in agreement.selected:
        result = results_by_key[choice.key]
        if result.parsed.described:
            workloads.append(_create_workload(draft, choice, result))
        else:
            measured.append(choice)
    report_progress(len(workloads))
    if not measured:
        return StoreOutcome(None, len(workloads), workloads)
    results = _build_results(draft, measured, results_by_key)
    # Each sweep is one agreed result and several runs.
    agreed = sum(choice.beside is None for choice in measured)
    campaign, failed = store_results(
        StoreRequest(
            team=draft.team,
            user=draft.agreed_by,
            name=agreement.name,
            question=agreement.question,
            results=results,
            sources=partial(_keep_as_sources, {choice.key[0] for choice in measured}),
            origin=agreement.origin,
            allow_failures=True,
            are_repeats=agreement.are_repeats,
        ),
        lambda handled: report_progress(len(workloads) + handled * agreed // len(results)),
    )
    return StoreOutcome(
        campaign.pk,
        len(workloads) + len(results) - len(failed),
        workloads,
        [FailedResult(piece.name, piece.parsed.first, error) for piece, error in failed],
    )


def _create_workload(draft: Draft, choice: ResultChoice, result: OfferedResult) -> int:
    workload = iometer_files.create_icf_workload(
        team=draft.team,
        user=draft.agreed_by,
        name=choice.workload.strip() or result.workload_name,
        options=result.parsed.options,
        sweep=result.parsed.sweep,
        description=result.parsed.description,
    )
    return workload.pk


def _build_results(
    draft: Draft, choices: Sequence[ResultChoice], results_by_key: Mapping[Key, OfferedResult]
) -> list[Result]:
    texts = _FileTexts()
    pieces: dict[Key, TextExcerpt] = {}
    beside: dict[Key, list[TextExcerpt]] = defaultdict(list)
    for choice in choices:
        offer = results_by_key[choice.key]
        pieces[choice.key] = TextExcerpt(
            offer.parsed,
            offer.file.name,
            partial(texts.result_text, offer.file, offer.parsed),
            reader_name=agreements.reader_file_name(offer, choice, results_by_key),
        )
        if choice.beside is not None:
            beside[choice.beside].append(pieces[choice.key])
    host_of_name = cache(partial(_find_or_create_host, draft.team))
    topology_of_name = cache(partial(_find_or_create_topology, draft.team, draft.agreed_by))
    results: list[Result] = []
    for choice in choices:
        if choice.beside is not None:
            continue
        offer = results_by_key[choice.key]
        disks, rated = agreements.names_and_ratings(choice.disks)
        result = Result(
            pieces[choice.key],
            choice.host or host_of_name(choice.new_host.strip()),
            choice.topology or topology_of_name(choice.new_topology.strip()),
            choice.workload.strip(),
            offer.parsed.point,
            offer.parsed.outstanding or choice.outstanding,
            tuple(beside[choice.key]),
            disks,
            rated,
        )
        results += _split_sweep(result)
    return results


def _split_sweep(result: Result) -> Iterator[Result]:
    """Each point of a sweep as a result of its own: runs that differ in it, which charts draw as a curve.

    Of groups of jobs each is a workload of its own.
    """
    if result.piece.parsed.parts:
        yield from _split_parts(result)
        return
    for labels in result.piece.parsed.sweep_points():
        point = {name: int(v) if v.isdecimal() else v for name, v in labels.items()}
        outstanding = point.get("outstanding", result.outstanding)
        yield replace(
            result,
            piece=replace(result.piece, point_labels=labels),
            point={**result.point, **point},
            outstanding=outstanding if isinstance(outstanding, int) else None,
        )


def _split_parts(result: Result) -> Iterator[Result]:
    parsed = result.piece.parsed
    for value in parsed.parts:
        part = parsed.part(value)
        piece = replace(result.piece, parsed=part, point_labels={parsed.varies: value})
        yield replace(result, piece=piece, outstanding=part.outstanding)


def _keep_as_sources(file_ids: set[int], campaign: Campaign) -> None:
    """The files as they came, copied by PostgreSQL itself: none of them comes here."""
    with connection.cursor() as cursor:
        cursor.execute(SOURCES, [campaign.pk, list(file_ids)])


class _FileTexts:
    """The text of the file that was asked for last: results come in the order of their files."""

    def __init__(self) -> None:
        self.pk = 0
        self.text = LineIndex("")

    def result_text(self, file: DraftFile, parsed: ParsedResult) -> str:
        if file.pk != self.pk:
            # the one goes before the other comes
            self.text = LineIndex("")
            self.text = LineIndex(drafts.file_text(file))
            self.pk = file.pk
        return parsed.own_text(self.text)


def _find_or_create_host(team: Team, name: str) -> Host:
    """The team's of that name, or a new one that is only named."""
    existing = Host.objects.filter(team=team, name=name).first()
    if existing:
        return existing
    host = Host(team=team, name=name, access=Host.Access.DESCRIBED)
    host.full_clean(exclude=["credential", "address"])
    host.save()
    return host


def _find_or_create_topology(team: Team, user: Person | None, name: str) -> Topology:
    """The team's of that name, or a new one that is only named."""
    existing = Topology.objects.filter(team=team, name=name).first()
    if existing:
        return existing
    topology = Topology(team=team, name=name, stack=[])
    topology.created_by_id = user.pk if user else None
    topology.full_clean(exclude=["created_by", "stack"])
    topology.save()
    return topology
