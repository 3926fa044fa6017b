# SPDX-License-Identifier: Apache-2.0
"""Factors of runs to draw over or to tell lines apart by, and the query in an address that asks Explore for them.

A factor is a fixed one (host, topology, outstanding I/Os, ...) or an option of the tool, "param.bs". A condition is
written as "oio <= 16" or "param.bs = 4k", in the words of the API's own filters. A wrong word in an address is a 400
that names it; the page states what was not measured.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import BadRequest
from django.http import QueryDict
from psycopg.sql import SQL

from agents.drivers import registry
from benchlab.campaigns import matrix
from benchlab.charts import metric_naming, request_params
from benchlab.charts.queries import OUTSTANDING, Group, Person, Sample
from benchlab.charts.request_params import Filter
from benchlab.results import reading, sql, vocabulary
from benchlab.results.columns import OPTION_NAME, PARAM, RESULTS
from benchlab.results.query_language import QueryError, parse_query
from benchlab.results.sql import trusted_sql
from benchlab.topologies import moments
from benchlab.web.texts import natural_key

# a latency percentile that the tool reports; a run has several
PERCENTILE = "percentile"
FACTOR_WORDS = {
    OUTSTANDING: "Outstanding I/Os",
    "topology": "Topology",
    "host": "Host",
    "campaign": "Campaign",
    "workload": "Workload",
    "stage": "Stage",
    "condition": "Condition",
    "tool": "Tool",
    "repeat": "Repeat",
    "visit": "Visit",
    "date": "Date",
    PERCENTILE: "Percentile",
}
# What makes two runs be of different lines, whatever is drawn; the options that a sweep varies and the depth join them.
IDENTITY = ("topology", "stage", "host", "workload", "campaign", "condition")
# No options, which only some lines have
FIXED_NAMES = (
    *IDENTITY,
    OUTSTANDING,
    "repeat",
    "visit",
    "date",
    "tool",
)
# whose groups hold key and name, and whose samples hold a number
NAMED, NUMBERS = ("topology", "host", "campaign", "workload"), (OUTSTANDING, "repeat", "visit")
# values of a list-like option that a text shows
MAX_LIST_ITEMS = 20
OptionValues = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Level:
    """A value of a factor; `number` is set if it is numeric. Unknown values sort last."""

    key: Hashable
    text: str
    number: float | None = None
    order: tuple[Any, ...] = ()

    @property
    def sort_key(self) -> tuple[bool, tuple[Any, ...]]:
        return self.key is None, self.order


UNKNOWN_LEVEL = Level(None, "not told")


def percentile_level(percentile: str) -> Level:
    """ "p99.9", whatever its place on an axis of numbers would be: the last hundredth is what one looks at."""
    return Level(percentile, percentile, None, (float(percentile[1:]),))


def is_factor(name: str) -> bool:
    """True when it may be a factor at all."""
    return name in FACTOR_WORDS or (
        name.startswith(PARAM) and bool(OPTION_NAME.fullmatch(name.removeprefix(PARAM)))
    )


def factor_word(name: str) -> str:
    return FACTOR_WORDS.get(name) or name.removeprefix(PARAM).replace("_", " ")


def lower_first(words: str) -> str:
    """Lower the first letter, for use within a sentence: "Total latency" -> "total latency"; "IOPS" stays."""
    return words if words[:2].isupper() else words[:1].lower() + words[1:]


def line_options(group: Group) -> OptionValues:
    """The options of a line's runs under one name each, its tool's defaults among them where we ran it."""
    return registry.canonical_options(group.tool, group.options, ours=group.measured_here)


def factor_level(name: str, group: Group, sample: Sample, options: OptionValues) -> Level:
    """Return the level of one run. `options` are the `line_options` of its line."""
    if name.startswith(PARAM):
        return _option_level(name.removeprefix(PARAM), options)
    if name in NAMED:
        pk, text = getattr(group, name), getattr(group, f"{name}_name")
        return Level(pk, text, None, (*natural_key(text.lower()), (pk, "")))
    if name in NUMBERS:
        value = getattr(sample, name)
        known = value is not None
        return Level(value, str(value), float(value), (value,)) if known else UNKNOWN_LEVEL
    if name == "stage":
        moment = moments.parse_moment(group.stage)
        text = group.stage_name or moment.phrase or "as built"
        return Level(group.stage, text, None, (moment.time_order,))
    if name == "date" and sample.at is not None:
        at = sample.at.timestamp()
        return Level(at, f"{sample.at:%Y-%m-%d %H:%M:%S}", at, (at,))
    texts = {"condition": group.condition or "in order", "tool": group.tool}
    # of percentiles a run has several: benchlab.charts.explore.lines chooses one
    return Level(texts[name], texts[name], None, (texts[name],)) if name in texts else UNKNOWN_LEVEL


def _option_level(name: str, options: OptionValues) -> Level:
    value = options.get(name)
    if value is None or value == "":
        return UNKNOWN_LEVEL
    if isinstance(value, bool):
        return Level(value, "yes" if value else "no", None, (value,))
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value[:MAX_LIST_ITEMS]))
    return Level(
        str(value),
        matrix.format_value(name, value),
        matrix.numeric_value(name, value),
        matrix.point_rank({name: value}),
    )


def swept_options(groups: Iterable[Group]) -> list[str]:
    """Options that tell lines of one workload apart: the sweep's, but for the depth."""
    return sorted({PARAM + name for group in groups for name in group.varied_options})


def offered_factors(groups: Sequence[Group]) -> dict[str, str]:
    """Return {factor: word} of all known factors and of the options in which these runs differ.

    A list of all options would have a hundred entries in which the runs are equal."""
    options = [line_options(group) for group in groups]
    axes = {OUTSTANDING, *registry.depth_options()}
    names = {name for values in options for name in values if OPTION_NAME.fullmatch(name)} - axes
    varied = sorted(
        PARAM + name
        for name in names
        if len({_option_level(name, values).key for values in options}) > 1
    )
    words = dict.fromkeys([*FACTOR_WORDS, *swept_options(groups), *varied])
    return {name: factor_word(name) for name in words}


OPERATOR_SIGNS = {
    "=": "",
    "!=": "ne",
    "<=": "lte",
    ">=": "gte",
    "<": "lt",
    ">": "gt",
    "~": "contains",
}
CONDITION = re.compile(r"([^\s=<>!~]+)\s*(!=|<=|>=|=|<|>|~)\s*(.*\S)\s*")


def parse_conditions(conditions: Sequence[str]) -> dict[str, list[str]]:
    """Parse conditions ("oio <= 16") into the API's query parameters. Raises QueryError for an invalid one."""
    parameters: dict[str, list[str]] = {}
    for text in conditions:
        match = CONDITION.fullmatch(text)
        if match is None:
            signs = ", ".join(OPERATOR_SIGNS)
            raise QueryError({text: f"Write a column, one of {signs}, and a value: oio <= 16."})
        name, sign, value = match.groups()
        operator = OPERATOR_SIGNS[sign]
        column = f"{name}__{operator}" if operator else name
        parameters.setdefault(column, []).append(value)
    return parameters


def matching_attempts(
    user: Person, campaigns: Sequence[int], conditions: Sequence[str]
) -> set[int]:
    """Return the attempts of these campaigns that meet all conditions. Two queries at most. Raises QueryError."""
    query = parse_conditions(conditions)
    visible = reading.visible_campaigns(user, True, archived=True)
    table_query = vocabulary.resolve_query(parse_query(RESULTS, query), visible)
    statement = SQL("SELECT a.id {} WHERE r.campaign_id = ANY({}) AND {}").format(
        trusted_sql(sql.ATTEMPTS_FROM),
        list(campaigns),
        SQL(" AND ").join(
            [sql.attempt_conditions(table_query, visible), *sql.measurement_conditions(table_query)]
        ),
    )
    return {pk for (pk,) in reading.fetch_rows(statement)}


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
        second_rate = axes.beside != axes.y and not is_factor(axes.y)
        if not second_rate or axes.x == PERCENTILE:
            axes = replace(axes, beside="")
        over = is_factor(axes.x) and is_factor(axes.y)
        if over and (not axes.colour or is_factor(axes.colour)):
            axes = replace(axes, colour=rate)
        return axes

    def log_axes(self, axes: Axes) -> tuple[bool, bool]:
        """(x, y), each true when logarithmic; unless told, depth, sizes and latency against a rate are."""
        if self.logs is not None:
            return self.logs
        both = not is_factor(axes.x) and not is_factor(axes.y)
        ranked = PERCENTILE in (axes.x, axes.y)
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
    factor = is_factor(word) and name != BESIDE
    metric = metric_naming.is_metric_name(word) and "*" not in word and name not in LOOKS[1:]
    if name == BESIDE and is_factor(word):
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
