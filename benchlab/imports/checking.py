# SPDX-License-Identifier: Apache-2.0
"""Checks of an import before it is agreed to; all errors at once, each where it was typed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from django.core.exceptions import ValidationError
from django.core.validators import URLValidator

from agents.readers import fio_log
from benchlab.campaigns.models import Workload
from benchlab.hosts.models import Host
from benchlab.imports import source_disks
from benchlab.imports.draft_results import LOG_UNITS, Key, OfferedResult
from benchlab.imports.models import Draft
from benchlab.topologies.models import Topology

ORIGIN = ("title", "author", "date", "url")
DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?")
MOST_OUTSTANDING = 2**31 - 1
WHICH_UNIT = (
    "Say what its latencies are in: fio before 3.0 wrote microseconds, later ones nanoseconds."
)
# of a campaign
NAME_MOST = 200


@dataclass(frozen=True, slots=True)
class ResultChoice:
    """Answers of a person for one result. A `host` or the name of a new one, a `topology` or likewise."""

    key: Key
    take: bool = True
    host: Host | None = None
    new_host: str = ""
    topology: Topology | None = None
    new_topology: str = ""
    workload: str = ""
    outstanding: int | None = None
    beside: Key | None = None
    # of LOG_UNITS
    log_unit: str = ""
    disks: tuple[source_disks.SourceDisks, ...] = ()


@dataclass(frozen=True, slots=True)
class Agreement:
    """All that a person said. `name`, `question`, `origin` are the campaign's, which results of a run go into."""

    chosen: Sequence[ResultChoice]
    name: str = ""
    question: str = ""
    origin: Mapping[str, str] = field(default_factory=dict)

    @property
    def selected(self) -> list[ResultChoice]:
        return [one for one in self.chosen if one.take]


class Refused(Exception):
    """`errors`: (index in the choices or None for the whole, field) -> what is wrong."""

    def __init__(self, errors: Mapping[tuple[int | None, str], list[str]]) -> None:
        super().__init__("; ".join(said for one in errors.values() for said in one))
        self.errors = dict(errors)


@dataclass
class ErrorCollector:
    """Collects all that is wrong, so that it is said at once."""

    errors: dict[tuple[int | None, str], list[str]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def add_error(self, index: int | None, name: str, said: str) -> None:
        self.errors[index, name].append(said)

    def raise_errors(self) -> None:
        if self.errors:
            raise Refused(self.errors)


def validate_agreement(
    agreement: Agreement, offered: Mapping[Key, OfferedResult], draft: Draft
) -> Agreement:
    """As it is stored: blanks cut, only what was told of the origin. Raises Refused."""
    wrong = ErrorCollector()
    name = agreement.name.strip()
    origin = _validate_origin(agreement.origin, wrong)
    taken = {one.key for one in agreement.selected}
    if not taken:
        wrong.add_error(None, "results", "Select at least one result.")
    if not name and any(key in offered and not offered[key].parsed.described for key in taken):
        wrong.add_error(None, "campaign", "Give the campaign a name.")
    if len(name) > NAME_MOST:
        wrong.add_error(None, "campaign", f"A name has at most {NAME_MOST} characters.")
    alone = {one.key for one in agreement.selected if one.beside is None}
    names = _WorkloadNames(draft)
    seen: set[Key] = set()
    for index, one in enumerate(agreement.chosen):
        if one.key not in offered:
            file, first = one.key
            wrong.add_error(index, "first", f"No result of file {file} begins in line {first}.")
        elif one.key in seen:
            wrong.add_error(index, "first", "It is listed twice.")
        elif one.take:
            shown = offered[one.key]
            if shown.parsed.described:
                _check_described(index, one, shown, names, wrong)
            else:
                _check_measured(index, one, offered, alone, draft, wrong)
        seen.add(one.key)
    _check_disks(agreement, offered, draft, wrong)
    wrong.raise_errors()
    return replace(agreement, name=name, origin=origin)


class _WorkloadNames:
    """Those that new workloads cannot have."""

    def __init__(self, draft: Draft) -> None:
        self.team, self.known = draft.team, set[str]()

    def is_free(self, name: str) -> bool:
        taken = name in self.known or Workload.objects.filter(team=self.team, name=name).exists()
        self.known.add(name)
        return not taken


def _check_described(
    index: int,
    one: ResultChoice,
    shown: OfferedResult,
    names: _WorkloadNames,
    wrong: ErrorCollector,
) -> None:
    """A workload only: no host and no topology belong to it."""
    if shown.parsed.trouble:
        wrong.add_error(index, "take", f"It cannot be read: {shown.parsed.trouble}")
    if one.beside is not None:
        wrong.add_error(
            index, "beside", "Only monitoring output (iostat etc.) can be attached to a result."
        )
    if one.outstanding is not None:
        wrong.add_error(
            index, "outstanding", "It is a workload: change its options once it is stored."
        )
    name = one.workload.strip() or shown.workload_name
    if len(name) > 90:
        wrong.add_error(index, "workload", "A name has at most 90 characters.")
    elif not names.is_free(name):
        wrong.add_error(
            index, "workload", f"There is a workload called {name} already: name it otherwise."
        )


def _check_measured(
    index: int,
    one: ResultChoice,
    offered: Mapping[Key, OfferedResult],
    alone: set[Key],
    draft: Draft,
    wrong: ErrorCollector,
) -> None:
    shown = offered[one.key]
    if shown.parsed.trouble:
        wrong.add_error(index, "take", f"It cannot be read: {shown.parsed.trouble}")
    if said := _log_unit_error(shown, one, offered):
        wrong.add_error(index, "log_unit", said)
    if one.beside is not None:
        if not shown.watches:
            wrong.add_error(
                index, "beside", "Only monitoring output (iostat etc.) can be attached to a result."
            )
        elif one.beside not in alone:
            wrong.add_error(
                index, "beside", "What it belongs to is not selected as a result of its own."
            )
        return
    for what, row, new in (
        ("host", one.host, one.new_host.strip()),
        ("topology", one.topology, one.new_topology.strip()),
    ):
        if row is None and not new:
            wrong.add_error(index, what, f"Choose a {what}, or name a new one.")
        elif row is not None and new:
            wrong.add_error(index, what, f"Choose a {what} or name a new one, not both.")
        elif row is not None and row.team_id != draft.team_id:
            wrong.add_error(index, what, f"{row} does not belong to {draft.team}.")
        if len(new) > 100:
            wrong.add_error(index, f"new_{what}", "A name has at most 100 characters.")
    if len(one.workload.strip()) > 90:
        wrong.add_error(index, "workload", "A name has at most 90 characters.")
    told = shown.parsed.outstanding
    if one.outstanding is not None:
        if shown.parsed.varies == "outstanding":
            wrong.add_error(index, "outstanding", "The table already gives it for each column.")
        elif told is not None and told != one.outstanding:
            wrong.add_error(index, "outstanding", f"The text says {told}.")
        elif not 1 <= one.outstanding <= MOST_OUTSTANDING:
            wrong.add_error(index, "outstanding", "Give a number from 1 on, or nothing.")


def _check_disks(
    agreement: Agreement, offered: Mapping[Key, OfferedResult], draft: Draft, wrong: ErrorCollector
) -> None:
    """Check the disks that were named; what is wrong is told at the first result of which it was said."""
    telling = {
        index: one
        for index, one in enumerate(agreement.chosen)
        if one.take and one.disks and one.beside is None and one.key in offered
    }
    names = {one.new_topology.strip() for one in telling.values()} - {""}
    rows = Topology.objects.filter(team=draft.team, name__in=names) if names else ()
    known = {row.name: row.stack for row in rows}
    of_results = [
        source_disks.ResultDisks(index, one.disks, one.topology.name, one.topology.stack)
        if one.topology
        else source_disks.ResultDisks(index, one.disks, new, known.get(new, []))
        for index, one in telling.items()
        for new in (one.new_topology.strip(),)
    ]
    for index, number, said in source_disks.disk_errors(of_results):
        wrong.add_error(index, f"disks.{number}", said)


def _log_unit(
    shown: OfferedResult, chosen: ResultChoice, offered: Mapping[Key, OfferedResult]
) -> str:
    """As the person says; else as what stands beside it, or what it belongs to, tells."""
    its = offered.get(chosen.beside) if chosen.beside else None
    return chosen.log_unit or shown.log_unit or (fio_log.unit(its.parsed.version) if its else "")


def _log_unit_error(
    shown: OfferedResult, chosen: ResultChoice, offered: Mapping[Key, OfferedResult]
) -> str:
    """Fault in the answer on the unit; "" for none."""
    if not shown.parsed.needs:
        return "Its unit is known." if chosen.log_unit else ""
    if chosen.log_unit and shown.log_unit not in ("", chosen.log_unit):
        return f"By the result of fio beside it, they are {LOG_UNITS[shown.log_unit]}."
    return "" if _log_unit(shown, chosen, offered) else WHICH_UNIT


def reader_file_name(
    shown: OfferedResult, chosen: ResultChoice, offered: Mapping[Key, OfferedResult]
) -> str:
    """Name of the file for its reader, so that nothing is open; "" for that of the file."""
    found = _log_unit(shown, chosen, offered) if shown.parsed.needs else ""
    return fio_log.name_with_unit(shown.file.name, found) if found else ""


def _validate_origin(given: Mapping[str, str], wrong: ErrorCollector) -> dict[str, str]:
    """Only what was told. A link that could run a script is refused."""
    told = {name: str(given.get(name) or "").strip() for name in ORIGIN}
    if told["url"]:
        try:
            URLValidator(schemes=["http", "https"])(told["url"])
        except ValidationError:
            wrong.add_error(
                None, "url", "Give a whole address that begins with http:// or https://."
            )
    if told["date"] and not DATE.fullmatch(told["date"]):
        wrong.add_error(None, "date", "Give a date as 2013-05-07, 2013-05 or 2013.")
    for name, value in told.items():
        if len(value) > 500:
            wrong.add_error(None, name, "It has at most 500 characters.")
    return {name: value for name, value in told.items() if value}
