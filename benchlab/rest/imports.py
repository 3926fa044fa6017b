# SPDX-License-Identifier: Apache-2.0
"""Importing over REST: hand in, look at what was found, agree. The checks are those of the pages (agreements.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.http import HttpRequest, HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.exceptions import APIException
from rest_framework.parsers import JSONParser, MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse
from rest_framework.settings import api_settings

from benchlab.hosts.models import Host
from benchlab.imports import agreements, draft_store, drafts, readings
from benchlab.imports.agreements import MOST_OUTSTANDING, Agreement, Refused, ResultChoice
from benchlab.imports.draft_store import State, StoreOutcome
from benchlab.imports.models import Draft, DraftFile, Source
from benchlab.imports.readings import LOG_UNITS
from benchlab.rest.operations import (
    BINARY,
    NumberListField,
    ObjectSerializer,
    TextListField,
    TextsByNameField,
    download,
    operation,
)
from benchlab.team.models import Team
from benchlab.topologies.models import Topology
from benchlab.web.api import (
    Conflict,
    OwnRowField,
    Problem,
    ReadOnlyViewSet,
    TeamField,
    validate_storable,
)

GREATEST = 2**63 - 1


# benchlab/imports/draft_store.py, State
STATES = "reading, read, storing or stored; only what is read can be agreed to"


class MetricSerializer(ObjectSerializer):
    name = serializers.CharField()
    value = serializers.FloatField(allow_null=True, help_text="null: n/a, see note")
    unit = serializers.CharField(help_text="base units: B/s, op/s, s, B, 1")
    labels = TextsByNameField()
    note = serializers.CharField()
    line = serializers.IntegerField(help_text="of the file, from 1; 0: nowhere in particular")


class SeriesSummarySerializer(ObjectSerializer):
    device = serializers.CharField()
    metric = serializers.CharField()
    unit = serializers.CharField()
    samples = serializers.IntegerField()
    seconds = serializers.FloatField(allow_null=True)


class FoundSerializer(ObjectSerializer):
    kind = serializers.CharField()
    first = serializers.IntegerField(help_text="line of the file, from 1")
    last = serializers.IntegerField()
    title = serializers.CharField()
    tool = serializers.CharField()
    version = serializers.CharField()
    command = serializers.CharField()
    options = serializers.DictField()
    options_complete = serializers.BooleanField(
        default=False,
        help_text="The whole command or job file was there: other options have the tool's defaults",
    )
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
    notes = TextListField()
    trouble = serializers.CharField(help_text="Why it cannot be read; empty: it can")
    needs = serializers.CharField(
        default="",
        help_text="What the text leaves open: say it as `log_unit`, unless a result of fio in the same folder tells",
    )
    metrics = MetricSerializer(many=True)
    series = SeriesSummarySerializer(many=True)


class UnreadSerializer(ObjectSerializer):
    first = serializers.IntegerField()
    last = serializers.IntegerField()
    text = serializers.CharField(help_text="The beginning of the first line")


class FailedSerializer(ObjectSerializer):
    file = serializers.CharField(help_text="its name; it was kept as a source")
    first = serializers.IntegerField(help_text="line of the file, from 1")
    says = serializers.CharField()


class StandingSerializer(ObjectSerializer):
    """Progress of storing what was agreed to."""

    id = serializers.IntegerField(help_text="of the draft")
    state = serializers.CharField(help_text=STATES)
    wanted = serializers.IntegerField(help_text="results and workloads that were agreed to")
    stored = serializers.IntegerField(help_text="of those wanted, so far")
    campaign = serializers.IntegerField(
        allow_null=True,
        help_text="its id, once all is stored; null too where there are workloads only",
    )
    workloads = NumberListField()
    failed = FailedSerializer(many=True)
    trouble = serializers.CharField(
        help_text="Why nothing was stored; the draft can be agreed to again"
    )


class DraftFileSerializer(serializers.ModelSerializer[DraftFile]):
    imported = serializers.SerializerMethodField(
        help_text="The campaign that has a file of the same content already"
    )
    notes = TextListField()
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


class TextSerializer(ObjectSerializer):
    text = serializers.CharField(trim_whitespace=False, validators=[validate_storable])
    name = serializers.CharField(
        default="",
        allow_blank=True,
        max_length=150,
        validators=[validate_storable],
        help_text="A file's name: it tells fio's logs apart",
    )
    team = TeamField()


class FilesSerializer(ObjectSerializer):
    files = serializers.ListField(
        child=serializers.FileField(allow_empty_file=True),
        allow_empty=False,
        help_text="Also archives: zip, tar, gz, bz2, xz",
    )
    team = TeamField()


class PlaceSerializer(ObjectSerializer):
    file = serializers.IntegerField(min_value=1, max_value=GREATEST)
    first = serializers.IntegerField(min_value=1, max_value=GREATEST)


class DisksSerializer(ObjectSerializer):
    """Disks of one role, alike, as the source tells of them. Some layer of the topology asks for that role."""

    role = serializers.CharField(max_length=32, help_text="As the topology has it: ssd, hdd")
    names = serializers.ListField(
        child=serializers.CharField(
            max_length=agreements.MAX_DISK_NAME, validators=[validate_storable]
        ),
        allow_empty=False,
        max_length=agreements.MAX_DISKS,
        help_text="As many as the topology's layers stand on, in their order",
    )
    rated_iops = serializers.IntegerField(
        default=None,
        allow_null=True,
        min_value=1,
        max_value=agreements.MOST_RATED,
        help_text="op/s of each; null: not told",
    )
    rated_bandwidth = serializers.IntegerField(
        default=None,
        allow_null=True,
        min_value=1,
        max_value=agreements.MOST_RATED,
        help_text="B/s of each; null: not told",
    )


class ChosenSerializer(ObjectSerializer):
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
    interval = serializers.FloatField(
        default=None,
        allow_null=True,
        help_text="Seconds between the reports of iostat or zpool iostat, where no command tells",
    )
    first_counts = serializers.BooleanField(
        default=False,
        help_text="Likewise: the first report is as the others (-y), and not the average since boot",
    )
    beside = PlaceSerializer(
        default=None,
        allow_null=True,
        help_text="The result that it monitored, for iostat and the like",
    )
    disks = DisksSerializer(
        many=True, default=list, help_text="Ratings that findings compare its rates with"
    )


class OriginSerializer(ObjectSerializer):
    title = serializers.CharField(default="", allow_blank=True, max_length=500)
    author = serializers.CharField(default="", allow_blank=True, max_length=500)
    date = serializers.CharField(
        default="", allow_blank=True, max_length=10, help_text="2013-05-07, 2013-05 or 2013"
    )
    url = serializers.CharField(default="", allow_blank=True, max_length=500)


class AgreeSerializer(ObjectSerializer):
    campaign = serializers.CharField(
        default="", allow_blank=True, max_length=200, help_text="Its name; not for workloads only"
    )
    question = serializers.CharField(default="", allow_blank=True)
    origin = OriginSerializer(default=dict)
    results = ChosenSerializer(many=True)
    are_repeats = serializers.BooleanField(
        default=False,
        help_text="Results of equal options are repeats of one workload, even where their figures are more than "
        "3 times apart; else those are stored as workloads of their own",
    )


class SourceSerializer(serializers.ModelSerializer[Source]):
    class Meta:
        model = Source
        fields = ["id", "campaign", "name", "size", "sha256", "created_at"]


class TooLarge(APIException):
    status_code = 413
    default_code = "too_large"


class Imports(ReadOnlyViewSet[Draft]):
    """Results measured elsewhere: an upload is a draft until somebody agrees to it, and forgotten after a day."""

    queryset = Draft.objects.annotate(waits=drafts.WAITS)
    serializer_class = DraftSerializer
    parser_classes = [JSONParser, MultiPartParser]
    filterset_fields = ["team", "name"]
    ordering_fields = ["id", "name", "created_at"]

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        request.upload_handlers = [drafts.Spooled(request)]
        return super().initialize_request(request, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        try:
            # it reads the body, to refuse unknown fields
            super().initial(request, *args, **kwargs)
        except (RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent):
            raise TooLarge(drafts.TOO_MANY) from None
        if drafts.is_too_large(request._request):
            raise TooLarge(drafts.TOO_LARGE)

    @extend_schema(responses=DraftDetailSerializer)
    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Draft with what was found, every number with its line; `read` grows while large uploads are read."""
        return Response(self._detail(self.get_object()))

    @operation(
        {"application/json": TextSerializer, "multipart/form-data": FilesSerializer},
        responses={201: DraftDetailSerializer, 413: Problem},
    )
    def create(
        self, team: Team, text: str = "", name: str = "", files: Sequence[Any] = ()
    ) -> Response:
        """Hand in a text as JSON, or files as a form. Nothing is stored as a result yet: see `agree`."""
        uploads = [drafts.Upload(f.name or "unnamed", f.file, f.size or 0) for f in files]
        draft = drafts.create_draft(
            team=team,
            user=self.request.user,
            uploads=uploads or [drafts.pasted_upload(text, name)],
        )
        return Response(self._detail(draft), status=201)

    @operation(AgreeSerializer, responses={202: StandingSerializer}, parser_classes=[JSONParser])
    def agree(
        self,
        draft: Draft,
        campaign: str,
        question: str,
        origin: dict[str, str],
        results: list[dict[str, Any]],
        are_repeats: bool,
    ) -> Response:
        """Store the results that are named; the others are not.

        202: a worker stores them; `Location` is the address that says how far it is, and what became of it, for a day.
        """
        _only_if_read(draft)
        choices = [_result_choice(result) for result in results]
        try:
            draft_store.agree(
                draft,
                Agreement(choices, campaign, question, origin, are_repeats),
                user=self.request.user,
            )
        except Refused as refused:
            raise serializers.ValidationError(_field_errors(refused)) from None
        draft.refresh_from_db()
        where = reverse("api:draft-status", args=[draft.pk], request=self.request)
        return Response(_progress_json(draft), status=202, headers={"Location": where})

    @extend_schema(responses=StandingSerializer)
    @action(detail=True)
    def status(self, request: Request, pk: str | None = None) -> Response:
        """Progress after an agreement: how much is stored, and what could not be."""
        return Response(_progress_json(self.get_object()))

    @operation()
    def destroy(self, draft: Draft) -> None:
        if draft_store.draft_state(draft) is State.STORING:
            raise Conflict("It is being stored; delete the campaign once it is there.")
        draft.delete()

    def _detail(self, draft: Draft) -> Any:
        context = {**self.get_serializer_context(), "known": readings.campaigns_by_hash(draft)}
        return DraftDetailSerializer(draft, context=context).data


def _only_if_read(draft: Draft) -> None:
    state = draft_store.draft_state(draft)
    if state is State.READING:
        raise Conflict("It is still being read; wait until every file is through.")
    if state is not State.READ:
        raise Conflict("Somebody agreed to it already; its `status` says what became of it.")


def _progress_json(draft: Draft) -> Any:
    state = draft_store.draft_state(draft)
    if state is State.STORED:
        outcome, trouble = StoreOutcome.of_draft(draft), ""
    else:
        stored = draft_store.get_progress(draft.pk) if state is State.STORING else 0
        outcome, trouble = StoreOutcome(None, stored), draft.trouble
    agreed = draft_store.count_agreed(draft)
    progress = {"id": draft.pk, "state": state.value, "wanted": agreed, "trouble": trouble}
    return StandingSerializer(progress | asdict(outcome)).data


def _result_choice(values: dict[str, Any]) -> ResultChoice:
    place = values.pop("beside")
    return ResultChoice(
        key=(values.pop("file"), values.pop("first")),
        beside=(place["file"], place["first"]) if place else None,
        disks=agreements.disks_from_json(values.pop("disks")),
        **values,
    )


def _field_errors(refused: Refused) -> dict[str, list[str]]:
    """Return the errors by field as a Problem names them: "results.3.host"."""
    whole = api_settings.NON_FIELD_ERRORS_KEY
    return {
        (name or whole) if index is None else f"results.{index}.{name}": messages
        for (index, name), messages in refused.errors.items()
    }


class Sources(ReadOnlyViewSet[Source]):
    """Files that imported results came in."""

    library = True
    queryset = Source.objects.defer("content")
    serializer_class = SourceSerializer
    filterset_fields = ["campaign", "name", "sha256"]
    ordering_fields = ["id", "name", "size"]

    @extend_schema(responses=BINARY)
    @action(detail=True)
    def content(self, request: Request, pk: str | None = None) -> HttpResponse:
        """Byte for byte as it came; `X-Content-SHA256` is its hash."""
        row = self.get_object()
        answer = HttpResponse(bytes(row.content), content_type="application/octet-stream")
        answer["X-Content-SHA256"] = row.sha256
        return download(answer, row.name)
