# SPDX-License-Identifier: Apache-2.0
"""Results over REST: layouts, attempts, steps, artifacts, measurements, series. Read only."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from agents.contracts import Unit
from agents.drivers import registry
from benchlab.engine import commands, orphans, release
from benchlab.rest.dynamo_files import AttemptFiles
from benchlab.rest.host_tasks import STILL_RUNNING, task_response
from benchlab.rest.run_filters import StageFilter
from benchlab.rest.run_serializers import (
    ArtifactSerializer,
    AttemptSerializer,
    DoneSerializer,
    HistogramSerializer,
    LayoutSerializer,
    MeasurementSerializer,
    ReleaseSerializer,
    SeriesSerializer,
    StepLogSerializer,
    TeardownSerializer,
    TransitionSerializer,
)
from benchlab.results import answers, columns
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
from benchlab.runs.states import LayoutPhase
from benchlab.web.api import Conflict, Deleted, Problem, ReadOnlyViewSet
from benchlab.web.filters import (
    KnownWordFilter,
    StrictChoiceFilter,
    StrictFilterSet,
    WholeNumberFilter,
)
from benchlab.web.paging import KeysFirstPagination, SmallPagination

# attempts whose numbers fit into a statement
MAX_LISTED_ATTEMPTS = 5000


class ArtifactFilter(StrictFilterSet):
    campaign = WholeNumberFilter(field_name="attempt__run__campaign")
    run = WholeNumberFilter(field_name="attempt__run")

    class Meta:
        model = Artifact
        fields: ClassVar = ["attempt", "name", "sha256"]


class MeasurementFilter(StrictFilterSet):
    campaign = WholeNumberFilter(field_name="attempt__run__campaign")
    run = WholeNumberFilter(field_name="attempt__run")
    name = KnownWordFilter(lambda: columns.KNOWN_METRICS)
    stage = StageFilter(field_name="attempt__run__stage")
    unit = StrictChoiceFilter(choices=[(unit.value, unit.value) for unit in Unit])

    class Meta:
        model = Measurement
        fields: ClassVar = ["attempt", "name", "unit"]


class HistogramFilter(StrictFilterSet):
    campaign = WholeNumberFilter(field_name="attempt__run__campaign")
    run = WholeNumberFilter(field_name="attempt__run")
    name = KnownWordFilter(lambda: columns.LATENCIES)

    class Meta:
        model = Histogram
        fields: ClassVar = ["attempt", "name"]


class SeriesFilter(StrictFilterSet):
    sampler = KnownWordFilter(registry.all_samplers)
    metric = KnownWordFilter()

    class Meta:
        model = Series
        fields: ClassVar = ["attempt", "sampler", "device", "metric"]


class AttemptFilter(StrictFilterSet):
    campaign = WholeNumberFilter(field_name="run__campaign")

    class Meta:
        model = Attempt
        fields: ClassVar = ["run", "layout", "phase", "outcome", "fingerprint"]


class Layouts(ReadOnlyViewSet[Layout]):
    """A topology made real on one host, from plan to proven-blank disks."""

    library = True
    queryset = Layout.objects.all()
    serializer_class = LayoutSerializer
    filterset_fields = ["campaign", "host", "topology", "visit", "phase", "outcome"]
    ordering_fields = ["id", "campaign", "host", "created_at", "ended_at"]

    @extend_schema(
        request=TeardownSerializer, responses={200: LayoutSerializer, 400: Problem, 409: Problem}
    )
    @action(detail=True, methods=["post"])
    def teardown(self, request: Request, pk: str | None = None) -> Response:
        """Try to take down a stuck layout once more, or what a finished one left (see /api/hosts/{id}/orphans/)."""
        layout = self.get_object()
        serializer = TeardownSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        try:
            if layout.phase == LayoutPhase.DONE:
                orphans.tear_down_orphan(layout, serializer.validated_data["snapshot"])
            else:
                commands.retry_teardown(layout)
        except commands.CommandError as error:
            raise Conflict(str(error)) from None
        return Response(self.get_serializer(layout).data)

    @extend_schema(
        request=ReleaseSerializer,
        responses={200: LayoutSerializer, 202: STILL_RUNNING, 400: Problem, 409: Problem},
    )
    @action(detail=True, methods=["post"])
    def release(self, request: Request, pk: str | None = None) -> Response:
        """End a stuck layout as it is and free its host; disks of it not proven blank now are no longer spare."""
        serializer = ReleaseSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        layout = self.get_object()
        try:
            row = release.request_release(layout, serializer.validated_data["typed"], request.user)
        except commands.CommandError as error:
            raise Conflict(str(error)) from None
        return task_response(
            self, row, lambda _: Response(self.get_serializer(self.get_object()).data)
        )

    @extend_schema(
        request=DoneSerializer, responses={200: LayoutSerializer, 400: Problem, 409: Problem}
    )
    @action(detail=True, methods=["post"], url_path="person-done")
    def person_done(self, request: Request, pk: str | None = None) -> Response:
        """Say that what `needs_person` asks for is done; the host is looked at, then the layout goes on."""
        serializer = DoneSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        layout = self.get_object()
        try:
            commands.report_manual_step(
                layout, serializer.validated_data["key"], request.user.get_username()
            )
        except commands.CommandError as error:
            raise Conflict(str(error)) from None
        layout.refresh_from_db()
        return Response(self.get_serializer(layout).data)


class Attempts(AttemptFiles, ReadOnlyViewSet[Attempt]):
    """One try of a run, never overwritten: what was run, on what, and how it ended."""

    library = True
    queryset = Attempt.objects.all()
    serializer_class = AttemptSerializer
    filterset_class = AttemptFilter
    ordering_fields = ["id", "run", "number", "started_at", "ended_at"]


class Steps(ReadOnlyViewSet[StepLog]):
    """Every command that was run on a host to build, undo or take down a layout, with what it said."""

    queryset = StepLog.objects.all()
    serializer_class = StepLogSerializer
    filterset_fields = ["layout", "kind"]
    ordering_fields = ["id", "started_at"]


class Transitions(ReadOnlyViewSet[Transition]):
    """Every move of a layout or an attempt from one phase to the next."""

    queryset = Transition.objects.all()
    serializer_class = TransitionSerializer
    filterset_fields = ["layout", "attempt"]
    ordering_fields = ["id", "at"]


class Artifacts(ReadOnlyViewSet[Artifact]):
    """Raw output of tools and samplers; `download` says where its bytes are."""

    library = True
    queryset = Artifact.objects.defer("content")
    serializer_class = ArtifactSerializer
    filterset_class = ArtifactFilter
    ordering_fields = ["id", "name", "size", "created_at"]

    @extend_schema(responses={(200, "application/octet-stream"): OpenApiTypes.BINARY})
    @action(detail=True)
    def content(self, request: Request, pk: str | None = None) -> HttpResponseBase:
        """Byte for byte as the host gave it; `X-Content-SHA256` is its hash."""
        row = self.get_object()
        kind, name = "application/octet-stream", f"attempt-{row.attempt_id}-{row.name}"
        answer: HttpResponseBase
        if removal := row.attempt.raw_removed:
            raise Deleted(f"{row.name}: {removal}")
        if row.is_small:
            answer = HttpResponse(row.read(), content_type=kind)
        else:
            answer = answers.table_response(request._request, row.pieces, kind, name)
        answer["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
        answer["X-Content-SHA256"] = row.sha256
        return answer


class Measurements(ReadOnlyViewSet[Measurement]):
    """Figures in base units (B/s, op/s, s, B, 1)."""

    library = True
    pagination_class = KeysFirstPagination
    queryset = Measurement.objects.select_related(
        "attempt__run__topology", "attempt__run__workload"
    )
    serializer_class = MeasurementSerializer
    filterset_class = MeasurementFilter
    ordering_fields = ["id", "name", "value", "attempt"]

    def filter_queryset(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Name a small team's attempts, for PostgreSQL would scan those of everybody in the order of attempts."""
        rows = super().filter_queryset(queryset)
        if self.action != "list" or str(rows.query.order_by[0]).lstrip("-") != "attempt_id":
            return rows
        mine = Attempt.objects.teams_first().visible_to(self.request.user).order_by()
        attempts = list(mine.values_list("pk", flat=True)[: MAX_LISTED_ATTEMPTS + 1])
        return rows if len(attempts) > MAX_LISTED_ATTEMPTS else rows.filter(attempt__in=attempts)


class AllSeries(ReadOnlyViewSet[Series]):
    """Samples of one device over an attempt, at about 1 Hz."""

    library = True
    pagination_class = SmallPagination
    queryset = Series.objects.all()
    serializer_class = SeriesSerializer
    filterset_class = SeriesFilter
    ordering_fields = ["id", "sampler", "device", "metric"]


class Histograms(ReadOnlyViewSet[Histogram]):
    """Histograms of an attempt's I/O times, where its tool counted: at most 200 bins of each latency."""

    library = True
    pagination_class = SmallPagination
    queryset = Histogram.objects.select_related("attempt")
    serializer_class = HistogramSerializer
    filterset_class = HistogramFilter
    ordering_fields = ["id", "name", "attempt"]
