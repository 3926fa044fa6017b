# SPDX-License-Identifier: Apache-2.0
"""Remove rows for good once the period of grace is over, a little in each transaction, so that nobody waits for it.

All data of a campaign is in the database, raw output too, so a row and its bytes go in one transaction: a crash leaves
both or neither, and the next sweep goes on. A row whose removal has begun (`going_at`) cannot be brought back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Sum
from django.http import QueryDict
from django.utils import timezone

from benchlab.audit import chain
from benchlab.audit.subjects import describe_row
from benchlab.campaigns.models import Campaign, Run
from benchlab.charts import request_params
from benchlab.lifecycle import archiving, deleting
from benchlab.lifecycle.managed_kinds import MANAGED_KINDS, managed_kind_of
from benchlab.runs.models import Artifact, Attempt, Layout
from benchlab.sharing.models import SavedView, Share
from benchlab.web import deleted_rows

# of a batch
ATTEMPTS, RUNS, LAYOUTS, SOURCES = 10, 100, 10, 1
# of a sweep
SWEEP_BUDGET_S = 20.0


def purge_due() -> int:
    """Purge what is due, as far as the time allows; return the number of batches.

    Parallel calls take different rows.
    """
    until, batches = time.monotonic() + SWEEP_BUDGET_S, 0
    # campaigns first: the others are what their runs refer to
    for noun in MANAGED_KINDS.values():
        tried: set[int] = set()
        while time.monotonic() < until and _purge_batch(noun.model, tried):
            batches += 1
    return batches


@transaction.atomic
def _purge_batch(model: Any, skipped: set[int]) -> bool:
    """Purge a part of one row that is due. False if there is none. Rows that cannot go now are added to `skipped`."""
    row = (
        due_rows(model)
        .exclude(pk__in=skipped)
        .select_for_update(skip_locked=True, of=("self",))
        .first()
    )
    if row is None:
        return False
    if archiving.working_layout(row) or (row.going_at is None and any(deleting.find_uses(row))):
        # Something was found on a host since: its record stays until that is taken down.
        skipped.add(row.pk)
    elif row.going_at is None:
        _begin_removal(row)
    elif not (isinstance(row, Campaign) and _remove_part(row)):
        _finish_removal(row)
    return True


def due_rows(model: Any) -> QuerySet[Any]:
    """Rows that are due, the oldest first. Topologies and workloads stay while a run of any campaign refers to them."""
    rows = model.even_deleted.filter(deleted_at__lte=timezone.now() - deleted_rows.grace_period())
    if model is not Campaign:
        kind = (
            MANAGED_KINDS["topology"].kind
            if model is MANAGED_KINDS["topology"].model
            else "workload"
        )
        rows = rows.filter(~Exists(Run.objects.filter(**{kind: OuterRef("pk")})))
        if kind == "topology":
            rows = rows.filter(~Exists(Layout.objects.filter(topology=OuterRef("pk"))))
    ordered: QuerySet[Any] = rows.order_by("deleted_at", "pk")
    return ordered


def _begin_removal(row: Any) -> None:
    """Begin a removal that cannot be undone. The log records what the row is before anything of it is gone."""
    row.going_at = timezone.now()
    row.save(update_fields=["going_at"])
    details: dict[str, Any] = {
        "deleted_by": row.deleted_by,
        "deleted_at": row.deleted_at.isoformat(),
    }
    if isinstance(row, Campaign):
        artifacts = Artifact.objects.filter(attempt__run__campaign=row)
        size = (artifacts.aggregate(size=Sum("size"))["size"] or 0) + (
            row.sources.aggregate(size=Sum("size"))["size"] or 0
        )
        details |= {"runs": row.runs.count(), "files": artifacts.count(), "bytes": size}
    _record_removal(row, "remove-begin", details)


def _finish_removal(row: Any) -> None:
    if isinstance(row, Campaign) and row.layouts.exists():
        # one that is taken down once more, as of this moment
        return
    _record_removal(row, "remove", {})
    team, pk = row.team_id, row.pk
    if isinstance(row, Campaign):
        Share.objects.filter(
            team=team, kind__in=(Share.Kind.CAMPAIGN, Share.Kind.REPORT), object_id=pk
        ).delete()
    row.delete()
    if isinstance(row, Campaign):
        for view in SavedView.objects.filter(team=team):
            _drop_if_empty(view, pk)


def _record_removal(row: Any, action: str, details: dict[str, Any]) -> None:
    chain.add_entry(
        f"{managed_kind_of(row).kind}-{action}",
        team_id=row.team_id,
        subject=describe_row(row),
        details=details,
    )


def _remove_part(row: Campaign) -> bool:
    """Remove the next part of what a campaign has; False if nothing is left but itself."""
    return any(_delete_some(rows, most) for rows, most in _campaign_parts(row))


def _campaign_parts(row: Campaign) -> Iterator[tuple[QuerySet[Any], int]]:
    # with output, figures, series
    yield Attempt.objects.filter(run__campaign=row), ATTEMPTS
    yield Attempt.objects.filter(layout__campaign=row), ATTEMPTS
    yield row.sources.all(), SOURCES
    yield row.runs.all(), RUNS
    yield row.layouts.filter(phase__in=archiving.AT_REST), LAYOUTS


def _delete_some(rows: QuerySet[Any], most: int) -> bool:
    """Delete some rows, locked first: a layout that is being taken down once more at this moment is not among them."""
    some = rows.only("pk").order_by("pk").select_for_update(of=("self",))[:most]
    pks = [row.pk for row in some]
    if pks and rows.model is Run:
        Share.objects.filter(Q(kind=Share.Kind.RUN, object_id__in=pks)).delete()
    return bool(pks) and bool(rows.model._base_manager.filter(pk__in=pks).delete())


def _drop_if_empty(view: SavedView, campaign: int) -> None:
    """Delete a saved comparison of which nothing is left; one that has other campaigns lost a line."""
    campaign_ids = set(request_params.line_filter(QueryDict(view.query)).campaigns)
    if campaign in campaign_ids and not Campaign.even_deleted.filter(pk__in=campaign_ids).exists():
        view.delete()
