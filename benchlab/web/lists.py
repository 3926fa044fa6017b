# SPDX-License-Identifier: Apache-2.0
"""Lists on pages: sorted by their headings, and filtered by one field. It is in the address."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, or_
from typing import Any, Generic, TypeVar

from django.core.exceptions import BadRequest, FieldDoesNotExist
from django.db.models import F, Model, Q, QuerySet
from django.db.models.expressions import Combinable
from django.http import HttpRequest, QueryDict

from benchlab.team.models import OwnedQuerySet
from benchlab.web.filters import ARCHIVED, none_of, shortened
from benchlab.web.natural import Natural, natural

M = TypeVar("M", bound=Model)
# what a list has of its rows
R = TypeVar("R")
T = TypeVar("T")
# characters of what is looked for
LONGEST = 200
MOST_WORDS = 8
# rows to tick that one sees at a glance; more are found by words
FEW = 12
SORT, FIND, PAGE = "sort", "q", "page"
# of another order, or of other rows
AWAY = (PAGE, "cursor")


@dataclass(frozen=True, slots=True)
class Head:
    """A column's, as templates/_head.html shows it. `sort`: aria-sort's word, empty where it does not sort now."""

    label: str
    url: str = ""
    sort: str = ""
    css: str = ""
    # a second line
    more: str = ""


@dataclass(frozen=True, slots=True)
class By:
    """A column of a list: what its head says, and what it sorts by, in the database (`term`) or here (`key`, of a
    row; None and "" are not known). Neither: it does not sort."""

    label: str
    term: Combinable | None = None
    css: str = ""
    key: Callable[[Any], Any] | None = None

    @property
    def sorts(self) -> bool:
        return self.term is not None or self.key is not None


@dataclass(frozen=True, slots=True)
class Listed(Generic[R]):
    """`rows` in order; the rest is what templates/lists/ show. `kept`: parameters that a filter leaves as they are."""

    rows: R
    heads: list[Head]
    text: str
    kept: list[tuple[str, str]]
    # of the address without a page: "&sort=name&q=a"
    query: str
    clear: str
    # where on its page the list is: "#disks"; "" at its beginning
    place: str = ""
    # the parameter that filters it
    field: str = FIND


def kept(request: HttpRequest, rows: OwnedQuerySet[M]) -> OwnedQuerySet[M]:
    """Without what is archived; with ?archived=true (lists/_archived.html) that and nothing else. Raises BadRequest."""
    asked = request.GET.get(ARCHIVED, "")
    if asked not in ("", "true", "false"):
        raise BadRequest(f"{ARCHIVED}: give true or false, not {shortened(asked)}.")
    return rows.archived() if asked == "true" else rows.current()


def by_name(label: str = "Name", name: str = "name") -> By:
    """vm-2 before vm-10."""
    return By(label, Natural(name))


def by(label: str, name: str, css: str = "") -> By:
    return By(label, F(name), css)


def by_key(label: str, key: Callable[[Any], Any], css: str = "") -> By:
    """For rows that are here: texts as people count, everything else as it is."""
    return By(label, css=css, key=key)


def listed(
    request: HttpRequest,
    rows: QuerySet[M],
    columns: Mapping[str, By],
    finds: Iterable[str],
    place: str = "",
    filters: Iterable[str] = (),
    before: str = "",
) -> Listed[QuerySet[M]]:
    """`columns`: by the word that the address has for each. Without ?sort= rows stay in their order. `filters`: what
    else its page understands. Without `finds` ?q= is no filter of it. `before`: what its parameters begin with where it
    is the second list of its page.

    Raises BadRequest: a word that is no column's, a parameter that the page does not know, more text than it looks for.
    """
    names = tuple(finds)
    understood(request, before + SORT, *([before + FIND] if names else []), *filters)
    text = found_text(request, before + FIND) if names else ""
    sort = sorted_by(request, columns, before + SORT)
    if text:
        rows = rows.filter(matching(names, text))
    if sort and (column := columns[sort.removeprefix("-")]).term is not None:
        rows = rows.order_by(*_order(rows, column, sort))
    return _shown(request, rows, columns, text, sort, place, before)


def in_order(request: HttpRequest, rows: Iterable[T], columns: Mapping[str, By]) -> list[T]:
    """All rows that `listed` found, where its ?sort= is a column that no database sorts by: its `key` is theirs."""
    sort = sorted_by(request, columns)
    key = columns[sort.removeprefix("-")].key if sort else None
    return _sorted(list(rows), key, down=sort.startswith("-")) if key else list(rows)


def listed_here(
    request: HttpRequest,
    rows: Iterable[T],
    columns: Mapping[str, By],
    finds: Callable[[T], Iterable[str]],
    place: str = "",
    filters: Iterable[str] = (),
) -> Listed[list[T]]:
    """The same for few rows that are not of one table. `finds`: the texts of a row that are looked into."""
    understood(request, SORT, FIND, *filters)
    text, sort = found_text(request), sorted_by(request, columns)
    found = [row for row in rows if _has(finds(row), text)] if text else list(rows)
    if sort:
        key = columns[sort.removeprefix("-")].key
        assert key is not None, "sorted_by looked"
        found = _sorted(found, key, down=sort.startswith("-"))
    return _shown(request, found, columns, text, sort, place)


def understood(request: HttpRequest, *known: str) -> None:
    """A misspelt filter would give every row. Raises BadRequest for a parameter that is none of these, nor a page's."""
    for name in request.GET:
        if name not in known and name != PAGE:
            said = ", ".join((*known, PAGE))
            raise BadRequest(f"{shortened(name)}: no such parameter; there are {said}.")


def sorted_by(request: HttpRequest, columns: Mapping[str, By], parameter: str = SORT) -> str:
    """Column of ?sort=, "-" before it for the other way round. Raises BadRequest: no column sorts so."""
    sort = request.GET.get(parameter, "")
    word = sort.removeprefix("-")
    known = [name for name, column in columns.items() if column.sorts]
    if sort and word not in known:
        raise BadRequest(f"{parameter}: {none_of(word, known)}")
    return sort


def found_text(request: HttpRequest, parameter: str = FIND) -> str:
    """Text that ?q= looks for. Raises BadRequest: too long."""
    text = " ".join(request.GET.get(parameter, "").replace("\0", "").split())
    if len(text) > LONGEST:
        raise BadRequest(f"{parameter}: {len(text)} characters; {LONGEST} are looked for at most.")
    return text


def words(text: str) -> list[str]:
    """Each of them must be there; those beyond MOST_WORDS are one."""
    return text.split(maxsplit=MOST_WORDS - 1)


def matching(fields: Iterable[str], text: str) -> Q:
    """Rows that have each word in any of these fields, whatever its case; % and _ are letters like others."""
    names = list(fields)
    each = (
        reduce(or_, (Q(**{f"{name}__icontains": word}) for name in names)) for word in words(text)
    )
    return reduce(and_, each, Q())


def pattern(text: str) -> re.Pattern[str] | None:
    """Pattern of what `matching` found, in a text that is shown; None where nothing was looked for."""
    found = sorted(words(text), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, found)), re.IGNORECASE) if found else None


def head(
    query: QueryDict,
    parameter: str,
    word: str,
    asked: str,
    label: str,
    css: str = "",
    more: str = "",
) -> Head:
    """Of a column that sorts: its link sorts by it, or the other way round if it does already."""
    down, now = asked.startswith("-"), asked.removeprefix("-") == word
    wanted = without(query, *AWAY)
    wanted[parameter] = f"-{word}" if now and not down else word
    return Head(
        label, address(wanted), ("descending" if down else "ascending") if now else "", css, more
    )


def without(query: QueryDict, *names: str) -> QueryDict:
    """A copy that can be changed."""
    found = query.copy()
    for name in names:
        found.pop(name, None)
    return found


def address(query: QueryDict) -> str:
    """Of this page, asked like that."""
    return f"?{query.urlencode()}"


def _shown(
    request: HttpRequest,
    rows: R,
    columns: Mapping[str, By],
    text: str,
    sort: str,
    place: str,
    before: str = "",
) -> Listed[R]:
    rest, field, by_what = without(request.GET, *AWAY), before + FIND, before + SORT
    return Listed(
        rows,
        [
            _head(request.GET, column, (by_what, word), sort, place)
            for word, column in columns.items()
        ],
        text,
        [(name, one) for name, many in without(rest, field).lists() for one in many],
        f"&{rest.urlencode()}" if rest else "",
        address(without(rest, field)) + place,
        place,
        field,
    )


def _head(query: QueryDict, column: By, by_what: tuple[str, str], sort: str, place: str) -> Head:
    """`by_what`: the parameter and the column's word in it."""
    if not column.sorts:
        return Head(column.label, css=column.css)
    found = head(query, *by_what, sort, column.label, column.css)
    return replace(found, url=found.url + place)


def _order(rows: QuerySet[M], column: By, sort: str) -> list[Any]:
    term: Any = column.term
    # Where nothing can be missing it is not said where that would be: an index is read in order then, either way.
    last = None if _always_known(rows, term) else True
    if sort.startswith("-"):
        return [term.desc(nulls_last=last), "-pk"]
    return [term.asc(nulls_last=last), "pk"]


def _always_known(rows: QuerySet[M], term: Any) -> bool:
    # of a column; what is computed has none
    name = getattr(term, "name", "")
    try:
        return bool(name) and not rows.model._meta.get_field(name).null
    except FieldDoesNotExist:
        return False


def _has(texts: Iterable[str], text: str) -> bool:
    """As `matching` finds."""
    there = [one.lower() for one in texts]
    return all(any(word.lower() in one for one in there) for word in words(text))


def _sorted(rows: Sequence[T], key: Callable[[T], Any], *, down: bool) -> list[T]:
    """Rows in order. What is not known is last, either way; what is equal stays in its order."""
    told = [(key(row), row) for row in rows]
    known = [(_comparable(value), row) for value, row in told if value not in (None, "")]
    known.sort(key=lambda one: one[0], reverse=down)
    return [row for _, row in known] + [row for value, row in told if value in (None, "")]


def _comparable(value: Any) -> Any:
    return natural(value.lower()) if isinstance(value, str) else value
