# SPDX-License-Identifier: Apache-2.0
"""Agreeing to a draft: what a person said is checked at once, and stored by a worker, which reads the files again.

Pages and API both end here, so that both check the same. All of an agreement is stored in one transaction, which holds
the draft's row: a worker that dies leaves nothing behind and lets go of the row, and the next one begins anew.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import Any

from django.core.exceptions import ValidationError
from django.db import OperationalError, transaction
from django.utils import timezone

from benchlab.imports import agreement_json as told
from benchlab.imports import draft_results, drafts, progress, storing_results
from benchlab.imports.agreement_json import Outcome
from benchlab.imports.checking import Agreement, Refused, validate_agreement
from benchlab.imports.models import Draft
from benchlab.imports.services import Person
from benchlab.workers import messages

log = logging.getLogger(__name__)

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
        {result.result_key: result for result in draft_results.offered_results(draft)},
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
    progress.set_progress(row.pk, 0)
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
    results_by_key = {result.result_key: result for result in draft_results.offered_results(row)}
    agreement = validate_agreement(told.from_json(row.agreement or {}), results_by_key, row)
    return storing_results.store_agreement(
        row, agreement, results_by_key, row.agreed_by, progress.throttled_reporter(row.pk)
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
