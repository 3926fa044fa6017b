# SPDX-License-Identifier: Apache-2.0
"""A campaign asks a question; its matrix is frozen into runs when it is made."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.db import models

from benchlab.campaigns import matrix
from benchlab.hosts.models import Host
from benchlab.team.models import OwnedQuerySet, Team, UndeletedQuerySet
from benchlab.team.soft_delete import NOT_DELETED, SoftDeletable
from benchlab.topologies import moments
from benchlab.topologies.models import Topology


class Workload(SoftDeletable):
    """A tool with options; `sweep` maps option names to lists of values, one run per combination."""

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="workloads")
    name = models.CharField(max_length=100)
    tool = models.CharField(
        max_length=40, help_text="Benchmark tool: the name of a driver in agents/tools"
    )
    description = models.TextField(blank=True, default="")
    options = models.JSONField(default=dict, blank=True)
    sweep = models.JSONField(default=dict, blank=True)
    # Of results that were measured elsewhere; it cannot be run, and `tool` may be none of ours.
    imported = models.BooleanField(default=False, editable=False)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = UndeletedQuerySet["Workload"].as_manager()
    even_deleted = OwnedQuerySet["Workload"].as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["team", "name"],
                condition=NOT_DELETED,
                name="workload_name_once",
                violation_error_message="A workload of this name already exists.",
            )
        ]

    def __str__(self) -> str:
        return self.name


class Campaign(SoftDeletable):
    """State is derived from its layouts and attempts (benchlab/runs/progress.py); here are only the wishes."""

    class Order(models.TextChoices):
        RANDOM_BLOCKS = "random_blocks", "Randomised blocks (each repeat in a new random order)"
        AS_WRITTEN = "as_written", "As written"
        ABBA = "abba", "ABBA (each layout is built in several visits, which take turns)"

    class Source(models.TextChoices):
        MEASURED = "", "Measured here"
        IMPORTED = "imported", "Imported"
        LIBRARY = "library", "Reference library"

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="campaigns")
    name = models.CharField(max_length=200)
    source = models.CharField(max_length=10, choices=Source, blank=True, editable=False)
    # Where imported results come from: {"title", "author", "date", "url", …}, all of them text.
    origin = models.JSONField(default=dict, blank=True, editable=False)
    question = models.TextField(blank=True)
    repeats = models.PositiveSmallIntegerField(default=3)
    order = models.CharField(max_length=20, choices=Order, default=Order.RANDOM_BLOCKS)
    visits = models.PositiveSmallIntegerField(
        default=1,
        help_text="Number of times that each layout is built; more than one in ABBA order",
    )
    schedulers = models.JSONField(
        default=list,
        blank=True,
        help_text="I/O schedulers of the disks: each point is measured with each of them; empty to keep the host's",
    )
    seed = models.BigIntegerField()
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    paused_at = models.DateTimeField(null=True, blank=True)
    cancelled_at = models.DateTimeField(null=True, blank=True)

    objects = UndeletedQuerySet["Campaign"].as_manager()
    even_deleted = OwnedQuerySet["Campaign"].as_manager()

    class Meta:
        ordering = ["-pk"]
        indexes = [
            models.Index(
                fields=["deleted_at"],
                condition=models.Q(deleted_at__isnull=False),
                name="campaign_deleted",
            )
        ]

    def __str__(self) -> str:
        return self.name


class Run(models.Model):
    """One cell of the matrix and one repeat. Frozen: what it needs is copied, so that edits change no result."""

    campaign = models.ForeignKey(Campaign, on_delete=models.CASCADE, related_name="runs")
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="runs", db_index=False)
    topology = models.ForeignKey(
        Topology, on_delete=models.PROTECT, related_name="runs", db_index=False
    )
    workload = models.ForeignKey(
        Workload, on_delete=models.PROTECT, related_name="runs", db_index=False
    )
    tool = models.CharField(max_length=40)
    options = models.JSONField(
        help_text="Complete options of this run, including the values of the sweep"
    )
    point = models.JSONField(help_text="Values of the swept options only, e.g. {'iodepth': 4}")
    scheduler = models.CharField(
        max_length=20,
        blank=True,
        default="",
        help_text="I/O scheduler set on the layout's disks before the run; empty to leave it unchanged",
    )
    stage = models.CharField(
        max_length=20,
        blank=True,
        help_text="Stage of the layout: empty (as built), resync, during-1, after-1, …",
    )
    outstanding = models.PositiveIntegerField(
        null=True, help_text="Outstanding I/Os: queue depth multiplied by the number of jobs"
    )
    repeat = models.PositiveSmallIntegerField(
        help_text="Repeat number, from 1; also the number of its block"
    )
    visit = models.PositiveSmallIntegerField(
        default=1, help_text="Visit number: which build of its layout it belongs to (ABBA), from 1"
    )
    position = models.PositiveIntegerField(help_text="Position within the campaign")
    expected_s = models.FloatField(default=0)
    expected_writes = models.BigIntegerField(
        null=True, help_text="Expected bytes written; null if unknown"
    )

    TEAM_PATH = "campaign__team"
    objects = OwnedQuerySet["Run"].as_manager()

    class Meta:
        ordering = ["campaign", "position"]
        constraints = [
            models.UniqueConstraint(fields=["campaign", "position"], name="run_position_once"),
            models.UniqueConstraint(
                fields=["campaign", "host", "topology", "stage", "workload", "point", "repeat"],
                name="run_cell_once",
            ),
        ]
        # What lists are ordered by and asked for, with what breaks ties.
        indexes = [
            models.Index(fields=["position", "id"], name="run_by_position"),
            models.Index(fields=["outstanding", "id"], name="run_by_outstanding"),
            models.Index(fields=["repeat", "id"], name="run_by_repeat"),
            models.Index(fields=["stage", "id"], name="run_by_stage"),
            models.Index(fields=["tool", "id"], name="run_by_tool"),
            # Each of these may have all of the runs: the first ones are found without reading the others.
            models.Index(fields=["host", "id"], name="run_by_host"),
            models.Index(fields=["topology", "id"], name="run_by_topology"),
            models.Index(fields=["workload", "id"], name="run_by_workload"),
        ]

    def __str__(self) -> str:
        what = filter(None, [self.moment, str(self.workload), matrix.describe_point(self.point)])
        return f"{self.topology} · {' · '.join(what)} · {self.which}"

    @property
    def which(self) -> str:
        """Words for the repeat: "repeat 3", or "repeat 3, visit 2" of the second time that its layout is built."""
        return f"repeat {self.repeat}" + (f", visit {self.visit}" if self.visit > 1 else "")

    @property
    def varied(self) -> list[tuple[str, str]]:
        """Options that the sweep varies, and their values, in words."""
        return [(name, matrix.format_value(name, value)) for name, value in self.point.items()]

    @property
    def moment(self) -> str:
        """Moment of its layout's life at which it measures, in words; empty as built."""
        return moments.parse_moment(self.stage).phrase


# by which the reference library knows its own
LIBRARY_KEYS = ("library", "sha256")


@dataclass(frozen=True, slots=True)
class Origin:
    """All of it text; `url` is empty unless it is one that a browser may be sent to."""

    title: str
    author: str
    date: str
    url: str
    more: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def from_campaign(campaign: Campaign) -> Origin:
        fields = {str(name): str(value) for name, value in campaign.origin.items() if value}
        url = fields.pop("url", "")
        for name in LIBRARY_KEYS:
            fields.pop(name, None)
        safe = url if url.lower().startswith(("http://", "https://")) else ""
        return Origin(
            fields.pop("title", ""),
            fields.pop("author", ""),
            fields.pop("date", ""),
            safe,
            tuple((name.replace("_", " ").capitalize(), value) for name, value in fields.items()),
        )

    @property
    def is_known(self) -> bool:
        return bool(self.title or self.author or self.date or self.url or self.more)
