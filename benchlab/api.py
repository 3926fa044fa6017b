"""What every API view shares: paging, the one error shape, and the base of all viewsets."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from django.core.exceptions import ValidationError as DjangoValidationError
from django.db.models import Model, QuerySet
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.response import Response
from rest_framework.settings import api_settings
from rest_framework.views import exception_handler

M = TypeVar("M", bound=Model)


class Problem(serializers.Serializer[dict[str, Any]]):
    """The one error shape (RFC 9457): `errors` names the fields of a refused request."""

    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    errors = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField()), required=False
    )


class Conflict(APIException):
    """The request is fine, the state of things is not: a plan is stale, a run is not over."""

    status_code = status.HTTP_409_CONFLICT
    default_detail = "That cannot be done now."
    default_code = "conflict"


def problem(error: Exception, context: dict[str, Any]) -> Response | None:
    """Every refusal as a Problem. What is not a refusal stays an exception (and a 500)."""
    if isinstance(error, DjangoValidationError):
        error = ValidationError(_messages(error))
    response = exception_handler(error, context)
    if response is None:
        return None
    fields = _fields(response.data) if isinstance(error, ValidationError) else {}
    detail = "; ".join(f"{k}: {v}" if k else v for k, vs in fields.items() for v in vs)
    body: dict[str, Any] = {
        "title": response.status_text,
        "status": response.status_code,
        "detail": detail or str(cast(dict[str, Any], response.data).get("detail", "")),
    }
    if fields:
        body["errors"] = fields
    response.data = body
    response.content_type = "application/problem+json"
    return response


def _messages(error: DjangoValidationError) -> Any:
    return error.message_dict if hasattr(error, "error_dict") else error.messages


def _fields(data: Any, prefix: str = "") -> dict[str, list[str]]:
    """Nested DRF errors, flat: {"stack.0.kind": ["…"]}; "" is the request as a whole."""
    if isinstance(data, dict):
        found: dict[str, list[str]] = {}
        for key, value in data.items():
            name = "" if key == api_settings.NON_FIELD_ERRORS_KEY else str(key)
            found |= _fields(value, ".".join(part for part in (prefix, name) if part))
        return found
    if isinstance(data, list) and any(isinstance(item, (dict, list)) for item in data):
        return {
            k: v
            for n, item in enumerate(data)
            for k, v in _fields(item, f"{prefix}.{n}".strip(".")).items()
        }
    return {prefix: [str(item) for item in (data if isinstance(data, list) else [data])]}


class Owned(viewsets.GenericViewSet[M]):
    """Rows of the user's teams and no others: deny by default."""

    def get_queryset(self) -> QuerySet[M]:
        queryset = super().get_queryset()
        if getattr(self, "swagger_fake_view", False):
            return queryset.none()
        return cast("QuerySet[M]", queryset.for_user(self.request.user))  # type: ignore[attr-defined]


class ReadOnly(mixins.ListModelMixin, mixins.RetrieveModelMixin, Owned[M]):
    """List and detail."""

    ordering_fields: Any = ["id"]
    ordering: Any = ["-id"]
