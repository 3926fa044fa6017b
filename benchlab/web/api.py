# SPDX-License-Identifier: Apache-2.0
"""Shared parts of every API view: the one error shape, fields for own rows and free JSON, the base of all viewsets."""

from __future__ import annotations

import hashlib
import math
from typing import Any, NoReturn, TypeVar, cast

from django.core.exceptions import ValidationError as DjangoValidationError
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response, patch_vary_headers
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.exceptions import (
    APIException,
    NotFound,
    ParseError,
    PermissionDenied,
    ValidationError,
)
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.routers import APIRootView
from rest_framework.settings import api_settings
from rest_framework.views import APIView, exception_handler

from benchlab import __version__
from benchlab.team import soft_delete
from benchlab.team.models import OwnedQuerySet, Team
from benchlab.team.roles import required_role
from benchlab.team.services import owning_team
from benchlab.web import deleted_rows, filters
from benchlab.web.errors import conflict_message
from benchlab.web.idempotency.requests import HEADER as IDEMPOTENCY
from benchlab.web.idempotency.requests import IdempotentRequest
from benchlab.web.problem import PROBLEM_TYPE

# what every view names
from benchlab.web.problem import Problem as Problem
from benchlab.web.rendering import OrjsonRenderer
from benchlab.web.sparse_fields import (
    FIELDS_PARAMETER,
    allows_field_selection,
    reject_unknown_fields,
    select_fields,
)

M = TypeVar("M", bound=Model)


class Conflict(APIException):
    """The request is fine, the state of things is not: a plan is stale, a run is not over."""

    status_code = status.HTTP_409_CONFLICT
    default_detail = "That cannot be done now."
    default_code = "conflict"


class Deleted(APIException):
    """The row was there; a member of its team may bring it back for a while."""

    status_code = status.HTTP_410_GONE
    default_code = "gone"


def problem_response(error: Exception, context: dict[str, Any]) -> Response | None:
    """Return a Problem for each refusal; None for other exceptions, which become a 500."""
    if isinstance(error, DjangoValidationError):
        error = ValidationError(errors_by_field(error))
    # the JSON parser's, thousands of brackets deep
    if isinstance(error, RecursionError):
        error = ParseError("The JSON is nested too deeply.")
    if message := conflict_message(error):
        error = Conflict(message)
    if isinstance(error, Http404 | NotFound) and (deleted := _deleted_row(context)):
        error = Deleted(deleted.message)
    response = exception_handler(error, context)
    if response is None:
        return None
    fields = _flatten_errors(response.data) if isinstance(error, ValidationError) else {}
    detail = "; ".join(f"{k}: {v}" if k else v for k, vs in fields.items() for v in vs)
    body: dict[str, Any] = {
        "title": response.status_text,
        "status": response.status_code,
        "detail": detail or str(cast(dict[str, Any], response.data).get("detail", "")),
    }
    if fields:
        body["errors"] = fields
    response.data = body
    response.content_type = PROBLEM_TYPE
    # Whatever was asked for, and by a view that gives YAML too.
    context["request"].accepted_renderer = OrjsonRenderer()
    context["request"].accepted_media_type = OrjsonRenderer.media_type
    return response


def _deleted_row(context: dict[str, Any]) -> deleted_rows.DeletedRow | None:
    """Deleted row that the address was about; None where it is none."""
    queryset, pk = getattr(context["view"], "queryset", None), context["kwargs"].get("pk")
    if queryset is None or pk is None or not context["request"].user.is_authenticated:
        return None
    return deleted_rows.find_deleted_row(context["request"].user, queryset.model, pk)


def errors_by_field(error: DjangoValidationError, field: str = "") -> dict[str, list[str]]:
    """Return the messages by field, as a Problem has them; `field` is used for an error that names none."""
    if hasattr(error, "error_dict"):
        return {
            "" if key == "__all__" else key: messages
            for key, messages in error.message_dict.items()
        }
    return {field: error.messages}


def _flatten_errors(data: Any, prefix: str = "") -> dict[str, list[str]]:
    """Nested DRF errors, flat: {"stack.0.kind": ["…"]}; "" is the request as a whole."""
    if isinstance(data, dict):
        errors: dict[str, list[str]] = {}
        for key, value in data.items():
            name = "" if key == api_settings.NON_FIELD_ERRORS_KEY else str(key)
            errors |= _flatten_errors(value, ".".join(part for part in (prefix, name) if part))
        return errors
    if isinstance(data, list) and any(isinstance(item, (dict, list)) for item in data):
        return {
            k: v
            for n, item in enumerate(data)
            for k, v in _flatten_errors(item, f"{prefix}.{n}".strip(".")).items()
        }
    return {prefix: [str(item) for item in (data if isinstance(data, list) else [data])]}


def validate_storable(value: Any) -> None:
    """Free JSON as PostgreSQL takes it. Raises ValidationError: no NUL, no half of a character, no infinity."""
    if isinstance(value, dict):
        for key, item in value.items():
            validate_storable(key)
            validate_storable(item)
    elif isinstance(value, list):
        for item in value:
            validate_storable(item)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValidationError("Numbers must be finite.")
    elif isinstance(value, str) and any(c == "\0" or "\ud800" <= c <= "\udfff" for c in value):
        raise ValidationError("Text must be without NUL and surrogate characters.")


class OwnRowField(serializers.PrimaryKeyRelatedField[M]):
    """An id of the user's own: one of another team is as unknown as one that nobody has."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(pk_field=serializers.IntegerField(min_value=1), **kwargs)

    def get_queryset(self) -> QuerySet[M]:
        rows = cast(Any, super().get_queryset())
        return cast("QuerySet[M]", rows.for_user(self.context["request"].user))


class TeamField(OwnRowField[Team]):
    """The team of a new row: one that is asked for, else the one that the pages take (team.services.team_of)."""

    def __init__(self, **kwargs: Any) -> None:
        about = "Whose it is: a team where you may make it. Without it: the one that the pages take"
        super().__init__(
            **{"required": False, "help_text": about, "queryset": Team.objects.all()} | kwargs
        )

    def to_internal_value(self, data: Any) -> Team:
        """Raises PermissionDenied for a team where the caller lacks the role, as for one that there is not."""
        try:
            return super().to_internal_value(data)
        except ValidationError as error:
            if error.get_codes() != ["does_not_exist"]:
                raise
            role = required_role(self.context["request"].user).short_label.lower()
            raise PermissionDenied(f"That needs the role {role} in team {data}.") from None


def without_team(row: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Values that were sent to change a row, without its team. Raises ValidationError for another one."""
    if values.pop("team", row.team) != row.team:
        raise ValidationError({"team": ["Its team cannot be changed; create another one there."]})
    return values


class FiniteFloatField(serializers.FloatField):
    """JSON knows neither NaN nor infinity: unknown is null."""

    def to_representation(self, value: Any) -> Any:
        return float(value) if math.isfinite(value) else None


class FiniteFloatListField(serializers.ListField):
    """A list of them, which may be thousands: looked at in one go, not each by a field of its own."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(child=FiniteFloatField(allow_null=True), **kwargs)

    def to_representation(self, data: Any) -> Any:
        if None not in data and math.isfinite(sum(data)):
            return data
        return [None if v is None or not math.isfinite(v) else v for v in data]


class ReplayedResponse(Exception):
    """The request was answered before; nothing is done again."""

    def __init__(self, answer: Response) -> None:
        super().__init__()
        self.answer = answer


class ApiRoot(APIRootView):
    """The lists that there are, by name, and the version of BenchLab that answers."""

    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        lists = super().get(request, *args, **kwargs)
        return Response({"version": __version__, **lists.data})


class UnknownAddressView(APIView):
    """View of addresses that are not there: they are told as every other refusal is, not by a page."""

    schema = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> NoReturn:
        super().initial(request, *args, **kwargs)
        raise NotFound("There is no such address; /api/docs/ lists what there is.")


class TeamViewSet(viewsets.GenericViewSet[M]):
    """Rows of the user's teams and no others: deny by default."""

    # where `fields` may choose (sparse_fields.py)
    takes_fields = True
    # Whether the reference library has such rows: read by id, as part of a campaign that is named, with ?library=true
    library = False
    # of a POST with an Idempotency-Key
    idempotent_request: IdempotentRequest | None = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Refuse who may not touch the row before the request's body is looked at."""
        super().initial(request, *args, **kwargs)
        if self.action and self.detail and request.method not in SAFE_METHODS:
            self.get_object()
        if request.method == "POST" and (key := request.headers.get(IDEMPOTENCY)) is not None:
            once = IdempotentRequest(request, key)
            stored = once.claim_key()
            self.idempotent_request = once
            if stored is not None:
                raise ReplayedResponse(stored)
        reject_unknown_fields(request, self)

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            return super().dispatch(request, *args, **kwargs)
        finally:
            if self.idempotent_request:
                self.idempotent_request.release_key()

    def handle_exception(self, exc: Exception) -> Response:
        return exc.answer if isinstance(exc, ReplayedResponse) else super().handle_exception(exc)

    def finalize_response(
        self, request: Request, response: Any, *args: Any, **kwargs: Any
    ) -> Response:
        final = super().finalize_response(request, response, *args, **kwargs)
        if self.idempotent_request and isinstance(final, Response):
            self.idempotent_request.store_response(final)
        if self.action in ("list", "retrieve") and final.status_code == 200:
            final.add_post_render_callback(lambda rendered: _not_modified_or(request, rendered))
        return final

    def get_serializer(self, *args: Any, **kwargs: Any) -> Any:
        """Return the serializer with the requested fields only. Raises ValidationError."""
        serializer: Any = super().get_serializer(*args, **kwargs)
        if (
            allows_field_selection(self)
            and (names := self.request.query_params.get(FIELDS_PARAMETER)) is not None
        ):
            select_fields(getattr(serializer, "child", serializer), names)
        return serializer

    def get_queryset(self) -> QuerySet[M]:
        queryset = super().get_queryset()
        if getattr(self, "swagger_fake_view", False):
            return queryset.none()
        if self.action == "list" and isinstance(queryset, OwnedQuerySet):
            queryset = self._listed_rows(queryset).teams_first()
        if self.library and self.request.method in SAFE_METHODS:
            parameters = self.request.query_params
            default = "true" if filters.PARENT_PARAMETERS & parameters.keys() else ""
            if self.detail or parameters.get(filters.LIBRARY, default).lower() == "true":
                return cast("QuerySet[M]", queryset.visible_to(self.request.user))  # type: ignore[attr-defined]
        return cast("QuerySet[M]", queryset.for_user(self.request.user))  # type: ignore[attr-defined]

    def default_team(self, values: dict[str, Any]) -> Team:
        """Team of a new row with these values that names none. Raises PermissionDenied."""
        return owning_team(self.request.user)

    @property
    def archives(self) -> bool:
        """True when its lists leave out what is archived, and take `archived`."""
        return soft_delete.owner(cast(Any, self).queryset.model) is not None

    def _listed_rows(self, queryset: OwnedQuerySet[M]) -> OwnedQuerySet[M]:
        parameters = self.request.query_params
        if not self.archives:
            return queryset
        if parameters.get(filters.ARCHIVED, "").lower() == "true":
            return queryset.archived()
        return queryset if filters.PARENT_PARAMETERS & parameters.keys() else queryset.current()


class SingleAnswerViewSet(TeamViewSet[M]):
    """View whose answer comes whole: no pages, no order, and no filters but its own parameters."""

    # a property of the others
    archives = False

    pagination_class = None
    filter_backends = ()
    ordering_fields = ()
    # benchlab/web/schema.py
    answers_whole = True


def _not_modified_or(request: Request, response: HttpResponseBase) -> HttpResponseBase:
    """304 when If-None-Match names what we would send. All of it is hashed: no stale number is ever confirmed."""
    etag = f'"{hashlib.sha256(response.content).hexdigest()[:32]}"'  # type: ignore[attr-defined]
    response["ETag"] = etag
    response["Cache-Control"] = "private, no-cache"
    patch_vary_headers(response, ["Authorization", "Cookie"])
    conditional: Any = get_conditional_response(request._request, etag, response=response)  # type: ignore[arg-type]
    return cast(HttpResponseBase, conditional)


class ReadOnlyViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, TeamViewSet[M]):
    """List and detail."""

    ordering_fields: Any = ["id"]
    # newest first
    ordering: Any = ["-id"]
