# SPDX-License-Identifier: Apache-2.0
"""Functions of dynamo's pages over REST: its program, what dynamos report of their machines, the listener, and
IOmeter's configuration files.
"""

from __future__ import annotations

from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from agents.contracts import ParseError
from agents.dynamo import icf
from benchlab.campaigns.models import Workload
from benchlab.dynamo import iometer_files, program_check, programs, reported_hosts
from benchlab.dynamo.models import Binary, Reported
from benchlab.hosts import host_tasks
from benchlab.hosts.models import Host, HostTask
from benchlab.rest.campaigns import WorkloadSerializer
from benchlab.rest.operations import (
    STILL_RUNNING,
    ObjectSerializer,
    TextListField,
    operation,
    refusals,
    task_response,
    username,
)
from benchlab.rest.topologies import TopologySerializer
from benchlab.team.models import Team
from benchlab.web.api import (
    OwnRowField,
    ReadOnlyViewSet,
    SingleAnswerViewSet,
    TeamField,
    TeamViewSet,
    validate_storable,
)


class BinarySerializer(serializers.ModelSerializer[Binary]):
    option = serializers.CharField(help_text="A workload's option `binary`, to use this one")
    uploaded_by = username("uploaded_by", help_text="null: not known")

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


class UploadSerializer(ObjectSerializer):
    team = TeamField()
    program = serializers.FileField(
        help_text=f"The Linux build of dynamo 1.1.0 itself, at most {programs.MAX_PROGRAM_BYTES >> 20} MiB"
    )


class Programs(ReadOnlyViewSet[Binary]):
    """Uploaded dynamos. They run as root on the team's hosts, so only owners upload or delete one."""

    queryset = Binary.objects.defer("content").select_related("uploaded_by")
    serializer_class = BinarySerializer
    parser_classes = [MultiPartParser]
    filterset_fields = ["name", "version", "sha256"]
    ordering_fields = ["id", "name", "size", "created_at"]

    @operation(
        {"multipart/form-data": UploadSerializer},
        responses={200: BinarySerializer, 201: BinarySerializer},
        field="program",
        invalid=(program_check.Refused,),
    )
    def create(self, team: Team, program: UploadedFile[Any]) -> Response:
        """Upload one: 201; 200 where the team has it already."""
        row, new = programs.store_upload(team, self.request.user, program)
        return Response(self.get_serializer(row).data, status=201 if new else 200)

    @operation()
    def destroy(self, program: Binary) -> None:
        """Delete one; 409 while a workload or campaign names it."""
        programs.delete_program(program)


class CheckSerializer(ObjectSerializer):
    host = OwnRowField[Host](queryset=Host.objects.filter(access=Host.Access.SSH))
    path = serializers.CharField(
        max_length=400,
        default="dynamo",
        validators=[validate_storable],
        help_text="Its path there, or its name if it is on the PATH",
    )


class LookedSerializer(ObjectSerializer):
    path = serializers.CharField()
    size = serializers.IntegerField(help_text="Bytes")
    sha256 = serializers.CharField()
    version = serializers.CharField(help_text="Empty: not a supported version")
    troubles = TextListField(help_text="Why it cannot be used; empty: it can")


class Checks(TeamViewSet[Any]):
    """A dynamo on a host, looked at; nothing of it is run."""

    noun = "dynamocheck"
    queryset = Host.objects.all()
    serializer_class = CheckSerializer
    pagination_class = None
    ordering_fields = ()

    @operation(CheckSerializer, responses={200: LookedSerializer, 202: STILL_RUNNING})
    def create(self, host: Host, path: str) -> Response:
        """Version, SHA-256 and missing libraries of the program; 409 where the host is not reached."""
        row = host_tasks.request_task(host, "check_dynamo", self.request.user, path=path)
        return task_response(self, row, _check_response)


def _check_response(row: HostTask) -> Response:
    report = program_check.report_from_json(row.result or {})
    return Response(LookedSerializer(report).data)


class ListenerSerializer(ObjectSerializer):
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
    spare_by = username("spare_by")

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


class TypedSerializer(ObjectSerializer):
    typed = serializers.CharField(max_length=200, help_text="The disk's exact name")


class ReportedTargets(ReadOnlyViewSet[Reported]):
    """File systems and disks that a dynamo reports of a machine which only it reaches."""

    queryset = Reported.objects.select_related("host__team", "spare_by")
    serializer_class = ReportedSerializer
    filterset_fields = ["host", "name", "raw", "present", "ready"]
    ordering_fields = ["id", "host", "name", "seen_at", "spare_at"]

    @operation(TypedSerializer)
    def mark_spare(self, target: Reported, typed: str) -> None:
        """Allow BenchLab to destroy what is on this disk."""
        reported_hosts.mark_spare(target, self.request.user, typed)

    @operation()
    def unmark_spare(self, target: Reported) -> None:
        """Take the permission back."""
        reported_hosts.unmark_spare(target)

    @operation(responses={200: TopologySerializer, 201: TopologySerializer})
    def topology(self, target: Reported) -> Response:
        """A topology of it, to be chosen in a campaign: 201; 200 where there is one already."""
        topology, new = reported_hosts.create_topology(target)
        serializer = TopologySerializer(topology, context=self.get_serializer_context())
        return Response(serializer.data, status=201 if new else 200)


class IcfSerializer(ObjectSerializer):
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


class DescribedSerializer(ObjectSerializer):
    number = serializers.IntegerField(help_text="In the file, from 0: what `take` names")
    name = serializers.CharField()
    description = serializers.CharField(help_text="The file's Test Description")
    options = serializers.DictField()
    sweep = serializers.DictField()
    notes = TextListField(help_text="Not taken over")
    trouble = serializers.CharField(help_text="Why it cannot be run; empty: it can")


class FoundInSerializer(ObjectSerializer):
    found = DescribedSerializer(many=True)
    made = WorkloadSerializer(many=True)


class IcfFiles(TeamViewSet[Any]):
    """IOmeter's configuration files, read. The other way is /api/workloads/{id}/icf/."""

    noun = "icf"
    queryset = Workload.objects.all()
    serializer_class = IcfSerializer
    pagination_class = None
    ordering_fields = ()

    @operation(
        responses={200: FoundInSerializer, 201: FoundInSerializer},
        field="text",
        invalid=(ParseError,),
    )
    def create(self, team: Team, text: str, take: list[int]) -> Response:
        """Show what becomes of a file: 200. With `take` those workloads are made: 201."""
        descriptions = icf.read_workloads(text)
        if unknown := sorted(number for number in take if number >= len(descriptions)):
            last = len(descriptions) - 1
            message = f"There is no number {unknown[0]}; the file has 0 to {last}."
            raise serializers.ValidationError({"take": [message]})
        with refusals("take"), transaction.atomic():
            workloads = [
                iometer_files.create_icf_workload(
                    team=team,
                    user=self.request.user,
                    name=descriptions[number].name,
                    options=descriptions[number].options,
                    sweep=descriptions[number].sweep,
                    description=descriptions[number].description,
                )
                for number in dict.fromkeys(take)
            ]
        found = [{"number": n, **vars(workload)} for n, workload in enumerate(descriptions)]
        serializer = FoundInSerializer(
            {"found": found, "made": workloads}, context=self.get_serializer_context()
        )
        return Response(serializer.data, status=201 if workloads else 200)
