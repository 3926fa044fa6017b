"""One entry of the log. No foreign keys: what it tells must outlive what it tells of."""

from __future__ import annotations

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import models
from django.db.models import Q

from benchlab.team.models import teams_of


class EntryQuerySet(models.QuerySet["Entry"]):
    def for_user(self, user: AbstractBaseUser | AnonymousUser) -> EntryQuerySet:
        """Of their teams; a site admin's also what belongs to no team: logins, accounts."""
        mine = Q(team_id__in=teams_of(user).values("team_id"))
        if getattr(user, "is_superuser", False):
            mine |= Q(team_id=None)
        return self.filter(mine)


class Entry(models.Model):
    """`digest` is SHA-256 over `previous` and everything else (benchlab/audit/chain.py)."""

    at = models.DateTimeField(db_index=True)
    actor_id = models.BigIntegerField(null=True)
    actor = models.CharField(max_length=200, help_text="Their name then; empty: the engine")
    via = models.CharField(max_length=100, help_text="page, a token's name, or engine")
    address = models.CharField(max_length=64, blank=True, help_text="From where")
    team_id = models.BigIntegerField(null=True, db_index=True)
    action = models.CharField(
        max_length=100, db_index=True, help_text="campaign-start, host.create, destroy, …"
    )
    subject = models.CharField(
        max_length=500, blank=True, help_text="What it was done to, in words"
    )
    outcome = models.CharField(max_length=20, help_text="done, refused, failed")
    details = models.JSONField(default=dict)
    previous = models.CharField(max_length=64, blank=True)
    digest = models.CharField(max_length=64)

    objects = EntryQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        verbose_name_plural = "entries"

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S} {self.actor or 'engine'}: {self.action} {self.subject}"


class Head(models.Model):
    """What the log's end must be: one row, moved with each entry and sealed (benchlab/audit/heads.py)."""

    ONLY = 1  # its id

    entries = models.BigIntegerField(default=0)
    entry = models.BigIntegerField(default=0, help_text="The last one's id")
    digest = models.CharField(max_length=64, blank=True, help_text="The last one's")
    seal = models.CharField(max_length=64, blank=True)

    def __str__(self) -> str:
        return f"{self.entries} entries up to {self.entry}"
