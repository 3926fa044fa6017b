# SPDX-License-Identifier: Apache-2.0
"""/api/findings/: what the numbers of runs may not be, or what they mean, and what people said to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from benchlab.analysis import finding
from benchlab.findings import dismissal, display
from benchlab.findings.models import MOST_NOTE, Finding
from benchlab.team.services import requesting_user
from benchlab.web.api import Conflict, FiniteFloatField, Problem, ReadOnlyViewSet, errors_by_field
from benchlab.web.filters import (
    KnownWordFilter,
    StrictFilterSet,
    TrueOrFalseFilter,
    WholeNumberFilter,
)


def finding_kinds() -> set[str]:
    return {*finding.run_findings(), *finding.line_findings(), *finding.HISTORY_LABELS}


class FindingFilter(StrictFilterSet):
    run = WholeNumberFilter(field_name="attempt__run")
    kind = KnownWordFilter(finding_kinds)
    dismissed = TrueOrFalseFilter(field_name="dismissed_at", lookup_expr="isnull", exclude=True)

    class Meta:
        model = Finding
        fields: ClassVar = ["campaign", "attempt", "workload", "severity"]


class NumberSerializer(serializers.Serializer[Any]):
    value = FiniteFloatField(allow_null=True, help_text="Base unit")
    unit = serializers.CharField()
    of = serializers.CharField(help_text="What it is, in words")
    run = serializers.IntegerField(help_text="Whose; 0: the finding's own run")
    figure = serializers.CharField(help_text="The measurement's name, where it is one")
    device = serializers.CharField(help_text="Of the series that it is a mean of")
    metric = serializers.CharField()


class FindingSerializer(serializers.ModelSerializer[Finding]):
    run = serializers.IntegerField(
        source="attempt.run_id",
        allow_null=True,
        default=None,
        help_text="Null: between the set-ups of a workload",
    )
    label = serializers.SerializerMethodField(  # type: ignore[assignment]  # the name of one of its attributes
        help_text="The kind in words"
    )
    method = serializers.SerializerMethodField(help_text="The heading in docs/method.md")
    says = serializers.CharField(help_text="The finding as one sentence, without a full stop")
    numbers = serializers.DictField(
        child=NumberSerializer(), help_text="Those of the sentence, and where they come from"
    )
    runs = serializers.ListField(
        child=serializers.IntegerField(), help_text="The runs that it is about"
    )
    dismissed_by = serializers.CharField(
        source="dismissed_by.username", allow_null=True, default=None
    )

    class Meta:
        model = Finding
        fields = [
            "id",
            "campaign",
            "workload",
            "run",
            "attempt",
            "kind",
            "label",
            "about",
            "severity",
            "says",
            "numbers",
            "runs",
            "method",
            "found_at",
            "dismissed_at",
            "dismissed_by",
            "note",
        ]
        read_only_fields = fields

    def get_label(self, row: Finding) -> str:
        return display.label_of(row.kind)

    def get_method(self, row: Finding) -> str:
        return "Findings"


class NotedSerializer(serializers.Serializer[Any]):
    note = serializers.CharField(max_length=MOST_NOTE, help_text="Why, in plain text")


class Findings(ReadOnlyViewSet[Finding]):
    """Findings: what the numbers of a run, or of set-ups beside each other, may not be, or what they mean."""

    library = True
    queryset = Finding.objects.filter(stands=True).select_related("attempt", "dismissed_by")
    serializer_class = FindingSerializer
    filterset_class = FindingFilter
    ordering_fields = ["id", "kind", "severity", "found_at"]

    @extend_schema(
        request=NotedSerializer, responses={200: FindingSerializer, 400: Problem, 409: Problem}
    )
    @action(detail=True, methods=["post"])
    def dismiss(self, request: Request, pk: str | None = None) -> Response:
        """Say that it does not matter here, and why. Pages fold it away; made anew, it stays dismissed."""
        return self._record_note(
            request, lambda row, note: dismissal.dismiss_row(row, requesting_user(request), note)
        )

    @extend_schema(
        request=NotedSerializer, responses={200: FindingSerializer, 400: Problem, 409: Problem}
    )
    @action(detail=True, methods=["post"], url_path="take-back")
    def take_back(self, request: Request, pk: str | None = None) -> Response:
        """Say that it matters after all, and why."""
        return self._record_note(request, dismissal.restore_row)

    def _record_note(self, request: Request, act: Callable[[Finding, str], None]) -> Response:
        row = self.get_object()
        serializer = NotedSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        try:
            act(row, serializer.validated_data["note"])
        except dismissal.AlreadyDecided as error:
            raise Conflict(error.messages[0]) from None
        except ValidationError as error:
            raise serializers.ValidationError(errors_by_field(error, "note")) from None
        return Response(self.get_serializer(row).data)
