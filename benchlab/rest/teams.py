# SPDX-License-Identifier: Apache-2.0
"""Teams, their members and invitations, and the audit log, over REST."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.urls import reverse
from rest_framework import serializers
from rest_framework.response import Response

from benchlab.audit import chain, request_notes
from benchlab.audit.models import Entry
from benchlab.audit.subjects import describe_row
from benchlab.pages.audit import AuditFilter
from benchlab.rest.operations import operation, username
from benchlab.team import invitations, members
from benchlab.team.models import Invitation, Membership, Team
from benchlab.team.roles import Role, highest_role, only_team
from benchlab.team.services import requesting_user
from benchlab.web.api import OwnRowField, ReadOnlyViewSet
from benchlab.web.filters import StrictFilterSet


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

    @operation()
    def create(self, **values: Any) -> Team:
        """Create a team. Only for site admins; you become its first owner."""
        user = requesting_user(self.request)
        with transaction.atomic():
            team = Team.objects.create(**values)
            Membership.objects.create(team=team, user=user, role=Role.OWNER)
        return team

    @operation()
    def partial_update(self, team: Team, **values: Any) -> None:
        """Another name, whether every member needs a second factor, or how long raw output is kept."""
        for name, value in values.items():
            setattr(team, name, value)
        team.save()

    @operation(responses={204: None}, invalid=())
    def leave(self, team: Team) -> None:
        """The last owner cannot, nor can a token that may less than an owner: it would give up more than it has."""
        mine = Membership.objects.get(team=team, user=requesting_user(self.request))
        if highest_role(self.request.user) is not Role.OWNER:
            raise PermissionDenied("Only you leave a team of yours; this token is limited.")
        members.remove_member(mine)


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

    @operation(MembershipSerializer, invalid=())
    def partial_update(self, member: Membership, role: Role) -> None:
        """Another role. The last owner stays one."""
        words = f"{describe_row(member)}: {member.role} to {Role(role).value}"
        request_notes.note_subject(self.request, member.team_id, words)
        members.change_role(member, Role(role))

    @operation(invalid=())
    def destroy(self, member: Membership) -> None:
        """Out of the team, at once."""
        members.remove_member(member)


class InvitationSerializer(serializers.ModelSerializer[Invitation]):
    team: OwnRowField[Team] = OwnRowField(queryset=Team.objects.all())
    state = serializers.CharField(read_only=True, help_text="open, used, revoked or expired")
    invited_by = username("invited_by", read_only=True)

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

    @operation(InvitationSerializer, responses={201: MadeInvitationSerializer})
    def create(self, team: Team, role: str = Role.VIEWER, email: str = "") -> Response:
        user = requesting_user(self.request)
        invitation, token = invitations.invite(team, Role(role), user, email)
        link = self.request.build_absolute_uri(reverse("join", args=[token]))
        return Response({**self.get_serializer(invitation).data, "link": link}, status=201)

    @operation()
    def revoke(self, invitation: Invitation) -> None:
        """Its link works no more. Safe to send twice; a used one stays used."""
        invitations.revoke_invitation(invitation)


class EntrySerializer(serializers.ModelSerializer[Entry]):
    details = serializers.DictField()
    team_id = serializers.IntegerField(allow_null=True, help_text="null: it is no team's")
    actor_id = serializers.IntegerField(allow_null=True, help_text="null: the engine, or nobody")

    class Meta:
        model = Entry
        fields = list(chain.ENTRY_FIELDS)


class AuditEntries(ReadOnlyViewSet[Entry]):
    """Log of who did what to what, newest first. Nothing changes or deletes an entry."""

    queryset = Entry.objects.all()
    serializer_class = EntrySerializer
    filterset_class = type("Filter", (AuditFilter, StrictFilterSet), {})
    ordering_fields = ["id"]

    def get_queryset(self) -> QuerySet[Entry]:
        """Entries that one may see: those of no team a site admin sees, and a token of theirs only where it is not
        limited.
        """
        entries, user = super().get_queryset(), self.request.user
        limited: Any = highest_role(user) is not Role.OWNER or only_team(user)
        return entries.exclude(team_id=None) if limited else entries
