"""Workloads, campaigns and runs over REST."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from django.core.exceptions import ValidationError
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from benchlab.api import Conflict, Problem, ReadOnly
from benchlab.campaigns import progress, services
from benchlab.campaigns.models import Campaign, Run, Workload
from benchlab.hosts.models import Host
from benchlab.runs import commands
from benchlab.team.services import team_of
from benchlab.topologies.models import Topology


class WorkloadSerializer(serializers.ModelSerializer[Workload]):
    options = serializers.DictField(default=dict, help_text="Options of the tool")
    sweep = serializers.DictField(
        child=serializers.ListField(),
        default=dict,
        help_text="option -> list of values, one run per combination",
    )

    class Meta:
        model = Workload
        fields = ["id", "name", "tool", "options", "sweep", "created_at"]


class CampaignSerializer(serializers.ModelSerializer[Campaign]):
    state = serializers.SerializerMethodField()

    class Meta:
        model = Campaign
        fields = [
            "id",
            "name",
            "question",
            "repeats",
            "order",
            "seed",
            "state",
            "created_at",
            "started_at",
            "paused_at",
            "cancelled_at",
        ]

    def get_state(self, campaign: Campaign) -> str:
        rows = getattr(self.parent, "instance", None) or [campaign]
        known: dict[int, progress.Progress] = cast(dict[str, Any], self.context).setdefault(
            "progress", {}
        )
        if campaign.pk not in known:  # a list asks once for all of its rows
            known |= progress.of(rows)
        return str(known[campaign.pk].state)


class NewCampaignSerializer(serializers.Serializer[Campaign]):
    """The matrix: hosts x topologies x workloads (with their sweeps) x repeats."""

    name = serializers.CharField(max_length=200)
    question = serializers.CharField(default="", allow_blank=True)
    hosts = serializers.PrimaryKeyRelatedField(many=True, queryset=Host.objects.none())
    topologies = serializers.PrimaryKeyRelatedField(many=True, queryset=Topology.objects.none())
    workloads = serializers.PrimaryKeyRelatedField(many=True, queryset=Workload.objects.none())
    repeats = serializers.IntegerField(min_value=1, max_value=100, default=3)
    order = serializers.ChoiceField(
        choices=Campaign.Order.choices, default=Campaign.Order.RANDOM_BLOCKS
    )
    seed = serializers.IntegerField(required=False, min_value=0, max_value=2**53)

    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        user = self.context["request"].user
        for name, model in (("hosts", Host), ("topologies", Topology), ("workloads", Workload)):
            fields[name].child_relation.queryset = model.objects.for_user(user)  # type: ignore[attr-defined]
        return fields


class StartSerializer(serializers.Serializer[dict[str, Any]]):
    confirmed = serializers.DictField(
        child=serializers.CharField(), help_text="layout id -> plan fingerprint that was looked at"
    )


class RunSerializer(serializers.ModelSerializer[Run]):
    options = serializers.DictField()
    point = serializers.DictField()

    class Meta:
        model = Run
        fields = [
            "id",
            "campaign",
            "host",
            "topology",
            "workload",
            "tool",
            "options",
            "point",
            "outstanding",
            "repeat",
            "position",
            "expected_s",
            "expected_writes",
        ]


class Workloads(mixins.CreateModelMixin, ReadOnly[Workload]):
    """A tool with options, and which of them are swept."""

    queryset = Workload.objects.all()
    serializer_class = WorkloadSerializer
    filterset_fields = ["name", "tool"]

    def perform_create(self, serializer: Any) -> None:
        try:
            serializer.instance = services.create_workload(
                team=team_of(self.request.user), user=self.request.user, **serializer.validated_data
            )
        except ValidationError as error:
            raise serializers.ValidationError({"options": error.messages}) from None


class Campaigns(ReadOnly[Campaign]):
    """Campaigns: make one, look at its layouts' plans, start it with the fingerprints you saw."""

    queryset = Campaign.objects.all()
    serializer_class = CampaignSerializer
    filterset_fields = ["name"]

    @extend_schema(request=NewCampaignSerializer, responses={201: CampaignSerializer, 400: Problem})
    def create(self, request: Request) -> Response:
        sent = NewCampaignSerializer(data=request.data, context=self.get_serializer_context())
        sent.is_valid(raise_exception=True)
        try:
            made = services.create_campaign(
                team=team_of(request.user), user=request.user, **sent.validated_data
            )
        except ValidationError as error:
            raise serializers.ValidationError(error.messages) from None
        return Response(self.get_serializer(made).data, status=201)

    @extend_schema(request=None, responses={200: CampaignSerializer, 409: Problem})
    @action(detail=True, methods=["post"])
    def plan(self, request: Request, pk: str | None = None) -> Response:
        """Plan every layout that is not started yet anew; see /api/layouts/?campaign=."""
        return self._do(commands.plan)

    @extend_schema(
        request=StartSerializer, responses={200: CampaignSerializer, 400: Problem, 409: Problem}
    )
    @action(detail=True, methods=["post"])
    def start(self, request: Request, pk: str | None = None) -> Response:
        """Start what was planned; refused as stale unless every fingerprint is the current one."""
        sent = StartSerializer(data=request.data)
        sent.is_valid(raise_exception=True)
        seen = {int(k): v for k, v in sent.validated_data["confirmed"].items() if k.isdecimal()}
        return self._do(lambda campaign: commands.start(campaign, seen))

    @extend_schema(request=None, responses={200: CampaignSerializer})
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: str | None = None) -> Response:
        """Start no further run; the running one goes on."""
        return self._do(commands.pause)

    @extend_schema(request=None, responses={200: CampaignSerializer})
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: str | None = None) -> Response:
        """Go on after a pause."""
        return self._do(commands.resume)

    @extend_schema(request=None, responses={200: CampaignSerializer})
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, pk: str | None = None) -> Response:
        """Stop what runs and take down what stands. Safe to send twice."""
        return self._do(commands.cancel)

    def _do(self, act: Callable[[Campaign], None]) -> Response:
        campaign = self.get_object()
        try:
            act(campaign)
        except commands.CommandError as error:
            raise Conflict(str(error)) from None
        campaign.refresh_from_db()
        return Response(self.get_serializer(campaign).data)


class Runs(ReadOnly[Run]):
    """One cell of the matrix and one repeat."""

    queryset = Run.objects.all()
    serializer_class = RunSerializer
    filterset_fields = ["campaign", "host", "topology", "workload", "tool", "outstanding", "repeat"]

    @extend_schema(request=None, responses={201: RunSerializer, 409: Problem})
    @action(detail=True, methods=["post"])
    def retry(self, request: Request, pk: str | None = None) -> Response:
        """A new attempt on a new layout, which is planned and waits to be started."""
        run = self.get_object()
        try:
            commands.retry(run)
        except commands.CommandError as error:
            raise Conflict(str(error)) from None
        return Response(self.get_serializer(run).data, status=201)
