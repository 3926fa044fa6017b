"""What people say about rows, saved views, links and the feed, over REST."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.http import Http404
from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import mixins, serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from benchlab.api import Owned, Problem, ReadOnly, messages
from benchlab.sharing import activity, links, nouns, queries, talk
from benchlab.sharing.models import (
    MOST_QUERY,
    MOST_TEXT,
    Comment,
    Event,
    Kind,
    Note,
    SavedView,
    Share,
    Star,
    Tag,
    Tagging,
)
from benchlab.team.models import Team
from benchlab.team.services import team_of
from benchlab.team.views_account import person

PER_PAGE, LAST_PAGE = 50, 40
PAGE = {"type": "integer", "minimum": 1, "maximum": LAST_PAGE}


class About(serializers.Serializer[Any]):
    """Which row: its kind and id."""

    kind = serializers.ChoiceField(choices=Kind.choices)
    object_id = serializers.IntegerField(min_value=1, max_value=nouns.GREATEST)


def row_of(request: Request, about: dict[str, Any], *, library: bool = False) -> Any:
    """Raises ValidationError: no such row of theirs."""
    find = nouns.seen if library else nouns.own
    try:
        row = find(request.user, about["kind"], about["object_id"])
    except Http404 as error:
        raise serializers.ValidationError({"object_id": [str(error)]}) from None
    audited(request, nouns.team_of(row), nouns.words(row))
    return row


def audited(request: Request, team: Team, words: str) -> None:
    """What the audit log is to say of a row that the address does not name."""
    request._request.audited = (team.pk, words)  # type: ignore[attr-defined]


def or_refuse(act: Any, field: str) -> Any:
    """A rule that says no is told of the field that it is about. Raises ValidationError."""
    try:
        return act()
    except ValidationError as error:
        raise serializers.ValidationError(messages(error, field)) from None


class CommentSerializer(About, serializers.ModelSerializer[Comment]):
    text = serializers.CharField(max_length=MOST_TEXT, help_text="Plain text")
    by = serializers.CharField(source="by.username", read_only=True, allow_null=True, default=None)

    class Meta:
        model = Comment
        fields = ["id", "kind", "object_id", "text", "by", "created_at", "edited_at"]


class CommentTextSerializer(serializers.Serializer[Comment]):
    text = serializers.CharField(max_length=MOST_TEXT, help_text="Plain text")


class Comments(ReadOnly[Comment]):
    """What people said about hosts, topologies, workloads, campaigns and runs."""

    queryset = Comment.objects.select_related("by")
    serializer_class = CommentSerializer
    filterset_fields = ["kind", "object_id"]
    ordering_fields = ["id", "created_at"]
    http_method_names = ["get", "post", "patch", "delete", "head", "options"]

    @extend_schema(request=CommentSerializer, responses={201: CommentSerializer, 400: Problem})
    def create(self, request: Request) -> Response:
        team_of(request.user)  # who is in no team has nobody to talk to
        sent = self.get_serializer(data=request.data)
        sent.is_valid(raise_exception=True)
        row = row_of(request, sent.validated_data)
        text = sent.validated_data["text"]
        made = or_refuse(lambda: talk.comment(row, person(request), text), "text")
        return Response(self.get_serializer(made).data, status=201)

    @extend_schema(
        request=CommentTextSerializer,
        responses={200: CommentSerializer, 400: Problem, 403: Problem},
    )
    def partial_update(self, request: Request, pk: str | None = None) -> Response:
        """Only one's own."""
        comment = self.get_object()
        text = request.data.get("text", comment.text) if isinstance(request.data, dict) else ""
        if comment.by_id != request.user.pk:
            talk.edit(comment, person(request), comment.text)
        sent = CommentTextSerializer(data={"text": text})
        sent.is_valid(raise_exception=True)
        said = sent.validated_data["text"]
        or_refuse(lambda: talk.edit(comment, person(request), said), "text")
        return Response(self.get_serializer(comment).data)

    @extend_schema(responses={204: None, 403: Problem})
    def destroy(self, request: Request, pk: str | None = None) -> Response:
        """One's own; owners anybody's."""
        talk.delete(self.get_object(), person(request))
        return Response(status=204)


class TagSerializer(serializers.ModelSerializer[Tag]):
    palette = serializers.IntegerField(
        source="colour", read_only=True, help_text="Which of the palette's colours, from 0"
    )

    class Meta:
        model = Tag
        fields = ["id", "team", "name", "palette"]


class Tags(ReadOnly[Tag]):
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


class Taggings(ReadOnly[Tagging]):
    """Which row has which tag."""

    queryset = Tagging.objects.select_related("tag")
    serializer_class = TaggingSerializer
    filterset_fields = ["kind", "object_id", "tag__name"]
    ordering_fields = ["id"]

    @extend_schema(request=TaggingSerializer, responses={201: TaggingSerializer, 400: Problem})
    def create(self, request: Request) -> Response:
        """Twice is as once."""
        sent = self.get_serializer(data=request.data)
        sent.is_valid(raise_exception=True)
        row, name = row_of(request, sent.validated_data), sent.validated_data["tag"]["name"]
        made = or_refuse(lambda: talk.tag(row, name), "tag")
        return Response(self.get_serializer(made).data, status=201)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str | None = None) -> Response:
        """The tag is taken off that row; one that nothing has any more is gone."""
        row = self.get_object()
        talk.untag(nouns.own(request.user, row.kind, row.object_id), row.tag_id)
        return Response(status=204)


class NoteSerializer(About, serializers.ModelSerializer[Note]):
    text = serializers.CharField(max_length=MOST_TEXT, allow_blank=True, help_text="Plain text")
    by = serializers.CharField(source="by.username", read_only=True, allow_null=True, default=None)

    class Meta:
        model = Note
        fields = ["id", "kind", "object_id", "text", "by", "changed_at"]
        validators: list[Any] = []  # sent again, it is changed


class Notes(ReadOnly[Note]):
    """The one text that a team keeps beside a row."""

    queryset = Note.objects.select_related("by")
    serializer_class = NoteSerializer
    filterset_fields = ["kind", "object_id"]
    ordering_fields = ["id", "changed_at"]

    @extend_schema(request=NoteSerializer, responses={201: NoteSerializer, 400: Problem})
    def create(self, request: Request) -> Response:
        """Writes the row's note, over the one that is there."""
        sent = self.get_serializer(data=request.data)
        sent.is_valid(raise_exception=True)
        row, text = row_of(request, sent.validated_data), sent.validated_data["text"]
        made = or_refuse(lambda: talk.note(row, person(request), text), "text")
        return Response(self.get_serializer(made).data, status=201)


class StarSerializer(About, serializers.ModelSerializer[Star]):
    class Meta:
        model = Star
        fields = ["id", "kind", "object_id", "created_at"]
        validators: list[Any] = []


class WishedStarSerializer(About):
    starred = serializers.BooleanField(default=True, help_text="false takes it off")


class Stars(ReadOnly[Star]):
    """Your own: nobody else sees them."""

    queryset = Star.objects.all()
    serializer_class = StarSerializer
    filterset_fields = ["kind"]
    ordering_fields = ["id", "created_at"]

    @extend_schema(request=WishedStarSerializer, responses={200: WishedStarSerializer})
    def create(self, request: Request) -> Response:
        """Twice is as once; also on rows of the reference library."""
        team_of(request.user)
        sent = WishedStarSerializer(data=request.data)
        sent.is_valid(raise_exception=True)
        row = row_of(request, sent.validated_data, library=True)
        talk.star(row, person(request), sent.validated_data["starred"])
        return Response(sent.data)


class SavedViewSerializer(serializers.ModelSerializer[SavedView]):
    query = serializers.CharField(
        max_length=MOST_QUERY,
        help_text="As the compare page's address has it: campaign=1&campaign=2",
    )

    class Meta:
        model = SavedView
        fields = ["id", "team", "name", "query", "for_team", "created_at"]
        read_only_fields = ["team"]
        validators: list[Any] = []


class SavedViews(ReadOnly[SavedView]):
    """Comparisons under a name: the team's, and your own."""

    queryset = SavedView.objects.all()
    serializer_class = SavedViewSerializer
    filterset_fields = ["team", "name", "for_team"]
    ordering_fields = ["id", "name", "created_at"]
    http_method_names = ["get", "post", "delete", "head", "options"]

    @extend_schema(request=SavedViewSerializer, responses={201: SavedViewSerializer, 400: Problem})
    def create(self, request: Request) -> Response:
        """Your own of the same name is replaced."""
        team_of(request.user)
        sent = self.get_serializer(data=request.data)
        sent.is_valid(raise_exception=True)
        asked = sent.validated_data
        query = or_refuse(lambda: queries.canonical(asked["query"]), "query")
        found = or_refuse(lambda: queries.campaigns_of(request.user, query), "query")
        team = or_refuse(lambda: queries.team_of(found, team_of(request.user)), "query")
        everybody = asked.get("for_team", True)
        made = or_refuse(
            lambda: queries.save_view(person(request), team, asked["name"], query, everybody),
            "name",
        )
        return Response(self.get_serializer(made).data, status=201)

    @extend_schema(responses={204: None, 403: Problem})
    def destroy(self, request: Request, pk: str | None = None) -> Response:
        """One's own; owners anybody's of the team."""
        view = self.get_object()
        queries.delete_view(view, person(request))
        return Response(status=204)


class ShareSerializer(serializers.ModelSerializer[Share]):
    state = serializers.CharField(read_only=True, help_text="open, expired or revoked")
    by = serializers.CharField(source="by.username", read_only=True, allow_null=True, default=None)

    class Meta:
        model = Share
        fields = ["id", "team", "kind", "object_id", "query", "name", "hide_hosts", "state", "by", "created_at",
                  "expires_at", "views", "viewed_at"]  # fmt: skip
        read_only_fields = ["team", "name", "expires_at", "views", "viewed_at"]


class NewShareSerializer(serializers.Serializer[Share]):
    kind = serializers.ChoiceField(choices=Share.Kind.choices)
    object_id = serializers.IntegerField(
        required=False, min_value=1, max_value=nouns.GREATEST,
        help_text="The run, campaign or saved view",
    )  # fmt: skip
    query = serializers.CharField(
        required=False, max_length=MOST_QUERY, help_text="Of a comparison: the compare page's"
    )
    days = serializers.IntegerField(min_value=1, max_value=links.MOST_DAYS, default=links.DAYS)
    hide_hosts = serializers.BooleanField(default=True)


class MadeShareSerializer(ShareSerializer):
    link = serializers.URLField(
        read_only=True,
        allow_null=True,
        help_text="Shown this once; whoever has it sees. null in an answer that is sent again",
    )

    class Meta(ShareSerializer.Meta):
        fields = [*ShareSerializer.Meta.fields, "link"]


class Shares(ReadOnly[Share]):
    """Links that show one thing, read only, to whoever has them."""

    queryset = Share.objects.select_related("by")
    serializer_class = ShareSerializer
    filterset_fields = ["team", "kind", "object_id"]
    ordering_fields = ["id", "created_at", "expires_at", "views"]

    @extend_schema(request=NewShareSerializer, responses={201: MadeShareSerializer, 400: Problem})
    def create(self, request: Request) -> Response:
        sent = NewShareSerializer(data=request.data)
        sent.is_valid(raise_exception=True)
        asked = sent.validated_data
        about = (asked["kind"], asked.get("object_id"), asked.get("query", ""))
        field = "query" if asked["kind"] == Share.Kind.COMPARISON else "object_id"
        try:
            wish = or_refuse(lambda: links.wish(person(request), *about), field)
        except Http404 as error:
            raise serializers.ValidationError({field: [str(error)]}) from None
        made, token = links.make(
            wish, person(request), days=asked["days"], hide_hosts=asked["hide_hosts"]
        )
        audited(request, made.team, f"link {made.pk}: {made.get_kind_display()}, {made}")
        link = request.build_absolute_uri(reverse("shared", args=[token]))
        return Response({**self.get_serializer(made).data, "link": link}, status=201)

    @extend_schema(request=None, responses={200: ShareSerializer})
    @action(detail=True, methods=["post"])
    def revoke(self, request: Request, pk: str | None = None) -> Response:
        """Its link shows nothing any more. Safe to send twice."""
        share = self.get_object()
        links.revoke(share)
        share.refresh_from_db()
        return Response(self.get_serializer(share).data)


class EventSerializer(serializers.ModelSerializer[Event]):
    source = serializers.ChoiceField(  # type: ignore[assignment]  # the name of one of its attributes
        choices=["entry", "comment", "ended"], help_text="What somebody did, said, or what ended"
    )

    class Meta:
        model = Event
        fields = ["at", "source", "who", "says", "url"]


class Activity(mixins.ListModelMixin, Owned[Event]):
    """What happened in your teams, the newest first."""

    queryset = Event.objects.all()
    serializer_class = EventSerializer
    ordering_fields: Any = []
    filter_backends: Any = []
    pagination_class = None

    @extend_schema(parameters=[OpenApiParameter("page", PAGE, description="50 to a page, from 1")])
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        asked = request.query_params.get("page", "1")
        if not (asked.isascii() and asked.isdecimal() and 1 <= int(asked[:9]) <= LAST_PAGE):
            raise serializers.ValidationError({"page": [f"Give a number from 1 to {LAST_PAGE}."]})
        start = (int(asked[:9]) - 1) * PER_PAGE
        found = activity.rows(request.user, start + PER_PAGE)[start:]
        told = activity.events(request.user, found)
        return Response(EventSerializer(told, many=True).data)
