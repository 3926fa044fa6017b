# SPDX-License-Identifier: Apache-2.0
"""Runs over REST, with their layouts, attempts, steps and transitions."""

from __future__ import annotations

from typing import Any, ClassVar

import django_filters
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from agents.drivers import registry
from benchlab.campaigns.models import Run
from benchlab.dynamo import iometer_files, run_part
from benchlab.engine import commands, host_cleanup
from benchlab.hosts.models import HostTask
from benchlab.rest.operations import (
    CSV,
    STILL_RUNNING,
    ObjectListField,
    ObjectSerializer,
    TextListField,
    TextsByNameField,
    operation,
    text_response,
)
from benchlab.runs.models import (
    Attempt,
    Layout,
    StepLog,
    Transition,
)
from benchlab.runs.states import AttemptPhase, LayoutPhase, Outcome
from benchlab.topologies import moments
from benchlab.web.api import FiniteFloatField, ReadOnlyViewSet
from benchlab.web.filters import (
    KnownWordFilter,
    StrictChoiceFilter,
    StrictFilterSet,
    WholeNumberFilter,
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


class LayoutSerializer(serializers.ModelSerializer[Layout]):
    name = serializers.CharField(read_only=True)
    person_key = serializers.CharField(
        read_only=True, help_text="Which wait for a person it is: for person-done"
    )
    stack = ObjectListField()
    stages = ObjectListField()
    progress = ObjectListField(
        help_text="What the kernel still does: {says, done: 0 to 1, eta_s: seconds or null}",
    )
    degraded = TextListField(help_text="What was degraded at the last look, in words")
    schedulers = TextListField(help_text="I/O schedulers requested by its runs")
    plan = serializers.DictField(allow_null=True)
    build_s = serializers.FloatField(
        read_only=True, allow_null=True, help_text="Seconds that building it took; null: not built"
    )
    teardown_s = serializers.FloatField(
        read_only=True,
        allow_null=True,
        help_text="Seconds until its disks were proven blank; null: they are not",
    )

    class Meta:
        model = Layout
        fields = [
            "id",
            "name",
            "campaign",
            "host",
            "topology",
            "visit",
            "stack",
            "stages",
            "measure_resync",
            "schedulers",
            "on_degraded",
            "degraded",
            "stage",
            "followed",
            "settled",
            "progress",
            "awaited_until",
            "phase",
            "outcome",
            "reason",
            "reason_text",
            "plan",
            "plan_fingerprint",
            "plan_error",
            "planned_at",
            "confirmed_fingerprint",
            "facts_planned",
            "facts_ready",
            "facts_after",
            "trouble",
            "needs_person",
            "person_key",
            "person_said_at",
            "person_trouble",
            "seen_at",
            "expected_s",
            "build_s",
            "teardown_s",
            "created_at",
            "begun_at",
            "ready_at",
            "down_at",
            "ended_at",
        ]


class DoneSerializer(ObjectSerializer):
    key = serializers.CharField(help_text="The layout's `person_key`, as it was read")


class ReleaseSerializer(ObjectSerializer):
    typed = serializers.CharField(help_text="“release HOST”, with the host's name")


class TeardownSerializer(ObjectSerializer):
    snapshot = serializers.IntegerField(
        default=None,
        allow_null=True,
        min_value=1,
        max_value=2**53,
        help_text="Of a finished layout: the newest facts of its host, in which you saw what it left",
    )


class AttemptSerializer(serializers.ModelSerializer[Attempt]):
    argv = TextListField()
    meta = serializers.DictField(
        help_text="What the runner recorded; not_sampled: why samples could not be read, by sampler"
    )
    windows = ObjectListField(
        help_text="What the tool did when: {name, start, end, measured}, seconds on the clock of its series; "
        "[]: it did not tell",
    )

    degraded = serializers.ListField(
        child=TextsByNameField(),
        help_text="What was degraded: {says, seen: before the run or during it}; empty: all was",
    )

    course = serializers.DictField(
        help_text="Course of the rate while the tool measured, without what is 0; {}: not judged. state: steady; step, "
        "trend, decay: the mean is of no lasting state; stalls, levels, cycles: the mean is of a rate that is not one; "
        "too short to tell; no series. unit: of the rates mean, first and second (before and after the step, or the "
        "higher and the lower level) and last_third; edge_s: start to the step; change, last_slope: over the run and "
        "within the last third; share: of the time at standstill or at the lower level; spells; period_s; duration_s",
        read_only=True,
    )

    class Meta:
        model = Attempt
        fields = [
            "id",
            "run",
            "layout",
            "number",
            "phase",
            "outcome",
            "reason",
            "reason_text",
            "argv",
            "tool_version",
            "boot_id",
            "facts",
            "fingerprint",
            "degraded",
            "meta",
            "windows",
            "course",
            "exit_code",
            "started_at",
            "seen_at",
            "ended_at",
            "raw_removed_at",
        ]


class StepLogSerializer(serializers.ModelSerializer[StepLog]):
    argv = TextListField()
    destroys = TextListField()

    class Meta:
        model = StepLog
        fields = [
            "id",
            "layout",
            "kind",
            "part",
            "argv",
            "says",
            "destroys",
            "exit_code",
            "stdout",
            "stderr",
            "started_at",
            "ended_at",
        ]


class TransitionSerializer(serializers.ModelSerializer[Transition]):
    class Meta:
        model = Transition
        fields = ["id", "layout", "attempt", "old", "new", "at", "reason"]


class FiguresSerializer(ObjectSerializer):
    iops = FiniteFloatField(allow_null=True, help_text="op/s")
    bandwidth = FiniteFloatField(allow_null=True, help_text="B/s")
    mean = FiniteFloatField(allow_null=True, help_text="Latency, s")
    slowest = FiniteFloatField(allow_null=True, help_text="Latency, s")
    errors = serializers.IntegerField(allow_null=True)  # type: ignore[assignment]  # an attribute's name


class SecondSerializer(FiguresSerializer):
    t = FiniteFloatField(help_text="Seconds since the console began")


class NowSerializer(FiguresSerializer):
    phase = serializers.CharField(help_text="prepare, ramp, record, …; empty: unknown")
    share = FiniteFloatField(allow_null=True, help_text="% of the files that are laid out")
    recent = SecondSerializer(many=True, help_text="The seconds before, newest first")


NO_FIGURES: dict[str, Any] = {
    **dict.fromkeys(("iops", "bandwidth", "mean", "slowest", "errors", "share")),
    "phase": "",
    "recent": [],
}


class StageFilter(django_filters.CharFilter):  # type: ignore[misc]
    """Filter for the stage of a layout that a run measures."""

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Raises ValueError for what no run has."""
        return super().filter(qs, moments.parse_moment(value).code if value else value)  # type: ignore[no-any-return]


QUEUED, RUNNING = "queued", "running"


class RunOutcomeFilter(StrictChoiceFilter):
    """Filter for how a run's latest attempt ended, else queued or running, as a campaign's `progress` counts them."""

    def __init__(self, **kwargs: Any) -> None:
        words = [*Outcome.values, RUNNING, QUEUED]
        super().__init__(choices=[(word, word) for word in words], **kwargs)

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        if not value:
            return qs
        latest = Attempt.objects.filter(run=OuterRef("pk")).order_by("-number")
        rows: QuerySet[Any] = qs.alias(
            latest_phase=Subquery(latest.values("phase")[:1]),
            latest_outcome=Subquery(latest.values("outcome")[:1]),
        )
        if value == QUEUED:
            return rows.filter(latest_phase=AttemptPhase.QUEUED)
        if value == RUNNING:
            return rows.exclude(latest_phase__in=(AttemptPhase.QUEUED, AttemptPhase.DONE))
        return rows.filter(latest_phase=AttemptPhase.DONE, latest_outcome=value)


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

    @operation(responses={201: RunSerializer})
    def retry(self, run: Run) -> None:
        """A new attempt on a new layout, which is planned and waits to be started."""
        commands.retry_run(run)


class AttemptFilter(StrictFilterSet):
    campaign = WholeNumberFilter(field_name="run__campaign")

    class Meta:
        model = Attempt
        fields: ClassVar = ["run", "layout", "phase", "outcome", "fingerprint"]


class Layouts(ReadOnlyViewSet[Layout]):
    """A topology made real on one host, from plan to proven-blank disks."""

    library = True
    queryset = Layout.objects.all()
    serializer_class = LayoutSerializer
    filterset_fields = ["campaign", "host", "topology", "visit", "phase", "outcome"]
    ordering_fields = ["id", "campaign", "host", "created_at", "ended_at"]

    @operation(TeardownSerializer)
    def teardown(self, layout: Layout, snapshot: int | None) -> None:
        """Try to take down a stuck layout once more, or what a finished one left (see /api/hosts/{id}/orphans/)."""
        if layout.phase == LayoutPhase.DONE:
            host_cleanup.tear_down_orphan(layout, snapshot)
        else:
            commands.retry_teardown(layout)

    @operation(ReleaseSerializer, responses={200: LayoutSerializer, 202: STILL_RUNNING})
    def release(self, layout: Layout, typed: str) -> HostTask:
        """End a stuck layout as it is and free its host; disks of it not proven blank now are no longer spare."""
        return host_cleanup.request_release(layout, typed, self.request.user)

    @operation(DoneSerializer)
    def person_done(self, layout: Layout, key: str) -> None:
        """Say that what `needs_person` asks for is done; the host is looked at, then the layout goes on."""
        commands.report_manual_step(layout, key, self.request.user.get_username())


class Attempts(ReadOnlyViewSet[Attempt]):
    """One try of a run, never overwritten: what was run, on what, and how it ended."""

    library = True
    queryset = Attempt.objects.all()
    serializer_class = AttemptSerializer
    filterset_class = AttemptFilter
    ordering_fields = ["id", "run", "number", "started_at", "ended_at"]

    @extend_schema(responses=CSV)
    @action(detail=True, url_path="iometer-csv")
    def iometer_csv(self, request: Request, pk: str | None = None) -> HttpResponse:
        """CSV of what dynamo measured, as IOmeter itself writes it; without results where another tool ran."""
        row = self.get_object()
        text = iometer_files.attempts_csv([row], str(row.run))
        return text_response(text, f"attempt-{row.pk}-iometer.csv", "text/csv")

    @extend_schema(responses=NowSerializer)
    @action(detail=True, pagination_class=None, filter_backends=())
    def now(self, request: Request, pk: str | None = None) -> Response:
        """Figures of a running dynamo in the last seconds. Not the result."""
        figures = run_part.live_figures(self.get_object())
        return Response(NowSerializer({**NO_FIGURES, **figures}).data)


class Steps(ReadOnlyViewSet[StepLog]):
    """Every command that was run on a host to build, undo or take down a layout, with what it said."""

    queryset = StepLog.objects.all()
    serializer_class = StepLogSerializer
    filterset_fields = ["layout", "kind"]
    ordering_fields = ["id", "started_at"]


class Transitions(ReadOnlyViewSet[Transition]):
    """Every move of a layout or an attempt from one phase to the next."""

    queryset = Transition.objects.all()
    serializer_class = TransitionSerializer
    filterset_fields = ["layout", "attempt"]
    ordering_fields = ["id", "at"]
