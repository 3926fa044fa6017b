# SPDX-License-Identifier: Apache-2.0
"""Query in the address of the table of runs: the language of the exports, and what only a page has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

from django.http import QueryDict

from benchlab.results.columns import RESULTS, Column
from benchlab.results.query_language import (
    OPERATORS,
    OWN_PARAMETERS,
    QueryError,
    TableQuery,
    parse_query,
)

# of the form's fields, which are made into an address
FORM = "form"
GROUP, GROUP_ORDER, CURSOR, PAGE = "group", "group_ordering", "cursor", "page"
# what only downloads have
DOWNLOADS = ("wide", "format", "limit")
FIELDS = (
    "campaign",
    "host",
    "topology",
    "workload",
    "outstanding",
    "repeat",
    "outcome",
    "started_at",
    "metric.iops",
    "metric.bandwidth",
    "metric.lat.mean",
)
ORDER = "-attempt"
# the head of each row
ROW = ("run", "attempt")
SWITCHES = ("latest", "library")


@dataclass(frozen=True, slots=True)
class TypedCondition:
    """A condition as it was typed, and what is wrong with it."""

    name: str = ""
    operator: str = "eq"
    value: str = ""
    error: str = ""


@dataclass(slots=True)
class PageQuery:
    """`request` is None and `group_columns` is empty if there are `errors` (parameter -> message)."""

    # in the language
    parameters: dict[str, list[str]]
    page_parameters: dict[str, str]
    request: TableQuery | None = None
    group_columns: tuple[Column, ...] = ()
    errors: dict[str, str] = field(default_factory=dict)

    def refuse(self, refused: QueryError) -> None:
        self.errors |= refused.errors
        self.request = None

    @property
    def column_names(self) -> list[str]:
        """Names of the columns that are shown beside the run, as far as they were understood."""
        text = self.parameters.get("fields", [",".join(FIELDS)])[-1]
        return [name for name in split_names([text]) if name not in ROW]

    @property
    def order_term(self) -> str:
        return self.parameters.get("ordering", [ORDER])[-1] or ORDER

    @property
    def group_names(self) -> list[str]:
        return split_names([self.page_parameters[GROUP]])

    @property
    def conditions(self) -> list[TypedCondition]:
        """The conditions, one for each value; and an empty one to fill in."""
        conditions = []
        for parameter, values in self.parameters.items():
            if parameter in OWN_PARAMETERS:
                continue
            stem, mark, operator = parameter.rpartition("__")
            name = (stem, operator) if mark and operator in OPERATORS else (parameter, "eq")
            error = self.errors.get(parameter, "")
            conditions += [TypedCondition(*name, value, error) for value in values]
        return [*conditions, TypedCondition()]

    @property
    def other_errors(self) -> Mapping[str, str]:
        """Errors of all that is no condition."""
        own = (*OWN_PARAMETERS, GROUP, GROUP_ORDER, CURSOR)
        return {name: error for name, error in self.errors.items() if name in own}

    def download_query(self, form: str) -> str:
        """The exports' query for the rows that are shown."""
        parameters = {
            **self.parameters,
            "fields": [",".join(["run", *self.column_names])],
            "ordering": [self.order_term],
        }
        return urlencode({**parameters, "wide": ["true"], "format": [form]}, doseq=True)


def parse_page_query(query: QueryDict) -> PageQuery:
    """Parse the address; what is wrong is in `errors`."""
    parameters = {name: list(values) for name, values in query.lists()}
    own = {name: parameters.pop(name, [""])[-1] for name in (GROUP, GROUP_ORDER, CURSOR, PAGE)}
    page_query = PageQuery(parameters, own)
    for name in DOWNLOADS:
        if parameters.pop(name, None):
            page_query.errors[name] = "Only downloads have that."
    try:
        page_query.request = parse_query(
            RESULTS,
            {
                **parameters,
                "fields": [",".join(page_query.column_names) or "run"],
                "ordering": [page_query.order_term],
                "wide": ["true"],
            },
        )
        if len(page_query.request.order) != 1:
            raise QueryError(
                {"ordering": "The page is sorted by one column; downloads by several."}
            )
    except QueryError as refused:
        page_query.refuse(refused)
    if page_query.group_names:
        try:
            page_query.group_columns = parse_columns(page_query.group_names)
        except QueryError as refused:
            page_query.refuse(QueryError({GROUP: next(iter(refused.errors.values()))}))
    if page_query.errors:
        page_query.request = None
    return page_query


def parse_columns(column_names: Iterable[str]) -> tuple[Column, ...]:
    """Raises Refused."""
    return parse_query(RESULTS, {"fields": [",".join(column_names)], "wide": ["true"]}).columns


def query_from_form(form: QueryDict) -> str:
    """The address's query for what the form says; what is wrong in it is told there."""
    pairs = [*_form_conditions(form), *((name, "true") for name in SWITCHES if form.get(name))]
    fields = [name for name in split_names(form.getlist("column")) if name not in ROW]
    if fields and sorted(fields) != sorted(FIELDS):
        pairs.append(("fields", ",".join(fields)))
    if by := split_names(form.getlist("by")):
        pairs.append((GROUP, ",".join(by)))
    if form.get("ordering", ORDER) != ORDER:
        pairs.append(("ordering", str(form["ordering"])))
    return urlencode(pairs)


def _form_conditions(form: QueryDict) -> list[tuple[str, str]]:
    typed = (map(str, form.getlist(name)) for name in ("field", "operator", "value"))
    return [
        (f"{name.strip()}__{operator}" if operator in OPERATORS else name.strip(), value)
        for name, operator, value in zip(*typed, strict=False)
        if name.strip() or value
    ]


def split_names(texts: Iterable[str]) -> list[str]:
    """Each once, in order; lists of them with commas."""
    parts = (part.strip() for text in texts for part in text.split(","))
    return list(dict.fromkeys(part for part in parts if part))
