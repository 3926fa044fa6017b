# SPDX-License-Identifier: Apache-2.0
"""Work that waits for a host, over REST: 202 and where to look, or the answer itself when it comes soon."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.urls import reverse
from drf_spectacular.utils import OpenApiResponse
from rest_framework.response import Response

from benchlab.hosts import host_tasks
from benchlab.hosts.models import HostTask
from benchlab.rest.host_serializers import HostTaskSerializer
from benchlab.web.api import Conflict, ReadOnlyViewSet, TeamViewSet

STILL_RUNNING = OpenApiResponse(
    HostTaskSerializer,
    "The host has not answered yet: a worker goes on with it. `Location` says where to look.",
)
RETRY_AFTER_S = "2"


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
    """Answer that `done` makes of the task when it ends within seconds; else 202. One that failed is a Conflict, if not
    what `failed` makes of it.
    """
    # The key's lock (benchlab/idempotency) lives with the connection, so that is not given away.
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
