# SPDX-License-Identifier: Apache-2.0
"""The audit log over REST, as its page shows it."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers

from benchlab.audit import chain
from benchlab.audit.models import Entry
from benchlab.pages.audit import AuditFilter
from benchlab.team.roles import Role, highest_role, only_team
from benchlab.web.api import ReadOnlyViewSet
from benchlab.web.filters import StrictFilterSet


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
