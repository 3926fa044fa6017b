# SPDX-License-Identifier: Apache-2.0
"""/api/verdicts/: which set-up is faster, by how much, how sure, and what would decide what is open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from django.core.exceptions import BadRequest
from django.http import QueryDict
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from benchlab.analysis.designs import Order
from benchlab.analysis.devices import Full
from benchlab.analysis.headline import Condition, Missing
from benchlab.analysis.verdicts import Comparison, Conclusion, Verdict
from benchlab.campaigns.models import Campaign
from benchlab.charts import device_work, line_analysis, request_params
from benchlab.findings.models import MOST_NOTE
from benchlab.rest.operations import (
    NumberListField,
    ObjectSerializer,
    TextListField,
    TextsByNameField,
    operation,
)
from benchlab.team.services import requesting_user
from benchlab.verdicts import baselines, dismissals, headlines, matrix, single_line_summary
from benchlab.verdicts.answers import (
    Answer,
    Row,
    ToolTest,
    answers_of,
    compare_tests,
    lines_of,
)
from benchlab.verdicts.conclusion import CampaignConclusion, conclude_campaign
from benchlab.verdicts.dismissals import DismissalNote
from benchlab.verdicts.headlines import Headline
from benchlab.verdicts.matrix import factors_of
from benchlab.verdicts.sentences import sentences
from benchlab.web.api import SingleAnswerViewSet

JsonObject = dict[str, Any]


class SaidSerializer(ObjectSerializer):
    verdict = serializers.ChoiceField(choices=[verdict_word.value for verdict_word in Conclusion])
    ratio = serializers.FloatField(help_text="Of this line's value over the baseline's")
    low = serializers.FloatField(allow_null=True, help_text="95 %; null: the error is unknown")
    high = serializers.FloatField(allow_null=True)
    least_repeats = serializers.IntegerField(help_text="Of a point of either line")
    most_repeats = serializers.IntegerField()
    reason = serializers.CharField()
    repeats_needed = serializers.IntegerField(
        allow_null=True,
        help_text="Of each, in all, to decide; null: decided, or not even 30 would decide",
    )
    bound = serializers.FloatField(
        allow_null=True,
        help_text="They differ by at most this ratio, either way (95 %); null: unknown",
    )
    typical_ratio = serializers.FloatField(
        allow_null=True,
        help_text="Of typical runs, where `ratio` is of the plain means, as one line stalls more than the other; "
        "null: `ratio` is of typical runs",
    )
    stalled_runs = NumberListField(
        help_text="Runs that stalled, of the baseline and of this line; empty: they stall alike"
    )
    noise_assumed = serializers.BooleanField(
        help_text="One run each: the error is the worst that is known, not measured"
    )


class PointSerializer(SaidSerializer):
    outstanding = serializers.IntegerField(allow_null=True)
    baseline_value = serializers.FloatField(help_text="Robust mean of the repeats, base unit")
    value = serializers.FloatField()
    runs = NumberListField(help_text="Of both lines: where the numbers come from")


class StatementSerializer(ObjectSerializer):
    condition = serializers.ChoiceField(choices=[condition.value for condition in Condition])
    at = serializers.FloatField(
        allow_null=True, help_text="Outstanding I/Os, or the latency in s; null: at saturation"
    )
    ratio = serializers.FloatField(
        allow_null=True, help_text="Of this line's value over the baseline's; null: see `missing`"
    )
    low = serializers.FloatField(
        allow_null=True,
        help_text="95 %; that of a load holds for all depths at once. null: the error is unknown",
    )
    high = serializers.FloatField(allow_null=True)
    baseline_value = serializers.FloatField(allow_null=True, help_text="Base unit")
    value = serializers.FloatField(allow_null=True)
    missing = serializers.ChoiceField(
        choices=[missing.value for missing in Missing],
        allow_null=True,
        help_text="Why there is no ratio",
    )
    headline = serializers.BooleanField(help_text="The one that pages show large")
    says = serializers.CharField(help_text="In one plain sentence")


class TestSerializer(SaidSerializer):
    metric = serializers.CharField()
    name = serializers.CharField(help_text="Of the metric, for people")


class LineSerializer(ObjectSerializer):
    place = serializers.IntegerField(
        help_text="1 + the number of lines that are better beyond doubt, over all comparisons of these answers"
    )
    worst_place = serializers.IntegerField(
        help_text="Number of lines - the number that are worse beyond doubt"
    )
    key = serializers.CharField(
        help_text="What `baseline` takes, by what tells these lines apart: t5 a topology, c a campaign, h a host, m a "
        "moment, r the rest of the sweep; empty: nothing but the workload does"
    )
    name = serializers.CharField()
    campaign = serializers.IntegerField()
    topology = serializers.IntegerField()
    host = serializers.IntegerField()
    stage = serializers.CharField(help_text="Empty: as built")
    design = serializers.ChoiceField(
        choices=[order.value for order in Order],
        allow_null=True,
        help_text="How both were built and measured; null: the baseline",
    )
    tau = serializers.FloatField(
        allow_null=True, help_text="Standard deviation of ln between two builds, in every interval"
    )
    tau_learned_from = serializers.IntegerField(
        allow_null=True, help_text="Pairs of rebuilt equals; 0: a constant"
    )
    curve = SaidSerializer(allow_null=True, help_text="Over all depths that both have")
    points = PointSerializer(many=True)
    statements = StatementSerializer(
        many=True,
        help_text="At saturation, at equal load (`depth`) and at equal latency (`max_latency`); none without a sweep",
    )
    efficiency = serializers.FloatField(
        allow_null=True,
        help_text="Ratio at saturation per disk; null: unknown, or both have as many disks",
    )
    tests = TestSerializer(
        many=True,
        help_text="Every rate of a tool that measures many in a run, the answer's own first; none for other tools",
    )
    overtakes_at = NumberListField(help_text="Depths from which the lead has changed")
    left_out = NumberListField(help_text="Depths that only one of both has")


class DismissedSerializer(ObjectSerializer):
    at = serializers.DateTimeField()
    by = serializers.CharField(allow_null=True, help_text="null: somebody who left")
    note = serializers.CharField()
    holds = serializers.BooleanField(
        help_text="It says the same still; else pages show it, with what it said then"
    )
    said = serializers.CharField(
        allow_blank=True, help_text="What it said then, of what changed; empty: nothing changed"
    )


class NotedAnswerSerializer(ObjectSerializer):
    answer = serializers.CharField(
        max_length=40, help_text="The `key` of one that the same parameters tell"
    )
    note = serializers.CharField(max_length=MOST_NOTE, help_text="Why, in plain text")


class ProvisionalSerializer(ObjectSerializer):
    ended = serializers.IntegerField(help_text="Runs that ended, of all its campaigns not over")
    runs = serializers.IntegerField(help_text="All runs of these campaigns")
    says = serializers.CharField(help_text="The same in words")


class AnswerSerializer(ObjectSerializer):
    key = serializers.CharField(
        help_text="What it compares, and what it says: names it where it is dismissed"
    )
    dismissed = DismissedSerializer(allow_null=True, help_text="null: it is not")
    workload = serializers.CharField()
    where = serializers.CharField(help_text="Host, moment, point: what tells it from its likes")
    metric = serializers.CharField()
    unit = serializers.CharField()
    lower_is_better = serializers.BooleanField()
    so_far = serializers.BooleanField(help_text="The campaign is not over")
    provisional = ProvisionalSerializer(
        allow_null=True,
        help_text="How many runs it rests on; it may still change. null: all of its campaigns are over",
    )
    says = TextListField(help_text="In plain sentences")
    lines = LineSerializer(many=True)


class KneeSerializer(ObjectSerializer):
    at = serializers.IntegerField(
        allow_null=True, help_text="Outstanding I/Os; null: none, or uncertain"
    )
    low = serializers.IntegerField(
        allow_null=True, help_text="95 %; null: deeper than was measured"
    )
    high = serializers.IntegerField(allow_null=True)
    flat = serializers.BooleanField(help_text="IOPS do not rise from the first depth on")
    beyond = serializers.BooleanField(help_text="It may lie deeper than was measured")
    repeats = serializers.IntegerField(help_text="Fewest of a depth; below 3 it is not drawn")
    misfit = serializers.FloatField(
        help_text="Distance of the points from any smooth curve, as a share; 0: noise explains it"
    )


class CapSerializer(ObjectSerializer):
    iops = serializers.FloatField()
    low = serializers.IntegerField(help_text="From this depth")
    high = serializers.IntegerField(help_text="To this one")
    within = serializers.FloatField(help_text="Range of its IOPS, as a share; at most 0.02")


class FallSerializer(ObjectSerializer):
    peak = serializers.IntegerField(help_text="Depth from which IOPS fall")
    last = serializers.IntegerField(help_text="The deepest one")
    share = serializers.FloatField(help_text="Of the peak, 0 to 1")


class FullSerializer(ObjectSerializer):
    station = serializers.ChoiceField(choices=[full.value for full in Full])
    device = serializers.CharField(help_text="The disk where most wait; empty: no single one")
    outstanding = serializers.IntegerField(help_text="The deepest")
    says = serializers.CharField()


class CurveSerializer(ObjectSerializer):
    workload = serializers.CharField()
    name = serializers.CharField()
    key = serializers.CharField(help_text="All that the line is, but for its workload")
    campaign = serializers.IntegerField()
    topology = serializers.IntegerField()
    host = serializers.IntegerField()
    stage = serializers.CharField(help_text="Empty: as built")
    knee = KneeSerializer(
        allow_null=True, help_text="null: the campaign is not over, or there are too few depths"
    )
    cap = CapSerializer(allow_null=True, help_text="null: none is seen")
    fall = FallSerializer(allow_null=True, help_text="null: none is seen")
    full = FullSerializer(
        allow_null=True, help_text="At the deepest point; null: it cannot be said"
    )
    says = serializers.CharField(help_text="Knee, cap and fall in words")


class EffectSerializer(ObjectSerializer):
    metric = serializers.CharField()
    levels = TextsByNameField(
        help_text="Factor -> level; two of them: what is left when what each does alone is taken away",
    )
    ratio = serializers.FloatField(help_text="Geometric mean of the metric against that of all")
    low = serializers.FloatField(allow_null=True, help_text="95 %")
    high = serializers.FloatField(allow_null=True)
    runs = NumberListField(help_text="All that have these levels")


class ConclusionSerializer(ObjectSerializer):
    says = serializers.CharField(help_text="One sentence over all answers")
    decided = serializers.BooleanField(help_text="A line wins in an answer at least")
    provisional = serializers.BooleanField(help_text="A campaign is not over: it may still change")


class VerdictsSerializer(ObjectSerializer):
    conclusion = ConclusionSerializer(
        allow_null=True, help_text="Over the answers not dismissed; null: there are fewer than two"
    )
    results = AnswerSerializer(many=True)
    curves = CurveSerializer(many=True, help_text="Each swept line by itself, compared or not")
    effects = EffectSerializer(
        many=True,
        help_text="What factors do over the whole matrix, or that part of it that has no gaps; by `metric`, without it "
        "by the rate and the p99 that the lines have",
    )
    effects_without = TextListField(
        help_text="In plain sentences: what of the matrix was left out, or has no effect, and which cells were missing",
    )


KNOWN_PARAMETERS = {
    "campaign",
    "workload",
    "topology",
    "host",
    "stage",
    "moment",
    "baseline",
    "metric",
    *headlines.PARAMS,
}
_PARAMETERS_TEXT = f"there are {', '.join(sorted(KNOWN_PARAMETERS))}"


def _id_parameter(name: str, description: str, *, many: bool = False) -> OpenApiParameter:
    return OpenApiParameter(
        name, OpenApiTypes.INT, many=many, required=name == "campaign", description=description
    )


FILTER_PARAMETERS = [
    _id_parameter("workload", "Only these", many=True),
    _id_parameter("topology", "Only these", many=True),
    _id_parameter("host", "Only these", many=True),
    OpenApiParameter(
        "baseline",
        OpenApiTypes.STR,
        description="The `key` of a line to compare with, or a topology's id; without it: the one built first",
    ),
    OpenApiParameter("metric", OpenApiTypes.STR, description="Without it: the tool's first"),
    OpenApiParameter(
        "depth",
        OpenApiTypes.INT,
        description="Outstanding I/Os of the equal load; without it: the deepest that both have",
    ),
    OpenApiParameter(
        "max_latency",
        OpenApiTypes.STR,
        description="The equal latency, such as 5ms or 0.005; without it: the baseline's at its knee",
    ),
    OpenApiParameter(
        "latency_of",
        OpenApiTypes.STR,
        enum=headlines.STATISTICS,
        description="Statistic of that latency; without it: mean",
    ),
    OpenApiParameter("stage", OpenApiTypes.STR, many=True, description="built, resync, after-1, …"),
    OpenApiParameter("moment", OpenApiTypes.STR, description="Likewise, one"),
]
NOTED_CAMPAIGNS = OpenApiParameter(
    "campaign",
    OpenApiTypes.INT,
    many=True,
    description="Those that it was told of, where there are more than this one",
)


@contextmanager
def parameter_errors() -> Iterator[None]:
    """Turn the charts' errors into those of a parameter. Raises ValidationError and NotFound."""
    try:
        yield
    except BadRequest as error:
        name, _, message = str(error).partition(": ")
        raise ValidationError({name: [message]}) from None
    except dismissals.UnknownAnswer as error:
        raise NotFound(error.messages[0]) from None


class Verdicts(SingleAnswerViewSet[Any]):
    """Each set-up of a campaign against a baseline."""

    noun = "verdict"
    queryset = Campaign.objects.all()
    serializer_class = VerdictsSerializer

    @extend_schema(
        parameters=[_id_parameter("campaign", "One or more", many=True), *FILTER_PARAMETERS],
        responses=VerdictsSerializer,
    )
    def list(self, request: Request) -> Response:
        """Verdicts of these campaigns: an answer per workload, its lines best first, each with its points.

        Campaigns that are not there or are not yours give nothing.
        """
        query = _valid_query(request)
        with parameter_errors():
            line_filter = request_params.line_filter(query)
            baseline = baselines.requested_baseline(query)
            if not line_filter.campaigns:
                raise ValidationError({"campaign": ["Name at least one."]})
            lines = lines_of(request.user, line_filter)
            metric = request_params.requested_metric(query)
            answers = answers_of(lines, metric, baseline)
            terms = headlines.requested_terms(query)
        factors = factors_of(lines, metric)
        effects = [_effect_json(effect, by.metric) for by in factors for effect in by.effects]
        without = [sentence for by in factors for sentence in by.omissions]
        curves = [_curve_json(line) for line in single_line_summary.summarize_curves(lines)]
        noted = dismissals.notes_of_answers(request.user, answers)
        of_answers = headlines.headlines_of(answers, terms)
        results = [
            _answer_json(answer, note, some)
            for answer, note, some in zip(answers, noted, of_answers, strict=True)
        ]
        counted = [answer for answer, note in zip(answers, noted, strict=True) if not note.holds]
        return Response(
            {
                "conclusion": _conclusion_json(conclude_campaign(counted)),
                "results": results,
                "curves": curves,
                "effects": effects,
                "effects_without": without,
            }
        )

    @extend_schema(parameters=[NOTED_CAMPAIGNS, *FILTER_PARAMETERS])
    @operation(NotedAnswerSerializer, responses={200: AnswerSerializer}, field="note")
    @parameter_errors()
    def dismiss(self, row: Campaign, answer: str, note: str) -> Response:
        """Say that an answer of this campaign does not matter, and why. Pages fold it away while it says the same."""
        current = self._find_answer(row, answer)
        dismissals.dismiss_answer(current, row, requesting_user(self.request), answer, note)
        return self._noted_response(current)

    @extend_schema(parameters=[NOTED_CAMPAIGNS, *FILTER_PARAMETERS])
    @operation(NotedAnswerSerializer, responses={200: AnswerSerializer}, field="note")
    @parameter_errors()
    def take_back(self, row: Campaign, answer: str, note: str) -> Response:
        """Say that it matters after all, and why."""
        current = self._find_answer(row, answer)
        dismissals.restore_answer(current, note)
        return self._noted_response(current)

    def _find_answer(self, row: Campaign, key: str) -> Answer:
        query = _valid_query(self.request)
        return dismissals.find_answer(self.request.user, row, query, key)

    def _noted_response(self, answer: Answer) -> Response:
        [note] = dismissals.notes_of_answers(self.request.user, [answer])
        with parameter_errors():
            terms = headlines.requested_terms(_valid_query(self.request))
        [some] = headlines.headlines_of([answer], terms)
        return Response(_answer_json(answer, note, some))


def _valid_query(request: Request) -> QueryDict:
    """The address's parameters. Raises ValidationError for one that it does not take."""
    query = request._request.GET
    if unknown := sorted(query.keys() - KNOWN_PARAMETERS):
        raise ValidationError({name: [f"No such filter; {_PARAMETERS_TEXT}."] for name in unknown})
    return query


def _curve_json(line: single_line_summary.LineSummary) -> JsonObject:
    group, curve, full = line.group, line.answer, line.full
    return {
        "workload": group.workload_name,
        "name": line.label,
        "key": ".".join(letter + part for letter, part in baselines.line_parts(group).items()),
        "campaign": group.campaign,
        "topology": group.topology,
        "host": group.host,
        "stage": group.stage,
        "knee": asdict(curve.knee) if curve.knee else None,
        "cap": asdict(curve.cap) if curve.cap else None,
        "fall": asdict(curve.collapse) if curve.collapse else None,
        "full": full
        and {
            "station": full.full,
            "device": full.device,
            "outstanding": full.depth,
            "says": device_work.full_station_text(full, curve.cap),
        },
        "says": line_analysis.curve_answer_text(group),
    }


def _effect_json(row: matrix.NotableEffect, metric: str) -> JsonObject:
    effect = row.effect
    return {
        "metric": metric,
        "levels": dict(effect.levels),
        "ratio": effect.ratio,
        "low": effect.low,
        "high": effect.high,
        "runs": list(row.runs),
    }


def _answer_json(answer: Answer, noted: DismissalNote, of_rows: Sequence[Headline]) -> JsonObject:
    by_row = {id(headline.row): headline for headline in of_rows}
    tests = compare_tests(answer)
    tests_by_row = {id(row): _tests_json(tests, at) for at, row in enumerate(answer.others)}
    return {
        "key": noted.key,
        "dismissed": _dismissal_json(noted),
        "workload": answer.title,
        "where": answer.scope,
        "metric": answer.metric,
        "unit": answer.unit,
        "lower_is_better": answer.lower_is_better,
        "so_far": not answer.is_over,
        "provisional": _provisional_json(answer),
        "says": [sentence.full_text for sentence in sentences(answer)],
        "lines": [
            {
                **_line_json(answer, row),
                **_headline_json(by_row.get(id(row))),
                "tests": tests_by_row.get(id(row), []),
            }
            for row in answer.rows
        ],
    }


def _conclusion_json(conclusion: CampaignConclusion | None) -> JsonObject | None:
    if conclusion is None:
        return None
    return {
        "says": conclusion.sentence,
        "decided": conclusion.decided,
        "provisional": bool(conclusion.pending_text),
    }


def _provisional_json(answer: Answer) -> JsonObject | None:
    if answer.pending is None:
        return None
    ended, runs = answer.pending
    return {"ended": ended, "runs": runs, "says": answer.pending_text}


def _dismissal_json(noted: DismissalNote) -> JsonObject | None:
    row = noted.row
    if row is None or row.dismissed_at is None:
        return None
    return {
        "at": row.dismissed_at.isoformat().replace("+00:00", "Z"),
        "by": row.dismissed_by.get_username() if row.dismissed_by else None,
        "note": row.note,
        "holds": noted.holds,
        "said": noted.earlier_text,
    }


def _line_json(answer: Answer, row: Row) -> JsonObject:
    against = row.against
    design = against.design if against else None
    return {
        "place": row.place,
        "worst_place": row.worst_place,
        "key": row.key,
        "name": row.label,
        "campaign": row.group.campaign,
        "topology": row.group.topology,
        "host": row.group.host,
        "stage": row.group.stage,
        "design": design.order if design else None,
        "tau": design.tau if design else None,
        "tau_learned_from": design.learned if design else None,
        "curve": _verdict_json(against.curve) if against and against.curve else None,
        "points": _points_json(answer, row, against) if against else [],
        "overtakes_at": list(against.crossings) if against else [],
        "left_out": list(against.left_out) if against else [],
    }


def _tests_json(tests: Sequence[ToolTest], index: int) -> list[JsonObject]:
    """Return the verdicts of all tests on one of an answer's others."""
    return [
        {"metric": test.metric, "name": test.metric_word, **_verdict_json(comparison.curve)}
        for test in tests
        if (comparison := test.comparisons[index]) and comparison.curve
    ]


def _headline_json(headline: Headline | None) -> JsonObject:
    if headline is None:
        return {"statements": [], "efficiency": None}
    statements = [
        {
            "condition": statement.condition,
            "at": statement.at or None,
            "ratio": statement.ratio,
            "low": statement.low,
            "high": statement.high,
            "baseline_value": statement.values[0] if statement.values else None,
            "value": statement.values[1] if statement.values else None,
            "missing": statement.missing,
            "headline": statement is headline.chosen,
            "says": f"{headline.sentence(statement)}.",
        }
        for statement in headline.statements
    ]
    return {"statements": statements, "efficiency": headline.efficiency}


def _points_json(answer: Answer, row: Row, against: Comparison) -> list[JsonObject]:
    lines = (answer.baseline.group, row.group)
    points = []
    for depth, point in against.points.items():
        assert point.values is not None
        runs = [s.run for line in lines for s in line.samples if (s.outstanding or 0) == depth]
        points.append(
            {
                "outstanding": depth or None,
                "baseline_value": point.values[0],
                "value": point.values[1],
                "runs": runs,
                **_verdict_json(point),
            }
        )
    return points


def _verdict_json(verdict: Verdict) -> JsonObject:
    return {
        "verdict": verdict.conclusion,
        "ratio": verdict.ratio,
        "low": verdict.low,
        "high": verdict.high,
        "least_repeats": verdict.repeats[0],
        "most_repeats": verdict.repeats[1],
        "reason": verdict.reason,
        "repeats_needed": verdict.more_repeats,
        "bound": verdict.bound,
        "typical_ratio": verdict.typical,
        "stalled_runs": [one.runs for one in verdict.stalled or ()],
        "noise_assumed": verdict.assumed,
    }
