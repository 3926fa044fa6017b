# SPDX-License-Identifier: Apache-2.0
"""Factors of runs to draw over or to tell lines apart by, and conditions that people type.

A factor is a fixed one (host, topology, outstanding I/Os, ...) or an option of the tool, "param.bs". A condition is
written as "oio <= 16" or "param.bs = 4k", in the words of the API's own filters.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.sql import SQL

from agents.drivers import registry
from benchlab.campaigns import points
from benchlab.charts.queries import OUTSTANDING, Group, Person, Sample
from benchlab.results import reading, sql
from benchlab.results.columns import OPTION_NAME, PARAM, RESULTS
from benchlab.results.query_language import QueryError, parse_query
from benchlab.results.sql_conditions import trusted_sql
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
        points.format_value(name, value),
        points.numeric_value(name, value),
        points.point_rank({name: value}),
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
    offered = dict.fromkeys([*FACTOR_WORDS, *swept_options(groups), *varied])
    return {name: factor_word(name) for name in offered}


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
    table_query = reading.resolve_query(parse_query(RESULTS, query), visible)
    statement = SQL("SELECT a.id {} WHERE r.campaign_id = ANY({}) AND {}").format(
        trusted_sql(sql.ATTEMPTS_FROM),
        list(campaigns),
        SQL(" AND ").join(
            [sql.attempt_conditions(table_query, visible), *sql.measurement_conditions(table_query)]
        ),
    )
    return {pk for (pk,) in reading.fetch_rows(statement)}
