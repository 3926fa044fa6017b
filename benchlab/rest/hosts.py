# SPDX-License-Identifier: Apache-2.0
"""Hosts, devices, credentials and fact snapshots over REST."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from benchlab.dynamo import reported_hosts
from benchlab.engine import orphans
from benchlab.hosts import (
    credentials,
    host_tasks,
    package_installs,
    registration,
    spare_disks,
    ssh_access,
)
from benchlab.hosts.errors import HostsError
from benchlab.hosts.models import Credential, Device, FactSnapshot, Host, PackageInstall
from benchlab.rest.host_serializers import (
    AcceptDynamoSerializer,
    CredentialSerializer,
    DeviceSerializer,
    FactSnapshotSerializer,
    FingerprintSerializer,
    HostSerializer,
    InstallSerializer,
    MissingSerializer,
    OrphansSerializer,
    PackageInstallSerializer,
    SpareSerializer,
)
from benchlab.rest.host_tasks import STILL_RUNNING, task_response
from benchlab.web.api import Conflict, Problem, ReadOnlyViewSet, pop_team, without_team
from benchlab.web.filters import KnownWordFilter, StrictFilterSet


def or_invalid(make: Any, *args: Any, **fields: Any) -> Any:
    """Result of `make`; its refusal (the name is taken) is the request's fault."""
    try:
        return make(*args, **fields)
    except HostsError as error:
        raise serializers.ValidationError(str(error)) from None


def or_conflict(act: Any, *args: Any) -> Any:
    """Result of `act`; its refusal is a conflict with how things are."""
    try:
        return act(*args)
    except HostsError as error:
        raise Conflict(str(error)) from None


class Credentials(mixins.CreateModelMixin, ReadOnlyViewSet[Credential]):
    """SSH key pairs. POST makes a new pair, or keeps a private key of yours."""

    queryset = Credential.objects.all()
    serializer_class = CredentialSerializer
    filterset_fields = ["name", "uploaded"]
    ordering_fields = ["id", "name", "created_at"]

    def perform_create(self, serializer: Any) -> None:
        values = serializer.validated_data
        team = pop_team(self.request.user, values)
        if (private := values.get("private_key")) is None:
            serializer.instance = or_invalid(credentials.make_credential, team, values["name"])
        else:
            serializer.instance = or_invalid(
                credentials.upload_credential, team, values["name"], private
            )

    @extend_schema(responses={204: None, 409: Problem})
    def destroy(self, request: Request, pk: str | None = None) -> Response:
        """Delete one; 409 while hosts use it. Its line stays in the hosts' authorized_keys."""
        or_conflict(credentials.delete_credential, self.get_object())
        return Response(status=204)


class Hosts(mixins.CreateModelMixin, ReadOnlyViewSet[Host]):
    """Machines reached by SSH. A new one is not trusted until its key is confirmed."""

    library = True
    queryset = Host.objects.select_related("credential", "dynamo_login__accepted_by")
    serializer_class = HostSerializer
    filterset_fields = ["name", "access", "address", "is_local", "credential"]
    ordering_fields = ["id", "name", "address", "seen_at", "created_at"]

    def perform_create(self, serializer: Any) -> None:
        values = serializer.validated_data
        team = values.pop("team", None) or values["credential"].team
        serializer.instance = or_invalid(registration.add_host, team, **values)

    @extend_schema(responses={200: HostSerializer, 400: Problem})
    def partial_update(self, request: Request, pk: str | None = None) -> Response:
        """Change the address of a host, and the key with which it is reached. Its own key stays pinned: see
        `offer-key`.
        """
        host = self.get_object()
        serializer = self.get_serializer(host, data=request.data, partial=True)
        serializer.is_valid(raise_exception=True)
        or_invalid(registration.change_host, host, **without_team(host, serializer.validated_data))
        return Response(self.get_serializer(self.get_object()).data)

    @extend_schema(responses={204: None, 409: Problem})
    def destroy(self, request: Request, pk: str | None = None) -> Response:
        """Remove one; nothing is changed on the machine. 409 while results need it."""
        or_conflict(registration.delete_host, self.get_object())
        return Response(status=204)

    @extend_schema(request=None, responses={200: HostSerializer, 202: STILL_RUNNING, 409: Problem})
    @action(detail=True, methods=["post"], url_path="offer-key")
    def offer_key(self, request: Request, pk: str | None = None) -> Response:
        """Ask the host for its key; `offered_key` then waits for confirmation."""
        return self._queue_task("offer_key")

    @extend_schema(
        request=FingerprintSerializer, responses={200: HostSerializer, 400: Problem, 409: Problem}
    )
    @action(detail=True, methods=["post"], url_path="confirm-key")
    def confirm_key(self, request: Request, pk: str | None = None) -> Response:
        """Pin the offered key, if this is its fingerprint."""
        serializer = FingerprintSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        return self._change_host(ssh_access.confirm_key, serializer.validated_data["fingerprint"])

    @extend_schema(request=None, responses={200: HostSerializer})
    @action(detail=True, methods=["post"], url_path="keep-key")
    def keep_key(self, request: Request, pk: str | None = None) -> Response:
        """Turn a changed key down: the host must show the pinned one. Safe to send twice."""
        return self._change_host(ssh_access.keep_key)

    @extend_schema(
        request=AcceptDynamoSerializer, responses={200: HostSerializer, 400: Problem, 409: Problem}
    )
    @action(detail=True, methods=["post"], url_path="accept-dynamo")
    def accept_dynamo(self, request: Request, pk: str | None = None) -> Response:
        """Let tests run on the dynamo with this id, which logged in last as this host (see `dynamo_login`)."""
        serializer = AcceptDynamoSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        try:
            reported_hosts.accept_dynamo(
                self.get_object(),
                request.user,
                serializer.validated_data["port"],
                serializer.validated_data["same_machine"],
            )
        except reported_hosts.Refused as error:
            raise Conflict(str(error)) from None
        return Response(self.get_serializer(self.get_object()).data)

    @extend_schema(request=None, responses={200: HostSerializer, 202: STILL_RUNNING, 409: Problem})
    @action(detail=True, methods=["post"], url_path="read-facts")
    def read_facts(self, request: Request, pk: str | None = None) -> Response:
        """Read the host's facts now and bring its devices up to date."""
        return self._queue_task("read_facts")

    @extend_schema(responses={200: MissingSerializer})
    @action(detail=True, methods=["get"])
    def missing(self, request: Request, pk: str | None = None) -> Response:
        """Programs that layers or tools use and the host lacked when it was last read; nothing is installed."""
        return Response(
            MissingSerializer(package_installs.missing_programs(self.get_object())).data
        )

    @extend_schema(
        request=InstallSerializer,
        responses={201: PackageInstallSerializer, 400: Problem, 409: Problem},
    )
    @action(detail=True, methods=["post"], url_path="install-packages")
    def install_packages(self, request: Request, pk: str | None = None) -> Response:
        """Have missing packages installed, if `command` is the very command that this takes. A worker does it."""
        serializer = InstallSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        chosen, confirmed = (
            serializer.validated_data["packages"],
            serializer.validated_data["command"],
        )
        row = or_conflict(
            package_installs.start_install, self.get_object(), chosen, confirmed, request.user
        )
        return Response(PackageInstallSerializer(row).data, status=201)

    @extend_schema(responses={200: OrphansSerializer})
    @action(detail=True, methods=["get"])
    def orphans(self, request: Request, pk: str | None = None) -> Response:
        """Remains that our layouts left there though they do not hold the host, by its newest facts.

        POST /api/layouts/{layout}/teardown/ with that snapshot takes one down.
        """
        host = self.get_object()
        latest = host.snapshots.first()
        leftovers = orphans.find_orphans(host, latest) if latest else []
        values = {"snapshot": latest.pk if latest else None, "orphans": leftovers}
        return Response(OrphansSerializer(values).data)

    def _queue_task(self, kind: str) -> Response:
        row = host_tasks.request_task(self.get_object(), kind, self.request.user)
        return task_response(
            self, row, lambda _: Response(self.get_serializer(self.get_object()).data)
        )

    def _change_host(self, act: Any, *args: Any) -> Response:
        host = self.get_object()
        or_conflict(act, host, *args)
        host.refresh_from_db()
        return Response(self.get_serializer(host).data)


class DeviceFilter(StrictFilterSet):
    role = KnownWordFilter()

    class Meta:
        model = Device
        fields: ClassVar = ["host", "spare", "role", "present", "name", "serial", "wwn"]


class Devices(ReadOnlyViewSet[Device]):
    """Whole disks. Spare only by confirmation: `mark-spare` with the typed serial."""

    queryset = Device.objects.all()
    serializer_class = DeviceSerializer
    filterset_class = DeviceFilter
    ordering_fields = ["id", "host", "name", "size", "spare_at"]

    @extend_schema(responses={200: DeviceSerializer, 400: Problem})
    def partial_update(self, request: Request, pk: str | None = None) -> Response:
        """Rated performance: IOPS and B/s of its data sheet, or of the cloud that lends it. null: not told."""
        device = self.get_object()
        serializer = self.get_serializer(device, data=request.data, partial=True)
        serializer.is_valid(raise_exception=True)
        # These alone: whether it is spare may be changed at the same moment
        if serializer.validated_data:
            Device.objects.filter(pk=device.pk).update(**serializer.validated_data)
        return Response(self.get_serializer(self.get_object()).data)

    @extend_schema(
        request=SpareSerializer, responses={200: DeviceSerializer, 400: Problem, 409: Problem}
    )
    @action(detail=True, methods=["post"], url_path="mark-spare")
    def mark_spare(self, request: Request, pk: str | None = None) -> Response:
        """Allow BenchLab to destroy what is on this device."""
        serializer = SpareSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        return self._change_device(
            spare_disks.mark_spare,
            request.user,
            serializer.validated_data["typed"],
            serializer.validated_data["role"],
        )

    @extend_schema(request=None, responses={200: DeviceSerializer, 409: Problem})
    @action(detail=True, methods=["post"], url_path="unmark-spare")
    def unmark_spare(self, request: Request, pk: str | None = None) -> Response:
        """Take the permission back."""
        return self._change_device(spare_disks.unmark_spare)

    def _change_device(self, act: Any, *args: Any) -> Response:
        device = self.get_object()
        or_conflict(act, device, *args)
        device.refresh_from_db()
        return Response(self.get_serializer(device).data)


class PackageInstalls(ReadOnlyViewSet[PackageInstall]):
    """Packages that a person had installed on a host, as far as a worker saw it: it looks every few seconds."""

    queryset = PackageInstall.objects.all()
    serializer_class = PackageInstallSerializer
    filterset_fields = ["host"]
    ordering_fields = ["id", "created_at", "ended_at"]


class FactSnapshots(ReadOnlyViewSet[FactSnapshot]):
    """Facts of a host at a time: kernel, devices, mounts, tools. `seen_at`: when a reading found the same the last
    time.
    """

    queryset = FactSnapshot.objects.all()
    serializer_class = FactSnapshotSerializer
    filterset_fields = ["host"]
    ordering_fields = ["id", "taken_at"]
