# SPDX-License-Identifier: Apache-2.0
"""From what was agreed to, to a campaign and workloads: in the caller's transaction, all that can be stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from django.db import connection

from agents.texts.parsed_result import LineIndex, ParsedResult
from benchlab.campaigns.models import Campaign, Workload
from benchlab.dynamo import icf_workloads
from benchlab.hosts.models import Host
from benchlab.imports import drafts, source_disks
from benchlab.imports.agreement_json import FailedResult, Outcome
from benchlab.imports.checking import Agreement, ResultChoice, reader_file_name
from benchlab.imports.draft_results import Key, OfferedResult
from benchlab.imports.models import Draft, DraftFile
from benchlab.imports.services import Person, Result, TextExcerpt, store_results
from benchlab.team.models import Team
from benchlab.topologies.models import Topology

SOURCES = """
INSERT INTO imports_source (campaign_id, name, content, size, sha256, created_at)
SELECT %s, name, content, size, sha256, now() FROM imports_draftfile WHERE id = ANY(%s) ORDER BY position
"""


def store_agreement(
    draft: Draft,
    agreement: Agreement,
    offered: Mapping[Key, OfferedResult],
    user: Person | None,
    told: Callable[[int], None] = lambda done: None,
) -> Outcome:
    """`told` hears how much of `size(agreement)` was seen to. Raises ValidationError; then nothing may be stored."""
    described = [one for one in agreement.selected if offered[one.key].parsed.described]
    workloads = [_create_workload(draft.team, user, one, offered[one.key]).pk for one in described]
    told(len(workloads))
    measured = [one for one in agreement.selected if not offered[one.key].parsed.described]
    if not measured:
        return Outcome(None, len(workloads), tuple(workloads))
    failed: list[tuple[TextExcerpt, str]] = []
    results = _build_results(draft.team, user, measured, offered)
    # a sweep is one of them, and several runs
    results_agreed = count_agreed_results(agreement) - len(workloads)
    made = store_results(
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
    missed = tuple(FailedResult(piece.name, piece.parsed.first, said) for piece, said in failed)
    return Outcome(made.pk, stored, tuple(workloads), missed)


def count_agreed_results(agreement: Agreement) -> int:
    """Results and workloads; what only watched is a part of its result."""
    return sum(one.beside is None for one in agreement.selected)


def stored_campaign(outcome: Outcome) -> Campaign | None:
    """Unless it was deleted since."""
    if outcome.campaign is None:
        return None
    return Campaign.objects.filter(pk=outcome.campaign).first()


def _create_workload(
    team: Team, user: Person | None, one: ResultChoice, shown: OfferedResult
) -> Workload:
    name = one.workload.strip() or shown.workload_name
    found = shown.parsed
    return icf_workloads.create_icf_workload(
        team=team,
        user=user,
        name=name,
        options=found.options,
        sweep=found.sweep,
        description=found.description,
    )


def _build_results(
    team: Team, user: Person | None, taken: list[ResultChoice], offered: Mapping[Key, OfferedResult]
) -> list[Result]:
    pieces = _result_excerpts(
        [
            (shown.file, shown.parsed, reader_file_name(shown, one, offered))
            for one in taken
            for shown in (offered[one.key],)
        ]
    )
    beside: dict[Key, list[TextExcerpt]] = defaultdict(list)
    for one in taken:
        if one.beside is not None:
            beside[one.beside].append(pieces[one.key])
    named = NamedRows(team, user)
    return [
        result
        for one in taken
        if one.beside is None
        for result in _split_sweep(
            Result(
                pieces[one.key],
                one.host or named.find_or_create_host(one.new_host.strip()),
                one.topology or named.find_or_create_topology(one.new_topology.strip()),
                one.workload.strip() or offered[one.key].workload_name,
                offered[one.key].parsed.point,
                offered[one.key].parsed.outstanding or one.outstanding,
                tuple(beside[one.key]),
                *source_disks.names_and_ratings(one.disks),
            )
        )
    ]


def _split_sweep(result: Result) -> Iterator[Result]:
    """Each point of a sweep as a result of its own: runs that differ in it, which charts draw as a curve."""
    for labels in result.piece.parsed.sweep_points():
        point = {name: int(v) if v.isdecimal() else v for name, v in labels.items()}
        outstanding = point.get("outstanding", result.outstanding)
        yield replace(
            result,
            piece=replace(result.piece, point_labels=labels),
            point={**result.point, **point},
            outstanding=outstanding if isinstance(outstanding, int) else None,
        )


def _keep_as_sources(ids: Iterable[int], campaign: Campaign) -> None:
    """The files as they came, copied by PostgreSQL itself: none of them comes here."""
    with connection.cursor() as cursor:
        cursor.execute(SOURCES, [campaign.pk, list(set(ids))])


def _result_excerpts(
    found: Sequence[tuple[DraftFile, ParsedResult, str]],
) -> dict[tuple[int, int], TextExcerpt]:
    """(file id, first line) -> its lines, to be read late; by the name that tells what they do not."""
    texts = _FileTexts()
    return {
        (file.pk, one.first): TextExcerpt(
            one, file.name, partial(texts.result_text, file, one), reader_name=told
        )
        for file, one, told in found
    }


class _FileTexts:
    """The text of the file that was asked for last: results come in the order of their files."""

    def __init__(self) -> None:
        self.pk = 0
        self.text = LineIndex("")

    def result_text(self, file: DraftFile, found: ParsedResult) -> str:
        if file.pk != self.pk:
            # the one goes before the other comes
            self.text = LineIndex("")
            self.text = LineIndex(drafts.file_text(file))
            self.pk = file.pk
        return found.own_text(self.text)


class NamedRows:
    """Hosts and topologies that were only named: the team's of that name, or new ones."""

    def __init__(self, team: Team, user: Person | None) -> None:
        self.team, self.user = team, user
        self.hosts: dict[str, Host] = {}
        self.topologies: dict[str, Topology] = {}

    def find_or_create_host(self, name: str) -> Host:
        if name not in self.hosts:
            known = Host.objects.filter(team=self.team, name=name).first()
            self.hosts[name] = known or self._new_host(name)
        return self.hosts[name]

    def find_or_create_topology(self, name: str) -> Topology:
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
