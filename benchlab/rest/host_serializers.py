# SPDX-License-Identifier: Apache-2.0
"""Hosts and what is on them, as JSON tells it."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from agents.drivers.packages import NAME
from agents.plans.applied_part import Destroyed
from benchlab.dynamo.models import DynamoLogin
from benchlab.engine import orphans
from benchlab.hosts import host_tasks
from benchlab.hosts.forms import KEY_FILE_MAX, validate_address, validate_user
from benchlab.hosts.models import Credential, Device, FactSnapshot, Host, HostTask, PackageInstall
from benchlab.web.api import OwnRowField, TeamField


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
    accepted_by = serializers.CharField(
        source="accepted_by.username", default=None, allow_null=True, read_only=True
    )

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


class AcceptDynamoSerializer(serializers.Serializer[dict[str, Any]]):
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


class MissingProgramSerializer(serializers.Serializer[Any]):
    program = serializers.CharField()
    package = serializers.CharField(
        help_text="Package that provides it on this system; empty: not known"
    )
    minimum = serializers.CharField(help_text="Minimum version; empty: any")


class MissingSerializer(serializers.Serializer[Any]):
    programs = MissingProgramSerializer(many=True)
    packages = serializers.ListField(child=serializers.CharField())
    command = serializers.CharField(source="command_line", help_text="What installs all of them")


class InstallSerializer(serializers.Serializer[dict[str, Any]]):
    packages = serializers.ListField(
        child=serializers.RegexField(rf"^{NAME.pattern}$", max_length=100), allow_empty=False
    )
    command = serializers.CharField(help_text="The command as a person saw and confirmed it")


class PackageInstallSerializer(serializers.ModelSerializer[PackageInstall]):
    argv = serializers.ListField(child=serializers.CharField())
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


class HostTaskSerializer(serializers.ModelSerializer[HostTask]):
    kind = serializers.ChoiceField(choices=sorted(host_tasks.KINDS))
    by = serializers.CharField(source="by.username", default=None, allow_null=True)
    state = serializers.SerializerMethodField(help_text="waiting, running, done or failed")
    result = serializers.DictField(
        allow_null=True, help_text="What it found; of read_facts the id of the snapshot"
    )

    class Meta:
        model = HostTask
        fields = [
            "id",
            "host",
            "kind",
            "by",
            "state",
            "created_at",
            "started_at",
            "ended_at",
            "error",
            "result",
        ]

    def get_state(self, row: HostTask) -> str:
        if row.ended_at is not None:
            return "failed" if row.error else "done"
        return "running" if row.started_at else "waiting"


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
    name = serializers.CharField(help_text="Prefix of all its names")
    layout = serializers.IntegerField(source="layout.pk", default=None, allow_null=True)
    left = serializers.ListField(child=serializers.CharField(), help_text="Leftovers of it")
    destroys = DestroyedSerializer(many=True, help_text="Disks that taking it down wipes")
    why_not = serializers.CharField(help_text="Why it cannot be taken down; empty: it can")
    by_hand = serializers.ListField(child=serializers.CharField(), help_text="Commands, then")


class OrphansSerializer(serializers.Serializer[dict[str, Any]]):
    snapshot = serializers.IntegerField(allow_null=True, help_text="null: it was never read")
    orphans = OrphanSerializer(many=True)
