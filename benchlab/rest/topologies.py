# SPDX-License-Identifier: Apache-2.0
"""Topologies over REST, and the layer drivers that they are made of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.exceptions import ValidationError
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from benchlab.audit import request_notes
from benchlab.audit.subjects import describe_row, former_name
from benchlab.engine import dry_run
from benchlab.hosts import host_tasks
from benchlab.hosts.models import FactSnapshot, Host, HostTask
from benchlab.rest.host_serializers import DestroyedSerializer
from benchlab.rest.host_tasks import STILL_RUNNING, task_response
from benchlab.rest.lifecycle import ArchivableViewSet
from benchlab.topologies import plan_view, services
from benchlab.topologies.models import OnDegraded, Topology
from benchlab.web.api import (
    OwnRowField,
    Problem,
    ReadOnlyViewSet,
    TeamField,
    errors_by_field,
    pop_team,
    validate_storable,
    without_team,
)

EDITABLE_FIELDS = ("name", "description", "stack", "stages", "measure_resync", "on_degraded")


class TopologySerializer(serializers.ModelSerializer[Topology]):
    stack = serializers.ListField(
        child=serializers.DictField(),
        allow_empty=False,
        validators=[validate_storable],
        help_text="Layers, bottom up: {kind, options, devices: [{use, role, count}]}",
    )

    stages = serializers.ListField(
        child=serializers.DictField(),
        default=list,
        validators=[validate_storable],
        help_text="How it grows while it stands: {layer (1 is the lowest), options, devices, during: measure then too}",
    )
    measure_resync = serializers.BooleanField(
        default=False, help_text="Measure during the first resync too, not only after it"
    )

    on_degraded = serializers.ChoiceField(
        choices=OnDegraded.choices,
        default=OnDegraded.STOP,
        help_text="When something in it fails and it serves on: stop, or measure on and mark every run",
    )

    team = TeamField()

    class Meta:
        model = Topology
        fields = ["id", "team", *EDITABLE_FIELDS, "created_at", "archived_at"]
        # of a name that is taken the service tells
        validators: list[Any] = []


class OnHostSerializer(serializers.Serializer[Host]):
    host = OwnRowField[Host](queryset=Host.objects.all())


class DryRunWishSerializer(OnHostSerializer):
    snapshot = OwnRowField[FactSnapshot](
        queryset=FactSnapshot.objects.all(),
        required=False,
        help_text="Facts that were read of it; without it they are read now",
    )


class CommandSerializer(serializers.Serializer[plan_view.Command]):
    mark = serializers.CharField(
        help_text="+ makes what is undone afterwards, ~ changes a setting or waits, - destroys what is on a disk"
    )
    argv = serializers.ListField(child=serializers.CharField(), help_text="Secrets as ***")
    says = serializers.CharField()


class DryRunSerializer(serializers.Serializer[dry_run.DryRun]):
    fingerprint = serializers.CharField(help_text="Of the commands and the disks; empty: no plan")
    commands = CommandSerializer(many=True, source="plan.commands", default=list)
    destroys = DestroyedSerializer(many=True, source="plan.destroyed", default=list)
    says = serializers.CharField(
        source="plan.picture.says", default="", help_text="The stack in words"
    )
    missing = serializers.ListField(
        child=serializers.CharField(), source="missing.packages", help_text="Packages it lacks"
    )
    snapshot = serializers.IntegerField(
        source="snapshot.pk", default=None, allow_null=True, help_text="The facts it was made from"
    )
    error = serializers.CharField(help_text="Why it cannot be built; empty: it can")


class Topologies(ArchivableViewSet, mixins.CreateModelMixin, ReadOnlyViewSet[Topology]):
    """Named stacks of layers, bottom up, in terms of roles."""

    library = True
    queryset = Topology.objects.all()
    serializer_class = TopologySerializer
    filterset_fields = ["name"]
    ordering_fields = ["id", "name", "created_at"]

    @extend_schema(
        request=DryRunWishSerializer,
        responses={200: DryRunSerializer, 202: STILL_RUNNING, 400: Problem, 409: Problem},
    )
    @action(detail=True, methods=["post"])
    def plan(self, request: Request, pk: str | None = None) -> Response:
        """Dry run: what building it on a host would do, by facts read now. Nothing is changed there.

        After a 202: wait for that task, then ask again with its result's `snapshot`.
        """
        topology = self.get_object()
        serializer = DryRunWishSerializer(data=request.data, context=self.get_serializer_context())
        serializer.is_valid(raise_exception=True)
        host, snapshot = (
            serializer.validated_data["host"],
            serializer.validated_data.get("snapshot"),
        )
        if snapshot is None:
            row = host_tasks.request_task(host, "read_facts", request.user)
            return task_response(
                self,
                row,
                lambda finished: _dry_run_response(topology, host, _snapshot_of(finished)),
                _failed_reading,
            )
        if snapshot.host_id != host.pk:
            raise serializers.ValidationError({"snapshot": [f"It is of another host than {host}."]})
        return _dry_run_response(topology, host, snapshot)

    def perform_create(self, serializer: Any) -> None:
        values = serializer.validated_data
        team = pop_team(self.request.user, values)
        with _name_invalid_field():
            serializer.instance = services.create_topology(
                team=team, user=self.request.user, **values
            )

    @extend_schema(responses={200: TopologySerializer, 400: Problem})
    def partial_update(self, request: Request, pk: str | None = None) -> Response:
        """Another name, stack or stages. Layouts keep the stack that they were planned with."""
        row = self.get_object()
        serializer = self.get_serializer(row, data=request.data, partial=True)
        serializer.is_valid(raise_exception=True)
        now = {name: getattr(row, name) for name in EDITABLE_FIELDS}
        with _name_invalid_field():
            changed = services.change_topology(
                row, **now | without_team(row, serializer.validated_data)
            )
        change = f"{describe_row(changed)}{former_name(str(now['name']), changed.name)}"
        request_notes.note_subject(request, changed.team_id, change)
        return Response(self.get_serializer(changed).data)


def _snapshot_of(row: HostTask) -> FactSnapshot:
    return FactSnapshot.objects.get(pk=(row.result or {})["snapshot"])


def _failed_reading(row: HostTask) -> Response:
    return Response(DryRunSerializer(dry_run.failed_dry_run(row.host, row.error)).data)


def _dry_run_response(topology: Topology, host: Host, snapshot: FactSnapshot) -> Response:
    return Response(DryRunSerializer(dry_run.dry_run(topology, host, snapshot)).data)


@contextmanager
def _name_invalid_field() -> Iterator[None]:
    """A service's refusal, told of the field that it is about. Raises ValidationError."""
    try:
        yield
    except ValidationError as error:
        wrong = "stages" if error.messages[0].startswith("Stage ") else "stack"
        raise serializers.ValidationError(errors_by_field(error, wrong)) from None
