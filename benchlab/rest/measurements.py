# SPDX-License-Identifier: Apache-2.0
"""Outputs of runs over REST: artifacts, measurements, series and histograms."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request

from agents.contracts import Unit
from agents.drivers import registry
from benchlab.rest.operations import (
    BINARY,
    TextsByNameField,
    download,
)
from benchlab.rest.runs import StageFilter
from benchlab.results import answers, columns
from benchlab.runs.models import (
    Artifact,
    Attempt,
    Histogram,
    Measurement,
    Series,
)
from benchlab.web.api import Deleted, FiniteFloatField, FiniteFloatListField, ReadOnlyViewSet
from benchlab.web.filters import (
    KnownWordFilter,
    StrictChoiceFilter,
    StrictFilterSet,
    WholeNumberFilter,
)
from benchlab.web.paging import KeysFirstPagination, SmallPagination

# attempts whose numbers fit into a statement
MAX_LISTED_ATTEMPTS = 5000


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
    labels = TextsByNameField()
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

    labels = TextsByNameField()
    run = serializers.IntegerField(source="attempt.run_id")
    lows = FiniteFloatListField(help_text="s, rising")
    highs = FiniteFloatListField(help_text="s")

    class Meta:
        model = Histogram
        fields = ["id", "attempt", "run", "name", "labels", "lows", "highs", "counts"]


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


class Artifacts(ReadOnlyViewSet[Artifact]):
    """Raw output of tools and samplers; `download` says where its bytes are."""

    library = True
    queryset = Artifact.objects.defer("content")
    serializer_class = ArtifactSerializer
    filterset_class = ArtifactFilter
    ordering_fields = ["id", "name", "size", "created_at"]

    @extend_schema(responses=BINARY)
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
        answer["X-Content-SHA256"] = row.sha256
        return download(answer, name)


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
