# SPDX-License-Identifier: Apache-2.0
"""Serializers of the import's API."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from benchlab.hosts.models import Host
from benchlab.imports import agreements, draft_store, drafts, source_disks
from benchlab.imports.agreements import MOST_OUTSTANDING, ResultChoice
from benchlab.imports.drafts import LOG_UNITS
from benchlab.imports.models import Draft, DraftFile, Source
from benchlab.topologies.models import Topology
from benchlab.web.api import OwnRowField, TeamField, validate_storable

GREATEST = 2**63 - 1


# benchlab/imports/draft_store.py, State
STATES = "reading, read, storing or stored; only what is read can be agreed to"


class MetricSerializer(serializers.Serializer[dict[str, Any]]):
    name = serializers.CharField()
    value = serializers.FloatField(allow_null=True, help_text="null: n/a, see note")
    unit = serializers.CharField(help_text="base units: B/s, op/s, s, B, 1")
    labels = serializers.DictField(child=serializers.CharField())
    note = serializers.CharField()
    line = serializers.IntegerField(help_text="of the file, from 1; 0: nowhere in particular")


class SeriesSummarySerializer(serializers.Serializer[dict[str, Any]]):
    device = serializers.CharField()
    metric = serializers.CharField()
    unit = serializers.CharField()
    samples = serializers.IntegerField()
    seconds = serializers.FloatField(allow_null=True)


class FoundSerializer(serializers.Serializer[dict[str, Any]]):
    kind = serializers.CharField()
    first = serializers.IntegerField(help_text="line of the file, from 1")
    last = serializers.IntegerField()
    title = serializers.CharField()
    tool = serializers.CharField()
    version = serializers.CharField()
    command = serializers.CharField()
    options = serializers.DictField()
    point = serializers.DictField()
    outstanding = serializers.IntegerField(allow_null=True)
    described = serializers.BooleanField(
        default=False, help_text="Nothing was measured: it is stored as a workload"
    )
    sweep = serializers.DictField(default=dict, help_text="of a workload: options as lists")
    varies = serializers.CharField(
        default="",
        help_text="A sweep in one table: each value of this label is stored as a run of its own",
    )
    notes = serializers.ListField(child=serializers.CharField())
    trouble = serializers.CharField(help_text="Why it cannot be read; empty: it can")
    needs = serializers.CharField(
        default="",
        help_text="What the text leaves open: say it as `log_unit`, unless a result of fio in the same folder tells",
    )
    metrics = MetricSerializer(many=True)
    series = SeriesSummarySerializer(many=True)


class UnreadSerializer(serializers.Serializer[dict[str, Any]]):
    first = serializers.IntegerField()
    last = serializers.IntegerField()
    text = serializers.CharField(help_text="The beginning of the first line")


class FailedSerializer(serializers.Serializer[agreements.FailedResult]):
    file = serializers.CharField(help_text="its name; it was kept as a source")
    first = serializers.IntegerField(help_text="line of the file, from 1")
    says = serializers.CharField()


class StandingSerializer(serializers.Serializer[dict[str, Any]]):
    """Progress of storing what was agreed to."""

    id = serializers.IntegerField(help_text="of the draft")
    state = serializers.CharField(help_text=STATES)
    wanted = serializers.IntegerField(help_text="results and workloads that were agreed to")
    stored = serializers.IntegerField(help_text="of those wanted, so far")
    campaign = serializers.IntegerField(
        allow_null=True,
        help_text="its id, once all is stored; null too where there are workloads only",
    )
    workloads = serializers.ListField(child=serializers.IntegerField())
    failed = FailedSerializer(many=True)
    trouble = serializers.CharField(
        help_text="Why nothing was stored; the draft can be agreed to again"
    )


class DraftFileSerializer(serializers.ModelSerializer[DraftFile]):
    imported = serializers.SerializerMethodField(
        help_text="The campaign that has a file of the same content already"
    )
    notes = serializers.ListField(child=serializers.CharField())
    found = FoundSerializer(many=True, source="reading.found", default=list)
    unread = UnreadSerializer(many=True, source="reading.unread", default=list)

    class Meta:
        model = DraftFile
        fields = [
            "id",
            "name",
            "size",
            "sha256",
            "lines",
            "trouble",
            "notes",
            "imported",
            "found",
            "unread",
        ]

    def get_imported(self, file: DraftFile) -> int | None:
        campaign = self.context.get("known", {}).get(file.sha256)
        return campaign.pk if campaign else None


class DraftSerializer(serializers.ModelSerializer[Draft]):
    state = serializers.SerializerMethodField(help_text=STATES)
    trouble = serializers.CharField(help_text="Why storing it failed")

    class Meta:
        model = Draft
        fields = ["id", "team", "name", "created_at", "state", "trouble"]

    def get_state(self, draft: Draft) -> str:
        return draft_store.draft_state(draft, getattr(draft, "waits", None)).value


class DraftDetailSerializer(DraftSerializer):
    read = serializers.SerializerMethodField(
        help_text="Files that were read; all: it can be agreed to"
    )
    files = DraftFileSerializer(many=True)

    class Meta(DraftSerializer.Meta):
        fields = [*DraftSerializer.Meta.fields, "read", "files"]

    def get_read(self, draft: Draft) -> int:
        return drafts.reading_progress(draft).read


class TextSerializer(serializers.Serializer[dict[str, Any]]):
    text = serializers.CharField(trim_whitespace=False, validators=[validate_storable])
    name = serializers.CharField(
        default="",
        allow_blank=True,
        max_length=150,
        validators=[validate_storable],
        help_text="A file's name: it tells fio's logs apart",
    )
    team = TeamField()


class FilesSerializer(serializers.Serializer[dict[str, Any]]):
    files = serializers.ListField(
        child=serializers.FileField(allow_empty_file=True),
        allow_empty=False,
        help_text="Also archives: zip, tar, gz, bz2, xz",
    )
    team = TeamField()


class PlaceSerializer(serializers.Serializer[dict[str, int]]):
    file = serializers.IntegerField(min_value=1, max_value=GREATEST)
    first = serializers.IntegerField(min_value=1, max_value=GREATEST)


class DisksSerializer(serializers.Serializer[dict[str, Any]]):
    """Disks of one role, alike, as the source tells of them. Some layer of the topology asks for that role."""

    role = serializers.CharField(max_length=32, help_text="As the topology has it: ssd, hdd")
    names = serializers.ListField(
        child=serializers.CharField(
            max_length=source_disks.NAME_MOST, validators=[validate_storable]
        ),
        allow_empty=False,
        max_length=source_disks.MOST_NAMES,
        help_text="As many as the topology's layers stand on, in their order",
    )
    rated_iops = serializers.IntegerField(
        default=None,
        allow_null=True,
        min_value=1,
        max_value=source_disks.MOST_RATED,
        help_text="op/s of each; null: not told",
    )
    rated_bandwidth = serializers.IntegerField(
        default=None,
        allow_null=True,
        min_value=1,
        max_value=source_disks.MOST_RATED,
        help_text="B/s of each; null: not told",
    )


class ChosenSerializer(serializers.Serializer[ResultChoice]):
    """A `host` of yours or the name of a `new_host`; a `topology` likewise. Not for what is `beside` another, nor for
    workloads."""

    file = serializers.IntegerField(min_value=1, max_value=GREATEST, help_text="its id")
    first = serializers.IntegerField(min_value=1, max_value=GREATEST, help_text="found.first")
    take = serializers.BooleanField(default=True)
    host = OwnRowField[Host](queryset=Host.objects.all(), default=None, allow_null=True)
    new_host = serializers.CharField(default="", allow_blank=True, max_length=100)
    topology = OwnRowField[Topology](queryset=Topology.objects.all(), default=None, allow_null=True)
    new_topology = serializers.CharField(default="", allow_blank=True, max_length=100)
    workload = serializers.CharField(
        default="", allow_blank=True, max_length=90, help_text="Empty: named by its options"
    )
    outstanding = serializers.IntegerField(
        default=None,
        allow_null=True,
        min_value=1,
        max_value=MOST_OUTSTANDING,
        help_text="Outstanding I/Os, where the text does not tell",
    )
    log_unit = serializers.ChoiceField(
        choices=list(LOG_UNITS),
        default="",
        allow_blank=True,
        help_text="of a latency log of fio that says neither (`needs`): us before fio 3.0, ns since",
    )
    beside = PlaceSerializer(
        default=None,
        allow_null=True,
        help_text="The result that it monitored, for iostat and the like",
    )
    disks = DisksSerializer(
        many=True, default=list, help_text="Ratings that findings compare its rates with"
    )


class OriginSerializer(serializers.Serializer[dict[str, str]]):
    title = serializers.CharField(default="", allow_blank=True, max_length=500)
    author = serializers.CharField(default="", allow_blank=True, max_length=500)
    date = serializers.CharField(
        default="", allow_blank=True, max_length=10, help_text="2013-05-07, 2013-05 or 2013"
    )
    url = serializers.CharField(default="", allow_blank=True, max_length=500)


class AgreeSerializer(serializers.Serializer[dict[str, Any]]):
    campaign = serializers.CharField(
        default="", allow_blank=True, max_length=200, help_text="Its name; not for workloads only"
    )
    question = serializers.CharField(default="", allow_blank=True)
    origin = OriginSerializer(default=dict)
    results = ChosenSerializer(many=True)


class SourceSerializer(serializers.ModelSerializer[Source]):
    class Meta:
        model = Source
        fields = ["id", "campaign", "name", "size", "sha256", "created_at"]
