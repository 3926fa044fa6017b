# SPDX-License-Identifier: Apache-2.0
"""Query language of the tables: conditions, columns, order. Pure; what is not understood is refused by name.

    topology=lvm_cache   oio__gte=4   metric=read.*   param.iodepth=4   metric.iops__gt=1000   value__lt=0.001
    host__in=vm-09,vm-12   campaign=7   tool__ne=dd   workload__contains=randread   outstanding__isnull=true
    wide=true   fields=host,param.bs,metric.iops   ordering=-metric.iops

The same parameter twice, or a comma after `__in`, means any of them; different parameters must all hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from benchlab.results.columns import (
    ALIASES,
    METRIC,
    OPTION_NAME,
    PARAM,
    Column,
    Kind,
    Shape,
    metric,
    param,
)
from benchlab.topologies import moments

T = TypeVar("T")
Value = str | int | float | bool | datetime
OPERATORS = ("in", "ne", "gt", "gte", "lt", "lte", "contains", "isnull")
EQUALS = ("eq", "ne", "in")
COMPARES = ("gt", "gte", "lt", "lte")
GREATEST = 2**63 - 1
MOST_ROWS = 10**9
# that one may ask for
MOST_COLUMNS = 200
OWN = ("fields", "ordering", "limit", "wide", "library", "latest", "format")


class Refused(Exception):
    """`errors`: parameter -> what is wrong with it and what would be right."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {said}" for name, said in errors.items()))
        self.errors = errors


@dataclass(frozen=True, slots=True)
class Condition:
    """`column` `operator` any of `values`; `metric`: of that metric of the attempt instead of the row itself."""

    column: Column
    # "eq" or one of OPERATORS
    operator: str
    values: tuple[Value, ...]
    metric: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    shape: Shape
    conditions: tuple[Condition, ...]
    columns: tuple[Column, ...]
    # (column, descending)
    order: tuple[tuple[Column, bool], ...] = ()
    limit: int | None = None
    wide: bool = False
    library: bool = False
    latest: bool = False


def understand(shape: Shape, query: Mapping[str, Sequence[str]]) -> Asked:
    """Raises Refused, with every parameter that is wrong."""
    errors: dict[str, str] = {}
    conditions: list[Condition] = []
    for name, texts in query.items():
        if name in OWN:
            continue
        try:
            conditions.append(_condition(shape, name, texts))
        except ValueError as error:
            errors[name] = str(error)
    own: dict[str, str] = {name: query[name][-1] for name in OWN if name in query}
    wide = _part(errors, own, "wide", _truth, False)
    if "wide" in own and shape.name != "results":
        errors["wide"] = "Only /api/results/ has metrics that can be columns."
    asked = Asked(
        shape,
        tuple(conditions),
        tuple(_part(errors, own, "fields", lambda t: _fields(shape, t, wide), _shown(shape, wide))),
        tuple(_part(errors, own, "ordering", lambda t: _ordering(shape, t, wide), ())),
        _part(errors, own, "limit", _limit, None),
        wide,
        _part(errors, own, "library", _truth, False),
        _part(errors, own, "latest", _truth, False),
    )
    if errors:
        raise Refused(errors)
    return asked


def _part(
    errors: dict[str, str],
    own: Mapping[str, str],
    name: str,
    read: Callable[[str], T],
    default: T,
) -> T:
    """One of our own parameters, its error noted."""
    if name not in own:
        return default
    try:
        return read(own[name])
    except ValueError as error:
        errors[name] = str(error)
        return default


def _condition(shape: Shape, name: str, texts: Sequence[str]) -> Condition:
    stem, mark, operator = name.rpartition("__")
    if not mark:
        stem, operator = name, "eq"
    elif operator not in OPERATORS:
        raise ValueError(
            f"No such operator as {operator[:20]!r}; there are {', '.join(OPERATORS)}."
        )
    column = _column(shape, stem)
    if operator in COMPARES and column.kind in (Kind.TEXT, Kind.NAME, Kind.JSON):
        raise ValueError(f"{stem} is {column.kind.value}; it is not more or less than anything.")
    if operator == "contains" and column.kind not in (Kind.TEXT, Kind.NAME, Kind.JSON, Kind.PARAM):
        raise ValueError(f"{stem} is a {column.kind.value}; it contains nothing.")
    if operator == "in":
        texts = [part for text in texts for part in text.split(",")]
    if operator == "isnull":
        return Condition(column, operator, (_truth(texts[-1]),), _of_metric(stem))
    return Condition(
        column, operator, tuple(_value(column, operator, text) for text in texts), _of_metric(stem)
    )


def _of_metric(stem: str) -> str:
    return stem.removeprefix(METRIC) if stem.startswith(METRIC) else ""


def _column(shape: Shape, stem: str) -> Column:
    """Raises ValueError, which lists what there is."""
    if stem.startswith(PARAM):
        if not OPTION_NAME.fullmatch(stem.removeprefix(PARAM)):
            raise ValueError("After param. stands the name of an option: letters, digits, _ . : -")
        return param(stem.removeprefix(PARAM))
    if stem.startswith(METRIC):
        if not stem.removeprefix(METRIC) or _unfit(stem):
            raise ValueError("After metric. stands the name of a metric: metric.iops__gt=1000")
        return Column(stem, Kind.NUMBER, "o.value", "Of the attempt's whole", every_row=False)
    name = ALIASES.get(stem, stem)
    if name not in shape.columns:
        known = ", ".join([*shape.columns, *ALIASES, "param.OPTION", "metric.NAME", *OWN])
        raise ValueError(f"No such parameter; there are {known}.")
    return shape.columns[name]


def _value(column: Column, operator: str, text: str) -> Value:
    if _unfit(text):
        raise ValueError("Text must be without NUL and surrogate characters.")
    if column.words and operator in EQUALS and text not in column.words:
        there = ", ".join(word for word in column.words if word)
        raise ValueError(f"{text[:40]!r} is not one of them; there are {there}.")
    if column.name == "stage" and operator in EQUALS:
        moments.parse(text)
    if column.kind is Kind.WHOLE:
        return _number(text) if operator in COMPARES else _whole(text)
    if column.kind is Kind.NUMBER or (column.kind is Kind.PARAM and operator in COMPARES):
        return _number(text)
    if column.kind is Kind.TIME:
        return _time(text)
    return text


def _unfit(text: str) -> bool:
    """True when PostgreSQL would not take the text."""
    return "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text)


def _whole(text: str) -> int:
    if not (text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 20):
        raise ValueError(f"Give a whole number, not {text[:20]!r}.")
    if abs(int(text)) > GREATEST:
        raise ValueError(f"Give a whole number up to {GREATEST}.")
    return int(text)


def _number(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise ValueError(f"Give a number, in base units, not {text[:20]!r}.")
    return found


def _time(text: str) -> datetime:
    """Without a zone it is UTC."""
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"Give a time as 2026-11-21T11:00:00Z, not {text[:30]!r}.") from None


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("Give true or false.")
    return text.lower() == "true"


def _limit(text: str) -> int:
    found = _whole(text)
    if not 1 <= found <= MOST_ROWS:
        raise ValueError(f"Give a number from 1 to {MOST_ROWS}.")
    return found


def _shown(shape: Shape, wide: bool) -> list[Column]:
    return [c for c in shape.columns.values() if c.shown and not (wide and c.every_row)]


def _fields(shape: Shape, text: str, wide: bool) -> list[Column]:
    found = [_asked_for(shape, name, wide) for name in _names(text)]
    if not 1 <= len(found) <= MOST_COLUMNS:
        raise ValueError(f"Name 1 to {MOST_COLUMNS} columns, separated by commas.")
    return found


def _ordering(shape: Shape, text: str, wide: bool) -> list[tuple[Column, bool]]:
    return [
        (_asked_for(shape, name.removeprefix("-"), wide), name.startswith("-"))
        for name in _names(text)
    ]


def _names(text: str) -> Iterable[str]:
    return dict.fromkeys(part for part in (word.strip() for word in text.split(",")) if part)


def _asked_for(shape: Shape, name: str, wide: bool) -> Column:
    column = _column(shape, name)
    if name.startswith(METRIC):
        if not wide:
            raise ValueError("Metrics are columns with wide=true; without it they are rows.")
        return metric(name.removeprefix(METRIC))
    if wide and column.every_row:
        raise ValueError(f"With wide=true there is one row per attempt, and no column {name}.")
    return column
