# SPDX-License-Identifier: Apache-2.0
"""Models of attempts' output: raw output, figures, series. Part of benchlab/runs/models.py."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from django.contrib.postgres.fields import ArrayField
from django.db import models

from benchlab.team.models import OwnedQuerySet

# bytes
SMALL_BYTES = 32 << 20


class RawRemoved(Exception):
    """The raw output was removed; the text says since when and why."""


class Artifact(models.Model):
    """Raw output, byte for byte, with its SHA-256. Never changed; a team's rule may remove it after a time.

    `content` is empty for a large artifact, which is stored in pieces. `read` returns it; `pieces` suits all sizes.
    """

    attempt = models.ForeignKey("runs.Attempt", on_delete=models.CASCADE, related_name="artifacts")
    name = models.CharField(max_length=200)
    content = models.BinaryField()
    size = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)

    TEAM_PATH = "attempt__run__campaign__team"
    objects = OwnedQuerySet["Artifact"].as_manager()

    class Meta:
        ordering = ["attempt", "name"]
        constraints = [
            models.UniqueConstraint(fields=["attempt", "name"], name="artifact_name_once")
        ]
        indexes = [
            models.Index(fields=["name", "id"], name="artifact_by_name"),
            models.Index(fields=["size", "id"], name="artifact_by_size"),
            models.Index(fields=["created_at", "id"], name="artifact_by_time"),
            models.Index(fields=["sha256", "id"], name="artifact_by_sha256"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_small(self) -> bool:
        """True when a page may have all of it in memory."""
        return self.size <= SMALL_BYTES

    def read(self) -> bytes:
        """Read all of it into memory. Raises RawRemoved."""
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """Yield all of it in pieces. Raises RawRemoved."""
        if self.content or not self.size:
            yield bytes(self.content)
            return
        if removal := self.attempt.raw_removed:
            raise RawRemoved(f"{self.name}: {removal}")
        rows = ArtifactPiece.objects.filter(attempt=self.attempt_id, name=self.name)
        for number in rows.order_by("number").values_list("number", flat=True):
            yield rows.get(number=number).unpack()


class ArtifactPiece(models.Model):
    """Part of a large artifact, stored before the artifact is: an interrupted fetch goes on behind it."""

    attempt = models.ForeignKey("runs.Attempt", on_delete=models.CASCADE, related_name="pieces")
    name = models.CharField(max_length=200)
    number = models.PositiveIntegerField()
    packed = models.BinaryField(help_text="Content, compressed with zlib")

    class Meta:
        ordering = ["attempt", "name", "number"]
        constraints = [
            models.UniqueConstraint(fields=["attempt", "name", "number"], name="piece_once")
        ]

    def __str__(self) -> str:
        return f"{self.name}, piece {self.number}"

    def unpack(self) -> bytes:
        return zlib.decompress(bytes(self.packed))


class Measurement(models.Model):
    """A figure that a tool printed; always rebuildable from artifacts (`manage.py reparse`)."""

    attempt = models.ForeignKey(
        "runs.Attempt", on_delete=models.CASCADE, related_name="measurements"
    )
    name = models.CharField(max_length=100)
    value = models.FloatField(null=True)
    unit = models.CharField(max_length=8)
    labels = models.JSONField(default=dict, blank=True)
    note = models.TextField(blank=True)
    line = models.PositiveIntegerField(
        default=0, help_text="Line of the artifact, from 1; 0 if there is no single line"
    )
    output = models.CharField(
        max_length=200,
        blank=True,
        default="",
        help_text="Name of the artifact that contains the value",
    )

    TEAM_PATH = "attempt__run__campaign__team"
    objects = OwnedQuerySet["Measurement"].as_manager()

    class Meta:
        ordering = ["attempt", "pk"]
        constraints = [
            models.UniqueConstraint(fields=["attempt", "name", "labels"], name="measurement_once"),
        ]
        indexes = [
            models.Index(fields=["name", "id"], include=["attempt"], name="measurement_by_name"),
            models.Index(fields=["name", "value", "id"], name="measurement_by_name_value"),
            models.Index(fields=["value", "id"], name="measurement_by_value"),
            models.Index(fields=["unit", "id"], name="measurement_by_unit"),
        ]

    def __str__(self) -> str:
        return f"{self.name} = {self.value} {self.unit}"


class Series(models.Model):
    """One metric of one device over the attempt, at about 1 Hz. NaN where unknown."""

    attempt = models.ForeignKey("runs.Attempt", on_delete=models.CASCADE, related_name="series")
    sampler = models.CharField(max_length=40)
    device = models.CharField(max_length=255, blank=True)
    metric = models.CharField(max_length=40)
    unit = models.CharField(max_length=8)
    times = ArrayField(models.FloatField(), help_text="Times in seconds since the first sample")
    values = ArrayField(models.FloatField())

    TEAM_PATH = "attempt__run__campaign__team"
    objects = OwnedQuerySet["Series"].as_manager()

    class Meta:
        verbose_name_plural = "series"
        constraints = [
            models.UniqueConstraint(
                fields=["attempt", "sampler", "device", "metric"], name="series_once"
            ),
        ]
        indexes = [
            models.Index(fields=["sampler", "id"], name="series_by_sampler"),
            models.Index(fields=["device", "id"], name="series_by_device"),
            models.Index(fields=["metric", "id"], name="series_by_metric"),
        ]

    def __str__(self) -> str:
        return f"{self.device} {self.metric}"


class Histogram(models.Model):
    """Histogram of I/O times, in bins (agents.contracts.Histogram). Rebuildable as figures are, and kept as long."""

    attempt = models.ForeignKey("runs.Attempt", on_delete=models.CASCADE, related_name="histograms")
    name = models.CharField(max_length=100)
    labels = models.JSONField(default=dict, blank=True)
    lows = ArrayField(
        models.FloatField(), help_text="Lower bounds of the bins in seconds, ascending"
    )
    highs = ArrayField(
        models.FloatField(), help_text="Upper bounds of the bins in seconds, exclusive"
    )
    counts = ArrayField(models.BigIntegerField(), help_text="Number of I/Os in each bin")

    TEAM_PATH = "attempt__run__campaign__team"
    objects = OwnedQuerySet["Histogram"].as_manager()

    class Meta:
        ordering = ["attempt", "pk"]
        constraints = [
            models.UniqueConstraint(fields=["attempt", "name", "labels"], name="histogram_once"),
        ]
        indexes = [models.Index(fields=["name", "id"], name="histogram_by_name")]

    def __str__(self) -> str:
        return f"{self.name}, {len(self.counts)} bins"


class Strip(models.Model):
    """A stretch of one metric of all devices with one clock, as charts read a long run. Made of series, gone with them.

    By `every`: the samples themselves (1), or what is the smallest and largest of so many of them (analysis.series);
    0: the clock itself, the times of all samples.
    """

    attempt = models.ForeignKey("runs.Attempt", on_delete=models.CASCADE, related_name="strips")
    clock = models.PositiveSmallIntegerField()
    sampler = models.CharField(max_length=40, blank=True)
    metric = models.CharField(max_length=40, blank=True)
    unit = models.CharField(max_length=8, blank=True)
    every = models.PositiveSmallIntegerField()
    first = models.PositiveIntegerField(help_text="Index of its first sample")
    devices = ArrayField(models.CharField(max_length=255))
    most = ArrayField(models.FloatField(), help_text="Maximum for each device; NaN if unknown")
    data = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["attempt", "every", "clock", "sampler", "metric", "unit", "first"],
                name="strip_once",
            )
        ]

    def __str__(self) -> str:
        return f"{self.metric} from sample {self.first}, {self.every} each"


class LiveChunk(models.Model):
    """Sampler output of a running attempt, as far as it was read; gone once the artifact is stored."""

    attempt = models.ForeignKey("runs.Attempt", on_delete=models.CASCADE, related_name="live")
    offset = models.BigIntegerField()
    data = models.BinaryField()

    class Meta:
        ordering = ["attempt", "offset"]
        constraints = [
            models.UniqueConstraint(fields=["attempt", "offset"], name="live_chunk_once")
        ]

    def __str__(self) -> str:
        return f"{self.attempt} at {self.offset}"
