# SPDX-License-Identifier: Apache-2.0
"""Workloads, campaigns and runs over REST."""

from __future__ import annotations

import re
from typing import Any, ClassVar, cast

from django.db.models import QuerySet
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request

from agents.contracts import ParseError
from agents.drivers import registry
from agents.plans import before_runs
from benchlab.analysis.designs import MAX_REPEATS
from benchlab.campaigns import matrix, services
from benchlab.campaigns.models import Campaign, Workload
from benchlab.dynamo import iometer_files
from benchlab.engine import commands, new_runs
from benchlab.engine.new_runs import create_campaign
from benchlab.hosts.models import Host
from benchlab.rest.operations import (
    CSV,
    ArchivableViewSet,
    NewNameSerializer,
    ObjectSerializer,
    TextListField,
    TextsByNameField,
    operation,
    text_response,
)
from benchlab.runs import progress
from benchlab.runs import progress as standing
from benchlab.team.models import Team
from benchlab.topologies.models import Topology
from benchlab.web.api import (
    Conflict,
    OwnRowField,
    Problem,
    TeamField,
    validate_storable,
)
from benchlab.web.filters import KnownWordFilter, StrictChoiceFilter, StrictFilterSet


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


class ProgressSerializer(ObjectSerializer):
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
    origin = TextsByNameField(read_only=True, help_text="Where imported results come from")
    schedulers = TextListField(
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


class NewCampaignNameSerializer(NewNameSerializer):
    name = serializers.CharField(required=False, max_length=200)
    question = serializers.CharField(required=False, allow_blank=True)


class NewCampaignSerializer(ObjectSerializer):
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


class StartSerializer(ObjectSerializer):
    confirmed = TextsByNameField(help_text="layout id -> plan fingerprint that was looked at")

    def validate_confirmed(self, confirmed: dict[str, str]) -> dict[int, str]:
        for key in confirmed:
            if not re.fullmatch(r"[0-9]{1,19}", key):
                raise serializers.ValidationError(f"{key[:40]!r} is not the id of a layout.")
        return {int(key): value for key, value in confirmed.items()}


class RepeatsSerializer(ObjectSerializer):
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


class WorkloadFilter(StrictFilterSet):
    tool = KnownWordFilter(registry.all_tools)

    class Meta:
        model = Workload
        fields: ClassVar = ["name", "tool"]


class Workloads(ArchivableViewSet):
    """A tool with options, and which of them are swept."""

    library = True
    queryset = Workload.objects.all()
    serializer_class = WorkloadSerializer
    filterset_class = WorkloadFilter
    ordering_fields = ["id", "name", "tool", "created_at"]

    @operation(field="options")
    def create(self, team: Team, **values: Any) -> Workload:
        return services.create_workload(team=team, user=self.request.user, **values)

    @operation(NewNameSerializer, responses={200: WorkloadSerializer})
    def partial_update(self, workload: Workload, **values: str) -> None:
        """Another name. What it does stays: runs refer to it."""
        self.rename(workload, values)

    @extend_schema(responses={(200, "text/plain"): OpenApiTypes.BINARY, 409: Problem})
    @action(detail=True)
    def icf(self, request: Request, pk: str | None = None) -> HttpResponse:
        """IOmeter's configuration of it; 409 where IOmeter could not do the same."""
        row = self.get_object()
        try:
            return text_response(iometer_files.icf_text(row), f"{row.name}.icf", "text/plain")
        except ParseError as error:
            raise Conflict(str(error)) from None


class CampaignStateFilter(StrictChoiceFilter):
    """Filter for the `state` of a campaign."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(choices=standing.State.choices, **kwargs)

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        if not value:
            return qs
        place = progress.STATE_ORDER.index(standing.State(value))
        ranked: QuerySet[Any] = qs.alias(state_rank=progress.state_rank())
        return ranked.filter(state_rank=place)


class CampaignFilter(StrictFilterSet):
    state = CampaignStateFilter()

    class Meta:
        model = Campaign
        fields: ClassVar = ["name"]


class Campaigns(ArchivableViewSet):
    """Campaigns: make one, look at its layouts' plans, apply them with the fingerprints you saw."""

    library = True
    queryset = Campaign.objects.all()
    serializer_class = CampaignSerializer
    filterset_class = CampaignFilter
    ordering_fields = ["id", "name", "created_at", "started_at"]

    @operation(NewCampaignSerializer, responses={201: CampaignSerializer})
    def create(self, team: Team, **values: Any) -> Campaign:
        return create_campaign(team=team, user=self.request.user, **values)

    @operation(NewCampaignNameSerializer, responses={200: CampaignSerializer})
    def partial_update(self, campaign: Campaign, **values: str) -> None:
        """Another name or question. Its runs, and every address, stay."""
        self.rename(campaign, values)

    @operation()
    def plan(self, campaign: Campaign) -> None:
        """Plan every layout that is not started yet anew; see /api/layouts/?campaign=."""
        commands.request_plans(campaign)

    @operation(StartSerializer, responses={200: CampaignSerializer})
    def apply(self, campaign: Campaign, confirmed: dict[int, str]) -> None:
        """Carry out what was planned, and destroy what is on its disks. The fingerprints are the confirmation.

        Refused as stale unless every one is the current plan's: it covers all commands, and every disk with all that
        is on it. The plans are made anew right before they are carried out, and refused when a disk has changed.
        """
        commands.start_campaign(campaign, confirmed, by=self.request.user.get_username())

    @extend_schema(exclude=True)
    @operation(StartSerializer)
    def start(self, campaign: Campaign, confirmed: dict[int, str]) -> None:
        """Start the campaign: an older name of `apply`, which scripts still use."""
        commands.start_campaign(campaign, confirmed, by=self.request.user.get_username())

    @operation()
    def pause(self, campaign: Campaign) -> None:
        """Start no further run; the running one goes on."""
        commands.pause_campaign(campaign)

    @operation()
    def resume(self, campaign: Campaign) -> None:
        """Go on after a pause."""
        commands.resume_campaign(campaign)

    @operation()
    def cancel(self, campaign: Campaign) -> None:
        """Stop what runs and take down what stands. Safe to send twice."""
        commands.cancel_campaign(campaign)

    @operation(RepeatsSerializer)
    def add_repeats(self, campaign: Campaign, runs: list[int], **values: Any) -> None:
        """Further repeats of these runs' points, for instance as many as a verdict or a finding says are needed.

        Where a layout still takes runs they are queued on it. Else its set-up is built once more: that layout is
        planned, and waits for `apply`.
        """
        new_runs.add_repeats(campaign, runs, **values)

    @extend_schema(responses=CSV)
    @action(detail=True, url_path="iometer-csv")
    def iometer_csv(self, request: Request, pk: str | None = None) -> HttpResponse:
        """All that dynamo measured in it, as IOmeter itself writes it."""
        row = self.get_object()
        text = iometer_files.attempts_csv(iometer_files.campaign_attempts(row), row.name)
        return text_response(text, f"campaign-{row.pk}-iometer.csv", "text/csv")
