# SPDX-License-Identifier: Apache-2.0
"""Diagnosis of a text over REST. Nothing is stored."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import APIException, NotAuthenticated, ValidationError
from rest_framework.parsers import JSONParser, MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from benchlab.imports import diagnose_text, views_diagnose
from benchlab.rest.imports import TooLarge
from benchlab.rest.operations import NumberListField, ObjectSerializer, TextListField
from benchlab.web.api import Problem
from benchlab.web.throttling import DiagnosisThrottle


class DiagnoseTextSerializer(ObjectSerializer):
    text = serializers.CharField(
        trim_whitespace=False, help_text="What a tool printed, at most 1 MB in UTF-8"
    )


class DiagnoseFileSerializer(ObjectSerializer):
    file = serializers.FileField(help_text="At most 1 MB")


class QuotedLineSerializer(ObjectSerializer):
    number = serializers.IntegerField(help_text="of the text, from 1")
    text = serializers.CharField()
    file = serializers.IntegerField(help_text="0: the text that was sent")


class ProofSerializer(ObjectSerializer):
    text = serializers.CharField(help_text="One sentence of evidence with its figures")
    lines = QuotedLineSerializer(many=True)


class StepWorkloadSerializer(ObjectSerializer):
    tool = serializers.CharField()
    options = serializers.DictField()
    sweep = serializers.DictField(help_text="Option -> list of its values")


class NextStepSerializer(ObjectSerializer):
    text = serializers.CharField(help_text="What to run next")
    command = serializers.CharField()
    expect = serializers.CharField(help_text="What its result would mean")
    risk = serializers.CharField(
        help_text="What the command changes and may cost; empty: it only looks or measures"
    )
    options = serializers.DictField(help_text="Options of the tool; a list is swept")
    workload = StepWorkloadSerializer(
        allow_null=True, help_text="To POST to /api/workloads/ with a name; null: no tool runs it"
    )


class DiagnosisSerializer(ObjectSerializer):
    rule = serializers.CharField(help_text="Stable id of the rule: R04")
    label = serializers.CharField()  # type: ignore[assignment]  # an attribute's name
    verdict = serializers.CharField(
        help_text="doubt: the figure is not what it seems; limit: this holds it back; fine: such hardware does that",
    )
    claim = serializers.CharField()
    meaning = serializers.CharField()
    proofs = ProofSerializer(many=True)
    alternatives = TextListField(help_text="What else it could be")
    next_steps = NextStepSerializer(many=True)
    runs = NumberListField(help_text="ids of a campaign's runs; empty for a text")
    also = serializers.IntegerField(help_text="Other files of an upload that show the same")


class TextDiagnosisSerializer(ObjectSerializer):
    headline = serializers.CharField()
    nothing_unusual = serializers.BooleanField()
    readable = serializers.IntegerField(help_text="Results that were read in the text")
    shown = DiagnosisSerializer(many=True, help_text="At most three, the most likely first")
    folded = DiagnosisSerializer(many=True, help_text="The others")
    checked = TextListField(help_text="Labels of the rules that were applied")
    note = serializers.CharField(help_text="What was left out; empty: nothing")


class Busy(APIException):
    status_code = 503
    default_code = "busy"


class Diagnose(APIView):
    """The most likely meaning of what a tool printed, and what to run next."""

    parser_classes = (JSONParser, MultiPartParser)

    def get_throttles(self) -> list[Any]:
        return [*super().get_throttles(), DiagnosisThrottle()]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if not views_diagnose.is_open_to(request):
            raise NotAuthenticated
        if views_diagnose.is_too_large(request._request):
            raise TooLarge(diagnose_text.TOO_LARGE)

    @extend_schema(
        request={
            "application/json": DiagnoseTextSerializer,
            "multipart/form-data": DiagnoseFileSerializer,
        },
        responses={200: TextDiagnosisSerializer, 413: Problem},
    )
    def post(self, request: Request) -> Response:
        """Diagnose a text as JSON, or a file as a form. Nothing is stored.

        Guests need no token where the lab has opened this. 503: others are being answered; try again in some seconds.
        """
        name, raw = _sent_text(request)
        try:
            answer = diagnose_text.diagnose_confined(name, raw)
        except diagnose_text.Busy as error:
            raise Busy(str(error)) from None
        except diagnose_text.Undiagnosed as error:
            raise ValidationError({"text": [str(error)]}) from None
        return Response(TextDiagnosisSerializer(answer).data)


def _sent_text(request: Request) -> tuple[str, bytes]:
    """Name and content of the file, or of the text with the name "". Raises ValidationError and TooLarge."""
    is_form = (request.content_type or "").startswith("multipart/")
    serializer = (DiagnoseFileSerializer if is_form else DiagnoseTextSerializer)(data=request.data)
    if unknown := sorted(set(request.data) - set(serializer.fields)):
        raise ValidationError({name: ["No such field."] for name in unknown})
    serializer.is_valid(raise_exception=True)
    values = serializer.validated_data
    if is_form:
        name, raw = values["file"].name, values["file"].read(diagnose_text.MAX_BYTES + 1)
    else:
        name, raw = "", values["text"].encode("utf-8", "surrogatepass")
    if len(raw) > diagnose_text.MAX_BYTES:
        raise TooLarge(diagnose_text.TOO_LARGE)
    return name, raw
