# SPDX-License-Identifier: Apache-2.0
"""Hosts, devices, credentials and fact snapshots over REST."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from agents.drivers.packages import NAME
from benchlab.dynamo import reported_hosts
from benchlab.dynamo.models import DynamoLogin
from benchlab.engine import host_cleanup
from benchlab.hosts import host_tasks, package_installs, registration, spare_disks, ssh_access
from benchlab.hosts.forms import KEY_FILE_MAX, validate_address, validate_user
from benchlab.hosts.models import (
    Credential,
    Device,
    FactSnapshot,
    Host,
    HostsError,
    HostTask,
    PackageInstall,
)
from benchlab.rest.operations import (
    STILL_RUNNING,
    ObjectSerializer,
    TextListField,
    operation,
    username,
)
from benchlab.team.models import Team
from benchlab.web.api import OwnRowField, ReadOnlyViewSet, TeamField
from benchlab.web.filters import KnownWordFilter, StrictFilterSet


class CredentialSerializer(serializers.ModelSerializer[Credential]):
    """The private key never leaves the server."""

    team = TeamField()
    private_key = serializers.CharField(
        write_only=True,
        required=False,
        max_length=KEY_FILE_MAX,
        help_text="One of yours, in OpenSSH or PEM form, without a passphrase; without it a pair is made",
    )

    class Meta:
        model = Credential
        fields = ["id", "team", "name", "private_key", "public_key", "uploaded", "created_at"]
        read_only_fields = ["public_key", "uploaded"]
        # of a name that is taken the service tells
        validators: list[Any] = []


class DynamoLoginSerializer(serializers.ModelSerializer[DynamoLogin]):
    is_accepted = serializers.BooleanField(
        read_only=True, help_text="Tests run only while this is true"
    )
    accepted_by = username("accepted_by", read_only=True)

    class Meta:
        model = DynamoLogin
        fields = [
            "name",
            "address",
            "port",
            "logged_in_at",
            "is_accepted",
            "accepted_port",
            "accepted_by",
            "accepted_at",
            "refusal",
            "refused_at",
        ]
        read_only_fields = fields


class AcceptDynamoSerializer(ObjectSerializer):
    port = serializers.IntegerField(
        min_value=0, max_value=65535, help_text="Its id: `dynamo_login.port` of the host"
    )
    same_machine = serializers.BooleanField(
        default=False,
        help_text="Only dynamo was started again there: keep spare marks and known sizes of test files",
    )


class HostSerializer(serializers.ModelSerializer[Host]):
    team = TeamField(help_text="Whose it is. Without it: its credential's team")
    address = serializers.CharField(
        max_length=255, validators=[validate_address], help_text="Host name or IP address"
    )
    port = serializers.IntegerField(min_value=1, max_value=65535, default=22)
    user = serializers.CharField(max_length=64, validators=[validate_user], default="root")
    credential = OwnRowField[Credential](
        queryset=Credential.objects.all(),
        allow_null=True,
        help_text="null: it is not reached by SSH; one that is added needs one",
    )
    trouble = serializers.CharField(
        read_only=True, help_text="Why it could not be used last time; empty when it could"
    )

    dynamo_login = DynamoLoginSerializer(
        read_only=True,
        allow_null=True,
        default=None,
        help_text="The dynamo that logged in as this host; null for other hosts",
    )

    class Meta:
        model = Host
        fields = [
            "id",
            "team",
            "name",
            "access",
            "address",
            "port",
            "user",
            "credential",
            "host_key",
            "offered_key",
            "is_local",
            "notes",
            "seen_at",
            "trouble",
            "trouble_text",
            "dynamo_login",
            "created_at",
        ]
        read_only_fields = [
            "access",
            "host_key",
            "offered_key",
            "is_local",
            "seen_at",
            "trouble_text",
        ]
        # of a name that is taken the service tells
        validators: list[Any] = []

    def validate_credential(self, credential: Credential | None) -> Credential:
        if credential is None:
            raise serializers.ValidationError("Give the id of a credential of your team.")
        if isinstance(self.instance, Host) and credential.team_id != self.instance.team_id:
            raise serializers.ValidationError(f"Key {credential.name} belongs to another team.")
        return credential


class DeviceSerializer(serializers.ModelSerializer[Device]):
    weak = serializers.BooleanField(
        read_only=True, help_text="Neither WWN nor serial: known by name and size only"
    )

    class Meta:
        model = Device
        fields = [
            "id",
            "host",
            "identity",
            "weak",
            "name",
            "model",
            "serial",
            "wwn",
            "size",
            "rotational",
            "rated_iops",
            "rated_bandwidth",
            "present",
            "in_use",
            "role",
            "spare",
            "spare_at",
        ]
        read_only_fields = [name for name in fields if not name.startswith("rated_")]


class FactSnapshotSerializer(serializers.ModelSerializer[FactSnapshot]):
    facts = serializers.DictField(help_text="As agents.facts reads them")

    class Meta:
        model = FactSnapshot
        fields = ["id", "host", "taken_at", "seen_at", "boot_id", "facts"]


class MissingProgramSerializer(ObjectSerializer):
    program = serializers.CharField()
    package = serializers.CharField(
        help_text="Package that provides it on this system; empty: not known"
    )
    minimum = serializers.CharField(help_text="Minimum version; empty: any")


class MissingSerializer(ObjectSerializer):
    programs = MissingProgramSerializer(many=True)
    packages = TextListField()
    command = serializers.CharField(source="command_line", help_text="What installs all of them")


class InstallSerializer(ObjectSerializer):
    packages = serializers.ListField(
        child=serializers.RegexField(rf"^{NAME.pattern}$", max_length=100), allow_empty=False
    )
    command = serializers.CharField(help_text="The command as a person saw and confirmed it")


class PackageInstallSerializer(serializers.ModelSerializer[PackageInstall]):
    argv = TextListField()
    silence = serializers.CharField(
        read_only=True, help_text="Why the host did not answer when it was last looked at"
    )

    class Meta:
        model = PackageInstall
        fields = [
            "id",
            "host",
            "argv",
            "created_at",
            "begun_at",
            "ended_at",
            "exit_code",
            "output",
            "trouble",
            "silence",
        ]


class FingerprintSerializer(ObjectSerializer):
    fingerprint = serializers.CharField(help_text="SHA256:… as the host itself prints it")


class SpareSerializer(ObjectSerializer):
    typed = serializers.CharField(help_text="The device's serial, else WWN, else name:size")
    role = serializers.CharField(help_text="hdd, ssd, nvme, …")


class DestroyedSerializer(ObjectSerializer):
    node = serializers.CharField(help_text="/dev/sdb")
    identity = serializers.CharField()
    model = serializers.CharField()
    serial = serializers.CharField()
    size = serializers.IntegerField(help_text="Bytes")
    holds = TextListField(help_text="What was found on it")


class OrphanSerializer(ObjectSerializer):
    name = serializers.CharField(help_text="Prefix of all its names")
    layout = serializers.IntegerField(source="layout.pk", default=None, allow_null=True)
    left = TextListField(help_text="Leftovers of it")
    destroys = DestroyedSerializer(many=True, help_text="Disks that taking it down wipes")
    why_not = serializers.CharField(help_text="Why it cannot be taken down; empty: it can")
    by_hand = TextListField(help_text="Commands, then")


class OrphansSerializer(ObjectSerializer):
    snapshot = serializers.IntegerField(allow_null=True, help_text="null: it was never read")
    orphans = OrphanSerializer(many=True)


HOST_OR_TASK = {200: HostSerializer, 202: STILL_RUNNING}


class Credentials(ReadOnlyViewSet[Credential]):
    """SSH key pairs. POST makes a new pair, or keeps a private key of yours."""

    queryset = Credential.objects.all()
    serializer_class = CredentialSerializer
    filterset_fields = ["name", "uploaded"]
    ordering_fields = ["id", "name", "created_at"]

    @operation(invalid=(HostsError,))
    def create(self, team: Team, name: str, private_key: str | None = None) -> Credential:
        if private_key is None:
            return registration.make_credential(team, name)
        return registration.upload_credential(team, name, private_key)

    @operation()
    def destroy(self, credential: Credential) -> None:
        """Delete one; 409 while hosts use it. Its line stays in the hosts' authorized_keys."""
        registration.delete_credential(credential)


class Hosts(ReadOnlyViewSet[Host]):
    """Machines reached by SSH. A new one is not trusted until its key is confirmed."""

    library = True
    queryset = Host.objects.select_related("credential", "dynamo_login__accepted_by")
    serializer_class = HostSerializer
    filterset_fields = ["name", "access", "address", "is_local", "credential"]
    ordering_fields = ["id", "name", "address", "seen_at", "created_at"]

    def default_team(self, values: dict[str, Any]) -> Team:
        team: Team = values["credential"].team
        return team

    @operation(invalid=(HostsError,))
    def create(self, team: Team, **values: Any) -> Host:
        return registration.add_host(team, **values)

    @operation(invalid=(HostsError,))
    def partial_update(self, host: Host, **values: Any) -> None:
        """Change the address of a host, and the key with which it is reached. Its own key stays pinned: see
        `offer-key`.
        """
        registration.change_host(host, **values)

    @operation()
    def destroy(self, host: Host) -> None:
        """Remove one; nothing is changed on the machine. 409 while results need it."""
        registration.delete_host(host)

    @operation(responses=HOST_OR_TASK)
    def offer_key(self, host: Host) -> HostTask:
        """Ask the host for its key; `offered_key` then waits for confirmation."""
        return host_tasks.request_task(host, "offer_key", self.request.user)

    @operation(FingerprintSerializer)
    def confirm_key(self, host: Host, fingerprint: str) -> None:
        """Pin the offered key, if this is its fingerprint."""
        ssh_access.confirm_key(host, fingerprint)

    @operation()
    def keep_key(self, host: Host) -> None:
        """Turn a changed key down: the host must show the pinned one. Safe to send twice."""
        ssh_access.keep_key(host)

    @operation(AcceptDynamoSerializer)
    def accept_dynamo(self, host: Host, port: int, same_machine: bool) -> None:
        """Let tests run on the dynamo with this id, which logged in last as this host (see `dynamo_login`)."""
        reported_hosts.accept_dynamo(host, self.request.user, port, same_machine)

    @operation(responses=HOST_OR_TASK)
    def read_facts(self, host: Host) -> HostTask:
        """Read the host's facts now and bring its devices up to date."""
        return host_tasks.request_task(host, "read_facts", self.request.user)

    @extend_schema(responses=MissingSerializer)
    @action(detail=True)
    def missing(self, request: Request, pk: str | None = None) -> Response:
        """Programs that layers or tools use and the host lacked when it was last read; nothing is installed."""
        missing = package_installs.missing_programs(self.get_object())
        return Response(MissingSerializer(missing).data)

    @operation(InstallSerializer, responses={201: PackageInstallSerializer})
    def install_packages(self, host: Host, packages: list[str], command: str) -> Response:
        """Have missing packages installed, if `command` is the very command that this takes. A worker does it."""
        row = package_installs.start_install(host, packages, command, self.request.user)
        return Response(PackageInstallSerializer(row).data, status=201)

    @extend_schema(responses=OrphansSerializer)
    @action(detail=True)
    def orphans(self, request: Request, pk: str | None = None) -> Response:
        """Remains that our layouts left there though they do not hold the host, by its newest facts.

        POST /api/layouts/{layout}/teardown/ with that snapshot takes one down.
        """
        host = self.get_object()
        latest = host.snapshots.first()
        leftovers = host_cleanup.find_orphans(host, latest) if latest else []
        values = {"snapshot": latest.pk if latest else None, "orphans": leftovers}
        return Response(OrphansSerializer(values).data)


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

    @operation()
    def partial_update(self, device: Device, **ratings: int | None) -> None:
        """Rated performance: IOPS and B/s of its data sheet, or of the cloud that lends it. null: not told."""
        # These alone: whether it is spare may be changed at the same moment
        if ratings:
            Device.objects.filter(pk=device.pk).update(**ratings)

    @operation(SpareSerializer)
    def mark_spare(self, device: Device, typed: str, role: str) -> None:
        """Allow BenchLab to destroy what is on this device."""
        spare_disks.mark_spare(device, self.request.user, typed, role)

    @operation()
    def unmark_spare(self, device: Device) -> None:
        """Take the permission back."""
        spare_disks.unmark_spare(device)


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
