# SPDX-License-Identifier: Apache-2.0
"""Programs that a person uploaded, what dynamos report of their machines, and what runs say right now."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from agents.dynamo import specs
from agents.tools.dynamo import STORED
from benchlab.hosts.models import Host
from benchlab.runs.models import Attempt
from benchlab.team.models import OwnedQuerySet, Team


class Binary(models.Model):
    """A dynamo as it was uploaded: not ours to ship. It runs as root on the team's hosts."""

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="dynamos")
    name = models.CharField(max_length=200)
    version = models.CharField(max_length=200, help_text="Version string found in the program")
    sha256 = models.CharField(max_length=64)
    size = models.BigIntegerField()
    content = models.BinaryField()
    uploaded_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = OwnedQuerySet["Binary"].as_manager()

    class Meta:
        ordering = ["name", "pk"]
        verbose_name_plural = "binaries"
        constraints = [models.UniqueConstraint(fields=["team", "sha256"], name="dynamo_once")]

    def __str__(self) -> str:
        return self.name

    @property
    def option(self) -> str:
        """Value of a workload's option `binary` for this program."""
        return f"{STORED}{self.sha256}"


class DynamoLogin(models.Model):
    """Last login of the dynamo behind a host, and the id of the one that a person accepted (reported_hosts.py)."""

    host = models.OneToOneField(Host, on_delete=models.CASCADE, related_name="dynamo_login")
    name = models.CharField(max_length=128, blank=True, help_text="Name as dynamo reports it")
    address = models.CharField(max_length=128, blank=True, help_text="Address as dynamo reports it")
    port = models.PositiveIntegerField(
        help_text="Id of the dynamo that logged in last: the port on which it listens"
    )
    logged_in_at = models.DateTimeField(auto_now=True)
    accepted_port = models.PositiveIntegerField(
        null=True, blank=True, help_text="Id of the dynamo to which tests are lent; null if none"
    )
    accepted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL
    )
    accepted_at = models.DateTimeField(null=True, blank=True)
    refusal = models.TextField(blank=True, default="", help_text="Why a second dynamo was refused")
    refused_at = models.DateTimeField(null=True, blank=True)

    TEAM_PATH = "host__team"
    objects = OwnedQuerySet["DynamoLogin"].as_manager()

    class Meta:
        ordering = ["host"]
        verbose_name = "dynamo login"

    def __str__(self) -> str:
        return f"{self.name} at {self.host.address}, id {self.port}"

    @property
    def is_accepted(self) -> bool:
        return self.accepted_port == self.port


class Reported(models.Model):
    """A disk of a host that only dynamo reaches, as it reports it. A raw one is used only when a person said so."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="reported")
    name = models.CharField(
        max_length=80,
        help_text='Target name as reported by dynamo, e.g. "/data [ext4]", "C: …" or "sdb"',
    )
    raw = models.BooleanField(
        help_text="True for a raw disk, false for dynamo's test file on a file system"
    )
    ready = models.BooleanField(
        default=False, help_text="True if the test file exists, whatever its size"
    )
    sector = models.PositiveIntegerField(default=512, help_text="Sector size in bytes")
    present = models.BooleanField(default=True)
    prepared = models.BigIntegerField(
        default=0, help_text="Size in bytes of the test file prepared by BenchLab; 0 if none"
    )
    spare_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL
    )
    spare_at = models.DateTimeField(null=True, blank=True)
    seen_at = models.DateTimeField(auto_now=True)

    TEAM_PATH = "host__team"
    objects = OwnedQuerySet["Reported"].as_manager()

    class Meta:
        ordering = ["host", "raw", "name"]
        verbose_name = "reported target"
        constraints = [
            models.UniqueConstraint(fields=["host", "name"], name="reported_once"),
            models.CheckConstraint(
                condition=Q(spare_at__isnull=True) | Q(raw=True), name="reported_spare_is_raw"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def usable(self) -> bool:
        return (
            self.present
            and not self.is_laid_out_short
            and (not self.raw or self.spare_at is not None)
        )

    @property
    def is_laid_out_short(self) -> bool:
        """dynamo would lay out less of its file than it says."""
        return not self.raw and specs.laid_out_short(self.name)


class ConsoleLines(models.Model):
    """Latest lines of the dynamo console that a worker plays for a running attempt; deleted when the run ends."""

    # lines: what a page shows of the last seconds
    MAX_LINES = 12

    attempt = models.OneToOneField(Attempt, on_delete=models.CASCADE, related_name="console_lines")
    lines = models.TextField(default="", help_text="Latest JSON lines, in the format of live.jsonl")

    def __str__(self) -> str:
        return f"console of {self.attempt}"

    def with_line(self, line: str) -> str:
        """The lines with one more, without the oldest."""
        return "\n".join([*self.lines.splitlines(), line][-self.MAX_LINES :]) + "\n"
