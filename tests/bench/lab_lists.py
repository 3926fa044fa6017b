"""The addresses of every list that there is: of the API in every order, filtered and deep, and of the pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast
from urllib.parse import quote

from django.contrib.auth.models import User
from django.urls import NoReverseMatch, reverse

from benchlab.rest.urls import router
from benchlab.team import permissions
from benchlab.web import cursors, paging
from benchlab.web.filters import order_column

VIEWS = cast("list[tuple[str, Any, str]]", router.registry)
TEXTS = ("name", "unit", "device", "sampler", "metric", "sha256", "fingerprint", "stage", "tool")
EXPORTS = ("results", "series-table")  # measured by themselves
NO_LIST = ("verdicts", "history")  # answers about campaigns, or a run, that are named
# Pages with a number, and narrowed down.
MORE = (
    "/campaigns/?page=40", "/campaigns/?tag=tag1", "/activity/?page=40", "/audit/?page=20", "/audit/?action=destroy",
    "/audit/?subject=nosuch", "/shares/?page=20",
)  # fmt: skip


def api(ask: Callable[[str], Any], user: User) -> Iterator[str]:
    for prefix, view, _ in VIEWS:
        url = f"/api/{prefix}/"
        if prefix in (*EXPORTS, *NO_LIST) or not hasattr(view, "list"):
            continue
        yield url
        if view.pagination_class is None:
            yield f"{url}?page=40"
            continue
        told = ask(url).json()
        rows = (
            paging.MAX_NUMBERED_ROWS
            if told["count"] is None
            else min(paging.MAX_NUMBERED_ROWS, told["count"])
        )
        last = -(-rows // view.pagination_class.page_size)
        yield from (f"{url}?page={max(last, 1)}", f"{url}?page={max(last // 2, 1)}")
        for field in view.ordering_fields:
            for sign in ("", "-"):
                yield f"{url}?ordering={sign}{field}"
                yield f"{url}?ordering={sign}{field}&page={max(last, 1)}"
                yield from _deep(url, view, user, sign + field)
        yield from _filtered(url, view, told["results"], ask)


def _deep(url: str, view: Any, user: User, order: str) -> Iterator[str]:
    """A page by cursor that ends where the list does."""
    rows = view.queryset.model.objects.for_user(user)
    sign = "-" if order.startswith("-") else ""
    terms = [order_column(rows, order), *([] if order.endswith("id") else [f"{sign}id"])]
    other = [term[1:] if sign else f"-{term}" for term in terms]
    size = view.pagination_class.page_size
    for row in rows.order_by(*other)[size + 5 : size + 6]:
        yield f"{url}?ordering={order}&cursor={quote(cursors.encode_cursor(cursors.sort_values(row, terms), terms))}"


def _filtered(
    url: str, view: Any, rows: list[dict[str, Any]], ask: Callable[..., Any]
) -> Iterator[str]:
    """By what the newest row has, which may be most of them, and by what none has, where that may be any word."""
    chosen = getattr(view, "filterset_class", None)
    for name in chosen.base_filters if chosen else view.filterset_fields:
        value = rows[0].get(name) if rows else None
        if value in (None, ""):
            continue
        yield f"{url}?{name}={quote(str(value).lower() if isinstance(value, bool) else str(value))}"
        nothing = f"{url}?{name}=nosuch"
        if name in TEXTS and ask(nothing).status_code == 200:
            yield nothing


def pages(look: Callable[[str], Any]) -> Iterator[str]:
    """Those without an id in their address; what is refused or leads elsewhere is none."""
    for name, rule in permissions.PAGES.items():
        if not rule.see or name in ("audit-csv", "schema", "api-docs", "logout", "account_logout"):
            continue  # a download, two pages of one text, and the way out
        try:
            url = reverse(name)
        except NoReverseMatch:
            continue
        if look(url).status_code == 200 and not url.startswith("/api/"):
            yield url
    yield from MORE
