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
        sent = self.get_serializer(data=request.data)
        sent.is_valid(raise_exception=True)
        team, asked = pop_team(request.user, sent.validated_data), sent.validated_data
        try:
            found = icf.read_workloads(asked["text"])
        except ParseError as error:
            raise serializers.ValidationError({"text": [str(error)]}) from None
        made = self._create_workloads(found, asked["take"], team)
        numbered = [{"number": n, **_workload_json(one)} for n, one in enumerate(found)]
        told = FoundInSerializer(
            {"found": numbered, "made": made}, context=self.get_serializer_context()
        )
        return Response(told.data, status=201 if made else 200)

    @transaction.atomic
    def _create_workloads(
        self, found: list[icf.Workload], take: list[int], team: Any
    ) -> list[Workload]:
        if unknown := sorted({number for number in take if number >= len(found)}):
            says = f"There is no number {unknown[0]}; the file has 0 to {len(found) - 1}."
            raise serializers.ValidationError({"take": [says]})
        return [self._create_workload(found[number], team) for number in dict.fromkeys(take)]

    def _create_workload(self, one: icf.Workload, team: Any) -> Workload:
        try:
            return iometer_files.create_icf_workload(
                team=team,
                user=self.request.user,
                name=one.name,
                options=one.options,
                sweep=one.sweep,
                description=one.description,
            )
        except ValidationError as error:
            raise serializers.ValidationError(errors_by_field(error, "take")) from None


def _workload_json(one: icf.Workload) -> dict[str, Any]:
    names = ("name", "description", "options", "sweep", "notes", "trouble")
    return {name: getattr(one, name) for name in names}
