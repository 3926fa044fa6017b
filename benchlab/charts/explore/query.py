# SPDX-License-Identifier: Apache-2.0
"""Explore's query in a URL. A wrong word is a 400 that names it; the page states what was not measured."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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
        rate = next((name for name in FIRST_RATES if name in names), FIRST_RATES[0])
        first = {"x": OUTSTANDING, "y": rate, "colour": "topology", "dash": "host"}
        if rate not in names and names:
            first["y"] = min(names)
        optional = (*LOOKS, BESIDE)
        asked = {n: "" if n in optional and word == NONE else word for n, word in self.axes.items()}
        axes = Axes(**first | asked)
        second_rate = axes.beside != axes.y and not factors.is_factor(axes.y)
        if not second_rate or axes.x == factors.PERCENTILE:
            axes = replace(axes, beside="")
        over = factors.is_factor(axes.x) and factors.is_factor(axes.y)
        if over and (not axes.colour or factors.is_factor(axes.colour)):
            axes = replace(axes, colour=rate)
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
        values: dict[str, object] = {name: self.axes[name] for name in AXES if name in self.axes}
        values["where"] = self.where
        if self.logs is not None:
            values["logx"], values["logy"] = map(int, self.logs)
        values["baseline"] = [self.baseline] if self.baseline else []
        values["ratio"] = [1] if self.ratio else []
        values |= {"hide": sorted(self.hide), "only": sorted(self.only)}
        values["sort"] = [self.sort] if self.sort else []
        return urlencode(values, doseq=True)


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
    none = word == NONE and name in (*LOOKS, BESIDE)
    factor = factors.is_factor(word) and name != BESIDE
    metric = metric_naming.is_metric_name(word) and "*" not in word and name not in LOOKS[1:]
    if name == BESIDE and factors.is_factor(word):
        metric = False
    if none or factor or metric or (name == "facet" and word == EACH):
        return word
    wrong = "no metric's name" if name == BESIDE else "neither a parameter nor a metric's name"
    raise BadRequest(f"{name}: {word[:100]!r} is {wrong}")


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
