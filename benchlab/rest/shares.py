# SPDX-License-Identifier: Apache-2.0
"""Saved views, links for guests and the feed, over REST."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import mixins, serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from benchlab.rest.sharing import describe_for_audit, or_invalid
from benchlab.sharing import activity, comparisons, discussion, links
from benchlab.sharing.models import MOST_QUERY, Event, SavedView, Share
from benchlab.team.services import owning_team, requesting_user
from benchlab.web.api import Problem, ReadOnlyViewSet, TeamViewSet

PER_PAGE, LAST_PAGE = 50, 40
PAGE = {"type": "integer", "minimum": 1, "maximum": LAST_PAGE}


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


class SavedViews(ReadOnlyViewSet[SavedView]):
    """Comparisons under a name: the team's, and your own."""

    queryset = SavedView.objects.all()
    serializer_class = SavedViewSerializer
    filterset_fields = ["team", "name", "for_team"]
    ordering_fields = ["id", "name", "created_at"]
    http_method_names = ["get", "post", "delete", "head", "options"]

    @extend_schema(request=SavedViewSerializer, responses={201: SavedViewSerializer, 400: Problem})
    def create(self, request: Request) -> Response:
        """Your own of the same name is replaced."""
        owning_team(request.user)
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        values = serializer.validated_data
        query = or_invalid(lambda: comparisons.canonical(values["query"]), "query")
        campaigns = or_invalid(lambda: comparisons.campaigns_of(request.user, query), "query")
        team = or_invalid(
            lambda: comparisons.comparison_team(campaigns, owning_team(request.user)), "query"
        )
        everybody = values.get("for_team", True)
        view = or_invalid(
            lambda: comparisons.save_view(
                requesting_user(request), team, values["name"], query, everybody
            ),
            "name",
        )
        return Response(self.get_serializer(view).data, status=201)

    @extend_schema(responses={204: None, 403: Problem})
    def destroy(self, request: Request, pk: str | None = None) -> Response:
        """One's own; owners anybody's of the team."""
        view = self.get_object()
        comparisons.delete_view(view, requesting_user(request))
        return Response(status=204)


class ShareSerializer(serializers.ModelSerializer[Share]):
    state = serializers.CharField(read_only=True, help_text="open, expired or revoked")
    by = serializers.CharField(source="by.username", read_only=True, allow_null=True, default=None)

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


class NewShareSerializer(serializers.Serializer[Share]):
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

    @extend_schema(request=NewShareSerializer, responses={201: MadeShareSerializer, 400: Problem})
    def create(self, request: Request) -> Response:
        serializer = NewShareSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        values = serializer.validated_data
        about = (values["kind"], values.get("object_id"), values.get("query", ""))
        field = "query" if values["kind"] == Share.Kind.COMPARISON else "object_id"
        try:
            wish = or_invalid(lambda: links.check_target(requesting_user(request), *about), field)
        except Http404 as error:
            raise serializers.ValidationError({field: [str(error)]}) from None
        share, token = links.create_link(
            wish, requesting_user(request), days=values["days"], hide_hosts=values["hide_hosts"]
        )
        describe_for_audit(
            request, share.team, f"link {share.pk}: {share.get_kind_display()}, {share}"
        )
        link = request.build_absolute_uri(reverse("shared", args=[token]))
        return Response({**self.get_serializer(share).data, "link": link}, status=201)

    @extend_schema(request=None, responses={200: ShareSerializer})
    @action(detail=True, methods=["post"])
    def revoke(self, request: Request, pk: str | None = None) -> Response:
        """Its link shows nothing any more. Safe to send twice."""
        share = self.get_object()
        links.revoke_link(share)
        share.refresh_from_db()
        return Response(self.get_serializer(share).data)


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
