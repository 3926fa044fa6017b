# SPDX-License-Identifier: Apache-2.0
"""Decisions of people on targets that a dynamo reports. Pages and the API both come here."""

from __future__ import annotations

import contextlib
import itertools

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import IntegrityError, transaction
from django.utils import timezone

from benchlab.dynamo import host_facts as facts
from benchlab.dynamo.models import Reported
from benchlab.topologies.models import Topology


class Refused(Exception):
    """Nothing was changed; the text says why, and the cure."""


def mark_spare(row: Reported, user: AbstractBaseUser | AnonymousUser, typed: str) -> None:
    """A whole disk is given away with all that is on it. `typed` is its name, letter by letter. Raises Refused."""
    if not row.raw:
        raise Refused(
            f"{row} is a file system: dynamo uses a file of its own there, so it needs no spare mark."
        )
    if not row.present:
        raise Refused(f"{row} is not reported any more: another disk may have its name by now.")
    if typed.strip() != row.name:
        raise Refused(f"Nothing was changed: type {row.name} to mark that disk spare.")
    Reported.objects.filter(pk=row.pk).update(spare_by=user.pk, spare_at=timezone.now())
    facts.store_snapshot(row.host)


def unmark_spare(row: Reported) -> None:
    """Nothing is written to it from now on."""
    Reported.objects.filter(pk=row.pk).update(spare_by=None, spare_at=None)
    facts.store_snapshot(row.host)


def create_topology(row: Reported) -> tuple[Topology, bool]:
    """One of this target alone, to be chosen in a campaign; and whether it is new."""
    stack = [{"kind": "reported", "options": {"target": row.name}, "devices": []}]
    existing = Topology.objects.filter(team=row.host.team, stack=stack, stages=[]).first()
    if existing is not None:
        existing.offer()
        return existing, False
    for number in itertools.count(1):
        name = f"{row.name[:60]} as dynamo reports it" + (f" ({number})" if number > 1 else "")
        # another target's, or one that somebody changed, has the name already
        with contextlib.suppress(IntegrityError), transaction.atomic():
            return Topology.objects.create(team=row.host.team, name=name, stack=stack), True
    raise AssertionError("numbers do not end")
