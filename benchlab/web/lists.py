# SPDX-License-Identifier: Apache-2.0
"""Lists on pages: sorted by their headings, and filtered by one field. It is in the address."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import and_, or_
from typing import Any, Generic, TypeVar

from django.core.exceptions import BadRequest, FieldDoesNotExist
from django.core.paginator import Paginator
from django.db.models import F, Model, Q, QuerySet
from django.db.models.expressions import Combinable
from django.http import HttpRequest, QueryDict

from benchlab.team.models import OwnedQuerySet
from benchlab.web.filters import ARCHIVED, shortened, unknown_word_message
from benchlab.web.texts import NaturalOrder, natural_key

M = TypeVar("M", bound=Model)
# what a list has of its rows
R = TypeVar("R")
T = TypeVar("T")
# characters of what is looked for
MAX_SEARCH_LENGTH = 200
MAX_SEARCH_WORDS = 8
# rows to tick that one sees at a glance; more are found by words
MAX_UNSEARCHED_CHOICES = 12
# Lines of many that a page shows at first, best first: nobody reads the 500 of a campaign on 500 hosts.
MOST_LINES = 12
# ?lines=all shows all of them.
LINES, ALL = "lines", "all"
SORT, FIND, PAGE = "sort", "q", "page"
# of another order, or of other rows
PAGE_PARAMETERS = (PAGE, "cursor")


@dataclass(frozen=True, slots=True)
class ColumnHead:
    """A column's, as templates/_head.html shows it. `sort`: aria-sort's word, empty where it does not sort now."""

    label: str
    url: str = ""
    sort: str = ""
    css: str = ""
    # a second line
    more: str = ""


@dataclass(frozen=True, slots=True)
class SortColumn:
    """A column of a list: what its head says, and what it sorts by, in the database (`term`) or here (`key`, of a
    row; None and "" are not known). Neither: it does not sort."""

    label: str
    term: Combinable | None = None
    css: str = ""
    key: Callable[[Any], Any] | None = None

    @property
    def is_sortable(self) -> bool:
        return self.term is not None or self.key is not None


@dataclass(frozen=True, slots=True)
class FilteredList(Generic[R]):
    """Sorted `rows` and what templates/lists/ show. `other_parameters`: those that a filter does not change."""

    rows: R
    heads: list[ColumnHead]
    text: str
    other_parameters: list[tuple[str, str]]
    # of the address without a page: "&sort=name&q=a"
    query: str
    clear: str
    # where on its page the list is: "#disks"; "" at its beginning
    place: str = ""
    # the parameter that filters it
    field: str = FIND


def active_or_archived(request: HttpRequest, rows: OwnedQuerySet[M]) -> OwnedQuerySet[M]:
    """Without what is archived; with ?archived=true (lists/_archived.html) that and nothing else. Raises BadRequest."""
    choice = request.GET.get(ARCHIVED, "")
    if choice not in ("", "true", "false"):
        raise BadRequest(f"{ARCHIVED}: give true or false, not {shortened(choice)}.")
    return rows.archived() if choice == "true" else rows.current()


def name_column(label: str = "Name", name: str = "name") -> SortColumn:
    """vm-2 before vm-10."""
    return SortColumn(label, NaturalOrder(name))


def sort_column(label: str, name: str, css: str = "") -> SortColumn:
    return SortColumn(label, F(name), css)


def key_column(label: str, key: Callable[[Any], Any], css: str = "") -> SortColumn:
    """Return a column that sorts rows in memory, with texts in natural order."""
    return SortColumn(label, css=css, key=key)


def filter_rows(
    request: HttpRequest,
    rows: QuerySet[M],
    columns: Mapping[str, SortColumn],
    finds: Iterable[str],
    place: str = "",
    filters: Iterable[str] = (),
    before: str = "",
) -> FilteredList[QuerySet[M]]:
    """`columns`: by the word that the address has for each. Without ?sort= rows stay in their order. `filters`: what
    else its page understands. Without `finds` ?q= is no filter of it. `before`: what its parameters begin with where it
    is the second list of its page.

    Raises BadRequest: a word that is no column's, a parameter that the page does not know, more text than it looks for.
    """
    names = tuple(finds)
    reject_unknown_parameters(request, before + SORT, *([before + FIND] if names else []), *filters)
    text = search_text(request, before + FIND) if names else ""
    sort = sort_parameter(request, columns, before + SORT)
    if text:
        rows = rows.filter(match_words(names, text))
    if sort and (column := columns[sort.removeprefix("-")]).term is not None:
        rows = rows.order_by(*_order_terms(rows, column, sort))
    return _filtered_list(request, rows, columns, text, sort, place, before)


def sort_rows(
    request: HttpRequest, rows: Iterable[T], columns: Mapping[str, SortColumn]
) -> list[T]:
    """Sort all rows of `filter_rows` where ?sort= is a column that no database sorts by, but a `key`."""
    sort = sort_parameter(request, columns)
    key = columns[sort.removeprefix("-")].key if sort else None
    return sort_by_key(rows, key, down=sort.startswith("-")) if key else list(rows)


def filter_in_memory(
    request: HttpRequest,
    rows: Iterable[T],
    columns: Mapping[str, SortColumn],
    finds: Callable[[T], Iterable[str]],
    place: str = "",
    filters: Iterable[str] = (),
) -> FilteredList[list[T]]:
    """The same for few rows that are not of one table. `finds`: the texts of a row that are looked into."""
    reject_unknown_parameters(request, SORT, FIND, *filters)
    text, sort = search_text(request), sort_parameter(request, columns)
    matching = [row for row in rows if _contains_words(finds(row), text)]
    in_order = sort_rows(request, matching, columns)
    return _filtered_list(request, in_order, columns, text, sort, place)


def reject_unknown_parameters(request: HttpRequest, *allowed: str) -> None:
    """A misspelt filter would give every row. Raises BadRequest for a parameter that is none of these, nor a page's."""
    for name in request.GET:
        if name not in allowed and name != PAGE:
            names = ", ".join((*allowed, PAGE))
            raise BadRequest(f"{shortened(name)}: no such parameter; there are {names}.")


def sort_parameter(
    request: HttpRequest, columns: Mapping[str, SortColumn], parameter: str = SORT
) -> str:
    """Column of ?sort=, "-" before it for the other way round. Raises BadRequest: no column sorts so."""
    sort = request.GET.get(parameter, "")
    word = sort.removeprefix("-")
    sortable = [name for name, column in columns.items() if column.is_sortable]
    if sort and word not in sortable:
        raise BadRequest(f"{parameter}: {unknown_word_message(word, sortable)}")
    return sort


def search_text(request: HttpRequest, parameter: str = FIND) -> str:
    """Text that ?q= looks for. Raises BadRequest: too long."""
    text = " ".join(request.GET.get(parameter, "").replace("\0", "").split())
    if len(text) > MAX_SEARCH_LENGTH:
        raise BadRequest(
            f"{parameter}: {len(text)} characters; {MAX_SEARCH_LENGTH} are looked for at most."
        )
    return text


def search_words(text: str) -> list[str]:
    """Each of them must be there; those beyond MOST_WORDS are one."""
    return text.split(maxsplit=MAX_SEARCH_WORDS - 1)


def match_words(fields: Iterable[str], text: str) -> Q:
    """Rows that have each word in any of these fields, whatever its case; % and _ are letters like others."""
    names = list(fields)
    each = (
        reduce(or_, (Q(**{f"{name}__icontains": word}) for name in names))
        for word in search_words(text)
    )
    return reduce(and_, each, Q())


def search_pattern(text: str) -> re.Pattern[str] | None:
    """Pattern of what `matching` found, in a text that is shown; None where nothing was looked for."""
    by_length = sorted(search_words(text), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, by_length)), re.IGNORECASE) if by_length else None


def sortable_head(
    query: QueryDict,
    parameter: str,
    word: str,
    current: str,
    label: str,
    css: str = "",
    more: str = "",
) -> ColumnHead:
    """Return the head of a sortable column. Its link sorts by it, or reverses the order that is in force."""
    down, now = current.startswith("-"), current.removeprefix("-") == word
    parameters = without_parameters(query, *PAGE_PARAMETERS)
    parameters[parameter] = f"-{word}" if now and not down else word
    return ColumnHead(
        label,
        query_address(parameters),
        ("descending" if down else "ascending") if now else "",
        css,
        more,
    )


def without_parameters(query: QueryDict, *names: str) -> QueryDict:
    """A copy that can be changed."""
    copy = query.copy()
    for name in names:
        copy.pop(name, None)
    return copy


def parameter_pairs(query: QueryDict) -> list[tuple[str, str]]:
    """List the parameters as hidden fields of a form have them."""
    return [(name, value) for name, many in query.lists() for value in many]


def query_address(query: QueryDict) -> str:
    """Return the address of this page with other parameters."""
    return f"?{query.urlencode()}"


def _filtered_list(
    request: HttpRequest,
    rows: R,
    columns: Mapping[str, SortColumn],
    text: str,
    sort: str,
    place: str,
    before: str = "",
) -> FilteredList[R]:
    rest, field = without_parameters(request.GET, *PAGE_PARAMETERS), before + FIND
    heads = []
    for word, column in columns.items():
        head = ColumnHead(column.label, css=column.css)
        if column.is_sortable:
            head = sortable_head(request.GET, before + SORT, word, sort, column.label, column.css)
            head = replace(head, url=head.url + place)
        heads.append(head)
    unsearched = without_parameters(rest, field)
    return FilteredList(
        rows,
        heads,
        text,
        parameter_pairs(unsearched),
        f"&{rest.urlencode()}" if rest else "",
        query_address(unsearched) + place,
        place,
        field,
    )


def _order_terms(rows: QuerySet[M], column: SortColumn, sort: str) -> list[Any]:
    term: Any = column.term
    # Where nothing can be missing it is not said where that would be: an index is read in order then, either way.
    last = None if _always_known(rows, getattr(term, "name", "")) else True
    if sort.startswith("-"):
        return [term.desc(nulls_last=last), "-pk"]
    return [term.asc(nulls_last=last), "pk"]


def _always_known(rows: QuerySet[M], name: str) -> bool:
    """`name`: of a column; what is computed has none."""
    try:
        return bool(name) and not rows.model._meta.get_field(name).null
    except FieldDoesNotExist:
        return False


def _contains_words(texts: Iterable[str], text: str) -> bool:
    """True when the texts contain every word, as in `match_words`."""
    lowered = [lower_text.lower() for lower_text in texts]
    return all(
        any(word.lower() in lower_text for lower_text in lowered) for word in search_words(text)
    )


def sort_by_key(rows: Iterable[T], key: Callable[[T], Any], *, down: bool) -> list[T]:
    """Rows in order: numbers before texts, and those as people count. What is not known is last, either way; what is
    equal stays in its order."""
    pairs = [(key(row), row) for row in rows]
    known = [(value_rank(value), row) for value, row in pairs if value not in (None, "")]
    known.sort(key=lambda pair: pair[0], reverse=down)
    return [row for _, row in known] + [row for value, row in pairs if value in (None, "")]


def value_rank(value: Any) -> tuple[int, Any]:
    """Key of a sort in which nothing is last."""
    if value is None:
        return 2, ()
    return (1, natural_key(value.lower())) if isinstance(value, str) else (0, value)


# rows: to step over more, or to count more, takes longer than people wait
MAX_ROWS = 2_000


class BoundedPaginator(Paginator):  # type: ignore[type-arg]  # it is generic for mypy only
    """The first REACH rows. `more`: there are others behind them; of a list, one more than REACH tells that."""

    @cached_property
    def _reached_rows(self) -> int:
        rows: Any = self.object_list
        return len(rows if isinstance(rows, list) else rows[: MAX_ROWS + 1].values_list("pk"))

    @cached_property
    def count(self) -> int:
        return min(self._reached_rows, MAX_ROWS)

    @property
    def has_more(self) -> bool:
        return self._reached_rows > MAX_ROWS
