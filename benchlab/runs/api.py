"""What happened, over REST: layouts, attempts, steps, artifacts, measurements, series. Read only."""

from __future__ import annotations

from typing import ClassVar

from django.http import HttpResponse
from django.urls import reverse
from django.utils.http import content_disposition_header
from django_filters import CharFilter
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from benchlab.api import Conflict, Figure, Figures, Problem, ReadOnly
from benchlab.dynamo.api_files import OfAttempts
from benchlab.filters import Strict, Whole
from benchlab.paging import FewAtOnce
from benchlab.runs import commands, orphans
from benchlab.runs.models import Artifact, Attempt, Layout, Measurement, Series, StepLog, Transition
from benchlab.runs.states import LayoutPhase


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
            "stages",
            "measure_resync",
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
            "created_at",
            "ended_at",
        ]


class DoneSerializer(serializers.Serializer[dict[str, str]]):
    key = serializers.CharField(help_text="The layout's `person_key`, as it was read")


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
    """With what a chart needs beside it, so that one request makes a data frame."""

    value = Figure(allow_null=True)
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
    times = Figures(help_text="Seconds since the first frame")
    values = Figures(help_text="null where it is not known")

    class Meta:
        model = Series
        fields = ["id", "attempt", "sampler", "device", "metric", "unit", "times", "values"]


class ArtifactFilter(Strict):
    run = Whole(field_name="attempt__run")

    class Meta:
        model = Artifact
        fields: ClassVar = ["attempt", "name", "sha256"]


class MeasurementFilter(Strict):
    campaign = Whole(field_name="attempt__run__campaign")
    run = Whole(field_name="attempt__run")
    stage = CharFilter(field_name="attempt__run__stage")

    class Meta:
        model = Measurement
        fields: ClassVar = ["attempt", "name", "unit"]


class AttemptFilter(Strict):
    campaign = Whole(field_name="run__campaign")

    class Meta:
        model = Attempt
        fields: ClassVar = ["run", "layout", "phase", "outcome", "fingerprint"]


class Layouts(ReadOnly[Layout]):
    """A topology made real on one host, from plan to proven-blank disks."""

    library = True
    queryset = Layout.objects.all()
    serializer_class = LayoutSerializer
    filterset_fields = ["campaign", "host", "topology", "phase", "outcome"]
    ordering_fields = ["id", "campaign", "host", "created_at", "ended_at"]

    @extend_schema(
        request=TeardownSerializer, responses={200: LayoutSerializer, 400: Problem, 409: Problem}
    )
    @action(detail=True, methods=["post"])
    def teardown(self, request: Request, pk: str | None = None) -> Response:
        """Try to take down a stuck layout once more, or what a finished one left (see /api/hosts/{id}/orphans/)."""
        layout = self.get_object()
        sent = TeardownSerializer(data=request.data)
        sent.is_valid(raise_exception=True)
        try:
            if layout.phase == LayoutPhase.DONE:
                orphans.tear_down(layout, sent.validated_data["snapshot"])
            else:
                commands.teardown_again(layout)
        except commands.CommandError as error:
            raise Conflict(str(error)) from None
        return Response(self.get_serializer(layout).data)

    @extend_schema(
        request=DoneSerializer, responses={200: LayoutSerializer, 400: Problem, 409: Problem}
    )
    @action(detail=True, methods=["post"], url_path="person-done")
    def person_done(self, request: Request, pk: str | None = None) -> Response:
        """Say that what `needs_person` asks for is done; the host is looked at, then the layout goes on."""
        sent = DoneSerializer(data=request.data)
        sent.is_valid(raise_exception=True)
        layout = self.get_object()
        try:
            commands.person_done(layout, sent.validated_data["key"], request.user.get_username())
        except commands.CommandError as error:
            raise Conflict(str(error)) from None
        layout.refresh_from_db()
        return Response(self.get_serializer(layout).data)


class Attempts(OfAttempts, ReadOnly[Attempt]):
    """One try of a run, never overwritten: what was run, on what, and how it ended."""

    library = True
    queryset = Attempt.objects.all()
    serializer_class = AttemptSerializer
    filterset_class = AttemptFilter
    ordering_fields = ["id", "run", "number", "started_at", "ended_at"]


class Steps(ReadOnly[StepLog]):
    """Every command that was run on a host to build, undo or take down a layout, with what it said."""

    queryset = StepLog.objects.all()
    serializer_class = StepLogSerializer
    filterset_fields = ["layout", "kind"]
    ordering_fields = ["id", "started_at"]


class Transitions(ReadOnly[Transition]):
    """Every move of a layout or an attempt from one phase to the next."""

    queryset = Transition.objects.all()
    serializer_class = TransitionSerializer
    filterset_fields = ["layout", "attempt"]
    ordering_fields = ["id", "at"]


class Artifacts(ReadOnly[Artifact]):
    """Raw output of tools and samplers; `download` says where its bytes are."""

    library = True
    queryset = Artifact.objects.defer("content")
    serializer_class = ArtifactSerializer
    filterset_class = ArtifactFilter
    ordering_fields = ["id", "name", "size", "created_at"]

    @extend_schema(responses={(200, "application/octet-stream"): OpenApiTypes.BINARY})
    @action(detail=True)
    def content(self, request: Request, pk: str | None = None) -> HttpResponse:
        """Byte for byte as the host gave it; `X-Content-SHA256` is its hash."""
        row = self.get_object()
        answer = HttpResponse(bytes(row.content), content_type="application/octet-stream")
        answer["Content-Disposition"] = (
            content_disposition_header(True, f"attempt-{row.attempt_id}-{row.name}") or "attachment"
        )
        answer["X-Content-SHA256"] = row.sha256
        return answer


class Measurements(ReadOnly[Measurement]):
    """Figures in base units (B/s, op/s, s, B, 1)."""

    library = True
    queryset = Measurement.objects.select_related(
        "attempt__run__topology", "attempt__run__workload"
    )
    serializer_class = MeasurementSerializer
    filterset_class = MeasurementFilter
    ordering_fields = ["id", "name", "value", "attempt"]


class AllSeries(ReadOnly[Series]):
    """What a sampler saw of one device over an attempt, at about 1 Hz."""

    library = True
    pagination_class = FewAtOnce
    queryset = Series.objects.all()
    serializer_class = SeriesSerializer
    filterset_fields = ["attempt", "sampler", "device", "metric"]
    ordering_fields = ["id", "sampler", "device", "metric"]
