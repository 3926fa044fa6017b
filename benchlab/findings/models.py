# SPDX-License-Identifier: Apache-2.0
"""Models of findings and their dismissals."""

from __future__ import annotations

from typing import ClassVar, Self

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from benchlab.analysis.finding import Severity
from benchlab.campaigns.models import Campaign, Workload
from benchlab.runs.models import Attempt
from benchlab.team.models import OwnedQuerySet

# characters
MOST_NOTE, MOST_ABOUT = 2000, 300


class Severities(models.TextChoices):
    """benchlab.analysis.finding.Severity, from what matters most."""

    DOUBT = Severity.DOUBT.value, "Doubt"
    LIMIT = Severity.LIMIT.value, "Limit"
    NOTE = Severity.NOTE.value, "Note"


class Dismissible(models.Model):
    """A row that a person may dismiss with a reason. Its subclasses have `campaign`, too."""

    dismissed_at = models.DateTimeField(null=True, editable=False)
    dismissed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        editable=False,
    )
    note = models.TextField(blank=True, help_text="Reason for dismissing it, or for restoring it")

    campaign_id: int
    # what else a dismissal writes: what it was said of
    KEPT_WITH: ClassVar[tuple[str, ...]] = ()

    class Meta:
        abstract = True

    def same(self, now: Self) -> bool:
        """True if both are about the same; a dismissal of something else contradicts nobody."""
        return True


class Finding(Dismissible):
    """A finding on one attempt, or on the lines of one workload in a campaign.

    `manage.py reparse` can always rebuild it, except for its dismissal: `kind` and `about` identify it.
    """

    campaign = models.ForeignKey(Campaign, on_delete=models.CASCADE, related_name="findings")
    attempt = models.ForeignKey(
        Attempt, null=True, on_delete=models.CASCADE, related_name="findings"
    )
    workload = models.ForeignKey(
        Workload,
        null=True,
        on_delete=models.CASCADE,
        related_name="findings",
        help_text="Workload whose lines are compared; null for a finding on one attempt",
    )
    kind = models.CharField(
        max_length=60,
        help_text="Kind of finding: the name of a module in benchlab/analysis/findings",
    )
    about = models.CharField(
        max_length=MOST_ABOUT,
        blank=True,
        help_text="Key that distinguishes findings of the same kind",
    )
    says = models.TextField(help_text="The finding as one sentence, without a full stop")
    severity = models.CharField(max_length=10, choices=Severities)
    # {name: benchlab.analysis.finding.Number}
    numbers = models.JSONField(default=dict, help_text="Numbers in the sentence, in base units")
    runs = models.JSONField(default=list, help_text="IDs of the runs concerned")
    found_at = models.DateTimeField(auto_now_add=True)
    # A dismissed one that is found no longer is kept, so that it stays dismissed when it is found again.
    stands = models.BooleanField(default=True, editable=False)

    TEAM_PATH = "campaign__team"
    objects = OwnedQuerySet["Finding"].as_manager()

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["attempt", "kind", "about"],
                condition=Q(attempt__isnull=False),
                name="finding_of_attempt_once",
            ),
            models.UniqueConstraint(
                fields=["campaign", "workload", "kind", "about"],
                condition=Q(workload__isnull=False),
                name="finding_of_lines_once",
            ),
            models.CheckConstraint(
                condition=Q(attempt__isnull=True) ^ Q(workload__isnull=True),
                name="finding_of_attempt_or_lines",
            ),
        ]
        indexes = [
            models.Index(fields=["campaign", "kind"], name="finding_by_kind"),
            models.Index(fields=["severity", "id"], name="finding_by_severity"),
            models.Index(fields=["kind", "id"], name="finding_by_name"),
            models.Index(fields=["found_at", "id"], name="finding_by_time"),
        ]

    def __str__(self) -> str:
        return self.says[:100]


class Looked(models.Model):
    """Record that the lines of a campaign were compared, valid until the next result comes."""

    campaign = models.OneToOneField(
        Campaign, on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"campaign {self.campaign_id}"
