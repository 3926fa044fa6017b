# SPDX-License-Identifier: Apache-2.0
"""Models of uploads, kept byte for byte: in a draft that nobody agreed to yet, then beside the campaign made of it."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Case, Value, When
from django.db.models.expressions import Combinable

from benchlab.campaigns.models import Campaign
from benchlab.team.models import OwnedQuerySet, Team


class Source(models.Model):
    """A file as it came. The artifacts of the campaign's attempts are parts of its text."""

    campaign = models.ForeignKey(Campaign, on_delete=models.CASCADE, related_name="sources")
    name = models.CharField(max_length=255)
    content = models.BinaryField()
    size = models.BigIntegerField(help_text="Size in bytes")
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


class Draft(models.Model):
    """An upload that is looked at. Nothing of it is a result before a person agrees; after a day it is gone.

    Agreed to and large, it waits for a worker: until `stored_at` is there, or `trouble` says why it could not be.
    """

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="drafts")
    name = models.CharField(max_length=200)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    # benchlab/imports/agreements.py
    agreement = models.JSONField(null=True, blank=True)
    agreed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    agreed_at = models.DateTimeField(null=True, blank=True)
    tries = models.PositiveSmallIntegerField(default=0)
    trouble = models.TextField(blank=True, help_text="Error message if storing failed")
    stored_at = models.DateTimeField(null=True, blank=True)
    # benchlab/imports/agreements.py
    outcome = models.JSONField(null=True, blank=True)
    # benchlab/diagnosis/answer_json.py; of all files, once they are read
    answer = models.JSONField(null=True, blank=True)

    objects = OwnedQuerySet["Draft"].as_manager()

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return self.name

    @property
    def storing(self) -> Storing:
        if self.stored_at:
            return Storing.STORED
        if self.agreed_at:
            return Storing.UNDER_WAY
        return Storing.FAILED if self.trouble else Storing.OPEN


class Storing(models.IntegerChoices):
    """Stages of storing a draft; first what needs a person."""

    FAILED = 0, "could not be stored"
    OPEN = 1, "not agreed to yet"
    UNDER_WAY = 2, "being stored"
    STORED = 3, "stored"

    @classmethod
    def state_order(cls) -> Combinable:
        """`Draft.storing` of a row, in the database."""
        return Case(
            When(stored_at__isnull=False, then=Value(cls.STORED)),
            When(agreed_at__isnull=False, then=Value(cls.UNDER_WAY)),
            When(trouble="", then=Value(cls.OPEN)),
            default=Value(cls.FAILED),
        )


class DraftFile(models.Model):
    """One file of an upload. Read once `reading` is there, or `trouble` says why it cannot be.

    While `packed`, it is the upload as it came, in parts: a worker makes of it the files that are in it.
    """

    draft = models.ForeignKey(Draft, on_delete=models.CASCADE, related_name="files")
    position = models.PositiveIntegerField()
    name = models.CharField(max_length=255)
    content = models.BinaryField()
    size = models.BigIntegerField(help_text="Size in bytes")
    sha256 = models.CharField(max_length=64, db_index=True)
    packed = models.BooleanField(default=False)
    trouble = models.TextField(blank=True)
    notes = models.JSONField(default=list, blank=True)
    # benchlab/imports/readings.py
    reading = models.JSONField(null=True, blank=True)
    # benchlab/diagnosis/answer_json.py
    answer = models.JSONField(null=True, blank=True)
    lines = models.PositiveIntegerField(default=0)
    tries = models.PositiveSmallIntegerField(default=0)
    claimed_at = models.DateTimeField(
        null=True, blank=True, help_text="Time at which a worker began to read it"
    )

    TEAM_PATH = "draft__team"
    objects = OwnedQuerySet["DraftFile"].as_manager()

    class Meta:
        ordering = ["draft", "position"]
        constraints = [
            models.UniqueConstraint(fields=["draft", "position"], name="draft_file_position_once")
        ]
        indexes = [
            models.Index(
                fields=["claimed_at"],
                condition=models.Q(reading__isnull=True, trouble=""),
                name="draft_file_unread",
            )
        ]

    def __str__(self) -> str:
        return self.name


class DraftPart(models.Model):
    """A MiB of a file on its way: large ones go through no process's memory at once (drafts.py)."""

    file = models.ForeignKey(DraftFile, on_delete=models.CASCADE, related_name="parts")
    number = models.PositiveIntegerField()
    content = models.BinaryField()

    class Meta:
        ordering = ["file", "number"]
        constraints = [
            models.UniqueConstraint(fields=["file", "number"], name="draft_part_number_once")
        ]

    def __str__(self) -> str:
        return f"{self.file_id}.{self.number}"


class DraftPage(models.Model):
    """Lines of a file's text as a page shows them: a worker made them, a request only looks one up."""

    file = models.ForeignKey(DraftFile, on_delete=models.CASCADE, related_name="pages")
    number = models.PositiveIntegerField()
    # benchlab/charts/numbered_lines.py, Row
    rows = models.JSONField()

    class Meta:
        ordering = ["file", "number"]
        constraints = [
            models.UniqueConstraint(fields=["file", "number"], name="draft_page_number_once")
        ]

    def __str__(self) -> str:
        return f"{self.file_id}.{self.number}"
