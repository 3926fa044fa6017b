# SPDX-License-Identifier: Apache-2.0
"""One condition of the query language as SQL, composed without a connection."""

from __future__ import annotations

from collections.abc import Iterable

from psycopg.sql import SQL, Composable, Composed, Literal

from benchlab.results.columns import Column, Kind
from benchlab.results.query_language import ORDER_OPERATORS, Condition, Value

SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def trusted_sql(text: str) -> SQL:
    """SQL of our own making; never anything that came with a request."""
    return SQL(text)


def condition_sql(condition: Condition) -> Composable:
    """SQL behind AND, with the row of an attempt and, for a metric, its measurements in sight."""
    test = _condition_test(condition)
    if not condition.metric:
        return test
    exists = SQL(
        "EXISTS (SELECT FROM runs_measurement o WHERE o.attempt_id = a.id AND o.name = {}"
        " AND o.labels = '{{}}'::jsonb AND {})"
    )
    if condition.operator == "isnull":
        is_measured = exists.format(Literal(condition.metric), trusted_sql("o.value IS NOT NULL"))
        return SQL("NOT {}").format(is_measured) if condition.values[0] else is_measured
    return exists.format(Literal(condition.metric), test)


def _condition_test(condition: Condition) -> Composable:
    column, operator = condition.column, condition.operator
    if operator == "isnull":
        return trusted_sql(f"({column.sql}) IS {'' if condition.values[0] else 'NOT '}NULL")
    if operator in ORDER_OPERATORS:
        return _any_of(_comparison(column, SIGNS[operator], value) for value in condition.values)
    if operator == "contains":
        return _any_of(
            SQL("position(lower({}) IN lower({})) > 0").format(
                Literal(value), trusted_sql(column.sql)
            )
            for value in condition.values
        )
    equal = _any_of(_equality(column, value) for value in condition.values)
    return SQL("({}) IS NOT TRUE").format(equal) if operator == "ne" else equal


def _any_of(tests: Iterable[Composable]) -> Composed:
    return SQL("({})").format(SQL(" OR ").join(tests))


def _comparison(column: Column, sign: str, value: Value) -> Composable:
    expression = column.sql
    if column.option:
        expression = _option_as_number(column)
    test = SQL("{} {} {}").format(trusted_sql(expression), trusted_sql(sign), Literal(value))
    if column.kind is not Kind.NUMBER or sign in ("<", "<="):
        return test
    # PostgreSQL sorts NaN as the greatest number; here it means an unknown value.
    return SQL("({} AND {} <> 'NaN'::float8)").format(test, trusted_sql(expression))


def sort_expression(column: Column) -> Composable:
    """Return SQL to sort rows by, with NaN as NULL, so that unknown values are last in either direction."""
    if column.kind is not Kind.NUMBER:
        return trusted_sql(column.sql)
    return SQL("NULLIF({}, 'NaN'::float8)").format(trusted_sql(column.sql))


def _option_as_number(column: Column) -> str:
    option = f"r.options -> '{column.option}'"
    return f"(CASE jsonb_typeof({option}) WHEN 'number' THEN ({column.sql})::numeric END)"


def _equality(column: Column, value: Value) -> Composable:
    text = str(value)
    same = SQL("{} = {}").format(trusted_sql(column.sql), Literal(value))
    digits = text.isascii() and text.isdecimal() and len(text) < 19
    if column.glob and "*" in text:
        escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return SQL("{} LIKE {}").format(trusted_sql(column.sql), Literal(escaped.replace("*", "%")))
    if column.id_sql and digits:
        return SQL("({} OR {} = {})").format(same, trusted_sql(column.id_sql), Literal(int(text)))
    if column.option and _is_number(text):
        return SQL("({} OR {} = {}::numeric)").format(
            same, trusted_sql(_option_as_number(column)), Literal(text)
        )
    if column.kind is Kind.JSON:
        return SQL("({})::text = {}").format(trusted_sql(column.sql), Literal(value))
    return same


def _is_number(text: str) -> bool:
    mantissa = text.removeprefix("-").replace(".", "", 1)
    return mantissa.isascii() and mantissa.isdecimal() and len(text) < 40
