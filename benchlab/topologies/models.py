"""A topology: a named stack of layers, bottom up, in terms of roles."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from benchlab.team.models import OwnedQuerySet, Team


class Topology(models.Model):
    """`stack` is a list of {"kind", "options", "devices": [{"use", "role", "count"}]}, bottom up (agents.stack)."""

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="topologies")
    name = models.CharField(max_length=100)
    description = models.TextField(blank=True)
    stack = models.JSONField()
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = OwnedQuerySet["Topology"].as_manager()

    class Meta:
        ordering = ["name"]
        verbose_name_plural = "topologies"
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="topology_name_once")]

    def __str__(self) -> str:
        return self.name
