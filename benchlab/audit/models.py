# SPDX-License-Identifier: Apache-2.0
"""Models of the log. An entry has no foreign keys: it must outlive the rows that it describes."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import models
from django.db.models import Q

from benchlab.team.models import teams_of


class EntryQuerySet(models.QuerySet["Entry"]):
    def for_user(self, user: AbstractBaseUser | AnonymousUser) -> EntryQuerySet:
        """Entries of the user's teams; a site admin also sees those of no team, such as logins and accounts."""
        return self._in_teams(user, teams_of(user).values("team_id"))

    def to_sort_for(self, user: AbstractBaseUser | AnonymousUser) -> EntryQuerySet:
        """The same rows as `for_user`, by the teams' ids, with one query more.

        PostgreSQL knows how much of the log each team has. With a subquery it does not, and would sort all of the log
        instead of reading an index in order.
        """
        return self._in_teams(user, list(teams_of(user).values_list("team_id", flat=True)))

    def _in_teams(self, user: AbstractBaseUser | AnonymousUser, teams: Any) -> EntryQuerySet:
        mine = Q(team_id__in=teams)
        if getattr(user, "is_superuser", False):
            mine |= Q(team_id=None)
        return self.filter(mine)


class Entry(models.Model):
    """`digest` is SHA-256 over `previous` and everything else (benchlab/audit/chain.py)."""

    at = models.DateTimeField()
    actor_id = models.BigIntegerField(null=True)
    actor = models.CharField(
        max_length=200, help_text="User name at that time; empty for the engine"
    )
    via = models.CharField(
        max_length=100, help_text="Interface used: page, api, engine, or the name of an API token"
    )
    address = models.CharField(max_length=64, blank=True, help_text="IP address of the client")
    team_id = models.BigIntegerField(null=True, db_index=True)
    action = models.CharField(
        max_length=100, help_text="Action, e.g. campaign-start, host.create or destroy"
    )
    subject = models.CharField(
        max_length=500, blank=True, help_text="Object of the action, as text"
    )
    outcome = models.CharField(max_length=20, help_text="Outcome: done, refused or failed")
    details = models.JSONField(default=dict)
    previous = models.CharField(max_length=64, blank=True)
    digest = models.CharField(max_length=64)

    objects = EntryQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        verbose_name_plural = "entries"
        # What its page sorts by: the log only grows, and a page of it is read in order, not sorted out of all of it.
        indexes = [
            models.Index(fields=[name, "id"], name=f"audit_by_{name}")
            for name in ("at", "actor", "action", "outcome")
        ]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S} {self.actor or 'engine'}: {self.action} {self.subject}"


class Head(models.Model):
    """End that the log must have: one row, moved with each entry and sealed (benchlab/audit/heads.py)."""

    # its id
    ONLY = 1

    entries = models.BigIntegerField(default=0)
    entry = models.BigIntegerField(default=0, help_text="ID of the last entry")
    digest = models.CharField(max_length=64, blank=True, help_text="Digest of the last entry")
    seal = models.CharField(max_length=64, blank=True)

    def __str__(self) -> str:
        return f"{self.entries} entries up to {self.entry}"
