# SPDX-License-Identifier: Apache-2.0
"""Counts of what is deleted along with a row, and of what stays. For the page that asks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, Sum
from django.http import QueryDict
from django.utils import timezone

from benchlab.campaigns.models import Campaign
from benchlab.charts import request_params
from benchlab.findings.models import Finding
from benchlab.lifecycle.managed_kinds import managed_kind_of
from benchlab.runs.models import Artifact, Attempt, Layout, Measurement, Series
from benchlab.sharing.models import Comment, Note, SavedView, Share, Star, Tagging
from benchlab.verdicts.models import DismissedAnswer

# comparisons and links that are named
MAX_NAMED = 20


@dataclass(frozen=True, slots=True)
class Loss:
    """Count of what is lost. `size`: in bytes, where that says more."""

    what: str
    number: int
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Losses:
    """`lines`: saved comparisons that lose a line, `links`: what guests cannot open any more, by name."""

    counted: list[Loss]
    lines: list[str]
    links: list[str]


def count_losses(row: Any) -> Losses:
    if not isinstance(row, Campaign):
        return Losses([loss for loss in _comment_losses(row) if loss.number], [], [])
    counted = [loss for loss in (*_campaign_losses(row), *_comment_losses(row)) if loss.number]
    return Losses(counted, _saved_views(row), _guest_links(row))


def _campaign_losses(row: Campaign) -> Iterator[Loss]:
    of_it = {"attempt__run__campaign": row}
    artifacts = Artifact.objects.filter(**of_it)
    sources = row.sources.all()
    yield Loss("runs", row.runs.count())
    yield Loss(
        "tries of them, with conditions and log", Attempt.objects.filter(run__campaign=row).count()
    )
    yield Loss("layouts, with every command", Layout.objects.filter(campaign=row).count())
    yield Loss("figures", Measurement.objects.filter(**of_it).count())
    yield Loss("files of raw output", artifacts.count(), _total_size(artifacts))
    yield Loss("sampled series", Series.objects.filter(**of_it).count())
    yield Loss("uploaded files", sources.count(), _total_size(sources))
    yield Loss("texts in its report", row.report_texts.exclude(text="").count())
    yield Loss("findings", Finding.objects.filter(campaign=row, stands=True).count())
    yield Loss("notes on answers", DismissedAnswer.objects.filter(campaign=row).count())


def _total_size(rows: Any) -> int:
    return rows.aggregate(size=Sum("size"))["size"] or 0


def _comment_losses(row: Any) -> Iterator[Loss]:
    about = Q(kind=managed_kind_of(row).kind, object_id=row.pk)
    if isinstance(row, Campaign):
        about |= Q(kind="run", object_id__in=row.runs.order_by().values("pk"))
    for what, model in (
        ("comments", Comment),
        ("notes", Note),
        ("tags on it", Tagging),
        ("stars", Star),
    ):
        yield Loss(what, model.objects.filter(about).count())


def _saved_views(row: Campaign) -> list[str]:
    """Saved views that are lost. The personal views of others are not named to anybody."""
    views = SavedView.objects.filter(team=row.team_id, for_team=True)
    return [view.name for view in views if row.pk in _campaign_ids(view.query)][:MAX_NAMED]


def _guest_links(row: Campaign) -> list[str]:
    still_open = Share.objects.filter(
        team=row.team_id, revoked_at=None, expires_at__gt=timezone.now()
    )
    return [
        f"{share.get_kind_display()}: {share}"
        for share in still_open
        if _shows_campaign(share, row)
    ][:MAX_NAMED]


def _shows_campaign(share: Share, row: Campaign) -> bool:
    if share.kind == Share.Kind.RUN:
        return row.runs.filter(pk=share.object_id or 0).exists()
    if share.kind in (Share.Kind.CAMPAIGN, Share.Kind.REPORT):
        return share.object_id == row.pk
    return row.pk in _campaign_ids(share.query)


def _campaign_ids(query: str) -> tuple[int, ...]:
    return tuple(request_params.line_filter(QueryDict(query)).campaigns)
