"""Teams over REST: the ones you are in."""

from __future__ import annotations

from rest_framework import serializers

from benchlab.api import ReadOnly
from benchlab.team.models import Team


class TeamSerializer(serializers.ModelSerializer[Team]):
    class Meta:
        model = Team
        fields = ["id", "name", "created_at"]


class Teams(ReadOnly[Team]):
    """The teams that you are in."""

    queryset = Team.objects.all()
    serializer_class = TeamSerializer
    filterset_fields = ["name"]
    ordering_fields = ["id", "name", "created_at"]
