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
    """`asked` and `by` are None and empty where `errors` (parameter -> what is wrong) has any."""

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
        found = []
        for parameter, values in self.parameters.items():
            if parameter in OWN_PARAMETERS:
                continue
            stem, mark, operator = parameter.rpartition("__")
            name = (stem, operator) if mark and operator in OPERATORS else (parameter, "eq")
            error = self.errors.get(parameter, "")
            found += [TypedCondition(*name, value, error) for value in values]
        return [*found, TypedCondition()]

    @property
    def other_errors(self) -> Mapping[str, str]:
        """Errors of all that is no condition."""
        own = (*OWN_PARAMETERS, GROUP, GROUP_ORDER, CURSOR)
        return {name: said for name, said in self.errors.items() if name in own}

    def download_query(self, form: str) -> str:
        """The exports' query for the rows that are shown."""
        every = {
            **self.parameters,
            "fields": [",".join(["run", *self.column_names])],
            "ordering": [self.order_term],
        }
        return urlencode({**every, "wide": ["true"], "format": [form]}, doseq=True)


def parse_page_query(query: QueryDict) -> PageQuery:
    """Whatever is wrong is in its errors."""
    given = {name: list(values) for name, values in query.lists()}
    own = {name: given.pop(name, [""])[-1] for name in (GROUP, GROUP_ORDER, CURSOR, PAGE)}
    wish = PageQuery(given, own)
    for name in DOWNLOADS:
        if given.pop(name, None):
            wish.errors[name] = "Only downloads have that."
    try:
        wish.request = parse_query(
            RESULTS,
            {
                **given,
                "fields": [",".join(wish.column_names) or "run"],
                "ordering": [wish.order_term],
                "wide": ["true"],
            },
        )
        if len(wish.request.order) != 1:
            raise QueryError(
                {"ordering": "The page is sorted by one column; downloads by several."}
            )
    except QueryError as refused:
        wish.refuse(refused)
    if wish.group_names:
        try:
            wish.group_columns = parse_columns(wish.group_names)
        except QueryError as refused:
            wish.refuse(QueryError({GROUP: next(iter(refused.errors.values()))}))
    if wish.errors:
        wish.request = None
    return wish


def parse_columns(wanted: Iterable[str]) -> tuple[Column, ...]:
    """Raises Refused."""
    return parse_query(RESULTS, {"fields": [",".join(wanted)], "wide": ["true"]}).columns


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
