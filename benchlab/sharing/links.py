# SPDX-License-Identifier: Apache-2.0
"""Links for guests: who may create one, what it opens, when it ends. The database stores only its SHA-256."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.db.models import F, Q
from django.http import QueryDict
from django.utils import timezone

from benchlab.campaigns.models import Run
from benchlab.charts import request_params
from benchlab.sharing import queries, targets
from benchlab.sharing.models import Kind, SavedView, Share
from benchlab.sharing.redaction import Redaction, build_redaction
from benchlab.team.guests import Guest
from benchlab.team.models import Team
from benchlab.team.services import owning_team

DAYS, MOST_DAYS = 30, 366
BY_QUERY = (Share.Kind.COMPARISON, Share.Kind.VIEW)
WHOLE = (Share.Kind.CAMPAIGN, Share.Kind.REPORT)


@dataclass(frozen=True, slots=True)
class ShareTarget:
    """A checked row to share: it exists, and the person's team may share it."""

    team: Team
    kind: str
    object_id: int | None
    query: str
    name: str


def check_target(
    user: AbstractBaseUser, kind: str, object_id: int | None, query: str = ""
) -> ShareTarget:
    """Check what a person wants to share. Raises Http404 (no such row of theirs), ValidationError (not shareable)."""
    if kind == Share.Kind.COMPARISON:
        canonical_query = queries.canonical(query)
        return _comparison_target(user, kind, None, canonical_query, "")
    if kind == Share.Kind.VIEW:
        view = SavedView.objects.for_user(user).filter(pk=_valid_id(object_id)).first()
        if view is None:
            raise ValidationError("There is no such saved view.")
        return _comparison_target(user, kind, view.pk, view.query, view.name)
    if kind not in Share.Kind.values:
        raise ValidationError(
            f"{kind[:20]!r} cannot be shared: {', '.join(Share.Kind.values)} can."
        )
    row = targets.visible_row(
        user, Kind.RUN if kind == Share.Kind.RUN else Kind.CAMPAIGN, _valid_id(object_id)
    )
    team = targets.row_team(row)
    name = f"Run {row.pk}: {row}" if kind == Share.Kind.RUN else str(row)
    return ShareTarget(owning_team(user) if team.library else team, kind, row.pk, "", name[:200])


def _valid_id(object_id: int | None) -> int:
    return object_id if object_id is not None and 0 < object_id <= targets.GREATEST else 0


def _comparison_target(
    user: AbstractBaseUser, kind: str, object_id: int | None, query: str, name: str
) -> ShareTarget:
    if queries.is_explored(query):
        raise ValidationError(
            "Guests see comparisons; a view of Explore cannot be shared by a link."
        )
    campaigns = queries.campaigns_of(user, query)
    team = queries.comparison_team(campaigns, owning_team(user))
    words = name or " and ".join(str(row) for row in campaigns)
    return ShareTarget(team, kind, object_id, query, words[:200])


def token_digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def create_link(
    wish: ShareTarget, by: AbstractBaseUser, *, days: int = DAYS, hide_hosts: bool = True
) -> tuple[Share, str]:
    """Create a link. Returns its row, and the token, which is stored nowhere."""
    token = secrets.token_urlsafe(32)
    share = Share.objects.create(
        team=wish.team,
        kind=wish.kind,
        object_id=wish.object_id,
        query=wish.query,
        name=wish.name,
        hide_hosts=hide_hosts,
        digest=token_digest(token),
        by_id=by.pk,
        expires_at=timezone.now() + timedelta(days=max(1, min(days, MOST_DAYS))),
    )
    return share, token


def revoke_link(share: Share) -> None:
    """Twice is as once."""
    Share.objects.filter(pk=share.pk, revoked_at=None).update(revoked_at=timezone.now())


def open_share(token: str) -> Share | None:
    """Open a link; None if it is over or never existed, so that guessing tokens reveals nothing."""
    now = timezone.now()
    rows = Share.objects.select_related("team").filter(revoked_at=None, expires_at__gt=now)
    return rows.filter(digest=token_digest(token)).first()


def count_view(share: Share) -> None:
    Share.objects.filter(pk=share.pk).update(views=F("views") + 1, viewed_at=timezone.now())


@dataclass(frozen=True, slots=True)
class OpenedLink:
    """A link opened by a guest: what they see, under which names and under which URL."""

    share: Share
    token: str
    guest: Guest
    redaction: Redaction
    # of a comparison; else the campaign alone
    lines: request_params.Filter

    @property
    def of_a_run(self) -> bool:
        return self.share.kind == Share.Kind.RUN


def open_link(share: Share, token: str) -> OpenedLink:
    runs = Run.objects.not_deleted().filter(_shared_runs(share))
    visible: dict[str, Any] = {
        "campaigns.Run": Q(pk__in=runs.values("pk")),
        "campaigns.Campaign": Q(pk__in=runs.order_by().values("campaign")),
        "runs.Attempt": Q(run__in=runs.values("pk")),
        "runs.Artifact": Q(attempt__run__in=runs.values("pk")),
        "findings.Finding": Q(attempt__run__in=runs.values("pk")),
        # Found by what an answer compares, so only of answers that the link shows.
        "verdicts.DismissedAnswer": Q(campaign__in=runs.order_by().values("campaign")),
    }
    # a finding between set-ups tells of all of them
    if share.kind in WHOLE:
        visible["findings.Finding"] |= Q(
            workload__isnull=False, campaign__in=runs.order_by().values("campaign")
        )
    if share.hide_hosts or share.kind != Share.Kind.RUN:
        # byte for byte they would tell; and only a run's page shows them
        del visible["runs.Artifact"]
    return OpenedLink(
        share,
        token,
        Guest(visible),
        build_redaction(runs, share.team, share.hide_hosts),
        _shared_lines(share),
    )


def _shared_lines(share: Share) -> request_params.Filter:
    if share.kind in BY_QUERY:
        return request_params.line_filter(QueryDict(share.query))
    if share.kind == Share.Kind.RUN:
        return request_params.Filter()
    return request_params.Filter((share.object_id or 0,))


def _shared_runs(share: Share) -> Q:
    """Filter of the runs that a link is about: never another team's, whatever its query says."""
    mine = Q(campaign__team=share.team) | Q(campaign__team__library=True)
    if share.kind == Share.Kind.RUN:
        return mine & Q(pk=share.object_id)
    lines = _shared_lines(share)
    matches = mine & Q(campaign__in=lines.campaigns)
    for field in ("topology", "host", "workload"):
        if pks := getattr(lines, _plural(field)):
            matches &= Q(**{f"{field}__in": pks})
    if lines.stages:
        matches &= Q(stage__in=lines.stages)
    return matches if lines.moment is None else matches & Q(stage=lines.moment)


def _plural(field: str) -> str:
    return {"topology": "topologies", "host": "hosts", "workload": "workloads"}[field]
