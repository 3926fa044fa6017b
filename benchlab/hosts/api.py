"""Hosts, devices, credentials and fact snapshots over REST."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from agents.contracts import AgentError
from agents.destroyed import Destroyed
from agents.packages import NAME
from benchlab.api import Conflict, OwnRow, Problem, ReadOnly, Whose, taken
from benchlab.hosts import services
from benchlab.hosts.errors import HostsError
from benchlab.hosts.forms import a_user, an_address
from benchlab.hosts.models import Credential, Device, FactSnapshot, Host, PackageInstall
from benchlab.runs import orphans


class CredentialSerializer(serializers.ModelSerializer[Credential]):
    """The private key never leaves the server."""

    team = Whose()

    class Meta:
        model = Credential
        fields = ["id", "team", "name", "public_key", "uploaded", "created_at"]
        read_only_fields = ["public_key", "uploaded"]
        validators: list[Any] = []  # of a name that is taken the service tells


class HostSerializer(serializers.ModelSerializer[Host]):
    team = Whose(help_text="Whose it is. Without it: its credential's team")
    address = serializers.CharField(
        max_length=255, validators=[an_address], help_text="Host name or IP address"
    )
    port = serializers.IntegerField(min_value=1, max_value=65535, default=22)
    user = serializers.CharField(max_length=64, validators=[a_user], default="root")
    credential = OwnRow[Credential](
        queryset=Credential.objects.all(),
        allow_null=True,
        help_text="null: it is not reached by SSH; one that is added needs one",
    )
    trouble = serializers.CharField(
        read_only=True, help_text="Why it could not be used last time; empty when it could"
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
        validators: list[Any] = []  # of a name that is taken the service tells

    def validate_credential(self, credential: Credential | None) -> Credential:
        if credential is None:
            raise serializers.ValidationError("Give the id of a credential of your team.")
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
            "present",
            "in_use",
            "role",
            "spare",
            "spare_at",
        ]


class FactSnapshotSerializer(serializers.ModelSerializer[FactSnapshot]):
    facts = serializers.DictField(help_text="As agents.facts reads them")

    class Meta:
        model = FactSnapshot
        fields = ["id", "host", "taken_at", "boot_id", "facts"]


class MissingProgramSerializer(serializers.Serializer[Any]):
    program = serializers.CharField()
    package = serializers.CharField(help_text="What brings it on this system; empty: not known")
    minimum = serializers.CharField(help_text="The oldest version that will do; empty: any")


class MissingSerializer(serializers.Serializer[Any]):
    programs = MissingProgramSerializer(many=True)
    packages = serializers.ListField(child=serializers.CharField())
    command = serializers.CharField(source="shown", help_text="What installs all of them")


class InstallSerializer(serializers.Serializer[dict[str, Any]]):
    packages = serializers.ListField(
        child=serializers.RegexField(rf"^{NAME.pattern}$", max_length=100), allow_empty=False
    )
    command = serializers.CharField(help_text="The command as a person saw and confirmed it")


class PackageInstallSerializer(serializers.ModelSerializer[PackageInstall]):
    argv = serializers.ListField(child=serializers.CharField())

    class Meta:
        model = PackageInstall
        fields = [
            "id",
            "host",
            "argv",
            "created_at",
            "ended_at",
            "exit_code",
            "output",
            "trouble",
        ]


class FingerprintSerializer(serializers.Serializer[dict[str, str]]):
    fingerprint = serializers.CharField(help_text="SHA256:… as the host itself prints it")


class SpareSerializer(serializers.Serializer[dict[str, str]]):
    typed = serializers.CharField(help_text="The device's serial, else WWN, else name:size")
    role = serializers.CharField(help_text="hdd, ssd, nvme, …")


class DestroyedSerializer(serializers.Serializer[Destroyed]):
    node = serializers.CharField(help_text="/dev/sdb")
    identity = serializers.CharField()
    model = serializers.CharField()
    serial = serializers.CharField()
    size = serializers.IntegerField(help_text="Bytes")
    holds = serializers.ListField(child=serializers.CharField(), help_text="What was found on it")


class OrphanSerializer(serializers.Serializer[orphans.Orphan]):
    name = serializers.CharField(help_text="With which all its names begin")
    layout = serializers.IntegerField(source="layout.pk", default=None, allow_null=True)
    left = serializers.ListField(child=serializers.CharField(), help_text="What of it is there")
    destroys = DestroyedSerializer(many=True, help_text="Disks that taking it down wipes")
    why_not = serializers.CharField(help_text="Why it cannot be taken down; empty: it can")
    by_hand = serializers.ListField(child=serializers.CharField(), help_text="Commands, then")


class OrphansSerializer(serializers.Serializer[dict[str, Any]]):
    snapshot = serializers.IntegerField(allow_null=True, help_text="null: it was never read")
    orphans = OrphanSerializer(many=True)


def added(make: Any, *args: Any, **fields: Any) -> Any:
    """What `make` gives; its refusal (the name is taken) is the request's fault."""
    try:
        return make(*args, **fields)
    except HostsError as error:
        raise serializers.ValidationError(str(error)) from None


class Credentials(mixins.CreateModelMixin, ReadOnly[Credential]):
    """SSH key pairs. POST makes a new pair."""

    queryset = Credential.objects.all()
    serializer_class = CredentialSerializer
    filterset_fields = ["name", "uploaded"]
    ordering_fields = ["id", "name", "created_at"]

    def perform_create(self, serializer: Any) -> None:
        sent = serializer.validated_data
        team = taken(self.request.user, sent)
        serializer.instance = added(services.make_credential, team, **sent)


class Hosts(mixins.CreateModelMixin, ReadOnly[Host]):
    """Machines reached by SSH. A new one is not trusted until its key is confirmed."""

    library = True
    queryset = Host.objects.select_related("credential")
    serializer_class = HostSerializer
    filterset_fields = ["name", "access", "address", "is_local", "credential"]
    ordering_fields = ["id", "name", "address", "seen_at", "created_at"]

    def perform_create(self, serializer: Any) -> None:
        sent = serializer.validated_data
        team = sent.pop("team", None) or sent["credential"].team
        serializer.instance = added(services.add_host, team, **sent)

    @extend_schema(request=None, responses={200: HostSerializer, 409: Problem})
    @action(detail=True, methods=["post"], url_path="offer-key")
    def offer_key(self, request: Request, pk: str | None = None) -> Response:
        """Ask the host for its key; `offered_key` then waits for confirmation."""
        return self._do(services.offer_key)

    @extend_schema(
        request=FingerprintSerializer, responses={200: HostSerializer, 400: Problem, 409: Problem}
    )
    @action(detail=True, methods=["post"], url_path="confirm-key")
    def confirm_key(self, request: Request, pk: str | None = None) -> Response:
        """Pin the offered key, if this is its fingerprint."""
        sent = FingerprintSerializer(data=request.data)
        sent.is_valid(raise_exception=True)
        return self._do(services.confirm_key, sent.validated_data["fingerprint"])

    @extend_schema(request=None, responses={200: HostSerializer, 409: Problem})
    @action(detail=True, methods=["post"], url_path="read-facts")
    def read_facts(self, request: Request, pk: str | None = None) -> Response:
        """Read the host's facts now and bring its devices up to date."""
        return self._do(services.read_facts)

    @extend_schema(responses={200: MissingSerializer})
    @action(detail=True, methods=["get"])
    def missing(self, request: Request, pk: str | None = None) -> Response:
        """Programs that layers or tools use and the host lacked when it was last read; nothing is installed."""
        return Response(MissingSerializer(services.missing(self.get_object())).data)

    @extend_schema(
        request=InstallSerializer,
        responses={201: PackageInstallSerializer, 400: Problem, 409: Problem},
    )
    @action(detail=True, methods=["post"], url_path="install-packages")
    def install_packages(self, request: Request, pk: str | None = None) -> Response:
        """Install missing packages, if `command` is the very command that this takes."""
        sent = InstallSerializer(data=request.data)
        sent.is_valid(raise_exception=True)
        chosen, confirmed = sent.validated_data["packages"], sent.validated_data["command"]
        try:
            row = services.install(self.get_object(), chosen, confirmed, request.user)
        except (AgentError, HostsError) as error:
            raise Conflict(str(error)) from None
        return Response(PackageInstallSerializer(row).data, status=201)

    @extend_schema(responses={200: OrphansSerializer})
    @action(detail=True, methods=["get"])
    def orphans(self, request: Request, pk: str | None = None) -> Response:
        """What our layouts left there though they do not hold the host, by its newest facts.

        POST /api/layouts/{layout}/teardown/ with that snapshot takes one down.
        """
        host = self.get_object()
        latest = host.snapshots.first()
        found = orphans.of(host, latest) if latest else []
        told = {"snapshot": latest.pk if latest else None, "orphans": found}
        return Response(OrphansSerializer(told).data)

    def _do(self, act: Any, *args: Any) -> Response:
        host = self.get_object()
        try:
            act(host, *args)
        except (AgentError, HostsError) as error:
            raise Conflict(str(error)) from None
        host.refresh_from_db()
        return Response(self.get_serializer(host).data)


class Devices(ReadOnly[Device]):
    """Whole disks. Spare only by confirmation: `mark-spare` with the typed serial."""

    queryset = Device.objects.all()
    serializer_class = DeviceSerializer
    filterset_fields = ["host", "spare", "role", "present", "name", "serial", "wwn"]
    ordering_fields = ["id", "host", "name", "size", "spare_at"]

    @extend_schema(
        request=SpareSerializer, responses={200: DeviceSerializer, 400: Problem, 409: Problem}
    )
    @action(detail=True, methods=["post"], url_path="mark-spare")
    def mark_spare(self, request: Request, pk: str | None = None) -> Response:
        """Allow BenchLab to destroy what is on this device."""
        sent = SpareSerializer(data=request.data)
        sent.is_valid(raise_exception=True)
        return self._do(
            services.mark_spare,
            request.user,
            sent.validated_data["typed"],
            sent.validated_data["role"],
        )

    @extend_schema(request=None, responses={200: DeviceSerializer, 409: Problem})
    @action(detail=True, methods=["post"], url_path="unmark-spare")
    def unmark_spare(self, request: Request, pk: str | None = None) -> Response:
        """Take the permission back."""
        return self._do(services.unmark_spare)

    def _do(self, act: Any, *args: Any) -> Response:
        device = self.get_object()
        try:
            act(device, *args)
        except (AgentError, HostsError) as error:
            raise Conflict(str(error)) from None
        device.refresh_from_db()
        return Response(self.get_serializer(device).data)


class PackageInstalls(ReadOnly[PackageInstall]):
    """Packages that a person had installed on a host. Reading one that runs looks how far it is."""

    queryset = PackageInstall.objects.select_related("host__credential")
    serializer_class = PackageInstallSerializer
    filterset_fields = ["host"]
    ordering_fields = ["id", "created_at", "ended_at"]

    @extend_schema(responses={200: PackageInstallSerializer, 409: Problem})
    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        try:
            row = services.follow_install(self.get_object())
        except AgentError as error:
            raise Conflict(str(error)) from None
        return Response(self.get_serializer(row).data)


class FactSnapshots(ReadOnly[FactSnapshot]):
    """What a host was like at one moment: kernel, devices, mounts, tools."""

    queryset = FactSnapshot.objects.all()
    serializer_class = FactSnapshotSerializer
    filterset_fields = ["host"]
    ordering_fields = ["id", "taken_at"]
