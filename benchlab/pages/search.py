# SPDX-License-Identifier: Apache-2.0
"""Search: rows of the person's teams, noun by noun, MAX_RESULTS of each, in a query or two each. Matches are marked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Count, Max
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

# characters of a long text that are shown before the first match
AROUND = 60
LONGEST = 200


def marked(text: str, matched: re.Pattern[str]) -> SafeString:
    """Every match in <mark>, all else escaped."""
    ends = [0, *(match.end() for match in matched.finditer(text))]
    starts = [*(match.start() for match in matched.finditer(text)), len(text)]
    between = [text[end:start] for end, start in zip(ends, starts, strict=True)]
    matches = [format_html("<mark>{}</mark>", match.group()) for match in matched.finditer(text)]
    return format_html_join("", "{}{}", zip(between, [*matches, ""], strict=True))


def excerpt(text: str, matched: re.Pattern[str]) -> SafeString:
    """The part of a long text that has the first match, on one line, marked."""
    line = " ".join(text.split())
    match = matched.search(line)
    start = max(0, match.start() - AROUND) if match else 0
    part = line[start : start + LONGEST]
    before, after = "…" * bool(start), "…" * (start + LONGEST < len(line))
    return format_html("{}{}{}", before, marked(part, matched), after)


Person = AbstractBaseUser | AnonymousUser
# of each noun
MAX_RESULTS = 10
# characters; a run's number may be shorter
MIN_LENGTH = 2
RUN = re.compile(r"(?:run\s*|#)?0*(\d{1,18})", re.IGNORECASE | re.ASCII)
# as a disk's identity has it in front
IDENTITY = re.compile(r"\b(?:wwn|serial):", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """`title` and `more` are safe, with the words marked."""

    title: SafeString
    url: str
    excerpt: SafeString


@dataclass(frozen=True, slots=True)
class Section:
    """Rows found of a noun; `rest`: the list that has the others, `cut`: whether there are any."""

    noun: str
    rows: list[SearchResult]
    has_more: bool = False
    more_url: str = ""


@dataclass(frozen=True, slots=True)
class SearchTerm:
    user: Person
    text: str
    words: re.Pattern[str]

    def mark_title(self, text: object) -> SafeString:
        return marked(str(text), self.words)

    def make_excerpt(self, *texts: object) -> SafeString:
        return excerpt(" · ".join(str(text) for text in texts if text), self.words)

    def list_address(self, name: str) -> str:
        return f"{reverse(name)}?{urlencode({FIND: self.text})}"


def find_sections(user: Person, text: str) -> list[Section]:
    """Those nouns of which something was found."""
    words = search_pattern(text)
    if words is None:
        return []
    sought = SearchTerm(user, text, words)
    every = [_find_runs, *(() if len(text) < MIN_LENGTH else BY_WORDS)]
    return [section for find in every if (section := find(sought)).rows]


def _find_runs(sought: SearchTerm) -> Section:
    match = RUN.fullmatch(sought.text)
    rows = Run.objects.visible_to(sought.user).select_related("campaign", "topology", "workload")
    runs = rows.filter(pk=int(match[1])).order_by() if match else []
    return Section(
        "Runs",
        [
            SearchResult(
                sought.mark_title(f"Run {row.pk}"),
                reverse("run-detail", args=[row.pk]),
                sought.make_excerpt(row, row.campaign),
            )
            for row in runs
        ],
    )


def _limited_section(
    noun: str, rows: Iterable[Any], make_result: Callable[[Any], SearchResult], rest: str = ""
) -> Section:
    """Build a section from up to MAX_RESULTS + 1 rows; the last one only shows that there are more."""
    limited = list(rows)
    return Section(
        noun, [make_result(row) for row in limited[:MAX_RESULTS]], len(limited) > MAX_RESULTS, rest
    )


def _find_hosts(sought: SearchTerm) -> Section:
    rows = Host.objects.for_user(sought.user).filter(
        match_words(("name", "address", "notes"), sought.text)
    )
    return _limited_section(
        "Hosts",
        rows.order_by(NaturalOrder("name"), "pk")[: MAX_RESULTS + 1],
        lambda row: SearchResult(
            sought.mark_title(row.name),
            reverse("host-detail", args=[row.pk]),
            sought.make_excerpt(row.address, row.notes),
        ),
        sought.list_address("host-list"),
    )


def _find_disks(sought: SearchTerm) -> Section:
    text = IDENTITY.sub("", sought.text)
    rows = Device.objects.for_user(sought.user).filter(
        match_words(("serial", "wwn", "model"), text)
    )
    return _limited_section(
        "Disks",
        rows.select_related("host").order_by("-present", "pk")[: MAX_RESULTS + 1],
        lambda row: SearchResult(
            sought.mark_title(f"{row.name} of {row.host}"),
            reverse("device-detail", args=[row.host_id, row.pk]),
            sought.make_excerpt(row.model, row.serial, row.wwn),
        ),
    )


def _find_campaigns(sought: SearchTerm) -> Section:
    rows = Campaign.objects.for_user(sought.user).current()
    rows = rows.filter(match_words(("name", "question"), sought.text))
    return _limited_section(
        "Campaigns",
        rows[: MAX_RESULTS + 1],
        lambda row: SearchResult(
            sought.mark_title(row.name),
            reverse("campaign-detail", args=[row.pk]),
            sought.make_excerpt(row.question),
        ),
        sought.list_address("campaign-list"),
    )


def _find_topologies(sought: SearchTerm) -> Section:
    rows = Topology.objects.for_user(sought.user).current()
    rows = rows.filter(match_words(("name", "description"), sought.text))
    return _limited_section(
        "Topologies",
        rows.order_by(NaturalOrder("name"), "pk")[: MAX_RESULTS + 1],
        lambda row: SearchResult(
            sought.mark_title(row.name),
            reverse("topology-detail", args=[row.pk]),
            sought.make_excerpt(row.description),
        ),
        sought.list_address("topology-list"),
    )


def _find_workloads(sought: SearchTerm) -> Section:
    rows = Workload.objects.for_user(sought.user).current()
    rows = rows.filter(match_words(("name", "tool"), sought.text))
    return _limited_section(
        "Workloads",
        rows.order_by(NaturalOrder("name"), "pk")[: MAX_RESULTS + 1],
        lambda row: SearchResult(
            sought.mark_title(row.name),
            reverse("workload-detail", args=[row.pk]),
            sought.make_excerpt(row.tool),
        ),
        sought.list_address("workload-list"),
    )


def _find_notes(sought: SearchTerm) -> Section:
    rows = Note.objects.for_user(sought.user).filter(match_words(("text",), sought.text))
    return _text_section(sought, "Notes", rows.order_by("-pk")[: MAX_RESULTS + 1])


def _find_comments(sought: SearchTerm) -> Section:
    rows = Comment.objects.for_user(sought.user).filter(match_words(("text",), sought.text))
    return _text_section(sought, "Comments", rows.order_by("-pk")[: MAX_RESULTS + 1])


def _text_section(sought: SearchTerm, noun: str, rows: Iterable[Note | Comment]) -> Section:
    """About rows that are still there, and not archived."""
    written = list(rows)
    names = discussion.current_names(sought.user, [(row.kind, row.object_id) for row in written])
    current = [row for row in written if (row.kind, row.object_id) in names]
    return _limited_section(
        noun,
        current,
        lambda row: SearchResult(
            sought.mark_title(f"{Kind(row.kind).label} {names[row.kind, row.object_id]}"),
            discussion.row_url(row.kind, row.object_id),
            sought.make_excerpt(row.text),
        ),
    )


def _find_tags(sought: SearchTerm) -> Section:
    """Each with the list that has its rows; runs have none, so the newest one is shown."""
    tags = Tag.objects.for_user(sought.user).filter(match_words(("name",), sought.text))[
        : MAX_RESULTS + 1
    ]
    names = {row.pk: row.name for row in tags}
    used = (
        Tagging.objects.for_user(sought.user)
        .filter(tag__in=names)
        .order_by("tag__name", "kind")
        .values_list("tag", "kind")
        .annotate(number=Count("pk"), newest=Max("object_id"))
    )
    return _limited_section("Tags", used, lambda row: _tag_result(sought, names[row[0]], *row[1:]))


def _tag_result(sought: SearchTerm, name: str, kind: str, number: int, newest: int) -> SearchResult:
    if kind == Kind.RUN:
        url = discussion.row_url(kind, newest)
    else:
        url = f"{reverse(f'{Kind(kind).value}-list')}?{urlencode({'tag': name})}"
    return SearchResult(
        sought.mark_title(name), url, sought.make_excerpt(f"{Kind(kind).label}: {number}")
    )


def _find_library(sought: SearchTerm) -> Section:
    fields = (
        "name",
        "question",
        "origin__title",
        "origin__author",
        "origin__original_title",
        "origin__url",
    )
    rows = Campaign.objects.visible_to(sought.user).filter(source=Campaign.Source.LIBRARY)
    return _limited_section(
        "Reference library",
        rows.filter(match_words(fields, sought.text)).order_by("pk")[: MAX_RESULTS + 1],
        lambda row: SearchResult(
            sought.mark_title(row.name),
            reverse("campaign-detail", args=[row.pk]),
            sought.make_excerpt(*_origin_texts(Origin.from_campaign(row)), row.question),
        ),
        reverse("library"),
    )


def _origin_texts(origin: Origin) -> Sequence[str]:
    return origin.title, origin.author, *(value for _, value in origin.more)


BY_WORDS = (
    _find_hosts,
    _find_disks,
    _find_campaigns,
    _find_topologies,
    _find_workloads,
    _find_notes,
    _find_comments,
    _find_tags,
    _find_library,
)


@require_GET
def search(request: HttpRequest) -> HttpResponse:
    text = search_text(request)
    sections = find_sections(request.user, text)
    template = "search/_found.html" if request.htmx else "search/search.html"  # type: ignore[attr-defined]
    return render(request, template, {"text": text, "sections": sections, "least": MIN_LENGTH})


urlpatterns = [path("", search, name="search")]
