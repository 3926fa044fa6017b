# SPDX-License-Identifier: Apache-2.0
"""Comments, tags and other notes on rows, over REST."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from benchlab.audit import request_notes
from benchlab.sharing import discussion
from benchlab.sharing.models import (
    Comment,
    Kind,
    Note,
    Star,
    Tag,
    Tagging,
)
from benchlab.team.models import Team
from benchlab.team.services import owning_team, requesting_user
from benchlab.web.api import Problem, ReadOnlyViewSet, errors_by_field
from benchlab.web.texts import MAX_TEXT_LENGTH


class About(serializers.Serializer[Any]):
    """Row by its kind and id."""

    kind = serializers.ChoiceField(choices=Kind.choices)
    object_id = serializers.IntegerField(min_value=1, max_value=discussion.GREATEST)


def target_row(request: Request, about: dict[str, Any], *, library: bool = False) -> Any:
    """Raises ValidationError: no such row of theirs."""
    find = discussion.visible_row if library else discussion.owned_row
    try:
        row = find(request.user, about["kind"], about["object_id"])
    except Http404 as error:
        raise serializers.ValidationError({"object_id": [str(error)]}) from None
    describe_for_audit(request, discussion.row_team(row), discussion.audit_name(row))
    return row


def describe_for_audit(request: Request, team: Team, words: str) -> None:
    """Note what the audit log is to say of a row that the address does not name."""
    request_notes.note_subject(request, team.pk, words)


def or_invalid(act: Any, field: str) -> Any:
    """A rule that says no is told of the field that it is about. Raises ValidationError."""
    try:
        return act()
    except ValidationError as error:
        raise serializers.ValidationError(errors_by_field(error, field)) from None


class CommentSerializer(About, serializers.ModelSerializer[Comment]):
    text = serializers.CharField(max_length=MAX_TEXT_LENGTH, help_text="Plain text")
    by = serializers.CharField(source="by.username", read_only=True, allow_null=True, default=None)

    class Meta:
        model = Comment
        fields = ["id", "kind", "object_id", "text", "by", "created_at", "edited_at"]


class CommentTextSerializer(serializers.Serializer[Comment]):
    text = serializers.CharField(max_length=MAX_TEXT_LENGTH, help_text="Plain text")


class Comments(ReadOnlyViewSet[Comment]):
    """Comments of people on hosts, topologies, workloads, campaigns and runs."""

    queryset = Comment.objects.select_related("by")
    serializer_class = CommentSerializer
    filterset_fields = ["kind", "object_id"]
    ordering_fields = ["id", "created_at"]
    http_method_names = ["get", "post", "patch", "delete", "head", "options"]

    @extend_schema(request=CommentSerializer, responses={201: CommentSerializer, 400: Problem})
    def create(self, request: Request) -> Response:
        # who is in no team has nobody to talk to
        owning_team(request.user)
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        row = target_row(request, serializer.validated_data)
        text = serializer.validated_data["text"]
        comment = or_invalid(
            lambda: discussion.add_comment(row, requesting_user(request), text), "text"
        )
        return Response(self.get_serializer(comment).data, status=201)

    @extend_schema(
        request=CommentTextSerializer,
        responses={200: CommentSerializer, 400: Problem, 403: Problem},
    )
    def partial_update(self, request: Request, pk: str | None = None) -> Response:
        """Only one's own."""
        comment = self.get_object()
        text = request.data.get("text", comment.text) if isinstance(request.data, dict) else ""
        if comment.by_id != request.user.pk:
            discussion.edit_comment(comment, requesting_user(request), comment.text)
        serializer = CommentTextSerializer(data={"text": text})
        serializer.is_valid(raise_exception=True)
        new_text = serializer.validated_data["text"]
        or_invalid(
            lambda: discussion.edit_comment(comment, requesting_user(request), new_text), "text"
        )
        return Response(self.get_serializer(comment).data)

    @extend_schema(responses={204: None, 403: Problem})
    def destroy(self, request: Request, pk: str | None = None) -> Response:
        """One's own; owners anybody's."""
        discussion.delete_comment(self.get_object(), requesting_user(request))
        return Response(status=204)


class TagSerializer(serializers.ModelSerializer[Tag]):
    palette = serializers.IntegerField(
        source="colour", read_only=True, help_text="Which of the palette's colours, from 0"
    )

    class Meta:
        model = Tag
        fields = ["id", "team", "name", "palette"]


class Tags(ReadOnlyViewSet[Tag]):
    """The words that your teams tag with; `taggings` puts them on rows."""

    queryset = Tag.objects.all()
    serializer_class = TagSerializer
    filterset_fields = ["team", "name"]
    ordering_fields = ["id", "name"]


class TaggingSerializer(About, serializers.ModelSerializer[Tagging]):
    tag = serializers.CharField(max_length=40, source="tag.name", help_text="Made if there is none")

    class Meta:
        model = Tagging
        fields = ["id", "kind", "object_id", "tag"]


class Taggings(ReadOnlyViewSet[Tagging]):
    """Tags of rows."""

    queryset = Tagging.objects.select_related("tag")
    serializer_class = TaggingSerializer
    filterset_fields = ["kind", "object_id", "tag__name"]
    ordering_fields = ["id"]

    @extend_schema(request=TaggingSerializer, responses={201: TaggingSerializer, 400: Problem})
    def create(self, request: Request) -> Response:
        """Twice is as once."""
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        row, name = (
            target_row(request, serializer.validated_data),
            serializer.validated_data["tag"]["name"],
        )
        tagging = or_invalid(lambda: discussion.tag_row(row, name), "tag")
        return Response(self.get_serializer(tagging).data, status=201)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str | None = None) -> Response:
        """The tag is taken off that row; one that nothing has any more is gone."""
        row = self.get_object()
        discussion.untag_row(
            discussion.owned_row(request.user, row.kind, row.object_id), row.tag_id
        )
        return Response(status=204)


class NoteSerializer(About, serializers.ModelSerializer[Note]):
    text = serializers.CharField(
        max_length=MAX_TEXT_LENGTH, allow_blank=True, help_text="Plain text"
    )
    by = serializers.CharField(source="by.username", read_only=True, allow_null=True, default=None)

    class Meta:
        model = Note
        fields = ["id", "kind", "object_id", "text", "by", "changed_at"]
        # sent again, it is changed
        validators: list[Any] = []


class Notes(ReadOnlyViewSet[Note]):
    """The one text that a team keeps beside a row."""

    queryset = Note.objects.select_related("by")
    serializer_class = NoteSerializer
    filterset_fields = ["kind", "object_id"]
    ordering_fields = ["id", "changed_at"]

    @extend_schema(request=NoteSerializer, responses={201: NoteSerializer, 400: Problem})
    def create(self, request: Request) -> Response:
        """Writes the row's note, over the one that is there."""
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        row, text = (
            target_row(request, serializer.validated_data),
            serializer.validated_data["text"],
        )
        note = or_invalid(
            lambda: discussion.write_note(row, requesting_user(request), text), "text"
        )
        return Response(self.get_serializer(note).data, status=201)


class StarSerializer(About, serializers.ModelSerializer[Star]):
    class Meta:
        model = Star
        fields = ["id", "kind", "object_id", "created_at"]
        validators: list[Any] = []


class WishedStarSerializer(About):
    starred = serializers.BooleanField(default=True, help_text="false takes it off")


class Stars(ReadOnlyViewSet[Star]):
    """Your own: nobody else sees them."""

    queryset = Star.objects.all()
    serializer_class = StarSerializer
    filterset_fields = ["kind"]
    ordering_fields = ["id", "created_at"]

    @extend_schema(request=WishedStarSerializer, responses={200: WishedStarSerializer})
    def create(self, request: Request) -> Response:
        """Twice is as once; also on rows of the reference library."""
        owning_team(request.user)
        serializer = WishedStarSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        row = target_row(request, serializer.validated_data, library=True)
        discussion.set_star(row, requesting_user(request), serializer.validated_data["starred"])
        return Response(serializer.data)
