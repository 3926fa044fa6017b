# SPDX-License-Identifier: Apache-2.0
"""Topologies over REST."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.exceptions import ValidationError
from rest_framework import serializers
from rest_framework.response import Response

from benchlab.audit import request_notes
from benchlab.audit.subjects import describe_row, former_name
from benchlab.engine.checks import previews
from benchlab.hosts import host_tasks
from benchlab.hosts.models import FactSnapshot, Host, HostTask
from benchlab.rest.hosts import DestroyedSerializer
from benchlab.rest.operations import (
    STILL_RUNNING,
    ArchivableViewSet,
    ObjectListField,
    ObjectSerializer,
    TextListField,
    operation,
    task_response,
)
from benchlab.team.models import Team
from benchlab.topologies import services
from benchlab.topologies.models import OnDegraded, Topology
from benchlab.web.api import OwnRowField, TeamField, errors_by_field, validate_storable

EDITABLE_FIELDS = ("name", "description", "stack", "stages", "measure_resync", "on_degraded")


class TopologySerializer(serializers.ModelSerializer[Topology]):
    stack = ObjectListField(
        allow_empty=False,
        validators=[validate_storable],
        help_text="Layers, bottom up: {kind, options, devices: [{use, role, count}]}",
    )

    stages = ObjectListField(
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


class OnHostSerializer(ObjectSerializer):
    host = OwnRowField[Host](queryset=Host.objects.all())


class DryRunWishSerializer(OnHostSerializer):
    snapshot = OwnRowField[FactSnapshot](
        queryset=FactSnapshot.objects.all(),
        required=False,
        help_text="Facts that were read of it; without it they are read now",
    )


class CommandSerializer(ObjectSerializer):
    mark = serializers.CharField(
        help_text="+ makes what is undone afterwards, ~ changes a setting or waits, - destroys what is on a disk"
    )
    argv = TextListField(help_text="Secrets as ***")
    says = serializers.CharField()


class DryRunSerializer(ObjectSerializer):
    fingerprint = serializers.CharField(help_text="Of the commands and the disks; empty: no plan")
    commands = CommandSerializer(many=True, source="plan.commands", default=list)
    destroys = DestroyedSerializer(many=True, source="plan.destroyed", default=list)
    says = serializers.CharField(
        source="plan.picture.says", default="", help_text="The stack in words"
    )
    missing = TextListField(source="missing.packages", help_text="Packages it lacks")
    snapshot = serializers.IntegerField(
        source="snapshot.pk", default=None, allow_null=True, help_text="The facts it was made from"
    )
    error = serializers.CharField(help_text="Why it cannot be built; empty: it can")


class Topologies(ArchivableViewSet):
    """Named stacks of layers, bottom up, in terms of roles."""

    library = True
    queryset = Topology.objects.all()
    serializer_class = TopologySerializer
    filterset_fields = ["name"]
    ordering_fields = ["id", "name", "created_at"]

    @operation(DryRunWishSerializer, responses={200: DryRunSerializer, 202: STILL_RUNNING})
    def plan(
        self, topology: Topology, host: Host, snapshot: FactSnapshot | None = None
    ) -> Response:
        """Dry run: what building it on a host would do, by facts read now. Nothing is changed there.

        After a 202: wait for that task, then ask again with its result's `snapshot`.
        """
        if snapshot is None:
            row = host_tasks.request_task(host, "read_facts", self.request.user)
            return task_response(
                self,
                row,
                lambda finished: _dry_run_response(topology, host, _snapshot_of(finished)),
                _failed_reading,
            )
        if snapshot.host_id != host.pk:
            raise serializers.ValidationError({"snapshot": [f"It is of another host than {host}."]})
        return _dry_run_response(topology, host, snapshot)

    @operation()
    def create(self, team: Team, **values: Any) -> Topology:
        with _name_invalid_field():
            return services.create_topology(team=team, user=self.request.user, **values)

    @operation()
    def partial_update(self, topology: Topology, **values: Any) -> None:
        """Another name, stack or stages. Layouts keep the stack that they were planned with."""
        now = {name: getattr(topology, name) for name in EDITABLE_FIELDS}
        with _name_invalid_field():
            changed = services.change_topology(topology, **now | values)
        change = f"{describe_row(changed)}{former_name(str(now['name']), changed.name)}"
        request_notes.note_subject(self.request, changed.team_id, change)


def _snapshot_of(row: HostTask) -> FactSnapshot:
    return FactSnapshot.objects.get(pk=(row.result or {})["snapshot"])


def _failed_reading(row: HostTask) -> Response:
    return Response(DryRunSerializer(previews.failed_dry_run(row.host, row.error)).data)


def _dry_run_response(topology: Topology, host: Host, snapshot: FactSnapshot) -> Response:
    return Response(DryRunSerializer(previews.dry_run(topology, host, snapshot)).data)


@contextmanager
def _name_invalid_field() -> Iterator[None]:
    """A service's refusal, told of the field that it is about. Raises ValidationError."""
    try:
        yield
    except ValidationError as error:
        wrong = "stages" if error.messages[0].startswith("Stage ") else "stack"
        raise serializers.ValidationError(errors_by_field(error, wrong)) from None
