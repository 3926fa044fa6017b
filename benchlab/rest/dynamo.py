# SPDX-License-Identifier: Apache-2.0
"""Functions of dynamo's pages over REST: its program, what dynamos report of their machines, the listener."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from benchlab.dynamo import program_check, programs, reported_hosts
from benchlab.dynamo.models import Binary, Reported
from benchlab.hosts import host_tasks
from benchlab.hosts.models import Host, HostTask
from benchlab.rest.host_tasks import STILL_RUNNING, task_response
from benchlab.rest.topologies import TopologySerializer
from benchlab.web.api import (
    Conflict,
    OwnRowField,
    Problem,
    ReadOnlyViewSet,
    SingleAnswerViewSet,
    TeamField,
    TeamViewSet,
    pop_team,
    validate_storable,
)


class BinarySerializer(serializers.ModelSerializer[Binary]):
    option = serializers.CharField(help_text="A workload's option `binary`, to use this one")
    uploaded_by = serializers.CharField(
        source="uploaded_by.username", default=None, allow_null=True, help_text="null: not known"
    )

    class Meta:
        model = Binary
        fields = [
            "id",
            "team",
            "name",
            "version",
            "sha256",
            "size",
            "option",
            "uploaded_by",
            "created_at",
        ]


class UploadSerializer(serializers.Serializer[dict[str, Any]]):
    team = TeamField()
    program = serializers.FileField(
        help_text=f"The Linux build of dynamo 1.1.0 itself, at most {programs.MAX_PROGRAM_BYTES >> 20} MiB"
    )


class Programs(mixins.DestroyModelMixin, ReadOnlyViewSet[Binary]):
    """Uploaded dynamos. They run as root on the team's hosts, so only owners upload or delete one."""

    queryset = Binary.objects.defer("content").select_related("uploaded_by")
    serializer_class = BinarySerializer
    parser_classes = [MultiPartParser]
    filterset_fields = ["name", "version", "sha256"]
    ordering_fields = ["id", "name", "size", "created_at"]

    @extend_schema(
        request={"multipart/form-data": UploadSerializer},
        responses={200: BinarySerializer, 201: BinarySerializer},
    )
    def create(self, request: Request) -> Response:
        """Upload one: 201; 200 where the team has it already."""
        serializer = UploadSerializer(data=request.data, context=self.get_serializer_context())
        serializer.is_valid(raise_exception=True)
        team = pop_team(request.user, serializer.validated_data)
        try:
            row, new = programs.store_upload(
                team, request.user, serializer.validated_data["program"]
            )
        except program_check.Refused as error:
            raise ValidationError({"program": [str(error)]}) from None
        return Response(self.get_serializer(row).data, status=201 if new else 200)

    @extend_schema(responses={204: None, 409: Problem})
    def destroy(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Delete one; 409 while a workload or campaign names it."""
        try:
            programs.delete_program(self.get_object())
        except programs.InUse as error:
            raise Conflict(str(error)) from None
        return Response(status=204)


class CheckSerializer(serializers.Serializer[dict[str, Any]]):
    host = OwnRowField[Host](queryset=Host.objects.filter(access=Host.Access.SSH))
    path = serializers.CharField(
        max_length=400,
        default="dynamo",
        validators=[validate_storable],
        help_text="Its path there, or its name if it is on the PATH",
    )


class LookedSerializer(serializers.Serializer[program_check.ProgramReport]):
    path = serializers.CharField()
    size = serializers.IntegerField(help_text="Bytes")
    sha256 = serializers.CharField()
    version = serializers.CharField(help_text="Empty: not a supported version")
    troubles = serializers.ListField(
        child=serializers.CharField(), help_text="Why it cannot be used; empty: it can"
    )


class Checks(TeamViewSet[Any]):
    """A dynamo on a host, looked at; nothing of it is run."""

    noun = "dynamocheck"
    queryset = Host.objects.all()
    serializer_class = CheckSerializer
    pagination_class = None
    ordering_fields = ()

    @extend_schema(
        request=CheckSerializer, responses={200: LookedSerializer, 202: STILL_RUNNING, 409: Problem}
    )
    def create(self, request: Request) -> Response:
        """Version, SHA-256 and missing libraries of the program; 409 where the host is not reached."""
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        host, path = serializer.validated_data["host"], serializer.validated_data["path"]
        row = host_tasks.request_task(host, "check_dynamo", request.user, path=path)
        return task_response(self, row, _check_response)


def _check_response(row: HostTask) -> Response:
    return Response(LookedSerializer(program_check.report_from_json(row.result or {})).data)


class ListenerSerializer(serializers.Serializer[dict[str, str]]):
    listening = serializers.CharField(help_text="address:port; empty: it is off")


class Listener(SingleAnswerViewSet[Any]):
    """Listener at which dynamos may log in by themselves, as they would to IOmeter."""

    noun = "listener"
    queryset = Host.objects.all()
    serializer_class = ListenerSerializer

    @extend_schema(responses=ListenerSerializer)
    def list(self, request: Request) -> Response:
        """Their hosts are those of /api/hosts/ with access=dynamo."""
        return Response(self.get_serializer({"listening": programs.listen_address()}).data)


class ReportedSerializer(serializers.ModelSerializer[Reported]):
    usable = serializers.BooleanField(
        read_only=True, help_text="It is there, not on xfs, and a whole disk only if it is spare"
    )
    spare_by = serializers.CharField(source="spare_by.username", default=None, allow_null=True)

    class Meta:
        model = Reported
        fields = [
            "id",
            "host",
            "name",
            "raw",
            "ready",
            "sector",
            "present",
            "prepared",
            "usable",
            "spare_by",
            "spare_at",
            "seen_at",
        ]


class TypedSerializer(serializers.Serializer[dict[str, str]]):
    typed = serializers.CharField(max_length=200, help_text="The disk's exact name")


class ReportedTargets(ReadOnlyViewSet[Reported]):
    """File systems and disks that a dynamo reports of a machine which only it reaches."""

    queryset = Reported.objects.select_related("host__team", "spare_by")
    serializer_class = ReportedSerializer
    filterset_fields = ["host", "name", "raw", "present", "ready"]
    ordering_fields = ["id", "host", "name", "seen_at", "spare_at"]

    @extend_schema(
        request=TypedSerializer, responses={200: ReportedSerializer, 400: Problem, 409: Problem}
    )
    @action(detail=True, methods=["post"], url_path="mark-spare")
    def mark_spare(self, request: Request, pk: str | None = None) -> Response:
        """Allow BenchLab to destroy what is on this disk."""
        serializer = TypedSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        try:
            reported_hosts.mark_spare(
                self.get_object(), request.user, serializer.validated_data["typed"]
            )
        except reported_hosts.Refused as error:
            raise Conflict(str(error)) from None
        return Response(self.get_serializer(self.get_object()).data)

    @extend_schema(request=None, responses={200: ReportedSerializer})
    @action(detail=True, methods=["post"], url_path="unmark-spare")
    def unmark_spare(self, request: Request, pk: str | None = None) -> Response:
        """Take the permission back."""
        reported_hosts.unmark_spare(self.get_object())
        return Response(self.get_serializer(self.get_object()).data)

    @extend_schema(request=None, responses={200: TopologySerializer, 201: TopologySerializer})
    @action(detail=True, methods=["post"])
    def topology(self, request: Request, pk: str | None = None) -> Response:
        """A topology of it, to be chosen in a campaign: 201; 200 where there is one already."""
        topology, new = reported_hosts.create_topology(self.get_object())
        context = self.get_serializer_context()
        return Response(
            TopologySerializer(topology, context=context).data, status=201 if new else 200
        )
