# SPDX-License-Identifier: Apache-2.0
"""Workloads, campaigns and runs over REST."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, cast

from django.core.exceptions import ValidationError
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import mixins, serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from agents.drivers import registry
from agents.plans import before_runs
from benchlab.analysis.designs import MAX_REPEATS
from benchlab.campaigns import matrix, services
from benchlab.campaigns.models import Campaign, Run, Workload
from benchlab.engine import added_repeats, commands
from benchlab.engine.new_campaign import create_campaign
from benchlab.hosts.models import Host
from benchlab.rest.dynamo_files import CampaignFiles, WorkloadFiles
from benchlab.rest.lifecycle import ArchivableViewSet, NewCampaignNameSerializer, NewNameSerializer
from benchlab.rest.run_filters import CampaignStateFilter, RunOutcomeFilter, StageFilter
from benchlab.runs import progress as standing
from benchlab.runs import transitions
from benchlab.topologies.models import Topology
from benchlab.web.api import (
    Conflict,
    OwnRowField,
    Problem,
    ReadOnlyViewSet,
    TeamField,
    errors_by_field,
    pop_team,
    validate_storable,
)
from benchlab.web.filters import KnownWordFilter, StrictFilterSet


class WorkloadSerializer(serializers.ModelSerializer[Workload]):
    options = serializers.DictField(
        default=dict, validators=[validate_storable], help_text="Options of the tool"
    )
    sweep = serializers.DictField(
        child=serializers.ListField(),
        default=dict,
        validators=[validate_storable],
        help_text="option -> list of values, one run per combination",
    )

    description = serializers.CharField(
        default="",
        allow_blank=True,
        max_length=10_000,
        validators=[validate_storable],
        help_text="What it is for; of an .icf file its Test Description",
    )
    team = TeamField()

    class Meta:
        model = Workload
        fields = [
            "id",
            "team",
            "name",
            "description",
            "tool",
            "options",
            "sweep",
            "created_at",
            "archived_at",
        ]
        # of a name that is taken the service tells
        validators: list[Any] = []


class ProgressSerializer(serializers.Serializer[standing.Progress]):
    runs = serializers.IntegerField()
    counts = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="Runs by the outcome of their latest attempt, else queued or running",
    )
    drafts = serializers.IntegerField(help_text="Layouts whose plan nobody has confirmed")
    eta_s = serializers.FloatField(allow_null=True, help_text="Seconds; null when nothing runs")


class CampaignSerializer(serializers.ModelSerializer[Campaign]):
    source = serializers.ChoiceField(  # type: ignore[assignment]  # the name of one of its attributes
        choices=Campaign.Source.choices, read_only=True, help_text="Empty: measured here"
    )
    origin = serializers.DictField(
        child=serializers.CharField(), read_only=True, help_text="Where imported results come from"
    )
    schedulers = serializers.ListField(
        child=serializers.CharField(),
        read_only=True,
        help_text="I/O schedulers of the disks below a layout; each point is measured with each",
    )
    state = serializers.SerializerMethodField()
    progress = serializers.SerializerMethodField()

    class Meta:
        model = Campaign
        fields = [
            "id",
            "team",
            "name",
            "question",
            "repeats",
            "order",
            "visits",
            "schedulers",
            "seed",
            "source",
            "origin",
            "state",
            "progress",
            "created_at",
            "started_at",
            "paused_at",
            "cancelled_at",
            "archived_at",
        ]

    @extend_schema_field(serializers.ChoiceField(choices=standing.State.choices))
    def get_state(self, campaign: Campaign) -> str:
        return str(self._progress(campaign).state)

    @extend_schema_field(ProgressSerializer)
    def get_progress(self, campaign: Campaign) -> Any:
        return ProgressSerializer(self._progress(campaign)).data

    def _progress(self, campaign: Campaign) -> standing.Progress:
        rows = getattr(self.parent, "instance", None) or [campaign]
        progresses: dict[int, standing.Progress] = cast(dict[str, Any], self.context).setdefault(
            "progress", {}
        )
        # a list asks once for all of its rows
        if campaign.pk not in progresses:
            progresses |= standing.progress_by_campaign(rows)
        return progresses[campaign.pk]


class NewCampaignSerializer(serializers.Serializer[Campaign]):
    """The matrix: hosts x topologies x workloads (with their sweeps) x repeats."""

    team = TeamField()
    name = serializers.CharField(max_length=200)
    question = serializers.CharField(default="", allow_blank=True)
    hosts = OwnRowField[Host](many=True, allow_empty=False, queryset=Host.objects.all())
    topologies = OwnRowField[Topology](
        many=True, allow_empty=False, queryset=Topology.objects.all()
    )
    workloads = OwnRowField[Workload](many=True, allow_empty=False, queryset=Workload.objects.all())
    repeats = serializers.IntegerField(min_value=1, max_value=100, default=3)
    order = serializers.ChoiceField(
        choices=Campaign.Order.choices,
        default=Campaign.Order.RANDOM_BLOCKS,
        help_text="abba: layouts are built in several visits that take turns, each with a part of the repeats",
    )
    visits = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=100,
        help_text="How often each layout is built in the order abba: 2 unless told, at most as many as repeats",
    )
    schedulers = serializers.ListField(
        child=serializers.ChoiceField(
            choices=before_runs.LINUX_SCHEDULERS,
            error_messages={
                "invalid_choice": "{input} is not an I/O scheduler; "
                f"known are {', '.join(before_runs.LINUX_SCHEDULERS)}."
            },
        ),
        required=False,
        max_length=len(before_runs.LINUX_SCHEDULERS),
        help_text="I/O schedulers of the disks below each layout: each point is measured with each of them, in the "
        "same blocks of one build. Set before each run, put back afterwards. Without any they stay as they are",
    )
    seed = serializers.IntegerField(required=False, min_value=0, max_value=2**53)


class StartSerializer(serializers.Serializer[dict[str, Any]]):
    confirmed = serializers.DictField(
        child=serializers.CharField(), help_text="layout id -> plan fingerprint that was looked at"
    )

    def validate_confirmed(self, confirmed: dict[str, str]) -> dict[int, str]:
        for key in confirmed:
            if not re.fullmatch(r"[0-9]{1,19}", key):
                raise serializers.ValidationError(f"{key[:40]!r} is not the id of a layout.")
        return {int(key): value for key, value in confirmed.items()}


class RepeatsSerializer(serializers.Serializer[dict[str, Any]]):
    runs = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=2**63 - 1),
        allow_empty=False,
        max_length=matrix.MAX_RUNS,
        help_text="Each names its point, which is repeated: one of each will do",
    )
    repeats = serializers.IntegerField(min_value=1, max_value=MAX_REPEATS)
    after = serializers.IntegerField(
        required=False,
        allow_null=True,
        default=None,
        help_text="The campaign's largest repeat as you know it: refused when there are more by now",
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
            "scheduler",
            "stage",
            "repeat",
            "visit",
            "position",
            "expected_s",
            "expected_writes",
        ]


class WorkloadFilter(StrictFilterSet):
    tool = KnownWordFilter(registry.all_tools)

    class Meta:
        model = Workload
        fields: ClassVar = ["name", "tool"]


class Workloads(
    WorkloadFiles, ArchivableViewSet, mixins.CreateModelMixin, ReadOnlyViewSet[Workload]
):
    """A tool with options, and which of them are swept."""

    library = True
    queryset = Workload.objects.all()
    serializer_class = WorkloadSerializer
    filterset_class = WorkloadFilter
    ordering_fields = ["id", "name", "tool", "created_at"]

    def perform_create(self, serializer: Any) -> None:
        values = serializer.validated_data
        team = pop_team(self.request.user, values)
        try:
            serializer.instance = services.create_workload(
                team=team, user=self.request.user, **values
            )
        except ValidationError as error:
            raise serializers.ValidationError(errors_by_field(error, "options")) from None

    @extend_schema(request=NewNameSerializer, responses={200: WorkloadSerializer, 400: Problem})
    def partial_update(self, request: Request, pk: str | None = None) -> Response:
        """Another name. What it does stays: runs refer to it."""
        return self._rename(request, NewNameSerializer)


class CampaignFilter(StrictFilterSet):
    state = CampaignStateFilter()

    class Meta:
        model = Campaign
        fields: ClassVar = ["name"]


class Campaigns(CampaignFiles, ArchivableViewSet, ReadOnlyViewSet[Campaign]):
    """Campaigns: make one, look at its layouts' plans, apply them with the fingerprints you saw."""

    library = True
    queryset = Campaign.objects.all()
    serializer_class = CampaignSerializer
    filterset_class = CampaignFilter
    ordering_fields = ["id", "name", "created_at", "started_at"]

    @extend_schema(request=NewCampaignSerializer, responses={201: CampaignSerializer, 400: Problem})
    def create(self, request: Request) -> Response:
        serializer = NewCampaignSerializer(data=request.data, context=self.get_serializer_context())
        serializer.is_valid(raise_exception=True)
        team = pop_team(request.user, serializer.validated_data)
        try:
            campaign = create_campaign(team=team, user=request.user, **serializer.validated_data)
        except ValidationError as error:
            raise serializers.ValidationError(errors_by_field(error)) from None
        return Response(self.get_serializer(campaign).data, status=201)

    @extend_schema(
        request=NewCampaignNameSerializer, responses={200: CampaignSerializer, 400: Problem}
    )
    def partial_update(self, request: Request, pk: str | None = None) -> Response:
        """Another name or question. Its runs, and every address, stay."""
        return self._rename(request, NewCampaignNameSerializer)

    @extend_schema(request=None, responses={200: CampaignSerializer, 409: Problem})
    @action(detail=True, methods=["post"])
    def plan(self, request: Request, pk: str | None = None) -> Response:
        """Plan every layout that is not started yet anew; see /api/layouts/?campaign=."""
        return self._run_command(commands.request_plans)

    @extend_schema(
        request=StartSerializer, responses={200: CampaignSerializer, 400: Problem, 409: Problem}
    )
    @action(detail=True, methods=["post"])
    def apply(self, request: Request, pk: str | None = None) -> Response:
        """Carry out what was planned, and destroy what is on its disks. The fingerprints are the confirmation.

        Refused as stale unless every one is the current plan's: it covers all commands, and every disk with all that
        is on it. The plans are made anew right before they are carried out, and refused when a disk has changed.
        """
        return self._start_confirmed(request)

    @extend_schema(exclude=True, request=StartSerializer)
    @action(detail=True, methods=["post"])
    def start(self, request: Request, pk: str | None = None) -> Response:
        """Start the campaign: an older name of `apply`, which scripts still use."""
        return self._start_confirmed(request)

    @extend_schema(request=None, responses={200: CampaignSerializer, 409: Problem})
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: str | None = None) -> Response:
        """Start no further run; the running one goes on."""
        return self._run_command(commands.pause_campaign)

    @extend_schema(request=None, responses={200: CampaignSerializer, 409: Problem})
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: str | None = None) -> Response:
        """Go on after a pause."""
        return self._run_command(commands.resume_campaign)

    @extend_schema(request=None, responses={200: CampaignSerializer, 409: Problem})
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, pk: str | None = None) -> Response:
        """Stop what runs and take down what stands. Safe to send twice."""
        return self._run_command(commands.cancel_campaign)

    @extend_schema(
        request=RepeatsSerializer,
        responses={200: CampaignSerializer, 400: Problem, 409: Problem},
    )
    @action(detail=True, methods=["post"], url_path="add-repeats")
    def add_repeats(self, request: Request, pk: str | None = None) -> Response:
        """Further repeats of these runs' points, for instance as many as a verdict or a finding says are needed.

        Where a layout still takes runs they are queued on it. Else its set-up is built once more: that layout is
        planned, and waits for `apply`.
        """
        serializer = RepeatsSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        return self._run_command(
            lambda campaign: added_repeats.add_repeats(campaign, **_repeat_arguments(serializer))
        )

    def _start_confirmed(self, request: Request) -> Response:
        serializer = StartSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        fingerprints = serializer.validated_data["confirmed"]
        return self._run_command(
            lambda campaign: commands.start_campaign(
                campaign, fingerprints, by=request.user.get_username()
            )
        )

    def _run_command(self, act: Callable[[Campaign], object]) -> Response:
        campaign = self.get_object()
        try:
            act(campaign)
        except commands.CommandError as error:
            raise Conflict(str(error)) from None
        except transitions.Moved:
            raise Conflict("Something changed at the same moment; ask again.") from None
        campaign.refresh_from_db()
        return Response(self.get_serializer(campaign).data)


def _repeat_arguments(serializer: RepeatsSerializer) -> Any:
    values = dict(serializer.validated_data)
    return {"like": values.pop("runs"), **values}


class RunFilter(StrictFilterSet):
    tool = KnownWordFilter(registry.all_tools)
    stage = StageFilter()
    outcome = RunOutcomeFilter()

    class Meta:
        model = Run
        fields: ClassVar = [
            "campaign",
            "host",
            "topology",
            "workload",
            "tool",
            "stage",
            "outstanding",
            "scheduler",
            "repeat",
            "visit",
        ]


class Runs(ReadOnlyViewSet[Run]):
    """One cell of the matrix and one repeat."""

    library = True
    queryset = Run.objects.all()
    serializer_class = RunSerializer
    filterset_class = RunFilter
    ordering_fields = ["id", "campaign", "position", "outstanding", "repeat"]

    @extend_schema(request=None, responses={201: RunSerializer, 409: Problem})
    @action(detail=True, methods=["post"])
    def retry(self, request: Request, pk: str | None = None) -> Response:
        """A new attempt on a new layout, which is planned and waits to be started."""
        run = self.get_object()
        try:
            commands.retry_run(run)
        except commands.CommandError as error:
            raise Conflict(str(error)) from None
        return Response(self.get_serializer(run).data, status=201)
