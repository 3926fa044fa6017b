# SPDX-License-Identifier: Apache-2.0
"""State of the whole installation as PostgreSQL has it, by queries that read an index, or a table of few rows.

Two queries read tables that grow with every run; each web process runs them once in COUNTED_EVERY_S. A query may
take STATEMENT_MS. tests/bench/bench_metrics.py measures all of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction

from benchlab.audit import heads
from benchlab.findings.models import Severities
from benchlab.metrics.table import Samples
from benchlab.readiness import CONNECT_S
from benchlab.runs.progress import SILENT_S, State
from benchlab.runs.states import HOLDING, AttemptPhase, LayoutPhase, Outcome
from benchlab.workers.lease import ALIVE, Lock

STATEMENT_MS = 2000
COUNTED_EVERY_S = 60.0
LATE_S = 30.0
HELD = "('" + "', '".join(HOLDING) + "')"
ACTIVE = "('provisioning', 'ready', 'tearing_down', 'stuck', 'waiting')"

HOST_STATES = (
    "described",
    "key_changed",
    "trouble",
    "unconfirmed",
    "held",
    "free",
)
HOSTS = f"""
SELECT CASE WHEN access = 'described' THEN 'described'
            WHEN host_key <> '' AND offered_key <> '' THEN 'key_changed'
            WHEN trouble <> '' THEN 'trouble'
            WHEN access = 'ssh' AND host_key = '' THEN 'unconfirmed'
            WHEN EXISTS (SELECT FROM runs_layout l WHERE l.host_id = h.id AND l.phase IN {HELD}) THEN 'held'
            ELSE 'free' END, count(*)
FROM hosts_host h GROUP BY 1
"""  # noqa: S608  # phases of ours
# People may type any role: roles other than these are counted together.
DISK_ROLES = ("hdd", "ssd", "nvme", "none", "other")
DISK_STATES = ("absent", "held", "spare_in_use", "spare", "in_use", "free")
DISKS = f"""
SELECT CASE WHEN role = '' THEN 'none' WHEN role IN ('hdd', 'ssd', 'nvme') THEN role ELSE 'other' END,
       CASE WHEN NOT present THEN 'absent'
            WHEN spare AND host_id IN (SELECT host_id FROM runs_layout WHERE phase IN {HELD}) THEN 'held'
            WHEN spare AND in_use <> '' THEN 'spare_in_use'
            WHEN spare THEN 'spare'
            WHEN in_use <> '' THEN 'in_use'
            ELSE 'free' END, count(*)
FROM hosts_device GROUP BY 1, 2
"""  # noqa: S608
# benchlab/runs/progress.py does the same for one campaign; a test compares the two.
CAMPAIGNS = f"""
SELECT CASE WHEN stuck THEN 'stuck'
            WHEN asks THEN 'asks'
            WHEN active AND cancelled_at IS NOT NULL THEN 'cancelling'
            WHEN active AND paused_at IS NOT NULL THEN 'paused'
            WHEN active AND held THEN 'running'
            WHEN active THEN 'queued'
            WHEN draft THEN 'draft'
            WHEN cancelled_at IS NOT NULL THEN 'cancelled'
            ELSE 'done' END, count(*)
FROM campaigns_campaign c LEFT JOIN (
    SELECT campaign_id, bool_or(phase = 'stuck') AS stuck, bool_or(needs_person <> '') AS asks,
           bool_or(phase IN {ACTIVE}) AS active, bool_or(phase IN {HELD}) AS held, bool_or(phase = 'draft') AS draft
    FROM runs_layout GROUP BY campaign_id
) l ON l.campaign_id = c.id
WHERE c.deleted_at IS NULL GROUP BY 1
"""  # noqa: S608
OVERDUE = f"""
SELECT count(*) FILTER (WHERE next_step_at < now() - make_interval(secs => {LATE_S})),
       coalesce(extract(epoch FROM now() - min(next_step_at)), 0)
FROM runs_layout WHERE phase IN ('provisioning', 'ready', 'tearing_down') AND next_step_at < now()
"""  # noqa: S608
SILENT = f"""
SELECT count(*) FROM runs_attempt
WHERE phase = 'running' AND seen_at < now() - make_interval(secs => {SILENT_S})
"""  # noqa: S608
STANDING = "SELECT severity, count(*) FROM findings_finding WHERE stands AND dismissed_at IS NULL GROUP BY 1"
STILL_OPEN = """
SELECT phase, count(*) FROM runs_attempt
WHERE phase IN ('queued', 'starting', 'running', 'collecting') GROUP BY 1
"""
SERVER = """
SELECT pg_database_size(current_database()),
       (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database())
"""


def read_database() -> dict[str, Samples]:
    """Raises psycopg.Error, django.db.Error or PoolTimeout."""
    with _cursor() as cursor:
        samples: dict[str, Samples] = {
            "layouts": _count_by_name(
                cursor, "SELECT phase, count(*) FROM runs_layout GROUP BY 1", LayoutPhase.values
            ),
            **_attempt_samples(cursor, _counts_of_all_runs(cursor)["attempts_done"]),
            "campaigns": _count_by_name(cursor, CAMPAIGNS, State.values),
            "findings": _counts_of_all_runs(cursor)["findings"],
            "hosts": _count_by_name(cursor, HOSTS, HOST_STATES),
            "disks": _disk_samples(cursor),
            "workers": {(): float(len(_fetch_rows(cursor, ALIVE, [Lock.WORKER])))},
            **_audit_samples(cursor),
        }
        for names, query in (
            (("layouts_overdue", "layout_overdue_seconds"), OVERDUE),
            (("attempts_silent",), SILENT),
            (("database_size_bytes", "database_connections"), SERVER),
        ):
            [row] = _fetch_rows(cursor, query)
            samples |= {name: {(): float(value)} for name, value in zip(names, row, strict=True)}
    return samples


@contextmanager
def _cursor() -> Iterator[Any]:
    """Yield a cursor, from the connection pool if there is one.

    It waits less long than a page does for a free connection: metrics must show when the pool is empty.
    """
    pool = getattr(connection, "pool", None)
    if pool:
        pool.open()
        with pool.connection(CONNECT_S) as own, own.transaction(), own.cursor() as cursor:
            _limit(cursor)
            yield cursor
    else:
        with transaction.atomic(), connection.cursor() as cursor:
            _limit(cursor)
            yield cursor


def _limit(cursor: Any) -> None:
    """Limit queries to one PostgreSQL process without JIT, which would cost more than any of them."""
    cursor.execute(
        "SELECT set_config('statement_timeout', %s, true), set_config('jit', 'off', true),"
        " set_config('max_parallel_workers_per_gather', '0', true)",
        [str(STATEMENT_MS)],
    )


def _fetch_rows(cursor: Any, query: str, params: Iterable[object] = ()) -> list[tuple[Any, ...]]:
    cursor.execute(query, list(params))
    rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def _count_by_name(cursor: Any, query: str, names: Iterable[str]) -> Samples:
    """Known names without a row count 0, so that an alert can tell that from "not read"."""
    counts: Samples = {(name,): 0.0 for name in names}
    return counts | {(str(name),): float(number) for name, number in _fetch_rows(cursor, query)}


class _Counts:
    """Counts over all runs, and when they were read (time.monotonic)."""

    at: float = float("-inf")
    read: dict[str, Samples] = {}


def _counts_of_all_runs(cursor: Any) -> dict[str, Samples]:
    """Finished attempts by outcome, and findings by severity; at most COUNTED_EVERY_S old."""
    if time.monotonic() - _Counts.at > COUNTED_EVERY_S:
        by_outcome = _count_by_name(
            cursor, "SELECT outcome, count(*) FROM runs_attempt GROUP BY 1", Outcome.values
        )
        # of those that are not over
        by_outcome.pop(("",), None)
        findings = _count_by_name(cursor, STANDING, Severities.values)
        _Counts.read, _Counts.at = (
            {"attempts_done": by_outcome, "findings": findings},
            time.monotonic(),
        )
    return _Counts.read


def _attempt_samples(cursor: Any, by_outcome: Samples) -> dict[str, Samples]:
    phases = _count_by_name(cursor, STILL_OPEN, AttemptPhase.values)
    phases[(AttemptPhase.DONE.value,)] = sum(by_outcome.values())
    return {"attempts": phases, "attempts_done": by_outcome}


def _disk_samples(cursor: Any) -> Samples:
    counts: Samples = {(role, state): 0.0 for role in DISK_ROLES for state in DISK_STATES}
    return counts | {
        (role, state): float(number) for role, state, number in _fetch_rows(cursor, DISKS)
    }


def _audit_samples(cursor: Any) -> dict[str, Samples]:
    """Number of entries in the audit log, and whether its end matches the sealed row and the file."""
    rows = _fetch_rows(cursor, "SELECT entries, entry, digest, seal FROM audit_head WHERE id = 1")
    if not rows:
        [[entries]] = _fetch_rows(
            cursor, "SELECT count(*) FROM (SELECT FROM audit_entry LIMIT 1) one"
        )
        return {"audit_entries": {(): float(entries)}, "audit_head_ok": {(): float(not entries)}}
    entries, entry, digest, seal = rows[0]
    database_head = heads.HeadContent(entries, entry, digest)
    try:
        file_head = heads.read_head_file()
        ok = heads.is_sealed(database_head, seal) and all(
            _in_log(cursor, head) for head in (database_head, file_head) if head is not None
        )
    except heads.Unreadable:
        ok = False
    return {"audit_entries": {(): float(entries)}, "audit_head_ok": {(): float(ok)}}


def _in_log(cursor: Any, head: heads.HeadContent) -> bool:
    query = "SELECT count(*) FROM audit_entry WHERE id = %s AND digest = %s"
    return not head.entries or bool(_fetch_rows(cursor, query, [head.entry, head.digest])[0][0])
