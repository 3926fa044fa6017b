# SPDX-License-Identifier: Apache-2.0
"""Data of the charts, read in a fixed number of queries, as plain values."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import connection
from django.db.models import BooleanField, ExpressionWrapper, F, Q

from agents.drivers import registry
from benchlab.analysis.steady import DRIFTING, Course, State
from benchlab.campaigns import matrix
from benchlab.campaigns.matrix import SCHEDULER
from benchlab.campaigns.models import Campaign, Run
from benchlab.charts import metric_naming
from benchlab.charts.palette import Place, Style, assign_styles, rank_values
from benchlab.runs.models import Attempt, Layout, Measurement
from benchlab.runs.states import LayoutPhase, Outcome
from benchlab.topologies import moments
from benchlab.web.texts import natural_key

# Topology, host, workload (primary keys), rest of the point, and the moment's rank (benchlab.topologies.moments).
Identity = tuple[int, int, int, str, tuple[int, bool]]
Person = AbstractBaseUser | AnonymousUser

# What tables and files name first; charts take any metric.
BASE_METRICS = ("iops", "bandwidth", "lat.mean", "clat.mean", "clat.p50", "clat.p99", "clat.p99.9")
# both together, or one of them
OPERATION_PREFIXES = ("", "read.", "write.")
# Fields of a line and of its runs, with their columns of an attempt. Nothing else is read: the rest is long (plans,
# windows, command lines), and a live page reads hundreds time and again. Plain rows: else Django makes six objects of
# each.
NAMED_PARTS = ("campaign", "topology", "host", "workload")
# Lines are in the natural order of these names.
ORDERED_PARTS = ("topology", "host", "workload")
GROUP_COLUMNS = {
    **{part: f"run__{part}_id" for part in NAMED_PARTS},
    **{f"{part}_name": f"run__{part}__name" for part in NAMED_PARTS},
    **{field: f"run__{field}" for field in ("tool", "stage", "options", "scheduler")},
    "team": "run__campaign__team_id",
}
SAMPLE_COLUMNS = {
    **{field: f"run__{field}" for field in ("repeat", "outstanding", "visit")},
    "attempt": "pk",
    "at": "started_at",
}
COLUMNS = {
    **{name: F(column) for name, column in (GROUP_COLUMNS | SAMPLE_COLUMNS).items()},
    "source": F("run__campaign__source"),
    "point": F("run__point"),
}
PLAIN_COLUMNS = ("run_id", "fingerprint", "meta", "degraded", "course", "going")
# A row per attempt: rows with a figure each, 20,000 of them, were a third of what a page cost.
FIGURES_SQL = """
SELECT attempt_id, array_agg(name ORDER BY id), array_agg(unit ORDER BY id), array_agg(value ORDER BY id)
FROM runs_measurement
WHERE attempt_id = ANY(%(attempts)s) AND labels = '{}'::jsonb AND value IS NOT NULL
      AND (%(names)s::text[] IS NULL OR name = ANY(%(names)s))
GROUP BY attempt_id ORDER BY attempt_id
"""
# varied by imports, but without further meaning
OUTSTANDING = "outstanding"
DEGRADED = "degraded"
NOT_JUDGED = Course(State.NO_SERIES)


@dataclass(frozen=True, slots=True)
class Sample:
    """One run's numbers: those of its last attempt that succeeded. Base units."""

    run: int
    attempt: int
    repeat: int
    outstanding: int | None
    values: Mapping[str, float]
    fingerprint: str = ""
    # what the kernel did meanwhile: "reshape of bl17 12 % to 40 %"
    during: str = ""
    # what of the layout was not in order then
    degradation: str = ""
    # which time that its layout was built; all visits of one are one line
    visit: int = 1
    # when its tool was started
    at: datetime | None = None
    # of its rate while it measured
    course: Course = NOT_JUDGED

    @property
    def repeat_text(self) -> str:
        """ "repeat 3", or "repeat 3, visit 2"."""
        return f"repeat {self.repeat}" + (f", visit {self.visit}" if self.visit > 1 else "")


@dataclass(frozen=True, slots=True)
class Group:
    """One line of a chart: all points and repeats of one topology, at one moment, on one host under one workload.

    Repeats on a layout that was not in order measured something else: they are a line of their own.
    """

    campaign: int
    campaign_name: str
    topology: int
    topology_name: str
    host: int
    host_name: str
    workload: int
    workload_name: str
    tool: str
    # what else the sweep varies, in words: "block size 64 KiB"
    rest: str
    # the moment's code (benchlab.topologies.moments)
    stage: str = ""
    # DEGRADED, or "" for in order
    condition: str = ""
    # "before growth"; empty when there is nothing but "as built"
    stage_name: str = ""
    samples: tuple[Sample, ...] = ()
    # metric -> its unit
    units: Mapping[str, str] = field(default_factory=dict)
    # of its first run, as stored
    options: Mapping[str, Any] = field(default_factory=dict)
    # options of the tool that `rest` tells
    varied_options: tuple[str, ...] = ()
    # that its runs asked for; `rest` tells it too
    scheduler: str = ""
    # `rest` without it
    load: str = ""
    # whether the sweep varies the outstanding I/Os, over however many depths
    varies_depth: bool = False
    # measured here, so the options that are left out are known
    measured_here: bool = True
    # whether its campaign is; what is told of a whole curve waits for that
    over: bool = True
    # whether it has several depths, of which one is measured so far
    depths_planned: bool = False
    # its campaign's
    team: int = 0
    # Places of its layout and of its host among all that was read with it.
    style_places: tuple[int, int] | None = None

    @property
    def identity(self) -> Identity:
        rest = " ".join(filter(None, [self.rest, self.condition]))
        return (
            self.topology,
            self.host,
            self.workload,
            rest,
            moments.parse_moment(self.stage).time_order,
        )

    @property
    def has_unlike_repeats(self) -> bool:
        """True when repeats of one point were measured under unlike conditions."""
        by_depth: dict[int | None, list[Sample]] = defaultdict(list)
        for sample in self.samples:
            by_depth[sample.outstanding].append(sample)
        return any(map(are_unlike, by_depth.values()))

    @property
    def has_drifting(self) -> bool:
        """True when the rate of one of its runs stepped, fell or rose."""
        return any(sample.course.state in DRIFTING for sample in self.samples)

    def values(self, name: str) -> list[float]:
        """Values that its runs measured of a metric."""
        return [sample.values[name] for sample in self.samples if name in sample.values]

    def values_by_depth(self, name: str) -> dict[int, list[float]]:
        """The same of each number of outstanding I/Os; 0 where none is known."""
        by_depth: dict[int, list[float]] = defaultdict(list)
        for sample in self.samples:
            if name in sample.values:
                by_depth[sample.outstanding or 0].append(sample.values[name])
        return by_depth

    def in_percent(self) -> Group:
        """The group with shares (utilisation, CPU) as people read them; files keep the base units."""
        shares = {name for name, unit in self.units.items() if metric_naming.is_share(name, unit)}
        if not shares:
            return self
        samples = []
        for sample in self.samples:
            values = {n: v * 100 if n in shares else v for n, v in sample.values.items()}
            samples.append(replace(sample, values=values))
        units = {**self.units, **dict.fromkeys(shares, "%")}
        return replace(self, samples=tuple(samples), units=units)

    @property
    def swept(self) -> bool:
        depths = {sample.outstanding for sample in self.samples if sample.outstanding}
        return len(depths) > 1 or (self.depths_planned and bool(depths))


def are_unlike(repeats: Iterable[Sample]) -> bool:
    """True when their fingerprints differ; one without any is not known to."""
    return len({sample.fingerprint for sample in repeats} - {""}) > 1


def unsteady_text(samples: Sequence[Sample]) -> str:
    """ "2 of 3 not steady: step"; "" where all were steady, as far as that is known."""
    marks = Counter(sample.course.mark for sample in samples if sample.course.mark)
    if len(samples) == 1:
        return "".join(marks)
    return "; ".join(f"{count} of {len(samples)} {mark}" for mark, count in marks.items())


def read_groups(
    user: Person,
    campaigns: Iterable[int],
    workload: int | None = None,
    *,
    names: Collection[str] | None = None,
) -> list[Group]:
    """Every line of these campaigns that `user` may see. Two queries, whatever their number; three where a sweep may
    have begun.

    `names`: only these metrics are read, which is what costs. Of none, one query: which lines there are, of which runs.
    """
    attempts = Attempt.objects.visible_to(user).filter(
        run__campaign__in=list(campaigns), outcome=Outcome.SUCCEEDED
    )
    if workload is not None:
        attempts = attempts.filter(run__workload=workload)
    # campaigns that may still get results
    unfinished = Layout.objects.exclude(phase=LayoutPhase.DONE).order_by().values("campaign")
    going = ExpressionWrapper(Q(run__campaign__in=unfinished), BooleanField())
    rows = (
        attempts.annotate(**COLUMNS, going=going)
        .order_by("run_id", "-number")
        .distinct("run_id")
        .values_list(*PLAIN_COLUMNS, *COLUMNS, named=True)
    )
    values, units = _read_figures([row.attempt for row in rows], names)
    by_line: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    names_read = {getattr(row, f"{part}_name") for row in rows for part in ORDERED_PARTS}
    order = {name: tuple(natural_key(name.lower())) for name in names_read}
    for row in rows:
        rest = without_depth(row.point)
        rank, when = matrix.point_rank(rest), moments.parse_moment(row.stage).time_order
        parts = ((getattr(row, f"{part}_name"), getattr(row, part)) for part in ORDERED_PARTS)
        where = row.campaign, *((order[name], pk) for name, pk in parts)
        key = *where, rank, matrix.describe_point(rest), when, bool(row.degraded)
        by_line[key].append(row)
    lines = _mark_planned_depths(
        [_build_group(key[-3], line, values, units) for key, line in sorted(by_line.items())]
    )
    return assign_style_places(_with_stage_names(lines), _pending_places(lines))


def fill_values(groups: Sequence[Group], names: Collection[str]) -> list[Group]:
    """Fill lines that were read without numbers with those of these metrics. One query."""
    attempts = [sample.attempt for line in groups for sample in line.samples]
    values, units = _read_figures(attempts, names)
    filled = []
    for line in groups:
        samples = [
            replace(sample, values=values.get(sample.attempt, {})) for sample in line.samples
        ]
        filled.append(replace(line, samples=tuple(samples), units=_units_of(samples, units)))
    return filled


def _units_of(samples: Iterable[Sample], units: Mapping[str, str]) -> dict[str, str]:
    return {name: units[name] for sample in samples for name in sample.values}


def measured_units(groups: Iterable[Group]) -> dict[str, str]:
    """{metric: unit} of all that was measured of these lines. One query."""
    attempts = [sample.attempt for line in groups for sample in line.samples]
    rows = Measurement.objects.filter(attempt__in=attempts, labels={}, value__isnull=False)
    return dict(rows.order_by("name", "unit").values_list("name", "unit").distinct())


def _mark_planned_depths(groups: list[Group]) -> list[Group]:
    """Mark lines with one depth if others are planned, so that a chart does not change its kind with the second one."""
    single = [line for line in groups if line.varies_depth and not line.swept]
    if not single:
        return groups
    depths: dict[tuple[int, int, str], set[int | None]] = defaultdict(set)
    planned = Run.objects.filter(
        campaign__in={line.campaign for line in single},
        workload__in={line.workload for line in single},
        outstanding__isnull=False,
    ).order_by()
    columns = planned.values_list("campaign", "workload", "point", "outstanding")
    for campaign, workload, point, outstanding in columns.distinct():
        rest = matrix.describe_point(without_depth(point))
        depths[campaign, workload, rest].add(outstanding)
    several = {key for key, numbers in depths.items() if len(numbers) > 1}
    return [
        replace(
            line,
            depths_planned=line.varies_depth
            and (line.campaign, line.workload, line.rest) in several,
        )
        for line in groups
    ]


def _with_stage_names(groups: list[Group]) -> list[Group]:
    """Name each line's moment in relation to the others measured in that campaign on the same topology and host."""
    beside: dict[tuple[int, int, int], set[str]] = defaultdict(set)
    for line in groups:
        beside[line.campaign, line.topology, line.host].add(line.stage)
    groups_with_names = []
    for line in groups:
        others = beside[line.campaign, line.topology, line.host]
        groups_with_names.append(
            replace(line, stage_name=moments.describe_moment(line.stage, others))
        )
    return groups_with_names


def assign_style_places(
    groups: Sequence[Group], awaited: Iterable[tuple[int, int]] = ()
) -> list[Group]:
    """Number the layouts and the hosts of these lines in the order of their creation, which decides each line's style.

    `awaited` is the (topology, host) of lines without a result yet, so that the others keep their style.
    """
    every = {(line.topology, line.host) for line in groups} | {*awaited}
    layouts, hosts = (rank_values(place[part] for place in every) for part in (0, 1))
    return [
        replace(line, style_places=(layouts[line.topology], hosts[line.host])) for line in groups
    ]


def _pending_places(groups: Sequence[Group]) -> set[tuple[int, int]]:
    """(topology, host) that campaigns which are not over will measure. One query, where there is such a campaign."""
    going = {line.campaign for line in groups if not line.over}
    rows = Layout.objects.filter(campaign__in=going).order_by() if going else Layout.objects.none()
    return set(rows.values_list("topology", "host").distinct())


def kernel_work_text(meta: Mapping[str, Any]) -> str:
    """Work of the kernel during an attempt: "reshape of bl17 12 % to 40 %"; empty when nothing was awaited."""
    noted = meta.get("during") or {}
    at_end = {work["says"]: work["done"] for work in noted.get("end", ())}
    return ", ".join(
        f"{work['says']} {work['done']:.0%} to {at_end.get(work['says'], 1.0):.0%}".replace(
            "%", " %"
        )
        for work in noted.get("start", ())
    )


def without_depth(point: Mapping[str, Any]) -> dict[str, Any]:
    """Return the point without its x axis: {"iodepth": 4, "bs": "64k"} -> {"bs": "64k"}."""
    axis = _depth_option(point)
    return {key: value for key, value in sorted(point.items()) if key != axis}


def _depth_option(point: Mapping[str, Any]) -> str | None:
    """Return the first option in it that sets the outstanding I/Os."""
    options = (*registry.depth_options(), OUTSTANDING)
    return next((option for option in options if option in point), None)


def _build_group(
    rest: str,
    attempts: list[Any],
    values: Mapping[int, Mapping[str, float]],
    units: Mapping[str, str],
) -> Group:
    """`attempts`: rows with the columns above."""
    first = attempts[0]
    load = without_depth(first.point)
    # a scheduler that the run asked for is no option of the tool
    if first.scheduler:
        load.pop(SCHEDULER, None)
    samples = tuple(
        Sample(
            **{name: getattr(row, name) for name in SAMPLE_COLUMNS},
            run=row.run_id,
            fingerprint=row.fingerprint,
            values=values.get(row.attempt, {}),
            during=kernel_work_text(row.meta),
            course=Course.from_json(row.course) if row.course else NOT_JUDGED,
            degradation="; ".join(dict.fromkeys(fault["says"] for fault in row.degraded)),
        )
        for row in sorted(attempts, key=lambda row: (row.outstanding or 0, row.repeat))
    )
    return Group(
        **{name: getattr(first, name) for name in GROUP_COLUMNS},
        rest=rest,
        condition=DEGRADED if first.degraded else "",
        samples=samples,
        units=_units_of(samples, units),
        varied_options=tuple(load),
        load=matrix.describe_point(load),
        varies_depth=_depth_option(first.point) is not None,
        measured_here=first.source == Campaign.Source.MEASURED,
        over=not any(row.going for row in attempts),
    )


def _read_figures(
    attempts: list[int], names: Collection[str] | None
) -> tuple[dict[int, dict[str, float]], dict[str, str]]:
    """({attempt: {name: value}}, {name: unit}). What is labelled is of one job, say: only the total counts."""
    by_attempt: dict[int, dict[str, float]] = defaultdict(dict)
    units: dict[str, str] = {}
    if not attempts or (names is not None and not names):
        return by_attempt, units
    with connection.cursor() as cursor:
        cursor.execute(
            FIGURES_SQL, {"attempts": attempts, "names": None if names is None else [*names]}
        )
        for attempt, metrics, words, values in cursor:
            for name, unit, value in zip(metrics, words, values, strict=True):
                by_attempt[attempt][name] = value
                units[name] = unit
    return by_attempt, units


def line_labels(groups: Sequence[Group]) -> list[str]:
    """A name per line, in order, that says only what differs between them, and always what was not in order."""
    parts = ("topology_name", "stage_name", "host_name", "workload_name", "rest", "campaign_name")
    differing = [part for part in parts if len({getattr(line, part) for line in groups}) > 1]
    attributes = [*(differing or ["topology_name"]), "condition"]
    texts = ([str(getattr(line, part)) for part in attributes] for line in groups)
    return [" · ".join(filter(None, text)) or "without" for text in texts]


def line_styles(groups: Sequence[Group]) -> list[Style]:
    """A style per line of one chart, in order. The colour is the layout and the dash the host, as everywhere among what
    was read with them; the marker tells what else these lines differ in."""
    lines = groups if all(line.style_places for line in groups) else assign_style_places(groups)
    # all else that makes a line another than one of its layout and host
    keys = [(line.campaign, line.workload, *line.identity[:2:-1]) for line in lines]
    ranks = rank_values(keys)
    return assign_styles(
        [
            Place(*(line.style_places or (0, 0)), ranks[key] if len(ranks) > 1 else -1)
            for line, key in zip(lines, keys, strict=True)
        ]
    )
