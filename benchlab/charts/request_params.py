# SPDX-License-Identifier: Apache-2.0
"""Parameters of a request for a chart: which lines, which quantity. A wrong word is a 400 that names it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from django.core.exceptions import BadRequest
from django.http import QueryDict

from benchlab.charts import metric_naming
from benchlab.charts.latency_distributions import PERCENT_SCALES
from benchlab.charts.line_analysis import DRAWINGS, OPERATIONS, STATISTIC_DASHES, Choice
from benchlab.charts.queries import Group, assign_style_places
from benchlab.charts.sampled_tracks import MAX_PIXELS, MIN_PIXELS, WHOLE_SPAN, Span
from benchlab.topologies import moments

# the moment "as built", whose code is empty
BUILT = "built"


@dataclass(frozen=True, slots=True)
class Filter:
    """Filter of lines; an empty set is no wish."""

    campaigns: tuple[int, ...] = ()
    topologies: frozenset[int] = frozenset()
    hosts: frozenset[int] = frozenset()
    workloads: frozenset[int] = frozenset()
    # code of the only one to show
    moment: str | None = None
    # codes of moments
    stages: frozenset[str] = frozenset()

    @property
    def allowed(self) -> dict[str, frozenset[int] | frozenset[str]]:
        """The values of each parameter that narrows lines down, in the order of an address."""
        return {
            "topology": self.topologies,
            "host": self.hosts,
            "workload": self.workloads,
            "stage": self.stages,
        }

    def select(self, groups: Sequence[Group]) -> list[Group]:
        allowed = {name: values for name, values in self.allowed.items() if values}
        return [
            group
            for group in groups
            if (self.moment is None or group.stage == self.moment)
            and all(getattr(group, name) in values for name, values in allowed.items())
        ]

    def select_styled(self, groups: Sequence[Group]) -> list[Group]:
        """Select lines, with colours counted among the requested layouts; without such a request they keep theirs.

        The workload and the moment of a chart do not change its colours.
        """
        if not self.topologies and not self.hosts:
            return self.select(groups)
        whole = replace(self, workloads=frozenset(), moment=None, stages=frozenset())
        return self.select(assign_style_places(whole.select(groups)))

    def query(self) -> str:
        """Return the filter as a query string, for the URLs of figure and CSV; each chart adds its own workload."""
        values: dict[str, list[object]] = {"campaign": [*self.campaigns]}
        for name, allowed in self.allowed.items():
            if name != "workload":
                values[name] = [value or BUILT for value in sorted(allowed)]
        values["moment"] = [] if self.moment is None else [self.moment or BUILT]
        return urlencode(values, doseq=True)

    def full_query(self) -> str:
        """Query string with the workloads, for a page of all of these lines."""
        workloads = urlencode({"workload": sorted(self.workloads)}, doseq=True)
        return "&".join(filter(None, [self.query(), workloads]))


def chart_choice(query: QueryDict) -> Choice:
    kind, _, statistic = _allowed_value(query, "latency", ("", *latency_values())).partition(".")
    against, depth = _parse_drawing(query.get("against", ""))
    statistics = (
        tuple(STATISTIC_DASHES) if statistic == "all" else (statistic,) if statistic else ()
    )
    return Choice(
        metric=requested_metric(query) or "iops",
        operation=_allowed_value(query, "operation", OPERATIONS),
        kind=kind,
        statistics=statistics,
        against=against,
        depth=depth,
    )


def _parse_drawing(word: str) -> tuple[str, int | None]:
    """ "cdf.16" -> ("cdf", 16)."""
    name, dot, depth = word.partition(".")
    if not dot and name in DRAWINGS:
        return name, None
    if name == "cdf" and depth.isascii() and depth.isdigit() and len(depth) < 10:
        return name, int(depth)
    words = ", ".join((*filter(None, DRAWINGS), "cdf.16"))
    raise BadRequest(f"against: {word[:100]!r} is none of {words}")


def percent_scale(query: QueryDict) -> str:
    """One of latency_curves.SCALES."""
    return _allowed_value(query, "percent", PERCENT_SCALES)


def latency_values() -> list[str]:
    """Every ?latency=: a kind alone, as many statistics as there is room for; with all of them; with one."""
    kinds = metric_naming.LATENCY_KINDS
    return [
        value
        for kind in kinds
        for value in (kind, *(f"{kind}.{s}" for s in ("all", *STATISTIC_DASHES)))
    ]


def requested_metric(query: QueryDict) -> str:
    """The metric or family that is asked for; "" for none. Whether anybody measured it, the chart says."""
    metric = query.get("metric", "")
    if metric and not metric_naming.is_metric_name(metric):
        raise BadRequest(f"metric: {metric[:100]!r} is no metric's name")
    return metric


def requested_moment(query: QueryDict) -> str | None:
    """The code of the moment that is asked for; None for all of them."""
    word = query.get("moment", "")
    return _moment_code("moment", word) if word else None


def _moment_code(name: str, word: str) -> str:
    try:
        return moments.parse_moment("" if word == BUILT else word).code
    except ValueError as error:
        raise BadRequest(f"{name}: {error}") from None


def line_filter(query: QueryDict) -> Filter:
    return Filter(
        tuple(dict.fromkeys(id_parameters(query, "campaign"))),
        frozenset(id_parameters(query, "topology")),
        frozenset(id_parameters(query, "host")),
        frozenset(id_parameters(query, "workload")),
        requested_moment(query),
        frozenset(_moment_code("stage", word) for word in query.getlist("stage") if word),
    )


def seconds_parameter(query: QueryDict, name: str, default: float = 0.0) -> float:
    try:
        seconds = float(query.get(name) or default)
    except ValueError:
        seconds = math.nan
    if math.isnan(seconds):
        raise _seconds_error(query, name)
    return seconds


def requested_span(query: QueryDict) -> Span:
    """?from= and ?to= in seconds since the first sample, ?width= of a panel in pixels."""
    start = seconds_parameter(query, "from", WHOLE_SPAN.start)
    end = seconds_parameter(query, "to", WHOLE_SPAN.end)
    if start >= end:
        begin = query.get("from") or "the first sample"
        raise BadRequest(f"from: {begin} is not before to: {query.get('to') or 'the last sample'}")
    wide = id_parameter(query, "width")
    pixels = WHOLE_SPAN.pixels if wide is None else min(max(wide, MIN_PIXELS), MAX_PIXELS)
    return Span(start, end, pixels)


def finite_seconds(query: QueryDict, name: str) -> float:
    seconds = seconds_parameter(query, name)
    if not math.isfinite(seconds):
        raise _seconds_error(query, name)
    return seconds


def _seconds_error(query: QueryDict, name: str) -> BadRequest:
    return BadRequest(f"{name}: {query[name]!r} is no number of seconds")


def id_parameter(query: QueryDict, name: str) -> int | None:
    """An id that may be there once; None: it is not."""
    ids = id_parameters(query, name) if query.get(name) else []
    return ids[-1] if ids else None


def _allowed_value(query: QueryDict, name: str, allowed: Iterable[str]) -> str:
    value, words = query.get(name, ""), list(allowed)
    if value not in words:
        raise BadRequest(f"{name}: {value!r} is none of {', '.join(filter(None, words))}")
    return value


def id_parameters(query: QueryDict, name: str) -> list[int]:
    """Every id that is there by this name; a wrong one is a 400."""
    words = query.getlist(name)
    for word in words:
        if not (word.isascii() and word.isdigit() and len(word) < 19):
            raise BadRequest(f"{name}: {word!r} is no id")
    return [int(word) for word in words]
