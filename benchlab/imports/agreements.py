# SPDX-License-Identifier: Apache-2.0
"""Agreement to an import: a person's answers, their validation, and both as JSON for the worker that stores them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import URLValidator

from agents.plans import chain
from agents.readers import fio_log
from benchlab.campaigns.models import Workload
from benchlab.hosts.models import Host
from benchlab.imports.models import Draft
from benchlab.imports.readings import LOG_UNITS, Key, OfferedResult
from benchlab.topologies.models import Topology
from benchlab.topologies.services import ROLE

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
    disks: tuple[SourceDisks, ...] = ()


@dataclass(frozen=True, slots=True)
class Agreement:
    """All answers of a person. `name`, `question` and `origin` belong to the campaign of the measured results."""

    chosen: Sequence[ResultChoice]
    name: str = ""
    question: str = ""
    origin: Mapping[str, str] = field(default_factory=dict)

    @property
    def selected(self) -> list[ResultChoice]:
        return [choice for choice in self.chosen if choice.take]


class Refused(Exception):
    """`errors`: (index in the choices or None for the whole, field) -> what is wrong."""

    def __init__(self, errors: Mapping[tuple[int | None, str], list[str]]) -> None:
        super().__init__("; ".join(message for messages in errors.values() for message in messages))
        self.errors = dict(errors)


@dataclass
class ErrorCollector:
    """Collects errors so that all are shown together."""

    errors: dict[tuple[int | None, str], list[str]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def add_error(self, index: int | None, name: str, message: str) -> None:
        self.errors[index, name].append(message)

    def raise_errors(self) -> None:
        if self.errors:
            raise Refused(self.errors)


def validate_agreement(
    agreement: Agreement, results_by_key: Mapping[Key, OfferedResult], draft: Draft
) -> Agreement:
    """Return the agreement as it is stored: stripped, without empty fields of the origin. Raises Refused."""
    wrong = ErrorCollector()
    name = agreement.name.strip()
    origin = _validate_origin(agreement.origin, wrong)
    selected = {choice.key for choice in agreement.selected}
    if not selected:
        wrong.add_error(None, "results", "Select at least one result.")
    if not name and any(
        key in results_by_key and not results_by_key[key].parsed.described for key in selected
    ):
        wrong.add_error(None, "campaign", "Give the campaign a name.")
    if len(name) > NAME_MOST:
        wrong.add_error(None, "campaign", f"A name has at most {NAME_MOST} characters.")
    alone = {choice.key for choice in agreement.selected if choice.beside is None}
    names = _WorkloadNames(draft)
    earlier: set[Key] = set()
    for index, choice in enumerate(agreement.chosen):
        if choice.key not in results_by_key:
            file, first = choice.key
            wrong.add_error(index, "first", f"No result of file {file} begins in line {first}.")
        elif choice.key in earlier:
            wrong.add_error(index, "first", "It is listed twice.")
        elif choice.take:
            result = results_by_key[choice.key]
            if result.parsed.described:
                _check_described(index, choice, result, names, wrong)
            else:
                _check_measured(index, choice, results_by_key, alone, draft, wrong)
        earlier.add(choice.key)
    _check_disks(agreement, results_by_key, draft, wrong)
    wrong.raise_errors()
    return replace(agreement, name=name, origin=origin)


class _WorkloadNames:
    """Names that new workloads cannot have."""

    def __init__(self, draft: Draft) -> None:
        self.team, self.known = draft.team, set[str]()

    def is_free(self, name: str) -> bool:
        is_taken = name in self.known or Workload.objects.filter(team=self.team, name=name).exists()
        self.known.add(name)
        return not is_taken


def _check_described(
    index: int,
    choice: ResultChoice,
    result: OfferedResult,
    names: _WorkloadNames,
    wrong: ErrorCollector,
) -> None:
    """A workload only: no host and no topology belong to it."""
    if result.parsed.trouble:
        wrong.add_error(index, "take", f"It cannot be read: {result.parsed.trouble}")
    if choice.beside is not None:
        wrong.add_error(
            index, "beside", "Only monitoring output (iostat etc.) can be attached to a result."
        )
    if choice.outstanding is not None:
        wrong.add_error(
            index, "outstanding", "It is a workload: change its options once it is stored."
        )
    name = choice.workload.strip() or result.workload_name
    if len(name) > 90:
        wrong.add_error(index, "workload", "A name has at most 90 characters.")
    elif not names.is_free(name):
        wrong.add_error(
            index, "workload", f"There is a workload called {name} already: name it otherwise."
        )


def _check_measured(
    index: int,
    choice: ResultChoice,
    results_by_key: Mapping[Key, OfferedResult],
    alone: set[Key],
    draft: Draft,
    wrong: ErrorCollector,
) -> None:
    result = results_by_key[choice.key]
    if result.parsed.trouble:
        wrong.add_error(index, "take", f"It cannot be read: {result.parsed.trouble}")
    if message := _log_unit_error(result, choice, results_by_key):
        wrong.add_error(index, "log_unit", message)
    if choice.beside is not None:
        if not result.watches:
            wrong.add_error(
                index, "beside", "Only monitoring output (iostat etc.) can be attached to a result."
            )
        elif choice.beside not in alone:
            wrong.add_error(
                index, "beside", "What it belongs to is not selected as a result of its own."
            )
        return
    for what, row, new in (
        ("host", choice.host, choice.new_host.strip()),
        ("topology", choice.topology, choice.new_topology.strip()),
    ):
        if row is None and not new:
            wrong.add_error(index, what, f"Choose a {what}, or name a new one.")
        elif row is not None and new:
            wrong.add_error(index, what, f"Choose a {what} or name a new one, not both.")
        elif row is not None and row.team_id != draft.team_id:
            wrong.add_error(index, what, f"{row} does not belong to {draft.team}.")
        if len(new) > 100:
            wrong.add_error(index, f"new_{what}", "A name has at most 100 characters.")
    if len(choice.workload.strip()) > 90:
        wrong.add_error(index, "workload", "A name has at most 90 characters.")
    outstanding = result.parsed.outstanding
    if choice.outstanding is not None:
        if result.parsed.varies == "outstanding":
            wrong.add_error(index, "outstanding", "The table already gives it for each column.")
        elif outstanding is not None and outstanding != choice.outstanding:
            wrong.add_error(index, "outstanding", f"The text says {outstanding}.")
        elif not 1 <= choice.outstanding <= MOST_OUTSTANDING:
            wrong.add_error(index, "outstanding", "Give a number from 1 on, or nothing.")


def _check_disks(
    agreement: Agreement,
    results_by_key: Mapping[Key, OfferedResult],
    draft: Draft,
    wrong: ErrorCollector,
) -> None:
    """Check the disks that were named; what is wrong is told at the first result of which it was said."""
    telling = {
        index: choice
        for index, choice in enumerate(agreement.chosen)
        if choice.take and choice.disks and choice.beside is None and choice.key in results_by_key
    }
    names = {choice.new_topology.strip() for choice in telling.values()} - {""}
    rows = Topology.objects.filter(team=draft.team, name__in=names) if names else ()
    stacks = {row.name: row.stack for row in rows}
    of_results = [
        ResultDisks(index, choice.disks, choice.topology.name, choice.topology.stack)
        if choice.topology
        else ResultDisks(index, choice.disks, new, stacks.get(new, []))
        for index, choice in telling.items()
        for new in (choice.new_topology.strip(),)
    ]
    for index, number, message in disk_errors(of_results):
        wrong.add_error(index, f"disks.{number}", message)


def _log_unit(
    result: OfferedResult, chosen: ResultChoice, results_by_key: Mapping[Key, OfferedResult]
) -> str:
    """Unit that the person chose; else the unit of the result beside it, or of the one it belongs to."""
    its = results_by_key.get(chosen.beside) if chosen.beside else None
    return chosen.log_unit or result.log_unit or (fio_log.unit(its.parsed.version) if its else "")


def _log_unit_error(
    result: OfferedResult, chosen: ResultChoice, results_by_key: Mapping[Key, OfferedResult]
) -> str:
    """Fault in the answer on the unit; "" for none."""
    if not result.parsed.needs:
        return "Its unit is known." if chosen.log_unit else ""
    if chosen.log_unit and result.log_unit not in ("", chosen.log_unit):
        return f"By the result of fio beside it, they are {LOG_UNITS[result.log_unit]}."
    return "" if _log_unit(result, chosen, results_by_key) else WHICH_UNIT


def reader_file_name(
    result: OfferedResult, chosen: ResultChoice, results_by_key: Mapping[Key, OfferedResult]
) -> str:
    """Name of the file for its reader, so that nothing is open; "" for that of the file."""
    unit = _log_unit(result, chosen, results_by_key) if result.parsed.needs else ""
    return fio_log.name_with_unit(result.file.name, unit) if unit else ""


def _validate_origin(origin: Mapping[str, str], wrong: ErrorCollector) -> dict[str, str]:
    """Origin without empty fields. A link that could run a script is refused."""
    texts = {name: str(origin.get(name) or "").strip() for name in ORIGIN}
    if texts["url"]:
        try:
            URLValidator(schemes=["http", "https"])(texts["url"])
        except ValidationError:
            wrong.add_error(
                None, "url", "Give a whole address that begins with http:// or https://."
            )
    if texts["date"] and not DATE.fullmatch(texts["date"]):
        wrong.add_error(None, "date", "Give a date as 2013-05-07, 2013-05 or 2013.")
    for name, value in texts.items():
        if len(value) > 500:
            wrong.add_error(None, name, "It has at most 500 characters.")
    return {name: value for name, value in texts.items() if value}


PLAIN = ("take", "new_host", "new_topology", "workload", "outstanding", "log_unit")


def to_json(agreement: Agreement) -> dict[str, Any]:
    return {
        "chosen": [_choice_to_json(choice) for choice in agreement.chosen],
        "name": agreement.name,
        "question": agreement.question,
        "origin": dict(agreement.origin),
    }


def from_json(stored: Mapping[str, Any]) -> Agreement:
    """A host or topology that is gone meanwhile is None: the same checks as at first say so."""
    hosts = Host.objects.in_bulk({row["host"] for row in stored["chosen"]} - {None})
    stacks = Topology.objects.in_bulk({row["topology"] for row in stored["chosen"]} - {None})
    chosen = [
        ResultChoice(
            key=(row["key"][0], row["key"][1]),
            host=hosts.get(row["host"]),
            topology=stacks.get(row["topology"]),
            beside=(row["beside"][0], row["beside"][1]) if row["beside"] else None,
            disks=disks_from_json(row.get("disks", ())),
            **{name: row[name] for name in PLAIN if name in row},
        )
        for row in stored["chosen"]
    ]
    return Agreement(chosen, stored["name"], stored["question"], stored["origin"])


def _choice_to_json(choice: ResultChoice) -> dict[str, Any]:
    return {
        "key": list(choice.key),
        "host": choice.host.pk if choice.host else None,
        "topology": choice.topology.pk if choice.topology else None,
        "beside": list(choice.beside) if choice.beside else None,
        "disks": disks_to_json(choice.disks),
        **{name: getattr(choice, name) for name in PLAIN},
    }


MAX_DISKS = 256
MAX_DISK_NAME = 64
# op/s or B/s, far above anything
MOST_RATED = 10**15


@dataclass(frozen=True, slots=True)
class SourceDisks:
    """The disks of one role, alike."""

    role: str
    names: tuple[str, ...]
    # op/s, of each
    rated_iops: int | None = None
    # B/s, of each
    rated_bandwidth: int | None = None


@dataclass(frozen=True, slots=True)
class ResultDisks:
    """Disks of a result as a person named them; `topology` is the name of what stands on them."""

    index: int
    disks: tuple[SourceDisks, ...]
    topology: str
    stack: Sequence[Mapping[str, Any]]


def disk_errors(results: Iterable[ResultDisks]) -> Iterator[tuple[int, int, str]]:
    """(index of the result, which of its disks, what is wrong). Of results of which the same was said, some must stand
    on each role; it is told at the first of them."""
    alike: dict[tuple[SourceDisks, ...], list[ResultDisks]] = {}
    for result in results:
        alike.setdefault(result.disks, []).append(result)
    for disks, same in alike.items():
        stacks = {result.topology: result.stack for result in same}
        errors = _own_errors(disks) or [
            (number, message)
            for number, row in enumerate(disks)
            if (message := _topology_mismatch(row, stacks))
        ]
        yield from ((same[0].index, number, message) for number, message in errors)


def _own_errors(disks: Sequence[SourceDisks]) -> list[tuple[int, str]]:
    return [
        *(
            (number, message)
            for number, disk in enumerate(disks)
            for message in _field_errors(disk)
        ),
        *_duplicate_errors([[disk.role] for disk in disks], "role"),
        *_duplicate_errors([disk.names for disk in disks], "disk"),
    ]


def _field_errors(disks: SourceDisks) -> Iterator[str]:
    if not ROLE.fullmatch(disks.role):
        yield f"{disks.role!r} is not a role: use the short word of the topology, such as ssd or hdd."
    if not disks.names:
        yield "Name the disks of this role, as the source does: sda sdb."
    if len(disks.names) > MAX_DISKS:
        yield f"Name at most {MAX_DISKS} disks."
    for name in disks.names:
        if not name.isprintable() or not 0 < len(name) <= MAX_DISK_NAME:
            yield f"{name[:MAX_DISK_NAME]!r} is not a name: give 1 to {MAX_DISK_NAME} printable characters."
    for what, value in (("IOPS", disks.rated_iops), ("throughput", disks.rated_bandwidth)):
        if value is not None and not 1 <= value <= MOST_RATED:
            yield f"The rated {what} must be from 1 to {MOST_RATED:.0e}, in op/s and B/s."


def _duplicate_errors(groups: Sequence[Sequence[str]], what: str) -> Iterator[tuple[int, str]]:
    """Report each duplicate where it appears the second time."""
    counts: Counter[str] = Counter()
    for number, group in enumerate(groups):
        counts.update(group)
        for name in group:
            if counts[name] > 1:
                yield number, f"The {what} {name} is listed twice."


def _topology_mismatch(
    disks: SourceDisks, stacks: Mapping[str, Sequence[Mapping[str, Any]]]
) -> str:
    """Reason why these disks mean nothing to any of the topologies, by name; "" where one stands on them."""
    counts = {name: _disk_counts(stack)[disks.role] for name, stack in stacks.items()}
    least = min(filter(None, counts.values()), default=0)
    if not least:
        which = ", ".join(sorted(filter(None, counts))) or "the topology"
        return f"No layer of {which} asks for the role {disks.role}: choose a topology that does, or make it first."
    if len(disks.names) < least:
        name = next(name for name, count in counts.items() if count == least)
        return f"{name} uses {least} disks of the role {disks.role}; {len(disks.names)} named."
    return ""


def _disk_counts(stack: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """Number of disks of each role that a topology stands on."""
    counts: Counter[str] = Counter()
    for request in (request for layer in chain.specs(stack) for request in layer.devices):
        counts[request.role] += request.count
    return counts


def names_and_ratings(
    source_disks: Iterable[SourceDisks],
) -> tuple[dict[str, Sequence[str]], dict[str, Mapping[str, float]]]:
    """Disks and ratings by role, as in benchlab.imports.services.Result."""
    disks: dict[str, Sequence[str]] = {}
    rated: dict[str, Mapping[str, float]] = {}
    for row in source_disks:
        disks[row.role] = row.names
        most = {"iops": row.rated_iops, "bandwidth": row.rated_bandwidth}
        if given_ratings := {name: value for name, value in most.items() if value is not None}:
            rated[row.role] = given_ratings
    return disks, rated


def disks_to_json(source_disks: Iterable[SourceDisks]) -> list[dict[str, Any]]:
    return [asdict(row) for row in source_disks]


def disks_from_json(rows: Iterable[Mapping[str, Any]]) -> tuple[SourceDisks, ...]:
    return tuple(
        SourceDisks(row["role"], tuple(row["names"]), row["rated_iops"], row["rated_bandwidth"])
        for row in rows
    )
