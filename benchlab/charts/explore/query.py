# SPDX-License-Identifier: Apache-2.0
"""Explore's query in a URL. A wrong word is a 400 that names it; the page states what was not measured."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from django.core.exceptions import BadRequest
from django.http import QueryDict

from benchlab.charts import metric_naming, request_params
from benchlab.charts.explore import factors
from benchlab.charts.queries import OUTSTANDING
from benchlab.charts.request_params import Filter
from benchlab.results.columns import PARAM

NONE = "none"
# a facet for each line by itself
EACH = "line"
LOOKS = ("colour", "dash", "marker", "facet")
# a second metric, in panels beside those of y
BESIDE = "beside"
AXES = ("x", "y", BESIDE, *LOOKS)
STATISTICS = ("min", "median", "max", "last")
COLUMNS = (
    "name",
    "runs",
    "baseline",
    *(f"{axis}.{statistic}" for axis in ("x", "y", BESIDE) for statistic in STATISTICS),
)
ID = re.compile(r"[0-9a-f]{10}")
MAX_IDS = 200
MAX_CONDITIONS = 12
# characters of a condition
MAX_CONDITION_LETTERS = 200
OWN_PARAMETERS = (*AXES, "logx", "logy", "baseline", "ratio", "hide", "only", "sort", "where")
# The first measured one is the default.
FIRST_RATES = ("iops", "bandwidth")
FIRST_LATENCY = tuple(f"{kind}.mean" for kind in metric_naming.LATENCY_KINDS)


@dataclass(frozen=True, slots=True)
class Axes:
    """Names of factors or metrics; "" for none. `facet` may be EACH, `beside` is a metric."""

    x: str
    y: str
    colour: str = ""
    dash: str = ""
    marker: str = ""
    facet: str = ""
    beside: str = ""


@dataclass(frozen=True, slots=True)
class ExploreQuery:
    """`axes`: what the address names of AXES, the rest is chosen by what was measured (`resolved`)."""

    filter: Filter
    axes: Mapping[str, str]
    where: tuple[str, ...] = ()
    # of x and y; None: as fits the axes
    logs: tuple[bool, bool] | None = None
    baseline: str = ""
    ratio: bool = False
    hide: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()
    sort: str = ""

    def shows_line(self, line: str) -> bool:
        """True when the line of that id is drawn: isolated ones alone, else all that are not hidden."""
        return line in self.only if self.only else line not in self.hide

    def resolve_axes(self, measured: Iterable[str]) -> Axes:
        """Axes of the drawing: IOPS over the depth, colour by topology, dash by host, unless the address says
        otherwise.
        """
        names = set(measured)
        y = (
            self.axes.get("y")
            or _first_measured(FIRST_RATES, names)
            or (min(names) if names else FIRST_RATES[0])
        )
        looks = {look: self.axes.get(look, "").replace(NONE, "") for look in LOOKS}
        axes = Axes(self.axes.get("x") or OUTSTANDING, y, **looks)
        if "colour" not in self.axes:
            axes = replace(axes, colour="topology")
        if "dash" not in self.axes:
            axes = replace(axes, dash="host")
        beside = self.axes.get(BESIDE, "").replace(NONE, "")
        if beside != y and not factors.is_factor(y) and axes.x != factors.PERCENTILE:
            axes = replace(axes, beside=beside)
        over = factors.is_factor(axes.x) and factors.is_factor(axes.y)
        if over and (not axes.colour or factors.is_factor(axes.colour)):
            axes = replace(axes, colour=_first_measured(FIRST_RATES, names) or FIRST_RATES[0])
        return axes

    def log_axes(self, axes: Axes) -> tuple[bool, bool]:
        """(x, y), each true when logarithmic; unless told, depth, sizes and latency against a rate are."""
        if self.logs is not None:
            return self.logs
        both = not factors.is_factor(axes.x) and not factors.is_factor(axes.y)
        ranked = factors.PERCENTILE in (axes.x, axes.y)
        sized = axes.x == OUTSTANDING or axes.x.startswith(PARAM)
        return both or sized or ranked, both or ranked

    def query_string(self) -> str:
        """Query string as it is kept: only what is known, in one order."""
        pairs = [(name, self.axes[name]) for name in AXES if name in self.axes]
        pairs += [("where", value) for value in self.where]
        if self.logs is not None:
            pairs += [
                (name, "01"[on]) for name, on in zip(("logx", "logy"), self.logs, strict=True)
            ]
        pairs += [("baseline", self.baseline)] * bool(self.baseline)
        pairs += [("ratio", "1")] * self.ratio
        pairs += [
            (name, value) for name in ("hide", "only") for value in sorted(getattr(self, name))
        ]
        pairs += [("sort", self.sort)] * bool(self.sort)
        return urlencode(pairs)


def _first_measured(preferred: Sequence[str], names: set[str]) -> str:
    return next((name for name in preferred if name in names), "")


def is_explore_query(query: QueryDict) -> bool:
    """True if a URL has a parameter that only Explore knows."""
    return any(name in query for name in OWN_PARAMETERS)


def parse_explore_query(query: QueryDict) -> ExploreQuery:
    logs = None
    if "logx" in query or "logy" in query:
        logs = _parse_flag(query, "logx"), _parse_flag(query, "logy")
    where = tuple(dict.fromkeys(" ".join(text.split()) for text in query.getlist("where")))
    return ExploreQuery(
        request_params.line_filter(query),
        {name: _parse_axis(query, name) for name in AXES if query.get(name)},
        _check_conditions(tuple(text for text in where if text)),
        logs,
        next(iter(_parse_ids(query, "baseline")), ""),
        _parse_flag(query, "ratio"),
        frozenset(_parse_ids(query, "hide")),
        frozenset(_parse_ids(query, "only")),
        _parse_sort(query.get("sort", "")),
    )


def _parse_axis(query: QueryDict, name: str) -> str:
    word = str(query.get(name, ""))
    looks = name in LOOKS
    if (looks or name == BESIDE) and (word == NONE or (name == "facet" and word == EACH)):
        return word
    metric = metric_naming.is_metric_name(word) and "*" not in word
    if name == BESIDE and (factors.is_factor(word) or not metric):
        raise BadRequest(f"{name}: {word[:100]!r} is no metric's name")
    if factors.is_factor(word) or (metric and (not looks or name == "colour")):
        return word
    raise BadRequest(f"{name}: {word[:100]!r} is neither a parameter nor a metric's name")


def _parse_flag(query: QueryDict, name: str) -> bool:
    """Parse a flag. The last value counts: a form sends 0 before a box that may not be ticked."""
    word = query.get(name, "0")
    if word not in ("0", "1"):
        raise BadRequest(f"{name}: {word[:20]!r} is neither 0 nor 1")
    return word == "1"


def _parse_ids(query: QueryDict, name: str) -> list[str]:
    words = [word for word in query.getlist(name) if word]
    if wrong := [word for word in words if not ID.fullmatch(word)]:
        raise BadRequest(f"{name}: {wrong[0][:20]!r} is no line's id")
    if len(words) > MAX_IDS:
        raise BadRequest(f"{name}: {len(words)} lines; an address has room for {MAX_IDS}")
    return words


def _parse_sort(column: str) -> str:
    if column and column.removeprefix("-") not in COLUMNS:
        raise BadRequest(f"sort: {column[:20]!r} is none of {', '.join(COLUMNS)}")
    return column


def _check_conditions(conditions: tuple[str, ...]) -> tuple[str, ...]:
    if len(conditions) > MAX_CONDITIONS:
        raise BadRequest(
            f"where: {len(conditions)} conditions; at most {MAX_CONDITIONS} are looked at"
        )
    if long := [condition for condition in conditions if len(condition) > MAX_CONDITION_LETTERS]:
        raise BadRequest(
            f"where: {long[0][:40]!r}… is longer than {MAX_CONDITION_LETTERS} characters"
        )
    return conditions
