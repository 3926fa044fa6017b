# SPDX-License-Identifier: Apache-2.0
"""Renaming, archiving, deleting and bringing back over REST: the same for campaigns, topologies and workloads."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from benchlab.audit import request_notes
from benchlab.lifecycle import archiving, deleting, renaming
from benchlab.lifecycle.managed_kinds import Refused, managed_kind_of
from benchlab.web.api import Conflict, Problem, TeamViewSet, errors_by_field

TYPED = OpenApiParameter(
    "typed",
    OpenApiTypes.STR,
    description="Of a campaign with results: “delete” and its name, to confirm their loss",
)


class NewNameSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(required=False, max_length=100)
    was = serializers.CharField(
        required=False,
        help_text="The name as you know it: refused when it is another one by now",
    )


class NewCampaignNameSerializer(NewNameSerializer):
    name = serializers.CharField(required=False, max_length=200)
    question = serializers.CharField(required=False, allow_blank=True)


class ArchivableViewSet(TeamViewSet[Any]):
    """Base of viewsets whose rows can be archived and deleted."""

    def get_queryset(self) -> QuerySet[Any]:
        if self.action == "bring_back" and not getattr(self, "swagger_fake_view", False):
            model: Any = super().get_queryset().model
            return model.even_deleted.for_user(self.request.user)  # type: ignore[no-any-return]
        return super().get_queryset()

    @extend_schema(request=None)
    @action(detail=True, methods=["post"])
    def archive(self, request: Request, pk: str | None = None) -> Response:
        """Out of lists and pickers; it stays readable by its id. 409 while it runs. Safe to send twice."""
        row = self.get_object()
        try:
            archiving.archive(row, request.user)
        except Refused as refused:
            raise Conflict(refused.full_message) from None
        return Response(self.get_serializer(row).data)

    @extend_schema(request=None)
    @action(detail=True, methods=["post"])
    def restore(self, request: Request, pk: str | None = None) -> Response:
        """Back into lists and pickers. Safe to send twice."""
        row = self.get_object()
        archiving.restore_row(row)
        return Response(self.get_serializer(row).data)

    @extend_schema(parameters=[TYPED], responses={204: None, 409: Problem})
    def destroy(self, request: Request, pk: str | None = None) -> Response:
        """Gone from everywhere at once, for good after a period of grace; 409 while it runs or something uses it."""
        try:
            typed = request.query_params.get("typed", "")
            deleting.delete(self.get_object(), request.user, typed)
        except Refused as refused:
            raise Conflict(refused.full_message) from None
        return Response(status=204)

    @extend_schema(request=None)
    @action(detail=True, methods=["post"], url_path="bring-back")
    def bring_back(self, request: Request, pk: str | None = None) -> Response:
        """Bring back what was deleted, as it was, in the period of grace; under a new name where its own was taken."""
        row = self.get_object()
        try:
            deleting.bring_back(row)
        except Refused as refused:
            raise Conflict(refused.full_message) from None
        row.refresh_from_db()
        return Response(self.get_serializer(row).data)

    def _rename(self, request: Request, serializer_class: type[NewNameSerializer]) -> Response:
        row = self.get_object()
        serializer = serializer_class(data=request.data)
        serializer.is_valid(raise_exception=True)
        values = dict(serializer.validated_data)
        before = {name: getattr(row, name) for name in managed_kind_of(row).editable_fields}
        before["name"] = values.pop("was", before["name"])
        if "name" not in values and before["name"] != row.name:
            raise Conflict(f"It is called “{row.name}” now.")
        try:
            change = renaming.rename(row, before, values)
        except ValidationError as error:
            raise serializers.ValidationError(errors_by_field(error)) from None
        except Refused as refused:
            raise Conflict(refused.why) from None
        request_notes.note_subject(request, row.team_id, change)
        return Response(self.get_serializer(row).data)
