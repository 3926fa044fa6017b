# SPDX-License-Identifier: Apache-2.0
"""Files of dynamo's runs, campaigns and workloads, as further actions of their viewsets."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from agents.contracts import ParseError
from benchlab.dynamo import iometer_files, run_part
from benchlab.web.api import Conflict, FiniteFloatField, Problem

CSV = {(200, "text/csv"): OpenApiTypes.BINARY}


class FiguresSerializer(serializers.Serializer[dict[str, Any]]):
    iops = FiniteFloatField(allow_null=True, help_text="op/s")
    bandwidth = FiniteFloatField(allow_null=True, help_text="B/s")
    mean = FiniteFloatField(allow_null=True, help_text="Latency, s")
    slowest = FiniteFloatField(allow_null=True, help_text="Latency, s")
    errors = serializers.IntegerField(allow_null=True)  # type: ignore[assignment]  # an attribute's name


class SecondSerializer(FiguresSerializer):
    t = FiniteFloatField(help_text="Seconds since the console began")


class NowSerializer(FiguresSerializer):
    phase = serializers.CharField(help_text="prepare, ramp, record, …; empty: unknown")
    share = FiniteFloatField(allow_null=True, help_text="% of the files that are laid out")
    recent = SecondSerializer(many=True, help_text="The seconds before, newest first")


NO_FIGURES: dict[str, Any] = {
    **dict.fromkeys(("iops", "bandwidth", "mean", "slowest", "errors", "share")),
    "phase": "",
    "recent": [],
}


class AttemptFiles(GenericViewSet[Any]):
    @extend_schema(responses=CSV)
    @action(detail=True, url_path="iometer-csv")
    def iometer_csv(self, request: Request, pk: str | None = None) -> HttpResponse:
        """CSV of what dynamo measured, as IOmeter itself writes it; without results where another tool ran."""
        row = self.get_object()
        return _text_download(
            iometer_files.attempts_csv([row], str(row.run)), f"attempt-{row.pk}-iometer.csv"
        )

    @extend_schema(responses=NowSerializer)
    @action(detail=True, pagination_class=None, filter_backends=())
    def now(self, request: Request, pk: str | None = None) -> Response:
        """Figures of a running dynamo in the last seconds. Not the result."""
        return Response(
            NowSerializer({**NO_FIGURES, **run_part.live_figures(self.get_object())}).data
        )


class CampaignFiles(GenericViewSet[Any]):
    @extend_schema(responses=CSV)
    @action(detail=True, url_path="iometer-csv")
    def iometer_csv(self, request: Request, pk: str | None = None) -> HttpResponse:
        """All that dynamo measured in it, as IOmeter itself writes it."""
        row = self.get_object()
        text = iometer_files.attempts_csv(iometer_files.campaign_attempts(row), row.name)
        return _text_download(text, f"campaign-{row.pk}-iometer.csv")


class WorkloadFiles(GenericViewSet[Any]):
    @extend_schema(responses={(200, "text/plain"): OpenApiTypes.BINARY, 409: Problem})
    @action(detail=True)
    def icf(self, request: Request, pk: str | None = None) -> HttpResponse:
        """IOmeter's configuration of it; 409 where IOmeter could not do the same."""
        row = self.get_object()
        try:
            return _text_download(iometer_files.icf_text(row), f"{row.name}.icf", "text/plain")
        except ParseError as error:
            raise Conflict(str(error)) from None


def _text_download(text: str, name: str, kind: str = "text/csv") -> HttpResponse:
    answer = HttpResponse(text.encode("utf-8"), content_type=f"{kind}; charset=utf-8")
    answer["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    return answer
