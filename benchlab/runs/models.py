# SPDX-License-Identifier: Apache-2.0
"""Models of layouts and attempts, with their state and history. State is stored here once: in Layout and Attempt."""

from __future__ import annotations

import secrets
import string
from typing import Self

from django.db import models
from django.db.models import Q

from benchlab.campaigns.models import Campaign, Run
from benchlab.hosts.models import FactSnapshot, Host
from benchlab.runs.outputs import (
    Artifact,
    ArtifactPiece,
    Histogram,
    LiveChunk,
    Measurement,
    Series,
    Strip,
)
from benchlab.runs.states import HOLDING, AttemptPhase, LayoutPhase, Outcome
from benchlab.team.models import OwnedQuerySet
from benchlab.topologies.models import OnDegraded, Topology

__all__ = [
    "Artifact",
    "ArtifactPiece",
    "Attempt",
    "Histogram",
    "Installation",
    "Layout",
    "LiveChunk",
    "Measurement",
    "Series",
    "StepLog",
    "Strip",
    "Transition",
    "installation_tag",
]


def installation_tag() -> str:
    """The three letters that distinguish this installation's names from those of another on the same host."""
    return Installation.objects.get_or_create(pk=1, defaults={"tag": _new_tag()})[0].tag


def _new_tag() -> str:
    return "".join(secrets.choice(string.ascii_lowercase) for _ in range(3))


class Installation(models.Model):
    """This database, as its only row."""

    tag = models.CharField(max_length=3)

    def __str__(self) -> str:
        return self.tag


class LayoutQuerySet(OwnedQuerySet["Layout"]):
    def holding(self) -> Self:
        """Layouts that hold their host."""
        return self.filter(phase__in=HOLDING)


class Layout(models.Model):
    """A topology made real on one host, from plan to proven-blank disks. Many runs share it; it holds the host."""

    campaign = models.ForeignKey(Campaign, on_delete=models.CASCADE, related_name="layouts")
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="layouts")
    topology = models.ForeignKey(Topology, on_delete=models.PROTECT, related_name="layouts")
    stack = models.JSONField(help_text="Copy of the topology's stack")
    stages = models.JSONField(default=list, blank=True, help_text="Copy of the topology's stages")
    measure_resync = models.BooleanField(default=False)
    schedulers = models.JSONField(
        default=list, blank=True, help_text="I/O schedulers requested by its runs"
    )
    on_degraded = models.CharField(max_length=10, choices=OnDegraded, default=OnDegraded.STOP)
    tag = models.CharField(max_length=3, default=installation_tag, editable=False)
    # The boot id under which it was built: two rows may be one machine, whose disks are there once.
    machine = models.CharField(max_length=64, blank=True, default="", editable=False)
    cancelled_at = models.DateTimeField(
        null=True, blank=True, help_text="Time at which it was cancelled, with its campaign"
    )
    position = models.PositiveIntegerField(default=0)
    visit = models.PositiveSmallIntegerField(
        default=1,
        help_text="Visit number: which build of this set-up in its campaign (ABBA), from 1",
    )
    # An estimate, of the day it was made: facts, commands, looking, proving blank; without what is waited for.
    expected_s = models.FloatField(
        default=20, help_text="Expected time for building and teardown together, in seconds"
    )
    phase = models.CharField(max_length=20, choices=LayoutPhase, default=LayoutPhase.DRAFT)
    outcome = models.CharField(max_length=20, choices=Outcome, blank=True)
    reason = models.CharField(max_length=40, blank=True)
    reason_text = models.TextField(blank=True)
    # The plan as previewed (agents.plans.stack.to_json) and its fingerprint; `confirmed` is the one a person agreed to.
    plan = models.JSONField(null=True, blank=True)
    plan_fingerprint = models.CharField(max_length=64, blank=True)
    plan_error = models.TextField(blank=True)
    planned_at = models.DateTimeField(null=True, blank=True)
    confirmed_fingerprint = models.CharField(max_length=64, blank=True)
    confirmed_by = models.CharField(
        max_length=200, blank=True, help_text="User who confirmed the plan"
    )
    facts_planned = models.ForeignKey(
        FactSnapshot, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    facts_ready = models.ForeignKey(
        FactSnapshot, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    facts_after = models.ForeignKey(
        FactSnapshot, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    # A hash of mounts, holders and disks (agents.facts.reading) from just before the last whole look at the host.
    glance = models.CharField(max_length=64, blank=True)
    looked_at = models.DateTimeField(null=True, blank=True)
    degraded = models.JSONField(
        default=list, blank=True, help_text="Faults found by the last check, as text"
    )
    log_end = models.FloatField(
        null=True, blank=True, help_text="Timestamp up to which the kernel log has been read"
    )
    stage = models.PositiveSmallIntegerField(
        default=0, help_text="Number of stages that have begun"
    )
    followed = models.PositiveSmallIntegerField(
        default=0, help_text="Number of stages that the layers above have followed"
    )
    settled = models.BooleanField(
        default=False,
        help_text="True if nothing is awaited and all layers have followed the last stage",
    )
    # What the kernel still does: [{"says", "done": 0 to 1, "eta_s"}] (agents.contracts.Progress).
    progress = models.JSONField(default=list, blank=True)
    awaited_until = models.DateTimeField(
        null=True, blank=True, help_text="Estimated end of what is awaited, as reported by the host"
    )
    built = models.PositiveSmallIntegerField(
        default=0, help_text="Number of layers built when a manual step was requested"
    )
    applied = models.PositiveIntegerField(
        default=0, help_text="Number of commands that had built these layers"
    )
    asked = models.PositiveSmallIntegerField(
        default=0, help_text="Number of the layer that requires a manual step, from 1"
    )
    needs_person = models.TextField(blank=True, help_text="Manual step required; empty if none")
    person_said_at = models.DateTimeField(
        null=True, blank=True, help_text="Time at which the manual step was reported as done"
    )
    person_trouble = models.TextField(
        blank=True, help_text="Reason why the manual step was not accepted"
    )
    # A build that was cut off is taken back and begun anew: how often, and the commands of the tries before this one.
    rebuilds = models.PositiveSmallIntegerField(default=0)
    discarded = models.PositiveIntegerField(default=0)
    teardown_tries = models.PositiveSmallIntegerField(default=0)
    next_step_at = models.DateTimeField(
        null=True, blank=True, help_text="Time of the engine's next step"
    )
    seen_at = models.DateTimeField(null=True, blank=True, help_text="Last response from the host")
    trouble = models.TextField(
        blank=True, help_text="Reason why the last step failed; empty if it succeeded"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    begun_at = models.DateTimeField(
        null=True, blank=True, help_text="Time at which the host was reserved"
    )
    ready_at = models.DateTimeField(null=True, blank=True, help_text="Time at which it was ready")
    down_at = models.DateTimeField(
        null=True, blank=True, help_text="Time at which the last teardown began"
    )
    ended_at = models.DateTimeField(null=True, blank=True)

    TEAM_PATH = "campaign__team"
    objects = LayoutQuerySet.as_manager()

    class Meta:
        ordering = ["campaign", "position", "pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["host"], condition=Q(phase__in=HOLDING), name="layout_holds_host"
            ),
            models.UniqueConstraint(
                fields=["machine"],
                condition=Q(phase__in=HOLDING) & ~Q(machine=""),
                name="layout_holds_machine",
            ),
            models.CheckConstraint(
                condition=Q(
                    phase__in=[LayoutPhase.TEARING_DOWN, LayoutPhase.STUCK, LayoutPhase.DONE]
                )
                ^ Q(outcome=""),
                name="layout_outcome_when_decided",
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_step_at"],
                condition=~Q(phase__in=[LayoutPhase.DRAFT, LayoutPhase.DONE]),
                name="layout_due",
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """Prefix of every name that we make on the host."""
        return f"bl{self.tag}{self.pk}"

    @property
    def build_s(self) -> float | None:
        """Seconds from a free host to a verified layout; None while it is not built."""
        if not (self.begun_at and self.ready_at):
            return None
        return (self.ready_at - self.begun_at).total_seconds()

    @property
    def teardown_s(self) -> float | None:
        """Seconds until its disks were proven blank; None while they are not."""
        if not (self.down_at and self.ended_at):
            return None
        return (self.ended_at - self.down_at).total_seconds()

    @property
    def person_key(self) -> str:
        """Key of this wait for a person: a report on another wait does not apply to it."""
        return f"{self.phase}-{self.asked}"


class Attempt(models.Model):
    """One try of a run, never overwritten."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="attempts")
    layout = models.ForeignKey(Layout, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveSmallIntegerField(default=1)
    phase = models.CharField(max_length=20, choices=AttemptPhase, default=AttemptPhase.QUEUED)
    outcome = models.CharField(max_length=20, choices=Outcome, blank=True)
    reason = models.CharField(max_length=40, blank=True)
    reason_text = models.TextField(blank=True)
    argv = models.JSONField(default=list, blank=True)
    tool_version = models.CharField(max_length=200, blank=True)
    boot_id = models.CharField(max_length=64, blank=True)
    facts = models.ForeignKey(FactSnapshot, null=True, on_delete=models.SET_NULL, related_name="+")
    fingerprint = models.CharField(
        max_length=64,
        blank=True,
        help_text="Runs with equal fingerprints are comparable without a warning",
    )
    meta = models.JSONField(
        default=dict,
        blank=True,
        help_text="Metadata recorded by runner.sh: clocks, caches, exit code",
    )
    # [{"name", "start", "end", "measured"}] (agents.contracts.Window), on the clock of its series; []: nobody told.
    windows = models.JSONField(
        default=list,
        blank=True,
        help_text="Time windows of the tool's phases; means are over the measured ones",
    )
    # [{"says", "seen": before or during}] (benchlab.engine.checks.condition)
    degraded = models.JSONField(
        default=list, blank=True, help_text="Faults found before the run, and failures during it"
    )
    # benchlab.analysis.steady.Course, without what is 0; stored with its findings.
    course = models.JSONField(
        default=dict,
        blank=True,
        editable=False,
        help_text="Course of its rate while it measured; {}: not judged",
    )
    exit_code = models.IntegerField(null=True, blank=True)
    timeout_s = models.FloatField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    seen_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    # By its team's rule of so many days: artifacts are empty from then on, and series gone (benchlab/lifecycle).
    raw_removed_at = models.DateTimeField(null=True, blank=True, editable=False)
    raw_removed_after = models.PositiveIntegerField(null=True, blank=True, editable=False)

    TEAM_PATH = "run__campaign__team"
    objects = OwnedQuerySet["Attempt"].as_manager()

    class Meta:
        ordering = ["run", "number"]
        constraints = [
            models.UniqueConstraint(fields=["run", "number"], name="attempt_number_once"),
            models.UniqueConstraint(
                fields=["run"], condition=~Q(phase=AttemptPhase.DONE), name="attempt_one_open"
            ),
            models.UniqueConstraint(
                fields=["layout"],
                condition=Q(
                    phase__in=[AttemptPhase.STARTING, AttemptPhase.RUNNING, AttemptPhase.COLLECTING]
                ),
                name="attempt_one_on_host",
            ),
            models.CheckConstraint(
                condition=Q(phase=AttemptPhase.DONE) ^ Q(outcome=""),
                name="attempt_outcome_when_done",
            ),
        ]
        # Columns that lists order and filter by, with a tie-breaker: rows are read in order, without sorting all.
        indexes = [
            models.Index(fields=["number", "id"], name="attempt_by_number"),
            models.Index(fields=["started_at", "id"], name="attempt_by_start"),
            models.Index(fields=["ended_at", "id"], name="attempt_by_end"),
            models.Index(fields=["phase", "id"], name="attempt_by_phase"),
            models.Index(fields=["outcome", "id"], name="attempt_by_outcome"),
            models.Index(fields=["fingerprint", "id"], name="attempt_by_fingerprint"),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number} of run {self.run_id}"

    @property
    def raw_removed(self) -> str:
        """Removal of its raw output and samples, in words; empty: they are there."""
        if self.raw_removed_at is None:
            return ""
        return (
            f"Removed on {self.raw_removed_at:%Y-%m-%d} by the team's rule of {self.raw_removed_after} days. "
            "Its figures stay."
        )

    @property
    def spool(self) -> str:
        """The name of its spool directory on the host: no other attempt's, also not one of another database."""
        return f"attempt-{self.pk}-{int(self.created_at.timestamp() * 1e6):x}"


class Transition(models.Model):
    """Append-only: every move of a layout or an attempt."""

    layout = models.ForeignKey(Layout, on_delete=models.CASCADE, related_name="transitions")
    attempt = models.ForeignKey(
        Attempt, null=True, on_delete=models.CASCADE, related_name="transitions"
    )
    old = models.CharField(max_length=20)
    new = models.CharField(max_length=20)
    at = models.DateTimeField(auto_now_add=True)
    reason = models.TextField(blank=True)

    TEAM_PATH = "layout__campaign__team"
    objects = OwnedQuerySet["Transition"].as_manager()

    class Meta:
        ordering = ["pk"]
        indexes = [models.Index(fields=["at", "id"], name="transition_by_time")]

    def __str__(self) -> str:
        return f"{self.old} → {self.new}"


class StepLog(models.Model):
    """One command that we ran on a host; written before it starts, completed after."""

    class Kind(models.TextChoices):
        APPLY = "apply"
        UNDO = "undo"
        TEARDOWN = "teardown"
        CHECK = "check"

    layout = models.ForeignKey(Layout, on_delete=models.CASCADE, related_name="steps")
    kind = models.CharField(max_length=10, choices=Kind)
    part = models.CharField(
        max_length=20,
        blank=True,
        help_text="Stage to which the command belongs, e.g. grow 1 or follow 1; empty for others",
    )
    argv = models.JSONField(help_text="Command as a list of words; secrets are shown as ***")
    says = models.TextField()
    destroys = models.JSONField(
        default=list, blank=True, help_text="Identifiers of the devices that it may destroy"
    )
    exit_code = models.IntegerField(null=True, blank=True)
    stdout = models.TextField(blank=True)
    stderr = models.TextField(blank=True)
    started_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    TEAM_PATH = "layout__campaign__team"
    objects = OwnedQuerySet["StepLog"].as_manager()

    class Meta:
        ordering = ["pk"]
        indexes = [
            models.Index(fields=["started_at", "id"], name="step_by_start"),
            models.Index(fields=["kind", "id"], name="step_by_kind"),
        ]

    def __str__(self) -> str:
        return " ".join(self.argv)
