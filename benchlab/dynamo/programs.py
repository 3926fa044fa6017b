# SPDX-License-Identifier: Apache-2.0
"""Uploaded programs of dynamo: kept, found, and deleted unless a run needs one."""

from __future__ import annotations

import hashlib
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Q

from benchlab.campaigns.models import Campaign, Workload
from benchlab.dynamo.models import Binary
from benchlab.dynamo.program_check import Refused, parse_version
from benchlab.team.models import Team

# bytes; the real one has less than one MiB
MAX_PROGRAM_BYTES = 32 * 2**20


class InUse(Exception):
    """It cannot be deleted; the text names who needs it."""


def store_program(
    team: Team, user: AbstractBaseUser | AnonymousUser, name: str, raw: bytes
) -> tuple[Binary, bool]:
    """The row, and whether it is new. Raises Refused."""
    version, digest = parse_version(raw), hashlib.sha256(raw).hexdigest()
    return Binary.objects.get_or_create(
        team=team,
        sha256=digest,
        defaults={
            "name": name[:200] or "dynamo",
            "version": version,
            "size": len(raw),
            "content": raw,
            "uploaded_by_id": user.pk,
        },
    )


def store_upload(
    team: Team, user: AbstractBaseUser | AnonymousUser, upload: Any
) -> tuple[Binary, bool]:
    """`keep` an uploaded file, of which not more is read than a dynamo can have. Raises Refused."""
    if upload.size > MAX_PROGRAM_BYTES:
        raise Refused(f"That has more than {MAX_PROGRAM_BYTES >> 20} MiB: it is not dynamo.")
    return store_program(team, user, upload.name or "", upload.read())


def program_users(row: Binary) -> list[str]:
    """Workloads and campaigns of its team that name it, in words; [] when nobody does."""
    names_program = Q(options__binary=row.option) | Q(sweep__binary__contains=[row.option])
    loads = Workload.even_deleted.filter(names_program, team=row.team_id, tool="dynamo")
    campaigns = Campaign.even_deleted.filter(team=row.team_id, runs__options__binary=row.option)
    return [
        *(f"workload {load.name}" for load in loads.order_by("name", "pk")),
        *(f"campaign {campaign.name}" for campaign in campaigns.distinct().order_by("name", "pk")),
    ]


def delete_program(row: Binary) -> None:
    """Raises InUse: a run whose program is gone could not be repeated."""
    if uses := program_users(row):
        more = f" and {len(uses) - 5} more" if len(uses) > 5 else ""
        raise InUse(
            f"{row.name} ({row.option[:19]}…) is needed by {', '.join(uses[:5])}{more}: their runs name it by its "
            "SHA-256 and could not be repeated without it."
        )
    row.delete()


def listen_address() -> str:
    """ "address:port" at which dynamos may log in by themselves; "" where the listener is off."""
    address: str = settings.BENCHLAB_DYNAMO_LISTEN if settings.BENCHLAB_DYNAMO_ALLOW else ""
    return address
