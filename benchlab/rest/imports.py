# SPDX-License-Identifier: Apache-2.0
"""Importing over REST: hand in, look at what was found, agree. The checks are those of the pages (agreements.py)."""

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
from rest_framework.reverse import reverse
from rest_framework.settings import api_settings

from benchlab.imports import agreements, draft_store, drafts, receiving, source_disks
from benchlab.imports.agreements import Agreement, Refused, ResultChoice
from benchlab.imports.draft_store import State
from benchlab.imports.models import Draft, Source
from benchlab.rest.import_serializers import (
    AgreeSerializer,
    DraftDetailSerializer,
    DraftSerializer,
    FilesSerializer,
    SourceSerializer,
    StandingSerializer,
    TextSerializer,
)
from benchlab.team.models import Team
from benchlab.web.api import Conflict, Problem, ReadOnlyViewSet, errors_by_field, pop_team


class TooLarge(APIException):
    status_code = 413
    default_code = "too_large"


class Imports(mixins.DestroyModelMixin, ReadOnlyViewSet[Draft]):
    """Results measured elsewhere: an upload is a draft until somebody agrees to it, and forgotten after a day."""

    queryset = Draft.objects.annotate(waits=drafts.WAITS)
    serializer_class = DraftSerializer
    parser_classes = [JSONParser, MultiPartParser]
    filterset_fields = ["team", "name"]
    ordering_fields = ["id", "name", "created_at"]

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        request.upload_handlers = [receiving.Spooled(request)]
        return super().initialize_request(request, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        try:
            # it reads the body, to refuse unknown fields
            super().initial(request, *args, **kwargs)
        except (RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent):
            raise TooLarge(receiving.TOO_MANY) from None
        if receiving.is_too_large(request._request):
            raise TooLarge(receiving.TOO_LARGE)

    @extend_schema(responses=DraftDetailSerializer)
    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Draft with what was found, every number with its line; `read` grows while large uploads are read."""
        return Response(self._detail(self.get_object()))

    @extend_schema(
        request={"application/json": TextSerializer, "multipart/form-data": FilesSerializer},
        responses={201: DraftDetailSerializer, 413: Problem},
    )
    def create(self, request: Request) -> Response:
        """Hand in a text as JSON, or files as a form. Nothing is stored as a result yet: see `agree`."""
        try:
            uploads, team = _read_uploads(request, dict(self.get_serializer_context()))
            draft = drafts.create_draft(team=team, user=request.user, uploads=uploads)
        except ValidationError as error:
            raise serializers.ValidationError(errors_by_field(error)) from None
        return Response(self._detail(draft), status=201)

    @extend_schema(
        request=AgreeSerializer,
        responses={202: StandingSerializer, 400: Problem, 409: Problem},
    )
    @action(detail=True, methods=["post"], parser_classes=[JSONParser])
    def agree(self, request: Request, pk: str | None = None) -> Response:
        """Store the results that are named; the others are not.

        202: a worker stores them; `Location` is the address that says how far it is, and what became of it, for a day.
        """
        draft = self.get_object()
        serializer = AgreeSerializer(data=request.data, context=self.get_serializer_context())
        serializer.is_valid(raise_exception=True)
        _only_if_read(draft)
        try:
            draft_store.agree(draft, _agreement(serializer.validated_data), user=request.user)
        except Refused as refused:
            raise serializers.ValidationError(_field_errors(refused)) from None
        draft.refresh_from_db()
        where = reverse("api:draft-status", args=[draft.pk], request=request)
        return Response(_progress_json(draft), status=202, headers={"Location": where})

    @extend_schema(responses=StandingSerializer)
    @action(detail=True)
    def status(self, request: Request, pk: str | None = None) -> Response:
        """Progress after an agreement: how much is stored, and what could not be."""
        return Response(_progress_json(self.get_object()))

    def perform_destroy(self, instance: Draft) -> None:
        if draft_store.draft_state(instance) is State.STORING:
            raise Conflict("It is being stored; delete the campaign once it is there.")
        instance.delete()

    def _detail(self, draft: Draft) -> Any:
        context = {**self.get_serializer_context(), "known": drafts.campaigns_by_hash(draft)}
        return DraftDetailSerializer(draft, context=context).data


def _read_uploads(request: Request, context: dict[str, Any]) -> tuple[list[drafts.Upload], Team]:
    """Uploads that were handed in, and their team. Raises ValidationError and PermissionDenied."""
    form = (request.content_type or "").startswith("multipart/")
    serializer = (FilesSerializer if form else TextSerializer)(data=request.data, context=context)
    serializer.is_valid(raise_exception=True)
    values = serializer.validated_data
    team = pop_team(request.user, values)
    if not form:
        return [drafts.pasted_upload(values["text"], values["name"])], team
    return [drafts.Upload(f.name or "unnamed", f.file, f.size or 0) for f in values["files"]], team


def _only_if_read(draft: Draft) -> None:
    state = draft_store.draft_state(draft)
    if state is State.READING:
        raise Conflict("It is still being read; wait until every file is through.")
    if state is not State.READ:
        raise Conflict("Somebody agreed to it already; its `status` says what became of it.")


def _progress_json(draft: Draft) -> Any:
    state = draft_store.draft_state(draft)
    if state is State.STORED:
        outcome = agreements.outcome_from_json(draft.outcome or {})
        return _outcome_json(draft.pk, state, outcome)
    stored = draft_store.get_progress(draft.pk) if state is State.STORING else 0
    agreed = draft_store.count_agreed(draft)
    outcome = agreements.Outcome(None, stored)
    return _outcome_json(draft.pk, state, outcome, agreed, draft.trouble)


def _outcome_json(
    pk: int,
    state: State,
    outcome: agreements.Outcome,
    agreed: int | None = None,
    trouble: str = "",
) -> Any:
    total = outcome.stored + len(outcome.failed) if agreed is None else agreed
    return StandingSerializer(
        {
            "id": pk,
            "state": state.value,
            "wanted": total,
            "trouble": trouble,
            **agreements.outcome_to_json(outcome),
        }
    ).data


def _agreement(values: dict[str, Any]) -> Agreement:
    chosen = []
    for result in values["results"]:
        place = result.pop("beside")
        key = result.pop("file"), result.pop("first")
        beside = (place["file"], place["first"]) if place else None
        disks = source_disks.from_json(result.pop("disks"))
        chosen.append(ResultChoice(key=key, beside=beside, disks=disks, **result))
    return Agreement(chosen, values["campaign"], values["question"], values["origin"])


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

    @extend_schema(responses={(200, "application/octet-stream"): OpenApiTypes.BINARY})
    @action(detail=True)
    def content(self, request: Request, pk: str | None = None) -> HttpResponse:
        """Byte for byte as it came; `X-Content-SHA256` is its hash."""
        row = self.get_object()
        answer = HttpResponse(bytes(row.content), content_type="application/octet-stream")
        answer["Content-Disposition"] = content_disposition_header(True, row.name) or "attachment"
        answer["X-Content-SHA256"] = row.sha256
        return answer
