# SPDX-License-Identifier: Apache-2.0
"""Tasks that wait for a host: a page or the API requests one, a worker does it, pages follow it.

A host may be silent for minutes, or mean to be: no web request ever waits for one. The row is the queue; messages only
say that there is something, and the sweeper (benchlab/engine/sweeper.py) sends those again that were lost.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import redis
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import connection, transaction
from django.db.models import Min, QuerySet
from django.utils import timezone
from django.utils.module_loading import import_string

from agents.contracts import AgentError
from benchlab import log_context
from benchlab.hosts import discovery, ssh_access
from benchlab.hosts.models import RESEND_AFTER, Host, HostsError, HostTask
from benchlab.web import request_slots
from benchlab.web.texts import parse_row_id
from benchlab.workers import beats, messages
from benchlab.workers.lease import Lock, lease

log = logging.getLogger(__name__)

PERFORM = "benchlab.hosts.tasks.perform_host_task"
Result = dict[str, Any]
# Of a worker's eight threads: hosts that are silent must leave enough of them to campaigns, and those of one team a
# seat to other teams.
MAX_AT_ONCE = 4
MAX_AT_ONCE_OF_TEAM = 3
# A task that no worker began by then is given up.
STALE_AFTER = timedelta(minutes=15)
# a worker that dies of a task takes only so many others along
MAX_TRIES = 3
# Time for which a page shows how a task ended.
SHOWN_FOR = timedelta(minutes=5)
# it sweeps every second
WORKER_SILENT_S = 15.0
# Time that an API request waits for a task to end; then it answers where to look.
MAX_WAIT_S = 5.0
POLL_INTERVAL_S = 0.1


@dataclass(frozen=True, slots=True)
class Kind:
    """`perform`: module.function(host, by, **options) -> result. `{host}` stands in the words for the host's name."""

    perform: str
    in_progress: str
    succeeded: str
    failed: str


KINDS: Mapping[str, Kind] = {
    "offer_key": Kind(
        "benchlab.hosts.host_tasks.offer_key",
        "Asking {host} for its host key",
        "{host} showed its host key.",
        "{host} showed no host key.",
    ),
    "read_facts": Kind(
        "benchlab.hosts.host_tasks.read_facts",
        "Reading the facts of {host}",
        "{host} answered; its facts were read.",
        "The facts of {host} could not be read.",
    ),
    "check_dynamo": Kind(
        "benchlab.dynamo.console.check_program",
        "Looking at dynamo on {host}",
        "Looked at dynamo on {host}.",
        "dynamo on {host} could not be looked at.",
    ),
    "release": Kind(
        "benchlab.engine.host_cleanup.perform_release",
        "Looking at {host} once more, then releasing it",
        "{host} is released.",
        "{host} was not released.",
    ),
}


def request_task(
    host: Host, kind: str, by: AbstractBaseUser | AnonymousUser | None, **options: Any
) -> HostTask:
    """Request a task. A second request for the same returns the task that is open already."""
    assert kind in KINDS, kind
    with transaction.atomic():
        Host.objects.select_for_update(no_key=True).get(pk=host.pk)
        same = host.tasks.filter(kind=kind, options=options, ended_at=None).first()
        if same is not None:
            return same
        row = HostTask.objects.create(
            host=host,
            kind=kind,
            options=options,
            by_id=by.pk if by else None,
            due_at=timezone.now() + RESEND_AFTER,
        )
        _notify_worker(row.pk)
    return row


def _notify_worker(*pks: int) -> None:
    """Notify a worker, once the transaction is committed."""
    messages.after_commit(PERFORM, pks)


def perform_task(pk: int) -> None:
    """Perform a task in a worker. One that is over, in other hands or has no seat yet is left alone."""
    with lease(pk, Lock.HOST_TASK) as held:
        if held and (row := _locked_row(pk)):
            with log_context.about(host=row.host_id):
                _run_task(row)
            if (following := next_in_turn()) is not None:
                _notify_worker(following)


def next_in_turn() -> int | None:
    """Oldest task of the team that has fewest in hand; None where each team that waits has its share."""
    still_open = HostTask.objects.filter(ended_at=None)
    waiting = still_open.filter(started_at=None).values("host__team").annotate(oldest=Min("pk"))
    seats = _running_by_team(still_open)
    turns = [(seats[row["host__team"]], row["oldest"]) for row in waiting]
    running, oldest = min(turns, default=(MAX_AT_ONCE_OF_TEAM, 0))
    return oldest if running < MAX_AT_ONCE_OF_TEAM else None


def _running_by_team(still_open: QuerySet[HostTask]) -> Counter[int]:
    running = still_open.filter(started_at__isnull=False)
    return Counter(running.values_list("host__team", flat=True))


def _locked_row(pk: int) -> HostTask | None:
    """The locked row, if it may be done now. A task whose worker died has its seat still."""
    now = timezone.now()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, 0)", [Lock.SEATS])
        still_open = HostTask.objects.filter(ended_at=None)
        row = still_open.select_related("host__credential", "by").filter(pk=pk).first()
        if row is None:
            return None
        if hopeless := _give_up_reason(row):
            _end_task(row, error=hopeless)
            return None
        seats = _running_by_team(still_open.exclude(pk=pk))
        full = seats.total() >= MAX_AT_ONCE or seats[row.host.team_id] >= MAX_AT_ONCE_OF_TEAM
        if row.started_at is None and full:
            return None
        row.tries += 1
        still_open.filter(pk=pk).update(started_at=now, tries=row.tries)
    return row


def _give_up_reason(row: HostTask) -> str:
    if row.started_at is None and timezone.now() - row.created_at > STALE_AFTER:
        return "No worker picked it up in time. Try again."
    if row.tries >= MAX_TRIES:
        return f"The worker died {row.tries} times while doing this. See its log."
    return ""


def _run_task(row: HostTask) -> None:
    try:
        work: Callable[..., Result] = import_string(KINDS[row.kind].perform)
        ssh_access.try_again(row.host)
        _end_task(row, result=work(row.host, row.by, **row.options))
    except (AgentError, HostsError) as error:
        _end_task(row, error=str(error) or type(error).__name__)
    except Exception as error:
        log.exception("host task %s broke", row.pk)
        _end_task(
            row, error=f"BenchLab itself failed: {type(error).__name__}. See the worker's log."
        )


def _end_task(row: HostTask, **fields: object) -> None:
    HostTask.objects.filter(pk=row.pk, ended_at=None).update(ended_at=timezone.now(), **fields)


def offer_key(host: Host, by: object) -> Result:
    ssh_access.offer_key(host)
    return {}


def read_facts(host: Host, by: object) -> Result:
    return {"snapshot": discovery.read_facts(host).pk}


def wait_for_task(row: HostTask, *, keep_connection: bool = False) -> HostTask:
    """Wait for the end of a task, WAIT_S at most, and return its row. Meanwhile others have our connection."""
    until = time.monotonic() + MAX_WAIT_S
    request_slots.release_slot()
    while True:
        row.refresh_from_db()
        if row.ended_at is not None or time.monotonic() >= until:
            return row
        if not (keep_connection or connection.in_atomic_block):
            connection.close()
        time.sleep(POLL_INTERVAL_S)


@dataclass(frozen=True, slots=True)
class TaskView:
    """Task as a page shows it."""

    row: HostTask
    # what is wrong with the worker, "" for nothing; of one that goes on
    worker: str

    @property
    def over(self) -> bool:
        return self.row.ended_at is not None

    @property
    def text(self) -> str:
        kind = KINDS[self.row.kind]
        template = (
            kind.in_progress if not self.over else kind.failed if self.row.error else kind.succeeded
        )
        return template.format(host=self.row.host.name)

    @property
    def error(self) -> str:
        """Error of the task, unless the page shows it anyhow as the host's trouble."""
        return "" if self.row.error == self.row.host.trouble_text else self.row.error


def host_task_view(host: Host, task_id: str | None, *kinds: str) -> TaskView | None:
    """Task for a page of the host: the one that its address names (?task=), else the newest running one of `kinds`."""
    rows = host.tasks.filter(kind__in=kinds).select_related("host", "by")
    row = None
    if (pk := parse_row_id(task_id)) is not None:
        row = rows.filter(pk=pk).first()
        if row and row.ended_at and timezone.now() - row.ended_at > SHOWN_FOR:
            row = None
    row = row or rows.filter(ended_at=None).first()
    return task_view(row) if row else None


def user_task_view(
    user: AbstractBaseUser | AnonymousUser, task_id: str | None, kind: str
) -> TaskView | None:
    """Task for any other page: the one that its address names (?task=), on any host of the user."""
    if (pk := parse_row_id(task_id)) is None:
        return None
    rows = HostTask.objects.for_user(user).select_related("host", "by")
    row = rows.filter(pk=pk, kind=kind).first()
    return task_view(row) if row else None


def task_view(row: HostTask) -> TaskView:
    return TaskView(row, "" if row.ended_at else worker_trouble())


def worker_trouble() -> str:
    """Reason why no task makes progress, in words; "" when a worker was seen a moment ago."""
    try:
        age = beats.age_s()
    except redis.RedisError:
        return "The message broker does not answer, so it is unknown whether a worker is running."
    if age is None:
        return "No worker runs: it begins when one is started."
    if age > WORKER_SILENT_S:
        return f"The worker has been silent for {age:.0f} s: it begins when one runs again."
    return ""
