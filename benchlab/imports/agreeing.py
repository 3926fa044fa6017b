"""From a draft to a campaign, once a person said which results are taken and what the text could not tell.

Pages and API both end here, so that both check the same.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import URLValidator
from django.db import transaction

from agents import registry
from agents.found import Found
from benchlab.campaigns.models import Campaign
from benchlab.charts.templatetags.si import size
from benchlab.hosts.models import Host
from benchlab.imports import drafts, late, stored
from benchlab.imports.models import Draft, DraftFile, Source
from benchlab.imports.services import Person, Piece, Result, store
from benchlab.topologies.models import Topology

Key = tuple[int, int]  # (DraftFile id, first line)
ORIGIN = ("title", "author", "date", "url")
DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?")
MOST_OUTSTANDING = 2**31 - 1
NAMED = ("rw", "direction", "bs", "block_size", "rwmixread")
SIZES = frozenset({"bs", "block_size", "size", "file_size"})


@dataclass(frozen=True, slots=True)
class Shown:
    """A result of a draft, as it is offered."""

    file: DraftFile
    found: Found
    raw: Mapping[str, Any]  # as stored: with its series

    @property
    def key(self) -> Key:
        return self.file.pk, self.found.first

    @property
    def watches(self) -> bool:
        """It only watched: a result of its own only if it belongs to no other."""
        return bool(self.raw["series"]) and not self.found.metrics

    @property
    def workload(self) -> str:
        """A name for what was done, from its kind and options."""
        told = self.found.options
        said = [_words(name, told[name]) for name in NAMED if told.get(name)]
        return " ".join([self.found.tool or self.found.kind, *said])[:90]

    @property
    def options(self) -> list[tuple[str, str]]:
        """In words."""
        return [(name, _words(name, value)) for name, value in self.found.options.items()]

    @property
    def point(self) -> list[tuple[str, str]]:
        return [(name, _words(name, value)) for name, value in self.found.point.items()]


def _words(name: str, value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return size(value) if name in SIZES and isinstance(value, int) else str(value)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a person said of one result. A `host` or the name of a new one, a `topology` or likewise."""

    key: Key
    take: bool = True
    host: Host | None = None
    new_host: str = ""
    topology: Topology | None = None
    new_topology: str = ""
    workload: str = ""
    outstanding: int | None = None
    beside: Key | None = None


class Refused(Exception):
    """`errors`: (index in the choices or None for the whole, field) -> what is wrong."""

    def __init__(self, errors: Mapping[tuple[int | None, str], list[str]]) -> None:
        super().__init__("; ".join(said for one in errors.values() for said in one))
        self.errors = dict(errors)


@dataclass
class _Wrong:
    """Collects all that is wrong, so that it is said at once."""

    errors: dict[tuple[int | None, str], list[str]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def add(self, index: int | None, name: str, said: str) -> None:
        self.errors[index, name].append(said)

    def check(self) -> None:
        if self.errors:
            raise Refused(self.errors)


def results(draft: Draft) -> list[Shown]:
    """Everything found in it, in its order; also what is in trouble."""
    rows = draft.files.defer("content").order_by("position")
    return [
        Shown(row, stored.from_json(one), one)
        for row in rows
        for one in (row.reading or {}).get("found", ())
    ]


def known(draft: Draft) -> dict[str, Campaign]:
    """SHA-256 -> the team's campaign that has a file of the same content already."""
    hashes = draft.files.filter(trouble="").values("sha256")
    rows = Source.objects.filter(campaign__team=draft.team, sha256__in=hashes)
    return {row.sha256: row.campaign for row in rows.select_related("campaign").order_by("pk")}


def agree(
    draft: Draft,
    chosen: Sequence[Chosen],
    *,
    user: Person | None,
    name: str,
    question: str = "",
    origin: Mapping[str, str] | None = None,
) -> Campaign:
    """Store what was chosen and forget the draft, or raise Refused and store nothing."""
    wrong = _Wrong()
    if not drafts.standing(draft).over:
        wrong.add(None, "", "It is still being read; wait until every file is through.")
        wrong.check()
    offered = {one.key: one for one in results(draft)}
    if not name.strip():
        wrong.add(None, "campaign", "Give the campaign a name.")
    clean_origin = _origin(origin or {}, wrong)
    _check(chosen, offered, draft, wrong)
    wrong.check()
    try:
        with transaction.atomic():
            # Twice at the same moment: one agrees, the other finds no draft.
            if not Draft.objects.select_for_update().filter(pk=draft.pk).exists():
                raise ValidationError("Somebody agreed to it or discarded it meanwhile.")
            made = _store(draft, chosen, offered, user, name.strip(), question, clean_origin)
            draft.delete()
            return made
    except ValidationError as error:
        raise Refused({(None, ""): error.messages}) from None


def _check(
    chosen: Sequence[Chosen], offered: Mapping[Key, Shown], draft: Draft, wrong: _Wrong
) -> None:
    taken = {one.key for one in chosen if one.take}
    if not taken:
        wrong.add(None, "results", "Take at least one result.")
    alone = {one.key for one in chosen if one.take and one.beside is None}
    seen: set[Key] = set()
    for index, one in enumerate(chosen):
        if one.key not in offered:
            file, first = one.key
            wrong.add(index, "first", f"No result of file {file} begins in line {first}.")
        elif one.key in seen:
            wrong.add(index, "first", "It is there twice.")
        elif one.take:
            _check_one(index, one, offered[one.key], alone, draft, wrong)
        seen.add(one.key)


def _check_one(
    index: int, one: Chosen, shown: Shown, alone: set[Key], draft: Draft, wrong: _Wrong
) -> None:
    if shown.found.trouble:
        wrong.add(index, "take", f"It cannot be read: {shown.found.trouble}")
    if one.beside is not None:
        if not shown.watches:
            wrong.add(index, "beside", "Only what watched meanwhile belongs to another result.")
        elif one.beside not in alone:
            wrong.add(index, "beside", "What it belongs to is not taken as a result of its own.")
        return
    for what, row, new in (
        ("host", one.host, one.new_host.strip()),
        ("topology", one.topology, one.new_topology.strip()),
    ):
        if row is None and not new:
            wrong.add(index, what, f"Choose a {what}, or name a new one.")
        elif row is not None and new:
            wrong.add(index, what, f"Choose a {what} or name a new one, not both.")
        elif row is not None and row.team_id != draft.team_id:
            wrong.add(index, what, f"{row} does not belong to {draft.team}.")
        if len(new) > 100:
            wrong.add(index, f"new_{what}", "A name has at most 100 characters.")
    if len(one.workload.strip()) > 90:
        wrong.add(index, "workload", "A name has at most 90 characters.")
    told = shown.found.outstanding
    if one.outstanding is not None:
        if told is not None and told != one.outstanding:
            wrong.add(index, "outstanding", f"The text says {told}.")
        elif not 1 <= one.outstanding <= MOST_OUTSTANDING:
            wrong.add(index, "outstanding", "Give a number from 1 on, or nothing.")


def _origin(given: Mapping[str, str], wrong: _Wrong) -> dict[str, str]:
    """Only what was told. A link that could run a script is refused."""
    told = {name: str(given.get(name) or "").strip() for name in ORIGIN}
    if told["url"]:
        try:
            URLValidator(schemes=["http", "https"])(told["url"])
        except ValidationError:
            wrong.add(None, "url", "Give a whole address that begins with http:// or https://.")
    if told["date"] and not DATE.fullmatch(told["date"]):
        wrong.add(None, "date", "Give a date as 2013-05-07, 2013-05 or 2013.")
    for name, value in told.items():
        if len(value) > 500:
            wrong.add(None, name, "It has at most 500 characters.")
    return {name: value for name, value in told.items() if value}


def _store(
    draft: Draft,
    chosen: Sequence[Chosen],
    offered: Mapping[Key, Shown],
    user: Person | None,
    name: str,
    question: str,
    origin: Mapping[str, str],
) -> Campaign:
    taken = [one for one in chosen if one.take]
    pieces = late.pieces([(offered[one.key].file, offered[one.key].found) for one in taken])
    beside: dict[Key, list[Piece]] = defaultdict(list)
    for one in taken:
        if one.beside is not None:
            beside[one.beside].append(pieces[one.key])
    rows = _Rows(draft, user)
    made = [
        Result(
            pieces[one.key],
            one.host or rows.host(one.new_host.strip()),
            one.topology or rows.topology(one.new_topology.strip()),
            one.workload.strip() or offered[one.key].workload,
            offered[one.key].found.point,
            offered[one.key].found.outstanding or one.outstanding,
            tuple(beside[one.key]),
        )
        for one in taken
        if one.beside is None
    ]
    files = {offered[one.key].file.name: one.key[0] for one in taken}
    return store(
        team=draft.team, user=user, name=name, question=question, results=made, sources=late.Files(files),
        origin=origin,
    )  # fmt: skip


class _Rows:
    """Hosts and topologies that were only named: the team's of that name, or new ones."""

    def __init__(self, draft: Draft, user: Person | None) -> None:
        self.team, self.user = draft.team, user

    def host(self, name: str) -> Host:
        known = Host.objects.filter(team=self.team, name=name).first()
        if known:
            return known
        made = Host(team=self.team, name=name, access=Host.Access.DESCRIBED)
        made.full_clean(exclude=["credential", "address"])
        made.save()
        return made

    def topology(self, name: str) -> Topology:
        known = Topology.objects.filter(team=self.team, name=name).first()
        if known:
            return known
        made = Topology(team=self.team, name=name, stack=[])
        made.created_by_id = self.user.pk if self.user else None
        made.full_clean(exclude=["created_by", "stack"])
        made.save()
        return made


def label(kind: str) -> str:
    reader = registry.all_readers().get(kind)
    return reader.LABEL if reader else kind
