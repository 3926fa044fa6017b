# SPDX-License-Identifier: Apache-2.0
"""Answers for campaigns, stored so that a page only reads them."""

from __future__ import annotations

from django.db import models

from benchlab.campaigns.models import Campaign
from benchlab.team.models import OwnedQuerySet


class CampaignAnswer(models.Model):
    """The diagnosis of a campaign that is over. It can always be made again from the campaign's results."""

    campaign = models.OneToOneField(
        Campaign, on_delete=models.CASCADE, primary_key=True, related_name="diagnosis"
    )
    # benchlab/diagnosis/answer_json.py
    answer = models.JSONField()
    rules = models.CharField(
        max_length=64, help_text="Digest of the rules that were applied, and of BenchLab's version"
    )
    # benchlab.findings.models.Looked.at: another one means that results changed since
    compared_at = models.DateTimeField()

    TEAM_PATH = "campaign__team"
    objects = OwnedQuerySet["CampaignAnswer"].as_manager()

    def __str__(self) -> str:
        return f"diagnosis of campaign {self.campaign_id}"
