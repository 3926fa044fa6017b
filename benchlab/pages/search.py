# SPDX-License-Identifier: Apache-2.0
"""Search: rows of the person's teams, noun by noun, MAX_RESULTS of each, in a query or two each. Matches are marked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Count, Max, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.http import require_GET

from benchlab.campaigns.models import Campaign, Origin, Run, Workload
from benchlab.hosts.models import Device, Host
from benchlab.sharing import discussion
from benchlab.sharing.models import Comment, Kind, Note, Tag, Tagging
from benchlab.topologies.models import Topology
from benchlab.web.lists import FIND, match_words, search_pattern, search_text
from benchlab.web.texts import NaturalOrder

Person = AbstractBaseUser | AnonymousUser
# of each noun
MAX_RESULTS = 10
# characters; a run's number may be shorter
MIN_LENGTH = 2
# characters of a long text that are shown before the first match
AROUND = 60
LONGEST = 200
RUN = re.compile(r"(?:run\s*|#)?0*(\d{1,18})", re.IGNORECASE | re.ASCII)
# as a disk's identity has it in front
IDENTITY = re.compile(r"\b(?:wwn|serial):", re.IGNORECASE)
BY_NAME = (NaturalOrder("name"), "pk")


def marked(text: str, matched: re.Pattern[str]) -> SafeString:
    """Every match in <mark>, all else escaped."""
    matches = list(matched.finditer(text))
    ends = [0, *(match.end() for match in matches)]
    starts = [*(match.start() for match in matches), len(text)]
    between = [text[end:start] for end, start in zip(ends, starts, strict=True)]
    marks = [*(format_html("<mark>{}</mark>", match.group()) for match in matches), ""]
    return format_html_join("", "{}{}", zip(between, marks, strict=True))


def excerpt(text: str, matched: re.Pattern[str]) -> SafeString:
    """The part of a long text that has the first match, on one line, marked."""
    line = " ".join(text.split())
    match = matched.search(line)
    start = max(0, match.start() - AROUND) if match else 0
    part = line[start : start + LONGEST]
    before, after = "…" * bool(start), "…" * (start + LONGEST < len(line))
    return format_html("{}{}{}", before, marked(part, matched), after)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """`title` and `excerpt` are safe, with the words marked."""

    title: SafeString
    url: str
    excerpt: SafeString


@dataclass(frozen=True, slots=True)
class Section:
    """Rows of a noun; `more_url`: the list that has the others."""

    noun: str
    rows: list[SearchResult]
    has_more: bool = False
    more_url: str = ""


@dataclass(frozen=True, slots=True)
class SearchTerm:
    user: Person
    text: str
    words: re.Pattern[str]

    def result(self, title: object, url: str, texts: Iterable[object]) -> SearchResult:
        line = " · ".join(str(text) for text in texts if text)
        return SearchResult(marked(str(title), self.words), url, excerpt(line, self.words))


@dataclass(frozen=True, slots=True)
class SearchedNoun:
    """A noun whose rows have a page. `rows`: those that a person may find. `fields`: what is searched.

    `texts`: what a result shows below its title. `page`: its page's URL name, with `ids` of the row. `more_page`: the
    list that has the others, which may be searched for the same.
    """

    noun: str
    rows: Callable[[Person], QuerySet[Any, Any]]
    fields: tuple[str, ...]
    page: str
    texts: Callable[[Any], Iterable[object]]
    order: tuple[Any, ...] = BY_NAME
    more_page: str = ""
    is_more_searched: bool = True
    ids: tuple[str, ...] = ("pk",)
    title: Callable[[Any], str] = str
    unsearched: re.Pattern[str] | None = None

    def find(self, term: SearchTerm) -> Section:
        text = self.unsearched.sub("", term.text) if self.unsearched else term.text
        rows = self.rows(term.user).filter(match_words(self.fields, text)).order_by(*self.order)

        def row_result(row: Any) -> SearchResult:
            url = reverse(self.page, args=[getattr(row, name) for name in self.ids])
            return term.result(self.title(row), url, self.texts(row))

        return _limited_section(self.noun, rows, row_result, self._more_url(term))

    def _more_url(self, term: SearchTerm) -> str:
        if not self.more_page:
            return ""
        query = f"?{urlencode({FIND: term.text})}" if self.is_more_searched else ""
        return f"{reverse(self.more_page)}{query}"


def _limited_section(
    noun: str,
    rows: QuerySet[Any, Any] | Sequence[Any],
    make_result: Callable[[Any], SearchResult],
    more_url: str = "",
) -> Section:
    """Build a section of MAX_RESULTS rows; a further one only shows that there are more."""
    limited = list(rows[: MAX_RESULTS + 1])
    results = [make_result(row) for row in limited[:MAX_RESULTS]]
    return Section(noun, results, len(limited) > MAX_RESULTS, more_url)


def _find_runs(term: SearchTerm) -> Section:
    match = RUN.fullmatch(term.text)
    if match is None:
        return Section("Runs", [])
    rows = Run.objects.visible_to(term.user).select_related("campaign", "topology", "workload")
    runs = rows.filter(pk=int(match[1])).order_by()
    return _limited_section(
        "Runs",
        runs,
        lambda row: term.result(
            f"Run {row.pk}", reverse("run-detail", args=[row.pk]), (row, row.campaign)
        ),
    )


def _find_written(term: SearchTerm, noun: str, model: type[Note | Comment]) -> Section:
    """About rows that are still there, and not archived."""
    rows = model.objects.for_user(term.user).filter(match_words(("text",), term.text))
    written = list(rows.order_by("-pk")[: MAX_RESULTS + 1])
    names = discussion.current_names(term.user, [(row.kind, row.object_id) for row in written])
    return _limited_section(
        noun,
        [row for row in written if (row.kind, row.object_id) in names],
        lambda row: term.result(
            f"{Kind(row.kind).label} {names[row.kind, row.object_id]}",
            discussion.row_url(row.kind, row.object_id),
            (row.text,),
        ),
    )


def _find_tags(term: SearchTerm) -> Section:
    """Each with the list that has its rows; runs have none, so the newest one is shown."""
    tags = Tag.objects.for_user(term.user).filter(match_words(("name",), term.text))
    names = {row.pk: row.name for row in tags[: MAX_RESULTS + 1]}
    used = (
        Tagging.objects.for_user(term.user)
        .filter(tag__in=names)
        .order_by("tag__name", "kind")
        .values_list("tag", "kind")
        .annotate(number=Count("pk"), newest=Max("object_id"))
    )

    def tag_result(row: tuple[int, str, int, int]) -> SearchResult:
        tag, kind, number, newest = row
        url = discussion.row_url(kind, newest)
        if kind != Kind.RUN:
            url = f"{reverse(f'{Kind(kind).value}-list')}?{urlencode({'tag': names[tag]})}"
        return term.result(names[tag], url, (f"{Kind(kind).label}: {number}",))

    return _limited_section("Tags", used, tag_result)


def _library_texts(row: Campaign) -> Iterable[object]:
    origin = Origin.from_campaign(row)
    return origin.title, origin.author, *(value for _, value in origin.more), row.question


NOUNS = (
    SearchedNoun(
        "Hosts",
        Host.objects.for_user,
        ("name", "address", "notes"),
        "host-detail",
        lambda row: (row.address, row.notes),
        more_page="host-list",
    ),
    SearchedNoun(
        "Disks",
        lambda user: Device.objects.for_user(user).select_related("host"),
        ("serial", "wwn", "model"),
        "device-detail",
        lambda row: (row.model, row.serial, row.wwn),
        order=("-present", "pk"),
        ids=("host_id", "pk"),
        title=lambda row: f"{row.name} of {row.host}",
        unsearched=IDENTITY,
    ),
    SearchedNoun(
        "Campaigns",
        lambda user: Campaign.objects.for_user(user).current(),
        ("name", "question"),
        "campaign-detail",
        lambda row: (row.question,),
        order=("-pk",),
        more_page="campaign-list",
    ),
    SearchedNoun(
        "Topologies",
        lambda user: Topology.objects.for_user(user).current(),
        ("name", "description"),
        "topology-detail",
        lambda row: (row.description,),
        more_page="topology-list",
    ),
    SearchedNoun(
        "Workloads",
        lambda user: Workload.objects.for_user(user).current(),
        ("name", "tool"),
        "workload-detail",
        lambda row: (row.tool,),
        more_page="workload-list",
    ),
)
LIBRARY = SearchedNoun(
    "Reference library",
    lambda user: Campaign.objects.visible_to(user).filter(source=Campaign.Source.LIBRARY),
    (
        "name",
        "question",
        "origin__title",
        "origin__author",
        "origin__original_title",
        "origin__url",
    ),
    "campaign-detail",
    _library_texts,
    order=("pk",),
    more_page="library",
    is_more_searched=False,
)


def find_sections(user: Person, text: str) -> list[Section]:
    """List the nouns of which something matches."""
    words = search_pattern(text)
    if words is None:
        return []
    term = SearchTerm(user, text, words)
    sections = [_find_runs(term)]
    if len(text) >= MIN_LENGTH:
        sections += [noun.find(term) for noun in NOUNS]
        sections += [_find_written(term, "Notes", Note), _find_written(term, "Comments", Comment)]
        sections += [_find_tags(term), LIBRARY.find(term)]
    return [section for section in sections if section.rows]


@require_GET
def search(request: HttpRequest) -> HttpResponse:
    """The page; for htmx, which asks while a person types, the results alone."""
    text = search_text(request)
    template = "search/_found.html" if request.htmx else "search/search.html"  # type: ignore[attr-defined]
    context = {
        "text": text,
        "sections": find_sections(request.user, text),
        "least": MIN_LENGTH,
    }
    return render(request, template, context)


urlpatterns = [path("", search, name="search")]
