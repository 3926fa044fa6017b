"""What happened, over REST: layouts, attempts, steps, artifacts, measurements, series. Read only."""

from __future__ import annotations

from typing import ClassVar

import django_filters
from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from benchlab.api import Conflict, Problem, ReadOnly
from benchlab.runs import commands, moves
from benchlab.runs.models import Artifact, Attempt, Layout, Measurement, Series, StepLog, Transition


class LayoutSerializer(serializers.ModelSerializer[Layout]):
    name = serializers.CharField(read_only=True)
    stack = serializers.ListField(child=serializers.DictField())
    plan = serializers.DictField(allow_null=True)

    class Meta:
        model = Layout
        fields = [
            "id",
            "name",
            "campaign",
            "host",
            "topology",
            "stack",
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
            "seen_at",
            "created_at",
            "ended_at",
        ]


class AttemptSerializer(serializers.ModelSerializer[Attempt]):
    argv = serializers.ListField(child=serializers.CharField())
    meta = serializers.DictField()

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
            "meta",
            "exit_code",
            "started_at",
            "seen_at",
            "ended_at",
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
    download = serializers.SerializerMethodField()

    class Meta:
        model = Artifact
        fields = ["id", "attempt", "name", "size", "sha256", "created_at", "download"]

    def get_download(self, artifact: Artifact) -> str:
        return reverse("artifact-download", args=[artifact.pk])


class MeasurementSerializer(serializers.ModelSerializer[Measurement]):
    labels = serializers.DictField(child=serializers.CharField())
    run = serializers.IntegerField(source="attempt.run_id", read_only=True)

    class Meta:
        model = Measurement
        fields = ["id", "attempt", "run", "name", "value", "unit", "labels", "note"]


class SeriesSerializer(serializers.ModelSerializer[Series]):
    values = serializers.SerializerMethodField()

    class Meta:
        model = Series
        fields = ["id", "attempt", "sampler", "device", "metric", "unit", "times", "values"]

    def get_values(self, row: Series) -> list[float | None]:
        """JSON knows no NaN: unknown is null."""
        return [value if value == value else None for value in row.values]


class MeasurementFilter(django_filters.FilterSet):  # type: ignore[misc]  # untyped library
    campaign = django_filters.NumberFilter(field_name="attempt__run__campaign")
    run = django_filters.NumberFilter(field_name="attempt__run")

    class Meta:
        model = Measurement
        fields: ClassVar = ["attempt", "name", "unit"]


class AttemptFilter(django_filters.FilterSet):  # type: ignore[misc]
    campaign = django_filters.NumberFilter(field_name="run__campaign")

    class Meta:
        model = Attempt
        fields: ClassVar = ["run", "layout", "phase", "outcome", "fingerprint"]


class Layouts(ReadOnly[Layout]):
    """A topology made real on one host, from plan to proven-blank disks."""

    queryset = Layout.objects.all()
    serializer_class = LayoutSerializer
    filterset_fields = ["campaign", "host", "topology", "phase", "outcome"]

    @extend_schema(request=None, responses={200: LayoutSerializer, 409: Problem})
    @action(detail=True, methods=["post"])
    def teardown(self, request: Request, pk: str | None = None) -> Response:
        """Try to take down a stuck layout once more."""
        layout = self.get_object()
        try:
            commands.teardown_again(layout)
        except (ValueError, moves.Moved):
            raise Conflict("Only a stuck layout can be taken down again.") from None
        return Response(self.get_serializer(layout).data)


class Attempts(ReadOnly[Attempt]):
    queryset = Attempt.objects.all()
    serializer_class = AttemptSerializer
    filterset_class = AttemptFilter


class Steps(ReadOnly[StepLog]):
    queryset = StepLog.objects.all()
    serializer_class = StepLogSerializer
    filterset_fields = ["layout", "kind"]


class Transitions(ReadOnly[Transition]):
    queryset = Transition.objects.all()
    serializer_class = TransitionSerializer
    filterset_fields = ["layout", "attempt"]


class Artifacts(ReadOnly[Artifact]):
    """Raw output; `download` serves it byte for byte."""

    queryset = Artifact.objects.defer("content")
    serializer_class = ArtifactSerializer
    filterset_fields = ["attempt", "name", "sha256"]


class Measurements(ReadOnly[Measurement]):
    """Figures in base units (B/s, op/s, s, B, 1)."""

    queryset = Measurement.objects.select_related("attempt")
    serializer_class = MeasurementSerializer
    filterset_class = MeasurementFilter


class AllSeries(ReadOnly[Series]):
    queryset = Series.objects.all()
    serializer_class = SeriesSerializer
    filterset_fields = ["attempt", "sampler", "device", "metric"]
