# SPDX-License-Identifier: Apache-2.0
"""Comments, tags and other notes on rows, saved views, links for guests and the feed, over REST."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import mixins, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from benchlab.audit import request_notes
from benchlab.rest.operations import ObjectSerializer, operation, refusals, username
from benchlab.sharing import activity, comparisons, discussion, links
from benchlab.sharing.models import (
    MOST_QUERY,
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
from benchlab.team.services import owning_team, requesting_user
from benchlab.web.api import ReadOnlyViewSet, TeamViewSet
from benchlab.web.texts import MAX_TEXT_LENGTH

PER_PAGE, LAST_PAGE = 50, 40
PAGE = {"type": "integer", "minimum": 1, "maximum": LAST_PAGE}


class About(ObjectSerializer):
    """Row by its kind and id."""

    kind = serializers.ChoiceField(choices=Kind.choices)
    object_id = serializers.IntegerField(min_value=1, max_value=discussion.GREATEST)


def target_row(request: Request, kind: str, object_id: int, *, library: bool = False) -> Any:
    """Raises ValidationError: no such row of theirs."""
    find = discussion.visible_row if library else discussion.owned_row
    try:
        row = find(request.user, kind, object_id)
    except Http404 as error:
        raise serializers.ValidationError({"object_id": [str(error)]}) from None
    request_notes.note_subject(request, discussion.row_team(row).pk, discussion.audit_name(row))
    return row


class TeamMembersViewSet(GenericViewSet[Any]):
    """Only who is in a team has somebody to share with."""

    def check_permissions(self, request: Request) -> None:
        super().check_permissions(request)
        if self.action == "create":
            owning_team(request.user)


class CommentSerializer(About, serializers.ModelSerializer[Comment]):
    text = serializers.CharField(max_length=MAX_TEXT_LENGTH, help_text="Plain text")
    by = username("by", read_only=True)

    class Meta:
        model = Comment
        fields = ["id", "kind", "object_id", "text", "by", "created_at", "edited_at"]


class CommentTextSerializer(ObjectSerializer):
    text = serializers.CharField(required=False, max_length=MAX_TEXT_LENGTH, help_text="Plain text")


class Comments(TeamMembersViewSet, ReadOnlyViewSet[Comment]):
    """Comments of people on hosts, topologies, workloads, campaigns and runs."""

    queryset = Comment.objects.select_related("by")
    serializer_class = CommentSerializer
    filterset_fields = ["kind", "object_id"]
    ordering_fields = ["id", "created_at"]
    http_method_names = ["get", "post", "patch", "delete", "head", "options"]

    @operation(field="text")
    def create(self, kind: str, object_id: int, text: str) -> Comment:
        row = target_row(self.request, kind, object_id)
        return discussion.add_comment(row, requesting_user(self.request), text)

    @operation(CommentTextSerializer, responses={200: CommentSerializer}, field="text")
    def partial_update(self, comment: Comment, text: str | None = None) -> None:
        """Only one's own."""
        user = requesting_user(self.request)
        discussion.edit_comment(comment, user, comment.text if text is None else text)

    @operation()
    def destroy(self, comment: Comment) -> None:
        """One's own; owners anybody's."""
        discussion.delete_comment(comment, requesting_user(self.request))


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

    @operation(field="tag")
    def create(self, kind: str, object_id: int, tag: dict[str, str]) -> Tagging:
        """Twice is as once."""
        return discussion.tag_row(target_row(self.request, kind, object_id), tag["name"])

    @operation()
    def destroy(self, row: Tagging) -> None:
        """The tag is taken off that row; one that nothing has any more is gone."""
        target = discussion.owned_row(self.request.user, row.kind, row.object_id)
        discussion.untag_row(target, row.tag_id)


class NoteSerializer(About, serializers.ModelSerializer[Note]):
    text = serializers.CharField(
        max_length=MAX_TEXT_LENGTH, allow_blank=True, help_text="Plain text"
    )
    by = username("by", read_only=True)

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

    @operation(field="text")
    def create(self, kind: str, object_id: int, text: str) -> Note:
        """Writes the row's note, over the one that is there."""
        row = target_row(self.request, kind, object_id)
        return discussion.write_note(row, requesting_user(self.request), text)


class StarSerializer(About, serializers.ModelSerializer[Star]):
    class Meta:
        model = Star
        fields = ["id", "kind", "object_id", "created_at"]
        validators: list[Any] = []


class WishedStarSerializer(About):
    starred = serializers.BooleanField(default=True, help_text="false takes it off")


class Stars(TeamMembersViewSet, ReadOnlyViewSet[Star]):
    """Your own: nobody else sees them."""

    queryset = Star.objects.all()
    serializer_class = StarSerializer
    filterset_fields = ["kind"]
    ordering_fields = ["id", "created_at"]

    @operation(WishedStarSerializer, responses={200: WishedStarSerializer})
    def create(self, kind: str, object_id: int, starred: bool) -> Response:
        """Twice is as once; also on rows of the reference library."""
        row = target_row(self.request, kind, object_id, library=True)
        discussion.set_star(row, requesting_user(self.request), starred)
        return Response({"kind": kind, "object_id": object_id, "starred": starred})


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


class SavedViews(TeamMembersViewSet, ReadOnlyViewSet[SavedView]):
    """Comparisons under a name: the team's, and your own."""

    queryset = SavedView.objects.all()
    serializer_class = SavedViewSerializer
    filterset_fields = ["team", "name", "for_team"]
    ordering_fields = ["id", "name", "created_at"]
    http_method_names = ["get", "post", "delete", "head", "options"]

    @operation(field="query")
    def create(self, name: str, query: str, for_team: bool = True) -> SavedView:
        """Your own of the same name is replaced."""
        user = requesting_user(self.request)
        query = comparisons.canonical(query)
        campaigns = comparisons.campaigns_of(user, query)
        team = comparisons.comparison_team(campaigns, owning_team(user))
        with refusals("name"):
            return comparisons.save_view(user, team, name, query, for_team)

    @operation()
    def destroy(self, view: SavedView) -> None:
        """One's own; owners anybody's of the team."""
        comparisons.delete_view(view, requesting_user(self.request))


class ShareSerializer(serializers.ModelSerializer[Share]):
    state = serializers.CharField(read_only=True, help_text="open, expired or revoked")
    by = username("by", read_only=True)

    class Meta:
        model = Share
        fields = [
            "id",
            "team",
            "kind",
            "object_id",
            "query",
            "name",
            "hide_hosts",
            "state",
            "by",
            "created_at",
            "expires_at",
            "views",
            "viewed_at",
        ]
        read_only_fields = ["team", "name", "expires_at", "views", "viewed_at"]


class NewShareSerializer(ObjectSerializer):
    kind = serializers.ChoiceField(choices=Share.Kind.choices)
    object_id = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=discussion.GREATEST,
        help_text="ID of the run, campaign or saved view",
    )
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


class Shares(ReadOnlyViewSet[Share]):
    """Links that show one thing, read only, to whoever has them."""

    queryset = Share.objects.select_related("by")
    serializer_class = ShareSerializer
    filterset_fields = ["team", "kind", "object_id"]
    ordering_fields = ["id", "created_at", "expires_at", "views"]

    @operation(NewShareSerializer, responses={201: MadeShareSerializer})
    def create(
        self, kind: str, days: int, hide_hosts: bool, object_id: int | None = None, query: str = ""
    ) -> Response:
        user = requesting_user(self.request)
        field = "query" if kind == Share.Kind.COMPARISON else "object_id"
        try:
            with refusals(field):
                target = links.check_target(user, kind, object_id, query)
        except Http404 as error:
            raise serializers.ValidationError({field: [str(error)]}) from None
        share, token = links.create_link(target, user, days=days, hide_hosts=hide_hosts)
        words = f"link {share.pk}: {share.get_kind_display()}, {share}"
        request_notes.note_subject(self.request, share.team_id, words)
        link = self.request.build_absolute_uri(reverse("shared", args=[token]))
        return Response({**self.get_serializer(share).data, "link": link}, status=201)

    @operation()
    def revoke(self, share: Share) -> None:
        """Its link shows nothing any more. Safe to send twice."""
        links.revoke_link(share)


class EventSerializer(serializers.ModelSerializer[Event]):
    source = serializers.ChoiceField(  # type: ignore[assignment]  # the name of one of its attributes
        choices=["entry", "comment", "ended"], help_text="What somebody did, said, or what ended"
    )

    class Meta:
        model = Event
        fields = ["at", "source", "who", "says", "url"]


class Activity(mixins.ListModelMixin, TeamViewSet[Event]):
    """Events in your teams, newest first."""

    queryset = Event.objects.all()
    serializer_class = EventSerializer
    ordering_fields: Any = []
    filter_backends: Any = []
    pagination_class = None

    @extend_schema(parameters=[OpenApiParameter("page", PAGE, description="50 to a page, from 1")])
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        page = request.query_params.get("page", "1")
        if not (page.isascii() and page.isdecimal() and 1 <= int(page[:9]) <= LAST_PAGE):
            raise serializers.ValidationError({"page": [f"Give a number from 1 to {LAST_PAGE}."]})
        start = (int(page[:9]) - 1) * PER_PAGE
        rows = activity.newest_rows(request.user, start + PER_PAGE)[start:]
        events = activity.page_events(request.user, rows)
        return Response(EventSerializer(events, many=True).data)
