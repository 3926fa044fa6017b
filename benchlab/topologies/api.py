"""Topologies over REST, and the layer drivers that they are made of."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from rest_framework import mixins, serializers

from benchlab.api import ReadOnly, messages, storable
from benchlab.team.services import team_of
from benchlab.topologies import services
from benchlab.topologies.models import Topology


class TopologySerializer(serializers.ModelSerializer[Topology]):
    stack = serializers.ListField(
        child=serializers.DictField(),
        allow_empty=False,
        validators=[storable],
        help_text="Layers, bottom up: {kind, options, devices: [{use, role, count}]}",
    )

    stages = serializers.ListField(
        child=serializers.DictField(),
        default=list,
        validators=[storable],
        help_text="How it grows while it stands: {layer (1 is the lowest), options, devices, during: measure then too}",
    )
    measure_resync = serializers.BooleanField(
        default=False, help_text="Measure during the first resync too, not only after it"
    )

    class Meta:
        model = Topology
        fields = ["id", "name", "description", "stack", "stages", "measure_resync", "created_at"]


class Topologies(mixins.CreateModelMixin, ReadOnly[Topology]):
    """Named stacks of layers, bottom up, in terms of roles."""

    queryset = Topology.objects.all()
    serializer_class = TopologySerializer
    filterset_fields = ["name"]
    ordering_fields = ["id", "name", "created_at"]

    def perform_create(self, serializer: Any) -> None:
        try:
            serializer.instance = services.create_topology(
                team=team_of(self.request.user), user=self.request.user, **serializer.validated_data
            )
        except ValidationError as error:
            wrong = "stages" if error.messages[0].startswith("Stage ") else "stack"
            raise serializers.ValidationError(messages(error, wrong)) from None
