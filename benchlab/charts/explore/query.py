# SPDX-License-Identifier: Apache-2.0
"""Request to Explore in an address. A wrong word is a 400 that names it; what nobody measured, the page says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from django.core.exceptions import BadRequest
from django.http import QueryDict

from benchlab.charts import naming, request_params
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
    *(f"{axis}.{one}" for axis in ("x", "y", BESIDE) for one in STATISTICS),
)
ID = re.compile(r"[0-9a-f]{10}")
MAX_IDS = 200
MAX_CONDITIONS = 12
# characters of a condition
MAX_CONDITION_LETTERS = 200
OWN_PARAMETERS = (*AXES, "logx", "logy", "baseline", "ratio", "hide", "only", "sort", "where")
# The first that was measured is drawn unless told otherwise.
FIRST_RATES = ("iops", "bandwidth")
FIRST_LATENCY = tuple(f"{kind}.mean" for kind in naming.LATENCY_KINDS)


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
        named = {one: self.axes.get(one, "").replace(NONE, "") for one in LOOKS}
        made = Axes(self.axes.get("x") or OUTSTANDING, y, **named)
        if "colour" not in self.axes:
            made = replace(made, colour="topology")
        if "dash" not in self.axes:
            made = replace(made, dash="host")
        beside = self.axes.get(BESIDE, "").replace(NONE, "")
        if beside != y and not factors.is_factor(y) and made.x != factors.PERCENTILE:
            made = replace(made, beside=beside)
        over = factors.is_factor(made.x) and factors.is_factor(made.y)
        if over and (not made.colour or factors.is_factor(made.colour)):
            made = replace(made, colour=_first_measured(FIRST_RATES, names) or FIRST_RATES[0])
        return made

    def log_axes(self, axes: Axes) -> tuple[bool, bool]:
        """(x, y), each true when logarithmic; unless told, depth, sizes and latency against a rate are."""
        if self.logs is not None:
            return self.logs
        both = not factors.is_factor(axes.x) and not factors.is_factor(axes.y)
        ranked = factors.PERCENTILE in (axes.x, axes.y)
        sized = axes.x == OUTSTANDING or axes.x.startswith(PARAM)
        return both or sized or ranked, both or ranked

    def query_string(self) -> str:
        """As it is kept: only what is known, in one order."""
        pairs = [(name, self.axes[name]) for name in AXES if name in self.axes]
        pairs += [("where", one) for one in self.where]
        if self.logs is not None:
            pairs += [
                (name, "01"[on]) for name, on in zip(("logx", "logy"), self.logs, strict=True)
            ]
        pairs += [("baseline", self.baseline)] * bool(self.baseline)
        pairs += [("ratio", "1")] * self.ratio
        pairs += [(name, one) for name in ("hide", "only") for one in sorted(getattr(self, name))]
        pairs += [("sort", self.sort)] * bool(self.sort)
        return urlencode(pairs)


def _first_measured(wanted: Sequence[str], names: set[str]) -> str:
    return next((name for name in wanted if name in names), "")


def is_explore_query(query: QueryDict) -> bool:
    """True when an address says anything that only Explore knows."""
    return any(name in query for name in OWN_PARAMETERS)


def parse_explore_query(query: QueryDict) -> ExploreQuery:
    logs = None
    if "logx" in query or "logy" in query:
        logs = _parse_flag(query, "logx"), _parse_flag(query, "logy")
    where = tuple(dict.fromkeys(" ".join(one.split()) for one in query.getlist("where")))
    return ExploreQuery(
        request_params.line_filter(query),
        {name: _parse_axis(query, name) for name in AXES if query.get(name)},
        _check_conditions(tuple(one for one in where if one)),
        logs,
        next(iter(_parse_ids(query, "baseline")), ""),
        _parse_flag(query, "ratio"),
        frozenset(_parse_ids(query, "hide")),
        frozenset(_parse_ids(query, "only")),
        _parse_sort(query.get("sort", "")),
    )


def _parse_axis(query: QueryDict, name: str) -> str:
    wanted = str(query.get(name, ""))
    looks = name in LOOKS
    if (looks or name == BESIDE) and (wanted == NONE or (name == "facet" and wanted == EACH)):
        return wanted
    metric = naming.is_metric_name(wanted) and "*" not in wanted
    if name == BESIDE and (factors.is_factor(wanted) or not metric):
        raise BadRequest(f"{name}: {wanted[:100]!r} is no metric's name")
    if factors.is_factor(wanted) or (metric and (not looks or name == "colour")):
        return wanted
    raise BadRequest(f"{name}: {wanted[:100]!r} is neither a parameter nor a metric's name")


def _parse_flag(query: QueryDict, name: str) -> bool:
    """The last one counts: a form says 0 in front of a box that may not be ticked."""
    wanted = query.get(name, "0")
    if wanted not in ("0", "1"):
        raise BadRequest(f"{name}: {wanted[:20]!r} is neither 0 nor 1")
    return wanted == "1"


def _parse_ids(query: QueryDict, name: str) -> list[str]:
    found = [one for one in query.getlist(name) if one]
    if wrong := [one for one in found if not ID.fullmatch(one)]:
        raise BadRequest(f"{name}: {wrong[0][:20]!r} is no line's id")
    if len(found) > MAX_IDS:
        raise BadRequest(f"{name}: {len(found)} lines; an address has room for {MAX_IDS}")
    return found


def _parse_sort(wanted: str) -> str:
    if wanted and wanted.removeprefix("-") not in COLUMNS:
        raise BadRequest(f"sort: {wanted[:20]!r} is none of {', '.join(COLUMNS)}")
    return wanted


def _check_conditions(found: tuple[str, ...]) -> tuple[str, ...]:
    if len(found) > MAX_CONDITIONS:
        raise BadRequest(f"where: {len(found)} conditions; at most {MAX_CONDITIONS} are looked at")
    if long := [one for one in found if len(one) > MAX_CONDITION_LETTERS]:
        raise BadRequest(
            f"where: {long[0][:40]!r}… is longer than {MAX_CONDITION_LETTERS} characters"
        )
    return found
