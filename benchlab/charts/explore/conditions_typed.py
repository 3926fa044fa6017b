# SPDX-License-Identifier: Apache-2.0
"""Conditions as people type them, "oio <= 16" or "param.bs = 4k", in the words of the API's own filters."""

from __future__ import annotations

import re
from collections.abc import Sequence

from psycopg.sql import SQL

from benchlab.charts.queries import Person
from benchlab.results import reading, sql
from benchlab.results.columns import RESULTS
from benchlab.results.language import QueryError, parse_query
from benchlab.results.where import trusted_sql

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
    """As a query string of the API has them. Raises Refused: one that is none."""
    parameters: dict[str, list[str]] = {}
    for text in conditions:
        match = CONDITION.fullmatch(text)
        if match is None:
            signs = ", ".join(OPERATOR_SIGNS)
            raise QueryError({text: f"Write a column, one of {signs}, and a value: oio <= 16."})
        name, sign, value = match.groups()
        parameters.setdefault(
            name + (f"__{OPERATOR_SIGNS[sign]}" if OPERATOR_SIGNS[sign] else ""), []
        ).append(value)
    return parameters


def matching_attempts(
    user: Person, campaigns: Sequence[int], conditions: Sequence[str]
) -> set[int]:
    """The attempts of these campaigns that meet all of them. Two queries at most. Raises Refused."""
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
