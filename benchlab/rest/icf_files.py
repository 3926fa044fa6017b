# SPDX-License-Identifier: Apache-2.0
"""Workloads from IOmeter's .icf files over REST: what becomes of one, and then those of it that are taken."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents.contracts import ParseError
from agents.dynamo import icf
from benchlab.campaigns.models import Workload
from benchlab.dynamo import iometer_files
from benchlab.rest.campaigns import WorkloadSerializer
from benchlab.web.api import TeamField, TeamViewSet, errors_by_field, pop_team, validate_storable


class IcfSerializer(serializers.Serializer[dict[str, Any]]):
    team = TeamField()
    text = serializers.CharField(
        max_length=iometer_files.MAX_FILE_CHARACTERS,
        trim_whitespace=False,
        validators=[validate_storable],
        help_text="The file's",
    )
    take = serializers.ListField(
        child=serializers.IntegerField(min_value=0),
        default=list,
        help_text="Numbers of those to make, all or none; empty: only look",
    )


class DescribedSerializer(serializers.Serializer[icf.Workload]):
    number = serializers.IntegerField(help_text="In the file, from 0: what `take` names")
    name = serializers.CharField()
    description = serializers.CharField(help_text="The file's Test Description")
    options = serializers.DictField()
    sweep = serializers.DictField()
    notes = serializers.ListField(child=serializers.CharField(), help_text="Not taken over")
    trouble = serializers.CharField(help_text="Why it cannot be run; empty: it can")


class FoundInSerializer(serializers.Serializer[dict[str, Any]]):
    found = DescribedSerializer(many=True)
    made = WorkloadSerializer(many=True)


class IcfFiles(TeamViewSet[Any]):
    """IOmeter's configuration files, read. The other way is /api/workloads/{id}/icf/."""

    noun = "icf"
    queryset = Workload.objects.all()
    serializer_class = IcfSerializer
    pagination_class = None
    ordering_fields = ()

    @extend_schema(
        request=IcfSerializer, responses={200: FoundInSerializer, 201: FoundInSerializer}
    )
    def create(self, request: Request) -> Response:
        """Show what becomes of a file: 200. With `take` those workloads are made: 201."""
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        team, values = pop_team(request.user, serializer.validated_data), serializer.validated_data
        try:
            descriptions = icf.read_workloads(values["text"])
        except ParseError as error:
            raise serializers.ValidationError({"text": [str(error)]}) from None
        workloads = self._create_workloads(descriptions, values["take"], team)
        numbered = [
            {"number": n, **_workload_json(description)}
            for n, description in enumerate(descriptions)
        ]
        response = FoundInSerializer(
            {"found": numbered, "made": workloads}, context=self.get_serializer_context()
        )
        return Response(response.data, status=201 if workloads else 200)

    @transaction.atomic
    def _create_workloads(
        self, descriptions: list[icf.Workload], take: list[int], team: Any
    ) -> list[Workload]:
        if unknown := sorted({number for number in take if number >= len(descriptions)}):
            message = f"There is no number {unknown[0]}; the file has 0 to {len(descriptions) - 1}."
            raise serializers.ValidationError({"take": [message]})
        return [self._create_workload(descriptions[number], team) for number in dict.fromkeys(take)]

    def _create_workload(self, description: icf.Workload, team: Any) -> Workload:
        try:
            return iometer_files.create_icf_workload(
                team=team,
                user=self.request.user,
                name=description.name,
                options=description.options,
                sweep=description.sweep,
                description=description.description,
            )
        except ValidationError as error:
            raise serializers.ValidationError(errors_by_field(error, "take")) from None


def _workload_json(description: icf.Workload) -> dict[str, Any]:
    names = ("name", "description", "options", "sweep", "notes", "trouble")
    return {name: getattr(description, name) for name in names}
