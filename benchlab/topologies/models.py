# SPDX-License-Identifier: Apache-2.0
"""A topology: a named stack of layers, bottom up, in terms of roles, how it grows while it stands, and its disks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.conf import settings
from django.db import models

from benchlab.team.models import OwnedQuerySet, Team, UndeletedQuerySet
from benchlab.team.soft_delete import NOT_DELETED, SoftDeletable


class OnDegraded(models.TextChoices):
    """Choice for a layout that serves on though something in it failed (a member of a mirror, a cache)."""

    STOP = "stop", "Stop: measure no more on it"
    MEASURE = "measure", "Measure on, and mark every run"


class Topology(SoftDeletable):
    """`stack` is a list of {"kind", "options", "devices": [{"use", "role", "count"}]}, bottom up (plans.stack)."""

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="topologies")
    name = models.CharField(max_length=100)
    description = models.TextField(blank=True)
    stack = models.JSONField()
    # A list of {"layer", "options", "devices", "during": measure also while it grows} (agents.plans.chain.StageSpec).
    stages = models.JSONField(default=list, blank=True)
    measure_resync = models.BooleanField(
        "measure during the first resync too",
        default=False,
        help_text="Measure during resync as well. If off, runs wait until the layers are in sync.",
    )
    on_degraded = models.CharField(
        "when something in it fails",
        max_length=10,
        choices=OnDegraded,
        default=OnDegraded.STOP,
        help_text="Checked before and after each run: failed members, lost caches, disk errors.",
    )
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = UndeletedQuerySet["Topology"].as_manager()
    even_deleted = OwnedQuerySet["Topology"].as_manager()

    class Meta:
        ordering = ["name"]
        verbose_name_plural = "topologies"
        constraints = [
            models.UniqueConstraint(
                fields=["team", "name"],
                condition=NOT_DELETED,
                name="topology_name_once",
                violation_error_message="A topology of this name already exists.",
            )
        ]

    def __str__(self) -> str:
        return self.name


# of one use
MAX_DEVICES = 256


def required_disks(entries: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Role -> how many disks these layers, or stages, take."""
    counts: dict[str, int] = {}
    for group in (group for entry in entries for group in entry.get("devices", ())):
        counts[group["role"]] = counts.get(group["role"], 0) + group["count"]
    return counts


def missing_disks(wants: Mapping[str, int], spares: Mapping[str, int]) -> dict[str, int]:
    """Role -> how many spare disks are missing on a host that has `spares` of each role; {} where none is."""
    short = {role: n - spares.get(role, 0) for role, n in wants.items()}
    return {role: n for role, n in short.items() if n > 0}
