# SPDX-License-Identifier: Apache-2.0
"""Kinds of rows that are searched, noun by noun: rows of the person's teams, MOST of each, in a query or two each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Count, Max
from django.urls import reverse
from django.utils.safestring import SafeString

from benchlab.campaigns.models import Campaign, Run, Workload
from benchlab.campaigns.origin import Origin
from benchlab.hosts.models import Device, Host
from benchlab.pages.search.marks import excerpt, marked
from benchlab.sharing import targets
from benchlab.sharing.models import Comment, Kind, Note, Tag, Tagging
from benchlab.topologies.models import Topology
from benchlab.web.lists import FIND, matching, pattern
from benchlab.web.natural import Natural

Person = AbstractBaseUser | AnonymousUser
# of each noun
MOST = 10
# characters; a run's number may be shorter
LEAST = 2
RUN = re.compile(r"(?:run\s*|#)?0*(\d{1,18})", re.IGNORECASE | re.ASCII)
# as a disk's identity has it in front
IDENTITY = re.compile(r"\b(?:wwn|serial):", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Found:
    """`title` and `more` are safe, with the words marked."""

    title: SafeString
    url: str
    more: SafeString


@dataclass(frozen=True, slots=True)
class Section:
    """Rows found of a noun; `rest`: the list that has the others, `cut`: whether there are any."""

    noun: str
    rows: list[Found]
    cut: bool = False
    rest: str = ""


@dataclass(frozen=True, slots=True)
class Sought:
    user: Person
    text: str
    words: re.Pattern[str]

    def title(self, text: object) -> SafeString:
        return marked(str(text), self.words)

    def more(self, *texts: object) -> SafeString:
        return excerpt(" · ".join(str(text) for text in texts if text), self.words)

    def list_of(self, name: str) -> str:
        return f"{reverse(name)}?{urlencode({FIND: self.text})}"


def sections(user: Person, text: str) -> list[Section]:
    """Those nouns of which something was found."""
    words = pattern(text)
    if words is None:
        return []
    sought = Sought(user, text, words)
    every = [_runs, *(() if len(text) < LEAST else BY_WORDS)]
    return [found for one in every if (found := one(sought)).rows]


def _runs(sought: Sought) -> Section:
    match = RUN.fullmatch(sought.text)
    rows = Run.objects.visible_to(sought.user).select_related("campaign", "topology", "workload")
    found = rows.filter(pk=int(match[1])).order_by() if match else []
    return Section(
        "Runs",
        [
            Found(
                sought.title(f"Run {row.pk}"),
                reverse("run-detail", args=[row.pk]),
                sought.more(row, row.campaign),
            )
            for row in found
        ],
    )


def _cut(noun: str, rows: Iterable[Any], made: Callable[[Any], Found], rest: str = "") -> Section:
    """Of one row more than are shown."""
    found = list(rows)
    return Section(noun, [made(row) for row in found[:MOST]], len(found) > MOST, rest)


def _hosts(sought: Sought) -> Section:
    rows = Host.objects.for_user(sought.user).filter(
        matching(("name", "address", "notes"), sought.text)
    )
    return _cut(
        "Hosts",
        rows.order_by(Natural("name"), "pk")[: MOST + 1],
        lambda row: Found(
            sought.title(row.name),
            reverse("host-detail", args=[row.pk]),
            sought.more(row.address, row.notes),
        ),
        sought.list_of("host-list"),
    )


def _disks(sought: Sought) -> Section:
    text = IDENTITY.sub("", sought.text)
    rows = Device.objects.for_user(sought.user).filter(matching(("serial", "wwn", "model"), text))
    return _cut(
        "Disks",
        rows.select_related("host").order_by("-present", "pk")[: MOST + 1],
        lambda row: Found(
            sought.title(f"{row.name} of {row.host}"),
            reverse("device-detail", args=[row.host_id, row.pk]),
            sought.more(row.model, row.serial, row.wwn),
        ),
    )


def _campaigns(sought: Sought) -> Section:
    rows = Campaign.objects.for_user(sought.user).current()
    rows = rows.filter(matching(("name", "question"), sought.text))
    return _cut(
        "Campaigns",
        rows[: MOST + 1],
        lambda row: Found(
            sought.title(row.name),
            reverse("campaign-detail", args=[row.pk]),
            sought.more(row.question),
        ),
        sought.list_of("campaign-list"),
    )


def _topologies(sought: Sought) -> Section:
    rows = Topology.objects.for_user(sought.user).current()
    rows = rows.filter(matching(("name", "description"), sought.text))
    return _cut(
        "Topologies",
        rows.order_by(Natural("name"), "pk")[: MOST + 1],
        lambda row: Found(
            sought.title(row.name),
            reverse("topology-detail", args=[row.pk]),
            sought.more(row.description),
        ),
        sought.list_of("topology-list"),
    )


def _workloads(sought: Sought) -> Section:
    rows = Workload.objects.for_user(sought.user).current()
    rows = rows.filter(matching(("name", "tool"), sought.text))
    return _cut(
        "Workloads",
        rows.order_by(Natural("name"), "pk")[: MOST + 1],
        lambda row: Found(
            sought.title(row.name), reverse("workload-detail", args=[row.pk]), sought.more(row.tool)
        ),
        sought.list_of("workload-list"),
    )


def _notes(sought: Sought) -> Section:
    rows = Note.objects.for_user(sought.user).filter(matching(("text",), sought.text))
    return _said(sought, "Notes", rows.order_by("-pk")[: MOST + 1])


def _comments(sought: Sought) -> Section:
    rows = Comment.objects.for_user(sought.user).filter(matching(("text",), sought.text))
    return _said(sought, "Comments", rows.order_by("-pk")[: MOST + 1])


def _said(sought: Sought, noun: str, rows: Iterable[Note | Comment]) -> Section:
    """About rows that are still there, and not archived."""
    found = list(rows)
    named = targets.current(sought.user, [(row.kind, row.object_id) for row in found])
    there = [row for row in found if (row.kind, row.object_id) in named]
    return _cut(
        noun,
        there,
        lambda row: Found(
            sought.title(f"{Kind(row.kind).label} {named[row.kind, row.object_id]}"),
            targets.url(row.kind, row.object_id),
            sought.more(row.text),
        ),
    )


def _tags(sought: Sought) -> Section:
    """Each with the list that has its rows; runs have none, so the newest one is shown."""
    tags = Tag.objects.for_user(sought.user).filter(matching(("name",), sought.text))[: MOST + 1]
    names = {row.pk: row.name for row in tags}
    used = (
        Tagging.objects.for_user(sought.user)
        .filter(tag__in=names)
        .order_by("tag__name", "kind")
        .values_list("tag", "kind")
        .annotate(number=Count("pk"), newest=Max("object_id"))
    )
    return _cut("Tags", used, lambda row: _tag(sought, names[row[0]], *row[1:]))


def _tag(sought: Sought, name: str, kind: str, number: int, newest: int) -> Found:
    if kind == Kind.RUN:
        url = targets.url(kind, newest)
    else:
        url = f"{reverse(f'{Kind(kind).value}-list')}?{urlencode({'tag': name})}"
    return Found(sought.title(name), url, sought.more(f"{Kind(kind).label}: {number}"))


def _library(sought: Sought) -> Section:
    fields = (
        "name",
        "question",
        "origin__title",
        "origin__author",
        "origin__original_title",
        "origin__url",
    )
    rows = Campaign.objects.visible_to(sought.user).filter(source=Campaign.Source.LIBRARY)
    return _cut(
        "Reference library",
        rows.filter(matching(fields, sought.text)).order_by("pk")[: MOST + 1],
        lambda row: Found(
            sought.title(row.name),
            reverse("campaign-detail", args=[row.pk]),
            sought.more(*_origin(Origin.of(row)), row.question),
        ),
        reverse("library"),
    )


def _origin(origin: Origin) -> Sequence[str]:
    return origin.title, origin.author, *(value for _, value in origin.more)


BY_WORDS = (_hosts, _disks, _campaigns, _topologies, _workloads, _notes, _comments, _tags, _library)
