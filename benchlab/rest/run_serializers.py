# SPDX-License-Identifier: Apache-2.0
"""Serializers of layouts, attempts, measurements and series."""

from __future__ import annotations

from django.urls import reverse
from rest_framework import serializers

from benchlab.runs.models import (
    Artifact,
    Attempt,
    Histogram,
    Layout,
    Measurement,
    Series,
    StepLog,
    Transition,
)
from benchlab.web.api import FiniteFloatField, FiniteFloatListField


class LayoutSerializer(serializers.ModelSerializer[Layout]):
    name = serializers.CharField(read_only=True)
    person_key = serializers.CharField(
        read_only=True, help_text="Which wait for a person it is: for person-done"
    )
    stack = serializers.ListField(child=serializers.DictField())
    stages = serializers.ListField(child=serializers.DictField())
    progress = serializers.ListField(
        child=serializers.DictField(),
        help_text="What the kernel still does: {says, done: 0 to 1, eta_s: seconds or null}",
    )
    degraded = serializers.ListField(
        child=serializers.CharField(), help_text="What was degraded at the last look, in words"
    )
    schedulers = serializers.ListField(
        child=serializers.CharField(), help_text="I/O schedulers requested by its runs"
    )
    plan = serializers.DictField(allow_null=True)
    build_s = serializers.FloatField(
        read_only=True, allow_null=True, help_text="Seconds that building it took; null: not built"
    )
    teardown_s = serializers.FloatField(
        read_only=True,
        allow_null=True,
        help_text="Seconds until its disks were proven blank; null: they are not",
    )

    class Meta:
        model = Layout
        fields = [
            "id",
            "name",
            "campaign",
            "host",
            "topology",
            "visit",
            "stack",
            "stages",
            "measure_resync",
            "schedulers",
            "on_degraded",
            "degraded",
            "stage",
            "followed",
            "settled",
            "progress",
            "awaited_until",
            "phase",
            "outcome",
            "reason",
            "reason_text",
            "plan",
            "plan_fingerprint",
            "plan_error",
            "planned_at",
            "confirmed_fingerprint",
            "facts_planned",
            "facts_ready",
            "facts_after",
            "trouble",
            "needs_person",
            "person_key",
            "person_said_at",
            "person_trouble",
            "seen_at",
            "expected_s",
            "build_s",
            "teardown_s",
            "created_at",
            "begun_at",
            "ready_at",
            "down_at",
            "ended_at",
        ]


class DoneSerializer(serializers.Serializer[dict[str, str]]):
    key = serializers.CharField(help_text="The layout's `person_key`, as it was read")


class ReleaseSerializer(serializers.Serializer[dict[str, str]]):
    typed = serializers.CharField(help_text="“release HOST”, with the host's name")


class TeardownSerializer(serializers.Serializer[Layout]):
    snapshot = serializers.IntegerField(
        default=None,
        allow_null=True,
        min_value=1,
        max_value=2**53,
        help_text="Of a finished layout: the newest facts of its host, in which you saw what it left",
    )


class AttemptSerializer(serializers.ModelSerializer[Attempt]):
    argv = serializers.ListField(child=serializers.CharField())
    meta = serializers.DictField(
        help_text="What the runner recorded; not_sampled: why samples could not be read, by sampler"
    )
    windows = serializers.ListField(
        child=serializers.DictField(),
        help_text="What the tool did when: {name, start, end, measured}, seconds on the clock of its series; "
        "[]: it did not tell",
    )

    degraded = serializers.ListField(
        child=serializers.DictField(child=serializers.CharField()),
        help_text="What was degraded: {says, seen: before the run or during it}; empty: all was",
    )

    class Meta:
        model = Attempt
        fields = [
            "id",
            "run",
            "layout",
            "number",
            "phase",
            "outcome",
            "reason",
            "reason_text",
            "argv",
            "tool_version",
            "boot_id",
            "facts",
            "fingerprint",
            "degraded",
            "meta",
            "windows",
            "exit_code",
            "started_at",
            "seen_at",
            "ended_at",
            "raw_removed_at",
        ]


class StepLogSerializer(serializers.ModelSerializer[StepLog]):
    argv = serializers.ListField(child=serializers.CharField())
    destroys = serializers.ListField(child=serializers.CharField())

    class Meta:
        model = StepLog
        fields = [
            "id",
            "layout",
            "kind",
            "part",
            "argv",
            "says",
            "destroys",
            "exit_code",
            "stdout",
            "stderr",
            "started_at",
            "ended_at",
        ]


class TransitionSerializer(serializers.ModelSerializer[Transition]):
    class Meta:
        model = Transition
        fields = ["id", "layout", "attempt", "old", "new", "at", "reason"]


class ArtifactSerializer(serializers.ModelSerializer[Artifact]):
    download = serializers.SerializerMethodField(help_text="Where its bytes are")

    class Meta:
        model = Artifact
        fields = ["id", "attempt", "name", "size", "sha256", "created_at", "download"]

    def get_download(self, artifact: Artifact) -> str:
        return reverse("api:artifact-content", args=[artifact.pk])


class MeasurementSerializer(serializers.ModelSerializer[Measurement]):
    """A measurement with all that a chart needs beside it, so that one request makes a data frame."""

    value = FiniteFloatField(allow_null=True)
    labels = serializers.DictField(child=serializers.CharField())
    run = serializers.IntegerField(source="attempt.run_id")
    topology = serializers.CharField(source="attempt.run.topology.name")
    workload = serializers.CharField(source="attempt.run.workload.name")
    outstanding = serializers.IntegerField(
        source="attempt.run.outstanding", allow_null=True, help_text="Outstanding I/Os"
    )
    stage = serializers.CharField(
        source="attempt.run.stage", help_text="Empty as built, resync, during-1, after-1, …"
    )
    repeat = serializers.IntegerField(source="attempt.run.repeat")
    visit = serializers.IntegerField(
        source="attempt.run.visit", help_text="Which time that its layout was built (ABBA), from 1"
    )
    outcome = serializers.CharField(source="attempt.outcome", help_text="Of the attempt")

    class Meta:
        model = Measurement
        fields = [
            "id",
            "attempt",
            "run",
            "topology",
            "workload",
            "outstanding",
            "stage",
            "repeat",
            "visit",
            "outcome",
            "name",
            "value",
            "unit",
            "labels",
            "note",
            "line",
            "output",
        ]


class SeriesSerializer(serializers.ModelSerializer[Series]):
    times = FiniteFloatListField(help_text="Times in seconds since the first sample")
    values = FiniteFloatListField(help_text="null where it is not known")

    class Meta:
        model = Series
        fields = ["id", "attempt", "sampler", "device", "metric", "unit", "times", "values"]


class HistogramSerializer(serializers.ModelSerializer[Histogram]):
    """Bin i holds the latencies from `lows[i]` on and below `highs[i]`, in seconds. None is empty."""

    labels = serializers.DictField(child=serializers.CharField())
    run = serializers.IntegerField(source="attempt.run_id")
    lows = FiniteFloatListField(help_text="s, rising")
    highs = FiniteFloatListField(help_text="s")

    class Meta:
        model = Histogram
        fields = ["id", "attempt", "run", "name", "labels", "lows", "highs", "counts"]
