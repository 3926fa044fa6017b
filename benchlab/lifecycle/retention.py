# SPDX-License-Identifier: Apache-2.0
"""A team's rule on raw output: so many days after a campaign has ended, what its tools and samplers wrote goes.

Figures, findings, conditions and the log of commands stay. Left alone are campaigns that somebody starred, or that a
link for guests still shows, and what was imported: nobody could measure that again. Bytes go in the transaction that
says so.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, Max, OuterRef, Q, QuerySet, Sum
from django.http import QueryDict
from django.utils import timezone

from benchlab.audit import chain
from benchlab.audit.subjects import describe_row
from benchlab.campaigns.models import Campaign, Run
from benchlab.charts import request_params
from benchlab.runs.models import Artifact, ArtifactPiece, Attempt, Layout, Series, Strip
from benchlab.runs.states import LayoutPhase
from benchlab.sharing.models import Kind, Share, Star
from benchlab.team.models import Team

# of a batch
ATTEMPTS = 20
# of a sweep
SWEEP_BUDGET_S = 20.0


def remove_due_output() -> int:
    """Remove what is due by the teams' rules, as far as the time goes; returns the number of batches."""
    until, batches = time.monotonic() + SWEEP_BUDGET_S, 0
    for team in Team.objects.exclude(keep_raw_days=None):
        for campaign in due_campaigns(team):
            while time.monotonic() < until and _remove_batch(campaign, team.keep_raw_days or 0):
                batches += 1
    return batches


def due_campaigns(team: Team) -> Iterator[Campaign]:
    """Campaigns that ended longer ago than the rule says and still have raw output."""
    limit = timezone.now() - timedelta(days=team.keep_raw_days or 0)
    still_open = Layout.objects.filter(campaign=OuterRef("pk")).exclude(phase=LayoutPhase.DONE)
    rows = (
        Campaign.objects.filter(team=team, source=Campaign.Source.MEASURED)
        .filter(~Exists(still_open), Exists(_attempts_with_output(OuterRef("pk"))))
        .annotate(ended=Max("layouts__ended_at"))
        .filter(Q(ended__lte=limit) | Q(ended=None, created_at__lte=limit))
    )
    protected = _protected_campaigns(team)
    yield from (row for row in rows.order_by("pk") if row.pk not in protected)


def _attempts_with_output(campaign: Any) -> QuerySet[Attempt]:
    """Attempts of which something is left."""
    own = Attempt.objects.filter(run__campaign=campaign, raw_removed_at=None)
    of_attempt = {"attempt": OuterRef("pk")}
    return own.filter(
        Exists(Artifact.objects.filter(**of_attempt)) | Exists(Series.objects.filter(**of_attempt))
    )


def _protected_campaigns(team: Team) -> set[int]:
    """Campaigns that a member starred, or a run of which, and those that guests can still see."""
    stars = Star.objects.filter(user__membership__team=team)
    runs = Run.objects.filter(campaign__team=team)
    campaign_ids = set(stars.filter(kind=Kind.CAMPAIGN).values_list("object_id", flat=True))
    starred = stars.filter(kind=Kind.RUN).values("object_id")
    campaign_ids |= set(runs.filter(pk__in=starred).values_list("campaign", flat=True))
    for share in Share.objects.filter(team=team, revoked_at=None, expires_at__gt=timezone.now()):
        if share.kind == Share.Kind.RUN:
            campaign_ids |= set(
                runs.filter(pk=share.object_id or 0).values_list("campaign", flat=True)
            )
        elif share.kind in (Share.Kind.CAMPAIGN, Share.Kind.REPORT):
            campaign_ids.add(share.object_id or 0)
        else:
            campaign_ids |= set(request_params.line_filter(QueryDict(share.query)).campaigns)
    return campaign_ids


@transaction.atomic
def _remove_batch(campaign: Campaign, days: int) -> bool:
    """Remove the raw output of some attempts. False if none is left. The last batch of a campaign is logged."""
    pks = list(
        _attempts_with_output(campaign).order_by("pk").values_list("pk", flat=True)[:ATTEMPTS]
    )
    if not pks:
        return False
    of_attempts = {"attempt__in": pks}
    Artifact.objects.filter(**of_attempts).update(content=b"")
    ArtifactPiece.objects.filter(**of_attempts).delete()
    Series.objects.filter(**of_attempts).delete()
    Strip.objects.filter(**of_attempts).delete()
    Attempt.objects.filter(pk__in=pks).update(raw_removed_at=timezone.now(), raw_removed_after=days)
    if not _attempts_with_output(campaign).exists():
        _record_removal(campaign, days)
    return True


def _record_removal(campaign: Campaign, days: int) -> None:
    files = Artifact.objects.filter(attempt__run__campaign=campaign)
    size = files.aggregate(size=Sum("size"))["size"] or 0
    chain.add_entry(
        "campaign-remove-raw",
        team_id=campaign.team_id,
        subject=describe_row(campaign),
        details={"rule_days": days, "files": files.count(), "bytes": size},
    )
