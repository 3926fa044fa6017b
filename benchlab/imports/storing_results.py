# SPDX-License-Identifier: Apache-2.0
"""From what was agreed to, to a campaign and workloads: in the caller's transaction, all that can be stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from django.db import connection

from agents.texts.found import Found, Places
from benchlab.campaigns.models import Campaign, Workload
from benchlab.dynamo import icf_workloads
from benchlab.hosts.models import Host
from benchlab.imports import disks_told, drafts
from benchlab.imports.agreement_json import Failed, Outcome
from benchlab.imports.checking import Agreement, Chosen, read_as
from benchlab.imports.draft_results import Key, Shown
from benchlab.imports.models import Draft, DraftFile
from benchlab.imports.services import Person, Piece, Result, store
from benchlab.team.models import Team
from benchlab.topologies.models import Topology

SOURCES = """
INSERT INTO imports_source (campaign_id, name, content, size, sha256, created_at)
SELECT %s, name, content, size, sha256, now() FROM imports_draftfile WHERE id = ANY(%s) ORDER BY position
"""


def keep(
    draft: Draft,
    agreement: Agreement,
    offered: Mapping[Key, Shown],
    user: Person | None,
    told: Callable[[int], None] = lambda done: None,
) -> Outcome:
    """`told` hears how much of `size(agreement)` was seen to. Raises ValidationError; then nothing may be stored."""
    described = [one for one in agreement.taken if offered[one.key].found.described]
    workloads = [_workload(draft.team, user, one, offered[one.key]).pk for one in described]
    told(len(workloads))
    measured = [one for one in agreement.taken if not offered[one.key].found.described]
    if not measured:
        return Outcome(None, len(workloads), tuple(workloads))
    failed: list[tuple[Piece, str]] = []
    results = _results(draft.team, user, measured, offered)
    # a sweep is one of them, and several runs
    results_agreed = size(agreement) - len(workloads)
    made = store(
        team=draft.team,
        user=user,
        name=agreement.name,
        question=agreement.question,
        results=results,
        sources=partial(_keep_as_sources, [one.key[0] for one in measured]),
        origin=agreement.origin,
        failed=failed,
        told=lambda done: told(len(workloads) + done * results_agreed // len(results)),
    )
    stored = len(workloads) + len(results) - len(failed)
    missed = tuple(Failed(piece.name, piece.found.first, said) for piece, said in failed)
    return Outcome(made.pk, stored, tuple(workloads), missed)


def size(agreement: Agreement) -> int:
    """Results and workloads; what only watched is a part of its result."""
    return sum(one.beside is None for one in agreement.taken)


def campaign_of(outcome: Outcome) -> Campaign | None:
    """Unless it was deleted since."""
    if outcome.campaign is None:
        return None
    return Campaign.objects.filter(pk=outcome.campaign).first()


def _workload(team: Team, user: Person | None, one: Chosen, shown: Shown) -> Workload:
    name = one.workload.strip() or shown.workload
    found = shown.found
    return icf_workloads.keep(
        team=team,
        user=user,
        name=name,
        options=found.options,
        sweep=found.sweep,
        description=found.description,
    )


def _results(
    team: Team, user: Person | None, taken: list[Chosen], offered: Mapping[Key, Shown]
) -> list[Result]:
    pieces = _pieces(
        [
            (shown.file, shown.found, read_as(shown, one, offered))
            for one in taken
            for shown in (offered[one.key],)
        ]
    )
    beside: dict[Key, list[Piece]] = defaultdict(list)
    for one in taken:
        if one.beside is not None:
            beside[one.beside].append(pieces[one.key])
    named = Named(team, user)
    return [
        result
        for one in taken
        if one.beside is None
        for result in _points(
            Result(
                pieces[one.key],
                one.host or named.host(one.new_host.strip()),
                one.topology or named.topology(one.new_topology.strip()),
                one.workload.strip() or offered[one.key].workload,
                offered[one.key].found.point,
                offered[one.key].found.outstanding or one.outstanding,
                tuple(beside[one.key]),
                *disks_told.names_and_ratings(one.disks),
            )
        )
    ]


def _points(result: Result) -> Iterator[Result]:
    """Each point of a sweep as a result of its own: runs that differ in it, which charts draw as a curve."""
    for labels in result.piece.found.points():
        point = {name: int(v) if v.isdecimal() else v for name, v in labels.items()}
        outstanding = point.get("outstanding", result.outstanding)
        yield replace(
            result,
            piece=replace(result.piece, only=labels),
            point={**result.point, **point},
            outstanding=outstanding if isinstance(outstanding, int) else None,
        )


def _keep_as_sources(ids: Iterable[int], campaign: Campaign) -> None:
    """The files as they came, copied by PostgreSQL itself: none of them comes here."""
    with connection.cursor() as cursor:
        cursor.execute(SOURCES, [campaign.pk, list(set(ids))])


def _pieces(found: Sequence[tuple[DraftFile, Found, str]]) -> dict[tuple[int, int], Piece]:
    """(file id, first line) -> its lines, to be read late; by the name that tells what they do not."""
    texts = _Texts()
    return {
        (file.pk, one.first): Piece(one, file.name, partial(texts.between, file, one), told=told)
        for file, one, told in found
    }


class _Texts:
    """The text of the file that was asked for last: results come in the order of their files."""

    def __init__(self) -> None:
        self.pk = 0
        self.text = Places("")

    def between(self, file: DraftFile, found: Found) -> str:
        if file.pk != self.pk:
            # the one goes before the other comes
            self.text = Places("")
            self.text = Places(drafts.text_of(file))
            self.pk = file.pk
        return found.alone(self.text)


class Named:
    """Hosts and topologies that were only named: the team's of that name, or new ones."""

    def __init__(self, team: Team, user: Person | None) -> None:
        self.team, self.user = team, user
        self.hosts: dict[str, Host] = {}
        self.topologies: dict[str, Topology] = {}

    def host(self, name: str) -> Host:
        if name not in self.hosts:
            known = Host.objects.filter(team=self.team, name=name).first()
            self.hosts[name] = known or self._new_host(name)
        return self.hosts[name]

    def topology(self, name: str) -> Topology:
        if name not in self.topologies:
            known = Topology.objects.filter(team=self.team, name=name).first()
            self.topologies[name] = known or self._new_topology(name)
        return self.topologies[name]

    def _new_host(self, name: str) -> Host:
        made = Host(team=self.team, name=name, access=Host.Access.DESCRIBED)
        made.full_clean(exclude=["credential", "address"])
        made.save()
        return made

    def _new_topology(self, name: str) -> Topology:
        made = Topology(team=self.team, name=name, stack=[])
        made.created_by_id = self.user.pk if self.user else None
        made.full_clean(exclude=["created_by", "stack"])
        made.save()
        return made
