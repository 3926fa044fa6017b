# SPDX-License-Identifier: Apache-2.0
"""/api/findings/ and /api/history/: what the numbers of runs may not be, or what they mean, what people said to it;
and the runs of one set-up over time, its changes, and the runs that stand out.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from benchlab.analysis import finding
from benchlab.campaigns.models import Run
from benchlab.charts import metric_naming
from benchlab.charts.history import FINGERPRINT_PARTS, History, read_history
from benchlab.findings import display, storing
from benchlab.findings.models import MOST_NOTE, Finding
from benchlab.rest.operations import NumberListField, ObjectSerializer, operation, username
from benchlab.team.services import requesting_user
from benchlab.web.api import FiniteFloatField, Problem, ReadOnlyViewSet, SingleAnswerViewSet
from benchlab.web.filters import (
    KnownWordFilter,
    StrictFilterSet,
    TrueOrFalseFilter,
    WholeNumberFilter,
)

PARAMETERS = ("run", "metric", "without")
# digits
MAX_ID_DIGITS = 18


def finding_kinds() -> set[str]:
    return {*finding.run_findings(), *finding.line_findings(), *finding.HISTORY_LABELS}


class FindingFilter(StrictFilterSet):
    run = WholeNumberFilter(field_name="attempt__run")
    kind = KnownWordFilter(finding_kinds)
    dismissed = TrueOrFalseFilter(field_name="dismissed_at", lookup_expr="isnull", exclude=True)

    class Meta:
        model = Finding
        fields: ClassVar = ["campaign", "attempt", "workload", "severity"]


class NumberSerializer(ObjectSerializer):
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
    runs = NumberListField(help_text="The runs that it is about")
    dismissed_by = username("dismissed_by")

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


class NotedSerializer(ObjectSerializer):
    note = serializers.CharField(max_length=MOST_NOTE, help_text="Why, in plain text")


class Findings(ReadOnlyViewSet[Finding]):
    """Findings: what the numbers of a run, or of set-ups beside each other, may not be, or what they mean."""

    library = True
    queryset = Finding.objects.filter(stands=True).select_related("attempt", "dismissed_by")
    serializer_class = FindingSerializer
    filterset_class = FindingFilter
    ordering_fields = ["id", "kind", "severity", "found_at"]

    @operation(NotedSerializer, field="note")
    def dismiss(self, row: Finding, note: str) -> None:
        """Say that it does not matter here, and why. Pages fold it away; made anew, it stays dismissed."""
        storing.dismiss_row(row, requesting_user(self.request), note)

    @operation(NotedSerializer, field="note")
    def take_back(self, row: Finding, note: str) -> None:
        """Say that it matters after all, and why."""
        storing.restore_row(row, note)


class PastSerializer(ObjectSerializer):
    run = serializers.IntegerField()
    at = serializers.DateTimeField()
    campaign = serializers.IntegerField()
    repeat = serializers.IntegerField()
    layout = serializers.IntegerField(
        source="build", help_text="Runs of one layout share the effects of its build"
    )
    value = FiniteFloatField()
    part = serializers.CharField(
        source="ignored_value", help_text="The part that was left out, as this run had it"
    )


class ChangeSerializer(ObjectSerializer):
    at = serializers.IntegerField(source="change.at", help_text="Index in `runs`: first after it")
    run = serializers.IntegerField(source="first.run")
    before = FiniteFloatField(source="change.before", help_text="Median of the stretch before it")
    after = FiniteFloatField(source="change.after")
    ratio = FiniteFloatField(source="change.ratio")
    confirmed = serializers.BooleanField(
        source="change.confirmed",
        help_text="Six runs and five builds or more on both sides, seen by two looks in a row; else possible",
    )
    verdict = serializers.CharField(help_text="changed, or possibly changed")
    says = serializers.CharField(source="change_text", help_text="The change in words")


class DriftSerializer(ObjectSerializer):
    at = serializers.IntegerField(source="drift.begin", help_text="Index in `runs`: its first")
    run = serializers.IntegerField(source="first.run")
    runs = serializers.IntegerField(help_text="Runs from it to the last")
    before = FiniteFloatField(source="drift.before", help_text="Straight line, at the first run")
    after = FiniteFloatField(source="drift.after", help_text="Straight line, at the last run")
    ratio = FiniteFloatField(source="drift.ratio")
    verdict = serializers.CharField(help_text="drifts")
    says = serializers.CharField(source="change_text", help_text="The drift in words")


class UnusualSerializer(ObjectSerializer):
    at = serializers.IntegerField(help_text="Index in `runs`")
    z = FiniteFloatField(
        help_text="Robust: |ln value - median| over 1.4826 MAD of the runs before it"
    )
    past = serializers.IntegerField(help_text="Runs that it is compared with")


class HistorySerializer(ObjectSerializer):
    metric = serializers.CharField()
    unit = serializers.CharField()
    without = serializers.CharField(source="ignored_part")
    runs = PastSerializer(many=True)
    changes = ChangeSerializer(source="history_changes", many=True)
    drift = DriftSerializer(
        source="history_drift",
        allow_null=True,
        help_text="A steady rise or fall since the last confirmed change; null: none",
    )
    unusual = UnusualSerializer(many=True)
    left_out = serializers.IntegerField(
        source="runs_without_value", help_text="Runs without a value above 0"
    )


def _text_parameter(name: str, about: str, **more: Any) -> OpenApiParameter:
    return OpenApiParameter(name, OpenApiTypes.STR, description=about, **more)


class Histories(SingleAnswerViewSet[Run]):
    """One history in one answer."""

    noun = "history"
    queryset = Run.objects.all()
    serializer_class = HistorySerializer

    @extend_schema(
        parameters=[
            OpenApiParameter("run", OpenApiTypes.INT, required=True, description="Whose set-up"),
            _text_parameter("metric", "Default: what pages show first of its tool"),
            _text_parameter(
                "without", "The part of the fingerprint to leave out", enum=list(FINGERPRINT_PARTS)
            ),
        ],
        responses={200: HistorySerializer, 404: Problem},
    )
    def list(self, request: Request) -> Response:
        """Every run of a run's fingerprint, oldest first: where its level changed, and which runs stand out."""
        parameters = _valid_parameters(request)
        rows = Run.objects.visible_to(request.user)
        run = get_object_or_404(rows.select_related("campaign"), pk=int(parameters["run"]))
        history: History = read_history(
            request.user, run, parameters.get("metric", ""), parameters.get("without", "")
        )
        return Response(self.get_serializer(history).data)


def _valid_parameters(request: Request) -> dict[str, str]:
    """Raises ValidationError, which names what is wrong."""
    parameters = {name: request.query_params[name] for name in request.query_params}
    wrong = {
        name: f"No such parameter; there are {', '.join(PARAMETERS)}."
        for name in parameters
        if name not in (*PARAMETERS, "fields")
    }
    if many := [name for name in parameters if len(request.query_params.getlist(name)) > 1]:
        wrong |= dict.fromkeys(many, "Given twice.")
    run, metric, without = (parameters.get(name, "") for name in PARAMETERS)
    if not (run.isascii() and run.isdigit() and len(run) <= MAX_ID_DIGITS):
        wrong["run"] = "The id of the run whose history it is."
    if metric and (not metric_naming.is_metric_name(metric) or "*" in metric):
        wrong["metric"] = f"{metric[:100]!r} is not the name of a metric."
    if without and without not in FINGERPRINT_PARTS:
        wrong["without"] = f"{without[:100]!r} is none of {', '.join(FINGERPRINT_PARTS)}."
    if wrong:
        raise ValidationError({name[:200]: [message] for name, message in wrong.items()})
    return parameters
