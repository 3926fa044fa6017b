"""What every list of a page can do: be sorted by its heads, and be filtered by one field. It is in the address."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any, Generic, TypeVar

from django.core.exceptions import BadRequest
from django.db.models import F, Model, Q, QuerySet
from django.db.models.expressions import Combinable
from django.http import HttpRequest, QueryDict

from benchlab.team.models import OwnedQuerySet
from benchlab.web.filters import ARCHIVED, none_of
from benchlab.web.natural import Natural

M = TypeVar("M", bound=Model)
LONGEST = 200  # characters of what is looked for
MOST_WORDS = 8
SORT, FIND = "sort", "q"
AWAY = ("page", "cursor")  # of another order, or of other rows


@dataclass(frozen=True, slots=True)
class Head:
    """A column's, as templates/_head.html shows it. `sort`: aria-sort's word, empty where it does not sort now."""

    label: str
    url: str = ""
    sort: str = ""
    css: str = ""
    more: str = ""  # a second line


@dataclass(frozen=True, slots=True)
class By:
    """A column of a list: what its head says, and what it sorts by; None: it does not."""

    label: str
    term: Combinable | None = None
    css: str = ""


@dataclass(frozen=True, slots=True)
class Listed(Generic[M]):
    """`rows` in order; the rest is what templates/lists/ show. `kept`: parameters that a filter leaves as they are."""

    rows: QuerySet[M]
    heads: list[Head]
    text: str
    kept: list[tuple[str, str]]
    query: str  # of the address without a page: "&sort=name&q=a"
    clear: str


def kept(request: HttpRequest, rows: OwnedQuerySet[M]) -> OwnedQuerySet[M]:
    """Without what is archived; with ?archived=true (lists/_archived.html) that and nothing else."""
    return rows.archived() if request.GET.get(ARCHIVED) == "true" else rows.current()


def by_name(label: str = "Name", name: str = "name") -> By:
    """vm-2 before vm-10."""
    return By(label, Natural(name))


def by(label: str, name: str, css: str = "") -> By:
    return By(label, F(name), css)


def listed(
    request: HttpRequest, rows: QuerySet[M], columns: Mapping[str, By], finds: Iterable[str]
) -> Listed[M]:
    """`columns`: by the word that the address has for each. Without ?sort= rows stay in their order.

    Raises BadRequest: a word that is no column's, or more text than a page looks for.
    """
    text, sort = found_text(request), request.GET.get(SORT, "")
    if text:
        rows = rows.filter(matching(finds, text))
    if sort:
        rows = rows.order_by(*_order(columns, sort))
    heads = [_head(request.GET, column, word, sort) for word, column in columns.items()]
    rest = without(request.GET, *AWAY)
    return Listed(
        rows,
        heads,
        text,
        [(name, one) for name, many in without(rest, FIND).lists() for one in many],
        f"&{rest.urlencode()}" if rest else "",
        address(without(rest, FIND)),
    )


def found_text(request: HttpRequest) -> str:
    """What ?q= looks for. Raises BadRequest: too long."""
    text = " ".join(request.GET.get(FIND, "").replace("\0", "").split())
    if len(text) > LONGEST:
        raise BadRequest(f"{FIND}: {len(text)} characters; {LONGEST} are looked for at most.")
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
    """What `matching` found, in a text that is shown; None where nothing was looked for."""
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


def _head(query: QueryDict, column: By, word: str, sort: str) -> Head:
    if column.term is None:
        return Head(column.label, css=column.css)
    return head(query, SORT, word, sort, column.label, column.css)


def _order(columns: Mapping[str, By], sort: str) -> list[Any]:
    term = columns[word].term if (word := sort.removeprefix("-")) in columns else None
    if term is None:
        known = [word for word, column in columns.items() if column.term is not None]
        raise BadRequest(f"{SORT}: {none_of(word, known)}")
    if sort.startswith("-"):
        return [term.desc(nulls_last=True), "-pk"]  # type: ignore[attr-defined]
    return [term.asc(nulls_last=True), "pk"]  # type: ignore[attr-defined]
