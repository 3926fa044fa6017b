"""What was uploaded, byte for byte, beside the campaign that was made of it."""

from __future__ import annotations

from django.db import models

from benchlab.campaigns.models import Campaign
from benchlab.team.models import OwnedQuerySet


class Source(models.Model):
    """A file as it came. The artifacts of the campaign's attempts are parts of its text."""

    campaign = models.ForeignKey(Campaign, on_delete=models.CASCADE, related_name="sources")
    name = models.CharField(max_length=255)
    content = models.BinaryField()
    size = models.BigIntegerField(help_text="bytes")
    sha256 = models.CharField(max_length=64, db_index=True)
    created_at = models.DateTimeField(auto_now_add=True)

    TEAM_PATH = "campaign__team"
    objects = OwnedQuerySet["Source"].as_manager()

    class Meta:
        ordering = ["campaign", "name"]
        constraints = [
            models.UniqueConstraint(fields=["campaign", "name"], name="source_name_once")
        ]

    def __str__(self) -> str:
        return self.name
