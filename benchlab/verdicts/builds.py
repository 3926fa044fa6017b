# SPDX-License-Identifier: Apache-2.0
"""The order in which set-ups were built and measured, taken from their layouts; and how alike rebuilt equals are."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from math import log
from statistics import mean

from django.core.cache import cache
from django.db.models import Count, QuerySet
from redis.exceptions import RedisError

from benchlab.analysis.curves import median_of
from benchlab.analysis.designs import Design, Order, RunNoise, Visits, design, variance_of_builds
from benchlab.analysis.repeats import noise_of_set_ups
from benchlab.analysis.verdicts import Sweep
from benchlab.campaigns.models import Campaign
from benchlab.charts.queries import Group
from benchlab.runs.models import Attempt, Measurement
from benchlab.runs.states import Outcome

# attempt -> (place in its campaign, layout)
Builds = Mapping[int, tuple[int, int]]
# A lab's spread changes only with new builds, which take longer than this.
CACHE_SECONDS = 600
MAX_PAIRS = 100
# Newest values of rates from which a lab's noise is taken.
MAX_VALUES = 5_000
# The first of these that a point has is used.
RATES = ("iops", "one.fdatasync.ops", "one.fsync.ops", "bandwidth")
# Two builds' luck cancels where both measure enough: 2 and 1, 3 and 2 repeats do, 3 and 1 do not.
MIN_EFFECTIVE_BUILDS = 1.75


@dataclass(frozen=True, slots=True)
class Lab:
    """Experience of a lab, from its other runs.

    `luck`: variance (of ln) of the luck of a build, from each pair of rebuilt equals; of IOPS, else of fsyncs, else of
    throughput. `noise`: of single runs, by tool.
    """

    luck: tuple[float, ...] = ()
    noise: Mapping[str, RunNoise] = field(default_factory=dict)


def read_builds(groups: Iterable[Group]) -> Builds:
    """Read the build of each attempt of these lines in one query."""
    attempts = [sample.attempt for group in groups for sample in group.samples]
    rows = Attempt.objects.filter(pk__in=attempts).values_list(
        "pk", "layout__position", "layout_id"
    )
    return {attempt: (position, layout) for attempt, position, layout in rows}


def builds_of_line(group: Group, builds: Builds) -> list[tuple[int, int]]:
    """(place, layout) of every build that this line was measured on, in order."""
    return sorted({builds[sample.attempt] for sample in group.samples if sample.attempt in builds})


def designs_of(
    lines: Sequence[Group], builds: Builds, lab: Lab, pairs: Iterable[tuple[int, int]]
) -> dict[tuple[int, int], Design]:
    """Return the design of each of these pairs of lines, indexes of `lines`."""
    built = [
        _Built(line, builds_of_line(line, builds), _effective_builds(line, builds))
        for line in lines
    ]
    return {(a, b): _design_of(built[a], built[b], builds, lab) for a, b in pairs}


def design_of(first: Group, second: Group, builds: Builds, lab: Lab) -> Design:
    """Return the design of two lines.

    Interleaved: in the same blocks of one layout. In turns: each built at least twice, not one after the other.
    """
    return designs_of([first, second], builds, lab, [(0, 1)])[0, 1]


@dataclass(frozen=True, slots=True)
class _Built:
    """A line, its builds, and how many they are if its runs are spread evenly over them."""

    line: Group
    builds: list[tuple[int, int]]
    effective: float


def _design_of(first: _Built, second: _Built, builds: Builds, lab: Lab) -> Design:
    lines = first.line, second.line
    if not all(line.measured_here for line in lines):
        return design(Order.UNTOLD, lab.luck)
    if first.builds == second.builds and lines[0].stage == lines[1].stage:
        return design(Order.INTERLEAVED)
    visits = min(len(first.builds), len(second.builds))
    shared = min(first.effective, second.effective) >= MIN_EFFECTIVE_BUILDS
    in_turns = visits >= 2 and shared and _count_turns(first.builds, second.builds) >= 3
    if lines[0].campaign == lines[1].campaign and in_turns:
        found = design(Order.ABBA, lab.luck, visits)
        return replace(found, visits=(_visits(lines[0], builds), _visits(lines[1], builds)))
    noise = lab.noise.get(lines[0].tool)
    return replace(design(Order.ONE_AFTER_OTHER, lab.luck), noise=noise)


def _effective_builds(line: Group, builds: Builds) -> float:
    """Effective number of builds that the runs of a line are spread over.

    2 for two builds with the same number of runs, 1.2 for two with ten runs and one.
    """
    counts = Counter(
        builds[sample.attempt] for sample in line.samples if sample.attempt in builds
    ).values()
    squares = sum(count**2 for count in counts)
    return sum(counts) ** 2 / squares if squares else 0.0


def _visits(line: Group, builds: Builds) -> Visits:
    """The build of each repeat; where points of one repeat were measured on several, that of the last."""
    known = {
        sample.repeat: builds[sample.attempt][1]
        for sample in line.samples
        if sample.attempt in builds
    }
    return tuple(sorted(known.items()))


def _count_turns(first: Collection[tuple[int, int]], second: Collection[tuple[int, int]]) -> int:
    """Number of times that one of the two was built, once or several times in a row: A A B B is two, A B B A three."""
    in_order = sorted([*((build, 1) for build in first), *((build, 2) for build in second)])
    return sum(1 for _ in groupby(side for _, side in in_order))


def lab_of(lines: Iterable[Group]) -> Lab:
    """Experience of the labs of these lines. Two queries, whose results are cached for a while."""
    teams = {line.team for line in lines if line.measured_here}
    return lab_of_teams(teams) if teams else Lab()


def lab_of_teams(teams: Collection[int]) -> Lab:
    """Experience of these teams' runs, cached for a while if there is a Redis."""
    key = f"lab-{'-'.join(map(str, sorted(teams)))}"
    try:
        known: Lab | None = cache.get(key)
    except RedisError:
        return Lab(_read_luck(teams), _read_noise(teams))
    if known is None:
        known = Lab(_read_luck(teams), _read_noise(teams))
        with suppress(RedisError):
            cache.set(key, known, CACHE_SECONDS)
    return known


def _read_noise(teams: Collection[int]) -> dict[str, RunNoise]:
    """Noise of the newest runs of each tool. A sweep: what one layout or several of one topology measured of a load."""
    rows = (
        _in_order(teams)
        .order_by("-attempt")
        .values_list(
            "attempt__run__workload__tool",
            "name",
            "attempt__run__campaign",
            "attempt__run__topology",
            "attempt__layout__host",
            "attempt__run__workload",
            "attempt__run__stage",
            "attempt__run__outstanding",
            "attempt__run__repeat",
            "value",
        )[:MAX_VALUES]
    )
    sweeps: dict[tuple[object, ...], dict[int, dict[int, float]]] = defaultdict(dict)
    for *line, outstanding, repeat, value in rows:
        sweeps[tuple(line)].setdefault(outstanding or 0, {})[repeat] = value or 0.0
    by_tool: dict[str, dict[tuple[object, ...], dict[int, dict[int, float]]]] = defaultdict(dict)
    for rate in reversed(RATES):
        for (tool, name, *line), sweep in sweeps.items():
            if name == rate:
                # A better rate of the same line takes its place.
                by_tool[str(tool)][tuple(line)] = sweep
    found = {tool: noise_of_set_ups(_by_topology(some)) for tool, some in by_tool.items()}
    return {tool: noise for tool, noise in found.items() if noise}


def _by_topology(sweeps: Mapping[tuple[object, ...], Sweep]) -> list[list[Sweep]]:
    """Sweeps by (campaign, topology, …), grouped by their topology."""
    by_topology: dict[object, list[Sweep]] = defaultdict(list)
    for (_, topology, *_), sweep in sweeps.items():
        by_topology[topology].append(sweep)
    return list(by_topology.values())


def _in_order(teams: Collection[int]) -> QuerySet[Measurement]:
    """Rates of these teams' own runs on layouts that were in order."""
    return Measurement.objects.not_deleted().filter(
        attempt__run__campaign__team__in=teams,
        attempt__run__campaign__source=Campaign.Source.MEASURED,
        attempt__outcome=Outcome.SUCCEEDED,
        attempt__degraded=[],
        name__in=RATES,
        labels={},
        value__gt=0,
    )


def _read_luck(teams: Collection[int]) -> tuple[float, ...]:
    equal = (
        Attempt.objects.not_deleted()
        .filter(
            outcome=Outcome.SUCCEEDED,
            degraded=[],
            run__campaign__team__in=teams,
            run__campaign__source=Campaign.Source.MEASURED,
        )
        .exclude(fingerprint="")
        .order_by()
        .values("fingerprint")
        .annotate(builds=Count("layout", distinct=True))
        .filter(builds__gte=2)
        .values("fingerprint")
    )
    rows = (
        _in_order(teams)
        .filter(attempt__fingerprint__in=equal)
        .values_list("attempt__fingerprint", "name", "attempt__layout_id", "value")
    )
    cells: dict[str, dict[str, dict[int, list[float]]]] = defaultdict(dict)
    for fingerprint, name, layout, value in rows:
        of_rate = cells[fingerprint].setdefault(name, defaultdict(list))
        of_rate[layout].append(value or 0.0)
    pairs: dict[tuple[int, int], list[tuple[list[float], list[float]]]] = defaultdict(list)
    for rates in cells.values():
        of_layout = next(rates[name] for name in RATES if name in rates)
        for a, b in pairwise(sorted(of_layout)):
            pairs[a, b].append((of_layout[a], of_layout[b]))
    return tuple(_luck_of_pair(pairs[pair]) for pair in sorted(pairs)[-MAX_PAIRS:])


def _luck_of_pair(cells: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
    """Of two builds of the same: how far they are apart, less what the noise of their runs explains. A cell a depth."""
    difference = mean(log(median_of(second) / median_of(first)) for first, second in cells)
    squares, freedom = 0.0, 0
    for values in (values for cell in cells for values in cell):
        logs = [log(value) for value in values]
        squares += sum((value - mean(logs)) ** 2 for value in logs)
        freedom += len(logs) - 1
    variance = squares / freedom if freedom else 0.0
    noise = sum(variance * (1 / len(first) + 1 / len(second)) for first, second in cells)
    return variance_of_builds(difference, noise / len(cells) ** 2)
