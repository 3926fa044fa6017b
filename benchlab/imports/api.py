"""Importing over REST: hand in, look at what was found, agree. The same checks as the pages (agreeing.py)."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import (
    RequestDataTooBig,
    TooManyFieldsSent,
    TooManyFilesSent,
    ValidationError,
)
from django.http import HttpRequest, HttpResponse
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers
from rest_framework.decorators import action
from rest_framework.exceptions import APIException
from rest_framework.parsers import JSONParser, MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.settings import api_settings

from benchlab.api import Conflict, OwnRow, Problem, ReadOnly, messages, storable
from benchlab.campaigns.api import CampaignSerializer
from benchlab.hosts.models import Host
from benchlab.imports import agreeing, drafts, receiving
from benchlab.imports.models import Draft, DraftFile, Source
from benchlab.team.services import team_of
from benchlab.topologies.models import Topology

GREATEST = 2**63 - 1


class TooLarge(APIException):
    status_code = 413
    default_code = "too_large"


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
    notes = serializers.ListField(child=serializers.CharField())
    trouble = serializers.CharField(help_text="Why it cannot be read; empty: it can")
    metrics = MetricSerializer(many=True)
    series = SeriesSummarySerializer(many=True)


class UnreadSerializer(serializers.Serializer[dict[str, Any]]):
    first = serializers.IntegerField()
    last = serializers.IntegerField()
    text = serializers.CharField(help_text="The beginning of the first line")


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
            "id", "name", "size", "sha256", "lines", "trouble", "notes", "imported", "found", "unread",
        ]  # fmt: skip

    def get_imported(self, file: DraftFile) -> int | None:
        campaign = self.context.get("known", {}).get(file.sha256)
        return campaign.pk if campaign else None


class DraftSerializer(serializers.ModelSerializer[Draft]):
    class Meta:
        model = Draft
        fields = ["id", "name", "created_at"]


class DraftDetailSerializer(serializers.ModelSerializer[Draft]):
    read = serializers.SerializerMethodField(
        help_text="Files that were read; all: it can be agreed to"
    )
    files = DraftFileSerializer(many=True)

    class Meta:
        model = Draft
        fields = ["id", "name", "created_at", "read", "files"]

    def get_read(self, draft: Draft) -> int:
        return drafts.standing(draft).read


class TextSerializer(serializers.Serializer[dict[str, str]]):
    text = serializers.CharField(trim_whitespace=False, validators=[storable])
    name = serializers.CharField(
        default="", allow_blank=True, max_length=150, validators=[storable],
        help_text="A file's name: it tells fio's logs apart",
    )  # fmt: skip


class FilesSerializer(serializers.Serializer[dict[str, Any]]):
    files = serializers.ListField(
        child=serializers.FileField(allow_empty_file=True), allow_empty=False,
        help_text="Also archives: zip, tar, gz, bz2, xz",
    )  # fmt: skip


class PlaceSerializer(serializers.Serializer[dict[str, int]]):
    file = serializers.IntegerField(min_value=1, max_value=GREATEST)
    first = serializers.IntegerField(min_value=1, max_value=GREATEST)


class ChosenSerializer(serializers.Serializer[agreeing.Chosen]):
    """A `host` of yours or the name of a `new_host`; a `topology` likewise. Not for what is `beside` another."""

    file = serializers.IntegerField(min_value=1, max_value=GREATEST, help_text="its id")
    first = serializers.IntegerField(min_value=1, max_value=GREATEST, help_text="found.first")
    take = serializers.BooleanField(default=True)
    host = OwnRow[Host](queryset=Host.objects.all(), default=None, allow_null=True)
    new_host = serializers.CharField(default="", allow_blank=True, max_length=100)
    topology = OwnRow[Topology](queryset=Topology.objects.all(), default=None, allow_null=True)
    new_topology = serializers.CharField(default="", allow_blank=True, max_length=100)
    workload = serializers.CharField(
        default="", allow_blank=True, max_length=90, help_text="Empty: named by its options"
    )
    outstanding = serializers.IntegerField(
        default=None, allow_null=True, min_value=1, max_value=agreeing.MOST_OUTSTANDING,
        help_text="Outstanding I/Os, where the text does not tell",
    )  # fmt: skip
    beside = PlaceSerializer(
        default=None,
        allow_null=True,
        help_text="The result that it watched, for iostat and its like",
    )


class OriginSerializer(serializers.Serializer[dict[str, str]]):
    title = serializers.CharField(default="", allow_blank=True, max_length=500)
    author = serializers.CharField(default="", allow_blank=True, max_length=500)
    date = serializers.CharField(
        default="", allow_blank=True, max_length=10, help_text="2013-05-07, 2013-05 or 2013"
    )
    url = serializers.CharField(default="", allow_blank=True, max_length=500)


class AgreeSerializer(serializers.Serializer[dict[str, Any]]):
    campaign = serializers.CharField(max_length=200)
    question = serializers.CharField(default="", allow_blank=True)
    origin = OriginSerializer(default=dict)
    results = ChosenSerializer(many=True)


class Imports(mixins.DestroyModelMixin, ReadOnly[Draft]):
    """Results measured elsewhere: an upload is a draft until somebody agrees to it, and forgotten after a day."""

    queryset = Draft.objects.all()
    serializer_class = DraftSerializer
    parser_classes = [JSONParser, MultiPartParser]
    filterset_fields = ["name"]
    ordering_fields = ["id", "name", "created_at"]

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        request.upload_handlers = [receiving.Spooled(request)]
        return super().initialize_request(request, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if receiving.too_large(request._request):
            raise TooLarge(receiving.TOO_LARGE)

    @extend_schema(responses=DraftDetailSerializer)
    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """What was found, every number with its line; `read` grows while large uploads are read."""
        return Response(self._detail(self.get_object()))

    @extend_schema(
        request={"application/json": TextSerializer, "multipart/form-data": FilesSerializer},
        responses={201: DraftDetailSerializer, 413: Problem},
    )
    def create(self, request: Request) -> Response:
        """Hand in a text as JSON, or files as a form. Nothing is stored as a result yet: see `agree`."""
        try:
            draft = drafts.make(
                team=team_of(request.user), user=request.user, uploads=_uploads(request)
            )
        except ValidationError as error:
            raise serializers.ValidationError(messages(error)) from None
        return Response(self._detail(draft), status=201)

    @extend_schema(
        request=AgreeSerializer, responses={201: CampaignSerializer, 400: Problem, 409: Problem}
    )
    @action(detail=True, methods=["post"], parser_classes=[JSONParser])
    def agree(self, request: Request, pk: str | None = None) -> Response:
        """Store the results that are named; the others are not. The draft is gone then."""
        draft = self.get_object()
        sent = AgreeSerializer(data=request.data, context=self.get_serializer_context())
        sent.is_valid(raise_exception=True)
        if not drafts.standing(draft).over:
            raise Conflict("It is still being read; wait until every file is through.")
        try:
            made = _agree(draft, request, sent.validated_data)
        except agreeing.Refused as refused:
            raise serializers.ValidationError(_named(refused)) from None
        return Response(
            CampaignSerializer(made, context=self.get_serializer_context()).data, status=201
        )

    def _detail(self, draft: Draft) -> Any:
        context = {**self.get_serializer_context(), "known": agreeing.known(draft)}
        return DraftDetailSerializer(draft, context=context).data


def _uploads(request: Request) -> list[drafts.Upload]:
    """Raises ValidationError and TooLarge."""
    try:
        data = request.data
    except (RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent):
        raise TooLarge(receiving.TOO_MANY) from None
    if (request.content_type or "").startswith("multipart/"):
        found = FilesSerializer(data=data)
        found.is_valid(raise_exception=True)
        files = found.validated_data["files"]
        return [drafts.Upload(file.name or "unnamed", file.file, file.size or 0) for file in files]
    sent = TextSerializer(data=data)
    sent.is_valid(raise_exception=True)
    return [drafts.pasted(sent.validated_data["text"], sent.validated_data["name"])]


def _agree(draft: Draft, request: Request, sent: dict[str, Any]) -> Any:
    chosen = []
    for one in sent["results"]:
        place = one.pop("beside")
        key = one.pop("file"), one.pop("first")
        beside = (place["file"], place["first"]) if place else None
        chosen.append(agreeing.Chosen(key=key, beside=beside, **one))
    return agreeing.agree(
        draft,
        chosen,
        user=request.user,
        name=sent["campaign"],
        question=sent["question"],
        origin=sent["origin"],
    )


def _named(refused: agreeing.Refused) -> dict[str, list[str]]:
    """As a Problem names fields: "results.3.host"."""
    whole = api_settings.NON_FIELD_ERRORS_KEY
    return {
        (name or whole) if index is None else f"results.{index}.{name}": said
        for (index, name), said in refused.errors.items()
    }


class SourceSerializer(serializers.ModelSerializer[Source]):
    class Meta:
        model = Source
        fields = ["id", "campaign", "name", "size", "sha256", "created_at"]


class Sources(ReadOnly[Source]):
    """Files that imported results came in."""

    library = True
    queryset = Source.objects.defer("content")
    serializer_class = SourceSerializer
    filterset_fields = ["campaign", "name", "sha256"]
    ordering_fields = ["id", "name", "size"]

    @extend_schema(responses={(200, "application/octet-stream"): OpenApiTypes.BINARY})
    @action(detail=True)
    def content(self, request: Request, pk: str | None = None) -> HttpResponse:
        """Byte for byte as it came; `X-Content-SHA256` is its hash."""
        row = self.get_object()
        answer = HttpResponse(bytes(row.content), content_type="application/octet-stream")
        answer["Content-Disposition"] = content_disposition_header(True, row.name) or "attachment"
        answer["X-Content-SHA256"] = row.sha256
        return answer
