# SPDX-License-Identifier: Apache-2.0
"""Storage of an agreement as a campaign and workloads, in the caller's transaction: everything that can be stored."""

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
    results_by_key: Mapping[Key, OfferedResult],
    user: Person | None,
    report_progress: Callable[[int], None] = lambda handled: None,
) -> Outcome:
    """`told` hears how much of `size(agreement)` was seen to. Raises ValidationError; then nothing may be stored."""
    described = [
        choice for choice in agreement.selected if results_by_key[choice.key].parsed.described
    ]
    workloads = [
        _create_workload(draft.team, user, choice, results_by_key[choice.key]).pk
        for choice in described
    ]
    report_progress(len(workloads))
    measured = [
        choice for choice in agreement.selected if not results_by_key[choice.key].parsed.described
    ]
    if not measured:
        return Outcome(None, len(workloads), tuple(workloads))
    failed: list[tuple[TextExcerpt, str]] = []
    results = _build_results(draft.team, user, measured, results_by_key)
    # a sweep is one of them, and several runs
    results_agreed = count_agreed_results(agreement) - len(workloads)
    campaign = store_results(
        team=draft.team,
        user=user,
        name=agreement.name,
        question=agreement.question,
        results=results,
        sources=partial(_keep_as_sources, [choice.key[0] for choice in measured]),
        origin=agreement.origin,
        failed=failed,
        report_progress=lambda handled: report_progress(
            len(workloads) + handled * results_agreed // len(results)
        ),
    )
    stored = len(workloads) + len(results) - len(failed)
    missed = tuple(FailedResult(piece.name, piece.parsed.first, error) for piece, error in failed)
    return Outcome(campaign.pk, stored, tuple(workloads), missed)


def count_agreed_results(agreement: Agreement) -> int:
    """Results and workloads; what only watched is a part of its result."""
    return sum(choice.beside is None for choice in agreement.selected)


def stored_campaign(outcome: Outcome) -> Campaign | None:
    """Unless it was deleted since."""
    if outcome.campaign is None:
        return None
    return Campaign.objects.filter(pk=outcome.campaign).first()


def _create_workload(
    team: Team, user: Person | None, choice: ResultChoice, result: OfferedResult
) -> Workload:
    name = choice.workload.strip() or result.workload_name
    parsed = result.parsed
    return icf_workloads.create_icf_workload(
        team=team,
        user=user,
        name=name,
        options=parsed.options,
        sweep=parsed.sweep,
        description=parsed.description,
    )


def _build_results(
    team: Team,
    user: Person | None,
    choices: list[ResultChoice],
    results_by_key: Mapping[Key, OfferedResult],
) -> list[Result]:
    pieces = _result_excerpts(
        [
            (result.file, result.parsed, reader_file_name(result, choice, results_by_key))
            for choice in choices
            for result in (results_by_key[choice.key],)
        ]
    )
    beside: dict[Key, list[TextExcerpt]] = defaultdict(list)
    for choice in choices:
        if choice.beside is not None:
            beside[choice.beside].append(pieces[choice.key])
    rows = NamedRows(team, user)
    return [
        result
        for choice in choices
        if choice.beside is None
        for result in _split_sweep(
            Result(
                pieces[choice.key],
                choice.host or rows.find_or_create_host(choice.new_host.strip()),
                choice.topology or rows.find_or_create_topology(choice.new_topology.strip()),
                choice.workload.strip() or results_by_key[choice.key].workload_name,
                results_by_key[choice.key].parsed.point,
                results_by_key[choice.key].parsed.outstanding or choice.outstanding,
                tuple(beside[choice.key]),
                *source_disks.names_and_ratings(choice.disks),
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
    rows: Sequence[tuple[DraftFile, ParsedResult, str]],
) -> dict[tuple[int, int], TextExcerpt]:
    """(file id, first line) -> its lines, to be read late; by the name that tells what they do not."""
    texts = _FileTexts()
    return {
        (file.pk, parsed.first): TextExcerpt(
            parsed, file.name, partial(texts.result_text, file, parsed), reader_name=reader_name
        )
        for file, parsed, reader_name in rows
    }


class _FileTexts:
    """The text of the file that was asked for last: results come in the order of their files."""

    def __init__(self) -> None:
        self.pk = 0
        self.text = LineIndex("")

    def result_text(self, file: DraftFile, parsed: ParsedResult) -> str:
        if file.pk != self.pk:
            # the one goes before the other comes
            self.text = LineIndex("")
            self.text = LineIndex(drafts.file_text(file))
            self.pk = file.pk
        return parsed.own_text(self.text)


class NamedRows:
    """Hosts and topologies that were only named: the team's of that name, or new ones."""

    def __init__(self, team: Team, user: Person | None) -> None:
        self.team, self.user = team, user
        self.hosts: dict[str, Host] = {}
        self.topologies: dict[str, Topology] = {}

    def find_or_create_host(self, name: str) -> Host:
        if name not in self.hosts:
            existing = Host.objects.filter(team=self.team, name=name).first()
            self.hosts[name] = existing or self._new_host(name)
        return self.hosts[name]

    def find_or_create_topology(self, name: str) -> Topology:
        if name not in self.topologies:
            existing = Topology.objects.filter(team=self.team, name=name).first()
            self.topologies[name] = existing or self._new_topology(name)
        return self.topologies[name]

    def _new_host(self, name: str) -> Host:
        host = Host(team=self.team, name=name, access=Host.Access.DESCRIBED)
        host.full_clean(exclude=["credential", "address"])
        host.save()
        return host

    def _new_topology(self, name: str) -> Topology:
        topology = Topology(team=self.team, name=name, stack=[])
        topology.created_by_id = self.user.pk if self.user else None
        topology.full_clean(exclude=["created_by", "stack"])
        topology.save()
        return topology
