# SPDX-License-Identifier: Apache-2.0
"""Teams, their members and invitations over REST."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from benchlab.audit import request_notes
from benchlab.audit.subjects import describe_row
from benchlab.team import invitations, members
from benchlab.team.models import Invitation, Membership, Team
from benchlab.team.roles import Role, highest_role
from benchlab.team.services import requesting_user
from benchlab.web.api import Conflict, OwnRowField, Problem, ReadOnlyViewSet


def or_conflict(act: Callable[[], Any]) -> Any:
    """A rule of teams that is in the way is told as a conflict. Raises Conflict."""
    try:
        return act()
    except ValidationError as error:
        raise Conflict(" ".join(error.messages)) from None


class TeamSerializer(serializers.ModelSerializer[Team]):
    class Meta:
        model = Team
        fields = ["id", "name", "require_mfa", "keep_raw_days", "created_at"]


class Teams(ReadOnlyViewSet[Team]):
    """The teams that you are in."""

    queryset = Team.objects.all()
    serializer_class = TeamSerializer
    filterset_fields = ["name"]
    ordering_fields = ["id", "name", "created_at"]
    http_method_names = ["get", "post", "patch", "head", "options"]

    @extend_schema(request=TeamSerializer, responses={201: TeamSerializer, 400: Problem})
    def create(self, request: Request) -> Response:
        """Create a team. Only for site admins; you become its first owner."""
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        with transaction.atomic():
            team = serializer.save()
            Membership.objects.create(team=team, user=requesting_user(request), role=Role.OWNER)
        return Response(serializer.data, status=201)

    @extend_schema(responses={200: TeamSerializer, 400: Problem})
    def partial_update(self, request: Request, pk: str | None = None) -> Response:
        """Another name, whether every member needs a second factor, or how long raw output is kept."""
        serializer = self.get_serializer(self.get_object(), data=request.data, partial=True)
        serializer.is_valid(raise_exception=True)
        serializer.save()
        return Response(serializer.data)

    @extend_schema(request=None, responses={204: None, 409: Problem})
    @action(detail=True, methods=["post"])
    def leave(self, request: Request, pk: str | None = None) -> Response:
        """The last owner cannot, nor can a token that may less than an owner: it would give up more than it has."""
        mine = Membership.objects.get(team=self.get_object(), user=requesting_user(request))
        if highest_role(request.user) is not Role.OWNER:
            raise PermissionDenied("Only you leave a team of yours; this token is limited.")
        or_conflict(lambda: members.remove_member(mine))
        return Response(status=204)


class MembershipSerializer(serializers.ModelSerializer[Membership]):
    user = serializers.CharField(source="user.username", read_only=True)

    class Meta:
        model = Membership
        fields = ["id", "team", "user", "role", "created_at"]
        read_only_fields = ["team"]
        extra_kwargs = {"role": {"required": True}}


class Memberships(ReadOnlyViewSet[Membership]):
    """Members of your teams, and their roles."""

    queryset = Membership.objects.select_related("user")
    serializer_class = MembershipSerializer
    filterset_fields = ["team", "role"]
    ordering_fields = ["id", "team", "role", "created_at"]
    http_method_names = ["get", "patch", "delete", "head", "options"]

    @extend_schema(
        request=MembershipSerializer,
        responses={200: MembershipSerializer, 400: Problem, 409: Problem},
    )
    def partial_update(self, request: Request, pk: str | None = None) -> Response:
        """Another role. The last owner stays one."""
        member = self.get_object()
        serializer = self.get_serializer(member, data=request.data)
        serializer.is_valid(raise_exception=True)
        role = Role(serializer.validated_data["role"])
        request_notes.note_subject(
            request, member.team_id, f"{describe_row(member)}: {member.role} to {role.value}"
        )
        or_conflict(lambda: members.change_role(member, role))
        return Response(self.get_serializer(member).data)

    @extend_schema(responses={204: None, 409: Problem})
    def destroy(self, request: Request, pk: str | None = None) -> Response:
        """Out of the team, at once."""
        member = self.get_object()
        or_conflict(lambda: members.remove_member(member))
        return Response(status=204)


class InvitationSerializer(serializers.ModelSerializer[Invitation]):
    team: OwnRowField[Team] = OwnRowField(queryset=Team.objects.all())
    state = serializers.CharField(read_only=True, help_text="open, used, revoked or expired")
    invited_by = serializers.CharField(
        source="invited_by.username", read_only=True, allow_null=True, default=None
    )

    class Meta:
        model = Invitation
        fields = ["id", "team", "role", "email", "state", "invited_by", "created_at", "expires_at"]
        read_only_fields = ["expires_at"]


class MadeInvitationSerializer(InvitationSerializer):
    link = serializers.URLField(
        read_only=True,
        allow_null=True,
        help_text="Shown this once; whoever has it joins. null in an answer that is sent again",
    )

    class Meta(InvitationSerializer.Meta):
        fields = [*InvitationSerializer.Meta.fields, "link"]


class Invitations(ReadOnlyViewSet[Invitation]):
    """Links that let one person into a team, once, within seven days."""

    queryset = Invitation.objects.select_related("invited_by")
    serializer_class = InvitationSerializer
    filterset_fields = ["team", "role"]
    ordering_fields = ["id", "created_at", "expires_at"]

    @extend_schema(
        request=InvitationSerializer, responses={201: MadeInvitationSerializer, 400: Problem}
    )
    def create(self, request: Request) -> Response:
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        values = serializer.validated_data
        invitation, token = invitations.invite(
            values["team"],
            Role(values.get("role", Role.VIEWER)),
            requesting_user(request),
            values.get("email", ""),
        )
        link = request.build_absolute_uri(reverse("join", args=[token]))
        return Response({**self.get_serializer(invitation).data, "link": link}, status=201)

    @extend_schema(request=None, responses={200: InvitationSerializer})
    @action(detail=True, methods=["post"])
    def revoke(self, request: Request, pk: str | None = None) -> Response:
        """Its link works no more. Safe to send twice; a used one stays used."""
        invitation = self.get_object()
        invitations.revoke_invitation(invitation)
        invitation.refresh_from_db()
        return Response(self.get_serializer(invitation).data)
