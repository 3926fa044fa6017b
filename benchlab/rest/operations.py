# SPDX-License-Identifier: Apache-2.0
"""Operations of the API's nouns: what the body must have, who refuses it, and what the answer is.

Most nouns have operations that are not Django REST framework's own. `operation` makes one of a method that takes the
row and the body's checked values; it changes the row, or returns the new one. Work that waits for a host, and
archiving, are the same for several nouns and are here too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from django.core.exceptions import ObjectDoesNotExist
from django.core.exceptions import ValidationError as ModelError
from django.db.models import QuerySet
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.fields import empty
from rest_framework.request import Request
from rest_framework.response import Response

from benchlab.audit import request_notes
from benchlab.dynamo import programs, reported_hosts
from benchlab.engine.commands import CommandError
from benchlab.findings.storing import AlreadyDecided
from benchlab.hosts import host_tasks
from benchlab.hosts.models import HostsError, HostTask
from benchlab.lifecycle import archiving, deleting, renaming
from benchlab.lifecycle.managed_kinds import Refused, managed_kind_of
from benchlab.runs import transitions
from benchlab.web.api import (
    Conflict,
    ReadOnlyViewSet,
    TeamField,
    TeamViewSet,
    errors_by_field,
    without_team,
)

RETRY_AFTER_S = "2"
# Errors of services that say why it cannot be done now.
REFUSALS = (AlreadyDecided, CommandError, HostsError, programs.InUse, reported_hosts.Refused)
BINARY = {(200, "application/octet-stream"): OpenApiTypes.BINARY}
CSV = {(200, "text/csv"): OpenApiTypes.BINARY}

R = TypeVar("R", bound=HttpResponseBase)
# The serializer of a body, or one for each media type.
Body = type[serializers.BaseSerializer[Any]] | Mapping[str, type[serializers.BaseSerializer[Any]]]


# Base of bodies, and of answers that are no rows. A docstring would be the schema's description of each.
class ObjectSerializer(serializers.Serializer[Any]): ...


class TextListField(serializers.ListField):
    child = serializers.CharField()


class NumberListField(serializers.ListField):
    child = serializers.IntegerField()


class ObjectListField(serializers.ListField):
    child = serializers.DictField()


class TextsByNameField(serializers.DictField):
    child = serializers.CharField()


def username(relation: str, **options: Any) -> serializers.CharField:
    """Field with the name of the user of a relation; null for nobody."""
    return serializers.CharField(
        source=f"{relation}.username", allow_null=True, default=None, **options
    )


def operation(
    body: Body | None = None,
    *,
    responses: Mapping[int, object] | None = None,
    field: str = "",
    invalid: tuple[type[Exception], ...] = (ModelError,),
    **options: Any,
) -> Callable[[Callable[..., object]], Any]:
    """Make an operation of a method: `create`, `partial_update`, `destroy`, or else an action on a row by POST.

    The method gets the row (not `create`) and the values of `body`. A response that it returns is the answer. So is a
    task of a host, once it has ended; else the row that it returns, or the changed one. Errors of `invalid` are
    reported for `field`, other refusals as a conflict. `responses`: where they differ from the row. `options`: those of
    an action.
    """

    def decorate(method: Callable[..., object]) -> Any:
        name = method.__name__
        sends_row = name in ("create", "partial_update")

        @functools.wraps(method)
        def handler(view: TeamViewSet[Any], request: Request, pk: str | None = None) -> Response:
            row = None if name == "create" else view.get_object()
            values = _checked_values(view, body, row) if body or sends_row else {}
            with refusals(field, invalid):
                result = method(view, *([] if row is None else [row]), **values)
            if isinstance(result, Response):
                return result
            if status == 204:
                return Response(status=status)
            if isinstance(result, HostTask):
                return task_response(view, result, lambda _: _row_response(view, row, status))
            return _row_response(view, row if result is None else result, status)

        status = min(responses or [{"create": 201, "destroy": 204}.get(name, 200)])
        request = body or (empty if sends_row else None)
        endpoint: Any = handler
        if not (sends_row or name == "destroy"):
            path = name.replace("_", "-")
            endpoint = action(detail=True, methods=["post"], url_path=path, **options)(handler)
        return extend_schema(request=request, responses=responses or empty)(endpoint)

    return decorate


@contextmanager
def refusals(
    field: str = "", invalid: tuple[type[Exception], ...] = (ModelError,)
) -> Iterator[None]:
    """Turn errors of services into answers. Raises ValidationError or Conflict."""
    try:
        yield
    except Refused as refused:
        raise Conflict(refused.full_message) from None
    except transitions.Moved:
        raise Conflict("Something changed at the same moment; ask again.") from None
    except Exception as error:
        if not isinstance(error, (ModelError, *invalid, *REFUSALS)):
            raise
        messages = error.messages if isinstance(error, ModelError) else [str(error)]
        if not isinstance(error, invalid) or isinstance(error, AlreadyDecided):
            raise Conflict(" ".join(messages)) from None
        if isinstance(error, ModelError):
            raise serializers.ValidationError(errors_by_field(error, field)) from None
        raise serializers.ValidationError({field: messages}) from None


def _checked_values(view: TeamViewSet[Any], body: Body | None, row: Any) -> dict[str, Any]:
    """Values of the request's body, with the team of a new row. Raises ValidationError and PermissionDenied."""
    request = view.request
    if isinstance(body, Mapping):
        media_type = (request.content_type or "").partition(";")[0].strip()
        body = body.get(media_type, next(iter(body.values())))
    if body is None and row is not None:
        serializer = view.get_serializer(row, data=request.data, partial=True)
    else:
        make = body or view.get_serializer_class()
        serializer = make(data=request.data, context=view.get_serializer_context())
    serializer.is_valid(raise_exception=True)
    values = dict(serializer.validated_data)
    if not isinstance(serializer.fields.get("team"), TeamField):
        return values
    if row is not None:
        return without_team(row, values)
    return values | {"team": values.get("team") or view.default_team(values)}


def _row_response(view: TeamViewSet[Any], row: Any, status: int) -> Response:
    if status == 200:
        # A finding may be made anew meanwhile: then the answer is the row as it was changed.
        with suppress(ObjectDoesNotExist):
            row.refresh_from_db()
    return Response(view.get_serializer(row).data, status=status)


def download(response: R, name: str) -> R:
    """Have browsers store the response as a file of this name."""
    response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    return response


def text_response(text: str, name: str, media_type: str) -> HttpResponse:
    """A text file to download."""
    return download(HttpResponse(text, content_type=f"{media_type}; charset=utf-8"), name)


class HostTaskSerializer(serializers.ModelSerializer[HostTask]):
    kind = serializers.ChoiceField(choices=sorted(host_tasks.KINDS))
    by = username("by")
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


STILL_RUNNING = OpenApiResponse(
    HostTaskSerializer,
    "The host has not answered yet: a worker goes on with it. `Location` says where to look.",
)


class HostTasks(ReadOnlyViewSet[HostTask]):
    """Tasks of a worker with a host for somebody: it reads its facts, asks for its key. Kept with how they ended."""

    queryset = HostTask.objects.select_related("by")
    serializer_class = HostTaskSerializer
    filterset_fields = ["host", "kind"]
    ordering_fields = ["id", "created_at", "ended_at"]


def task_response(
    view: TeamViewSet[Any],
    row: HostTask,
    succeeded: Callable[[HostTask], Response],
    failed: Callable[[HostTask], Response] | None = None,
) -> Response:
    """Answer that `succeeded` makes of the task if it ends within seconds; else 202. One that failed is a Conflict, if
    not what `failed` makes of it.
    """
    # The key's lock (benchlab/web/idempotency) lives with the connection, so that is not given away.
    row = host_tasks.wait_for_task(row, keep_connection=view.idempotent_request is not None)
    if row.ended_at is None:
        where = {
            "Location": reverse("api:hosttask-detail", args=[row.pk]),
            "Retry-After": RETRY_AFTER_S,
        }
        return Response(HostTaskSerializer(row).data, status=202, headers=where)
    if not row.error:
        return succeeded(row)
    if failed is None:
        raise Conflict(row.error)
    return failed(row)


class NewNameSerializer(ObjectSerializer):
    name = serializers.CharField(required=False, max_length=100)
    was = serializers.CharField(
        required=False,
        help_text="The name as you know it: refused when it is another one by now",
    )


class ArchivableViewSet(ReadOnlyViewSet[Any]):
    """Base of viewsets whose rows can be archived and deleted."""

    def get_queryset(self) -> QuerySet[Any]:
        if self.action == "bring_back" and not getattr(self, "swagger_fake_view", False):
            model: Any = super().get_queryset().model
            return model.even_deleted.for_user(self.request.user)  # type: ignore[no-any-return]
        return super().get_queryset()

    @operation()
    def archive(self, row: Any) -> None:
        """Out of lists and pickers; it stays readable by its id. 409 while it runs. Safe to send twice."""
        archiving.archive(row, self.request.user)

    @operation()
    def restore(self, row: Any) -> None:
        """Back into lists and pickers. Safe to send twice."""
        archiving.restore_row(row)

    @extend_schema(
        parameters=[
            OpenApiParameter(
                "typed",
                description="Of a campaign with results: “delete” and its name, to confirm their loss",
            )
        ]
    )
    @operation()
    def destroy(self, row: Any) -> None:
        """Gone from everywhere at once, for good after a period of grace; 409 while it runs or something uses it."""
        deleting.delete(row, self.request.user, self.request.query_params.get("typed", ""))

    @operation()
    def bring_back(self, row: Any) -> None:
        """Bring back what was deleted, as it was, in the period of grace; under a new name where its own was taken."""
        deleting.bring_back(row)

    def rename(self, row: Any, values: dict[str, str]) -> None:
        """Give the row these values; `was` is its name as the caller knows it. Raises Conflict."""
        before = {name: getattr(row, name) for name in managed_kind_of(row).editable_fields}
        before["name"] = values.pop("was", before["name"])
        if "name" not in values and before["name"] != row.name:
            raise Conflict(f"It is called “{row.name}” now.")
        change = renaming.rename(row, before, values)
        request_notes.note_subject(self.request, row.team_id, change)
