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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Any

from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.db import OperationalError, connection, transaction
from django.utils import timezone

from agents.texts.parsed_result import LineIndex, ParsedResult
from benchlab.campaigns.models import Campaign, Workload
from benchlab.dynamo import iometer_files
from benchlab.hosts.models import Host
from benchlab.imports import agreements as told
from benchlab.imports import agreements, drafts, readings
from benchlab.imports.agreements import (
    Agreement,
    FailedResult,
    Outcome,
    Refused,
    ResultChoice,
    reader_file_name,
    validate_agreement,
)
from benchlab.imports.models import Draft, DraftFile
from benchlab.imports.readings import Key, OfferedResult
from benchlab.imports.services import Person, Result, StoreRequest, TextExcerpt, store_results
from benchlab.team.models import Team
from benchlab.topologies.models import Topology
from benchlab.workers import messages

log = logging.getLogger(__name__)

EVERY_S = 0.3
KEPT_S = 24 * 3600


def set_progress(pk: int, stored: int) -> None:
    try:
        cache.set(_cache_key(pk), stored, KEPT_S)
    except Exception as error:
        # whatever the cache's client raises
        log.warning("the cache does not answer, no progress of draft %s is shown: %s", pk, error)


def get_progress(pk: int) -> int:
    try:
        return int(cache.get(_cache_key(pk)) or 0)
    except Exception as error:
        log.warning("the cache does not answer, no progress of draft %s is shown: %s", pk, error)
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


SOURCES = """
INSERT INTO imports_source (campaign_id, name, content, size, sha256, created_at)
SELECT %s, name, content, size, sha256, now() FROM imports_draftfile WHERE id = ANY(%s) ORDER BY position
"""


def store_agreement(
    draft: Draft,
    agreement: Agreement,
    results_by_key: Mapping[Key, OfferedResult],
    user: Person | None,
    report_progress: Callable[[int], None] = lambda handled: None,
) -> Outcome:
    """`report_progress` gets how many agreed results were handled. Raises ValidationError; then nothing is stored."""
    described = [
        choice for choice in agreement.selected if results_by_key[choice.key].parsed.described
    ]
    workloads = [
        _create_workload(draft.team, user, choice, results_by_key[choice.key]).pk
        for choice in described
    ]
    report_progress(len(workloads))
    measured = [
        choice for choice in agreement.selected if not results_by_key[choice.key].parsed.described
    ]
    if not measured:
        return Outcome(None, len(workloads), tuple(workloads))
    results = _build_results(draft.team, user, measured, results_by_key)
    # Each sweep is one agreed result and several runs.
    results_agreed = count_agreed_results(agreement) - len(workloads)
    stored_results = store_results(
        StoreRequest(
            team=draft.team,
            user=user,
            name=agreement.name,
            question=agreement.question,
            results=results,
            sources=partial(_keep_as_sources, [choice.key[0] for choice in measured]),
            origin=agreement.origin,
            allow_failures=True,
        ),
        lambda handled: report_progress(len(workloads) + handled * results_agreed // len(results)),
    )
    failed = stored_results.failed
    stored = len(workloads) + len(results) - len(failed)
    missed = tuple(FailedResult(piece.name, piece.parsed.first, error) for piece, error in failed)
    return Outcome(stored_results.campaign.pk, stored, tuple(workloads), missed)


def count_agreed_results(agreement: Agreement) -> int:
    """Results and workloads; what only watched is a part of its result."""
    return sum(choice.beside is None for choice in agreement.selected)


def stored_campaign(outcome: Outcome) -> Campaign | None:
    """Unless it was deleted since."""
    if outcome.campaign is None:
        return None
    return Campaign.objects.filter(pk=outcome.campaign).first()


def _create_workload(
    team: Team, user: Person | None, choice: ResultChoice, result: OfferedResult
) -> Workload:
    name = choice.workload.strip() or result.workload_name
    parsed = result.parsed
    return iometer_files.create_icf_workload(
        team=team,
        user=user,
        name=name,
        options=parsed.options,
        sweep=parsed.sweep,
        description=parsed.description,
    )


def _build_results(
    team: Team,
    user: Person | None,
    choices: list[ResultChoice],
    results_by_key: Mapping[Key, OfferedResult],
) -> list[Result]:
    pieces = _result_excerpts(
        [
            (result.file, result.parsed, reader_file_name(result, choice, results_by_key))
            for choice in choices
            for result in (results_by_key[choice.key],)
        ]
    )
    beside: dict[Key, list[TextExcerpt]] = defaultdict(list)
    for choice in choices:
        if choice.beside is not None:
            beside[choice.beside].append(pieces[choice.key])
    rows = NamedRows(team, user)
    return [
        result
        for choice in choices
        if choice.beside is None
        for result in _split_sweep(
            Result(
                pieces[choice.key],
                choice.host or rows.find_or_create_host(choice.new_host.strip()),
                choice.topology or rows.find_or_create_topology(choice.new_topology.strip()),
                choice.workload.strip() or results_by_key[choice.key].workload_name,
                results_by_key[choice.key].parsed.point,
                results_by_key[choice.key].parsed.outstanding or choice.outstanding,
                tuple(beside[choice.key]),
                *agreements.names_and_ratings(choice.disks),
            )
        )
    ]


def _split_sweep(result: Result) -> Iterator[Result]:
    """Each point of a sweep as a result of its own: runs that differ in it, which charts draw as a curve."""
    for labels in result.piece.parsed.sweep_points():
        point = {name: int(v) if v.isdecimal() else v for name, v in labels.items()}
        outstanding = point.get("outstanding", result.outstanding)
        yield replace(
            result,
            piece=replace(result.piece, point_labels=labels),
            point={**result.point, **point},
            outstanding=outstanding if isinstance(outstanding, int) else None,
        )


def _keep_as_sources(ids: Iterable[int], campaign: Campaign) -> None:
    """The files as they came, copied by PostgreSQL itself: none of them comes here."""
    with connection.cursor() as cursor:
        cursor.execute(SOURCES, [campaign.pk, list(set(ids))])


def _result_excerpts(
    rows: Sequence[tuple[DraftFile, ParsedResult, str]],
) -> dict[tuple[int, int], TextExcerpt]:
    """(file id, first line) -> its lines, to be read late; by the name that tells what they do not."""
    texts = _FileTexts()
    return {
        (file.pk, parsed.first): TextExcerpt(
            parsed, file.name, partial(texts.result_text, file, parsed), reader_name=reader_name
        )
        for file, parsed, reader_name in rows
    }


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


class NamedRows:
    """Hosts and topologies that were only named: the team's of that name, or new ones."""

    def __init__(self, team: Team, user: Person | None) -> None:
        self.team, self.user = team, user
        self.hosts: dict[str, Host] = {}
        self.topologies: dict[str, Topology] = {}

    def find_or_create_host(self, name: str) -> Host:
        if name not in self.hosts:
            existing = Host.objects.filter(team=self.team, name=name).first()
            self.hosts[name] = existing or self._new_host(name)
        return self.hosts[name]

    def find_or_create_topology(self, name: str) -> Topology:
        if name not in self.topologies:
            existing = Topology.objects.filter(team=self.team, name=name).first()
            self.topologies[name] = existing or self._new_topology(name)
        return self.topologies[name]

    def _new_host(self, name: str) -> Host:
        host = Host(team=self.team, name=name, access=Host.Access.DESCRIBED)
        host.full_clean(exclude=["credential", "address"])
        host.save()
        return host

    def _new_topology(self, name: str) -> Topology:
        topology = Topology(team=self.team, name=name, stack=[])
        topology.created_by_id = self.user.pk if self.user else None
        topology.full_clean(exclude=["created_by", "stack"])
        topology.save()
        return topology


STORE = "benchlab.imports.tasks.store_draft"
DIED = "Storing it crashed its worker several times: it may need more memory than there is. Send it in parts."
FAULT = "Storing it failed because of a bug in BenchLab; see the worker's log. Nothing was stored."


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


def agree(draft: Draft, agreement: Agreement, *, user: Person | None) -> None:
    """Have a worker store what was chosen, see `state`. Raises Refused, and then nothing will be stored."""
    if not drafts.reading_progress(draft).is_complete:
        raise _general_error("It is still being read; wait until every file is through.")
    agreement = validate_agreement(
        agreement,
        {result.result_key: result for result in readings.offered_results(draft)},
        draft,
    )
    with transaction.atomic():
        # Twice at the same moment: one agrees, the other finds no draft.
        row = Draft.objects.select_for_update().filter(pk=draft.pk, agreed_at=None).first()
        if row is None:
            raise _general_error("It was stored or discarded by somebody in the meantime.")
        _queue_agreement(row, agreement, user)


def _general_error(message: str) -> Refused:
    return Refused({(None, ""): [message]})


def _queue_agreement(row: Draft, agreement: Agreement, user: Person | None) -> None:
    """Save the agreement and queue it for the workers."""
    row.agreement, row.trouble, row.tries = told.to_json(agreement), "", 0
    row.agreed_at = timezone.now()
    row.agreed_by_id = user.pk if user else None
    row.save(update_fields=["agreement", "trouble", "tries", "agreed_at", "agreed_by"])
    set_progress(row.pk, 0)
    queue_storing(row.pk)


def queue_storing(pk: int) -> None:
    """Have it stored by a worker, once what was written is visible to it."""
    messages.after_commit(STORE, [pk])


def _mark_stored(row: Draft, outcome: Outcome) -> None:
    """Record the outcome and delete the files, which now belong to the campaign."""
    row.outcome = told.outcome_to_json(outcome)
    row.agreement = None
    row.agreed_at = row.agreed_at or timezone.now()
    row.stored_at = timezone.now()
    row.save(update_fields=["outcome", "agreement", "agreed_at", "stored_at"])
    # else each row is read first, with its content
    row.files.only("pk").delete()


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


def _store_agreed(row: Draft) -> Outcome:
    results_by_key = {result.result_key: result for result in readings.offered_results(row)}
    agreement = validate_agreement(told.from_json(row.agreement or {}), results_by_key, row)
    return store_agreement(
        row, agreement, results_by_key, row.agreed_by, throttled_reporter(row.pk)
    )


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
    """Results and workloads that are agreed to, or were."""
    if row.outcome:
        outcome = told.outcome_from_json(row.outcome)
        return outcome.stored + len(outcome.failed)
    chosen: list[Any] = (row.agreement or {}).get("chosen", [])
    return sum(choice["take"] and not choice["beside"] for choice in chosen)
