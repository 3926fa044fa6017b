# SPDX-License-Identifier: Apache-2.0
"""Agreement to an import: a person's answers, their validation, and both as JSON for the worker that stores them.

Disks are what the source tells of: a layer of the topology that asks for their role stands on them, in their order.
Nobody looked at them: they are names.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import URLValidator

from agents.plans.chain import specs
from agents.readers import fio_log, iostat
from benchlab.campaigns.models import Workload
from benchlab.hosts.models import Host
from benchlab.imports.models import Draft
from benchlab.imports.readings import LOG_UNITS, Key, OfferedResult
from benchlab.imports.workloads import MAX_NAME as MAX_WORKLOAD_NAME
from benchlab.topologies.models import Topology
from benchlab.topologies.services import ROLE

ORIGIN = ("title", "author", "date", "url")
DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?")
MOST_OUTSTANDING = 2**31 - 1
# characters
MAX_CAMPAIGN_NAME = 200
MAX_ORIGIN_TEXT = 500
MAX_NEW_NAME = 100
MAX_DISK_NAME = 64
MAX_DISKS = 256
MAX_INTERVAL_SECONDS = 86_400
# op/s or B/s, far above anything
MOST_RATED = 10**15
WHICH_UNIT = (
    "Say what its latencies are in: fio before 3.0 wrote microseconds, later ones nanoseconds."
)
ONLY_MONITORING = "Only monitoring output (iostat etc.) can be attached to a result."


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
    # s between a watcher's reports, where no command tells
    interval: float | None = None
    # likewise: its first report is as the others, and not the average since boot
    first_counts: bool = False
    disks: tuple[SourceDisks, ...] = ()


@dataclass(frozen=True, slots=True)
class Agreement:
    """All answers of a person. `name`, `question` and `origin` belong to the campaign of the measured results."""

    chosen: Sequence[ResultChoice]
    name: str = ""
    question: str = ""
    origin: Mapping[str, str] = field(default_factory=dict)
    # results of equal options are repeats, however far apart they are
    are_repeats: bool = False

    @property
    def selected(self) -> list[ResultChoice]:
        return [choice for choice in self.chosen if choice.take]


# (field, what is wrong with it)
FieldError = tuple[str, str]
# (index in the choices, field, what is wrong with it)
ChoiceError = tuple[int, str, str]


class Refused(Exception):
    """`errors`: (index in the choices or None for the whole, field) -> what is wrong."""

    def __init__(self, errors: Mapping[tuple[int | None, str], list[str]]) -> None:
        super().__init__("; ".join(chain.from_iterable(errors.values())))
        self.errors = dict(errors)


def validate_agreement(
    agreement: Agreement, results_by_key: Mapping[Key, OfferedResult], draft: Draft
) -> Agreement:
    """Return the agreement as it is stored: stripped, without empty fields of the origin. Raises Refused."""
    texts = {name: str(agreement.origin.get(name) or "").strip() for name in ORIGIN}
    origin = {name: text for name, text in texts.items() if text}
    stripped = replace(agreement, name=agreement.name.strip(), origin=origin)
    errors: dict[tuple[int | None, str], list[str]] = defaultdict(list)
    for name, message in _campaign_errors(stripped, results_by_key):
        errors[None, name].append(message)
    for index, name, message in chain(
        _choice_errors(stripped, results_by_key, draft),
        _choice_disk_errors(stripped, results_by_key, draft),
    ):
        errors[index, name].append(message)
    if errors:
        raise Refused(errors)
    return stripped


def _campaign_errors(
    agreement: Agreement, results_by_key: Mapping[Key, OfferedResult]
) -> Iterator[FieldError]:
    """A link that could run a script is refused."""
    if url := agreement.origin.get("url"):
        try:
            URLValidator(schemes=["http", "https"])(url)
        except ValidationError:
            yield "url", "Give a whole address that begins with http:// or https://."
    if (date := agreement.origin.get("date")) and not DATE.fullmatch(date):
        yield "date", "Give a date as 2013-05-07, 2013-05 or 2013."
    for name, text in agreement.origin.items():
        if len(text) > MAX_ORIGIN_TEXT:
            yield name, f"It has at most {MAX_ORIGIN_TEXT} characters."
    if not agreement.selected:
        yield "results", "Select at least one result."
    results = (results_by_key.get(choice.key) for choice in agreement.selected)
    if not agreement.name and any(result and not result.parsed.described for result in results):
        yield "campaign", "Give the campaign a name."
    yield from _name_error("campaign", agreement.name, MAX_CAMPAIGN_NAME)


def _name_error(where: str, name: str, most: int) -> list[FieldError]:
    return [(where, f"A name has at most {most} characters.")] if len(name) > most else []


def _choice_errors(
    agreement: Agreement, results_by_key: Mapping[Key, OfferedResult], draft: Draft
) -> Iterator[ChoiceError]:
    alone = {choice.key for choice in agreement.selected if choice.beside is None}
    workloads = Workload.objects.filter(team=draft.team)
    # those that new workloads cannot have
    names = set(workloads.values_list("name", flat=True))
    earlier: set[Key] = set()
    for index, choice in enumerate(agreement.chosen):
        result = results_by_key.get(choice.key)
        errors: Iterable[FieldError] = ()
        if result is None:
            file, first = choice.key
            errors = [("first", f"No result of file {file} begins in line {first}.")]
        elif choice.key in earlier:
            errors = [("first", "It is listed twice.")]
        elif choice.take and result.parsed.described:
            errors = _described_errors(choice, result, names)
        elif choice.take:
            errors = _measured_errors(choice, result, results_by_key, alone, draft)
        earlier.add(choice.key)
        yield from ((index, name, message) for name, message in errors)


def _described_errors(
    choice: ResultChoice, result: OfferedResult, names: set[str]
) -> Iterator[FieldError]:
    """A workload only: no host and no topology belong to it."""
    if result.parsed.trouble:
        yield "take", f"It cannot be read: {result.parsed.trouble}"
    if choice.beside is not None:
        yield "beside", ONLY_MONITORING
    if choice.outstanding is not None:
        yield "outstanding", "It is a workload: change its options once it is stored."
    name = choice.workload.strip() or result.workload_name
    yield from _name_error("workload", name, MAX_WORKLOAD_NAME)
    if len(name) <= MAX_WORKLOAD_NAME and name in names:
        yield "workload", f"There is a workload called {name} already: name it otherwise."
    names.add(name)


def _measured_errors(
    choice: ResultChoice,
    result: OfferedResult,
    results_by_key: Mapping[Key, OfferedResult],
    alone: set[Key],
    draft: Draft,
) -> Iterator[FieldError]:
    parsed = result.parsed
    if parsed.trouble:
        yield "take", f"It cannot be read: {parsed.trouble}"
    if message := _log_unit_error(result, choice, results_by_key):
        yield "log_unit", message
    if choice.interval is not None and not 0 < choice.interval <= MAX_INTERVAL_SECONDS:
        yield "interval", "Give the seconds between two reports, up to a day."
    if (choice.interval or choice.first_counts) and not result.needs_reports:
        yield "interval", "Its command tells the interval and what the first report is."
    if choice.beside is not None:
        if not result.watches:
            yield "beside", ONLY_MONITORING
        elif choice.beside not in alone:
            yield "beside", "What it belongs to is not selected as a result of its own."
        return
    yield from _row_errors("host", choice.host, choice.new_host.strip(), draft)
    yield from _row_errors("topology", choice.topology, choice.new_topology.strip(), draft)
    yield from _name_error("workload", choice.workload.strip(), MAX_WORKLOAD_NAME)
    if choice.outstanding is not None:
        if parsed.varies == "outstanding":
            yield "outstanding", "The table already gives it for each column."
        elif parsed.outstanding not in (None, choice.outstanding):
            yield "outstanding", f"The text says {parsed.outstanding}."
        elif not 1 <= choice.outstanding <= MOST_OUTSTANDING:
            yield "outstanding", "Give a number from 1 on, or nothing."


def _row_errors(
    what: str, row: Host | Topology | None, new: str, draft: Draft
) -> Iterator[FieldError]:
    if row is None and not new:
        yield what, f"Choose a {what}, or name a new one."
    elif row is not None and new:
        yield what, f"Choose a {what} or name a new one, not both."
    elif row is not None and row.team_id != draft.team_id:
        yield what, f"{row} does not belong to {draft.team}."
    yield from _name_error(f"new_{what}", new, MAX_NEW_NAME)


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
    if result.needs_reports and (chosen.interval or chosen.first_counts):
        return iostat.name_with_reports(
            result.file.name, chosen.interval, first_counts=chosen.first_counts
        )
    unit = _log_unit(result, chosen, results_by_key) if result.parsed.needs else ""
    return fio_log.name_with_unit(result.file.name, unit) if unit else ""


@dataclass(frozen=True, slots=True)
class ResultDisks:
    """Disks of a result as a person named them; `topology` is the name of what stands on them."""

    index: int
    disks: tuple[SourceDisks, ...]
    topology: str
    stack: Sequence[Mapping[str, Any]]


def _choice_disk_errors(
    agreement: Agreement, results_by_key: Mapping[Key, OfferedResult], draft: Draft
) -> Iterator[ChoiceError]:
    choices = {
        index: choice
        for index, choice in enumerate(agreement.chosen)
        if choice.take and choice.disks and choice.beside is None and choice.key in results_by_key
    }
    names = {choice.new_topology.strip() for choice in choices.values()} - {""}
    existing = Topology.objects.filter(team=draft.team, name__in=names) if names else ()
    by_name = {row.name: row for row in existing}
    results = []
    for index, choice in choices.items():
        name = choice.new_topology.strip()
        row = choice.topology or by_name.get(name)
        results.append(
            ResultDisks(index, choice.disks, row.name if row else name, row.stack if row else [])
        )
    for index, number, message in disk_errors(results):
        yield index, f"disks.{number}", message


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
        *((number, text) for number, disk in enumerate(disks) for text in _field_errors(disk)),
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
    for layer in specs(stack):
        for request in layer.devices:
            counts[request.role] += request.count
    return counts


def names_and_ratings(
    disks_by_role: Iterable[SourceDisks],
) -> tuple[dict[str, Sequence[str]], dict[str, Mapping[str, float]]]:
    """Disks and ratings by role, as in services.Result."""
    disks: dict[str, Sequence[str]] = {}
    rated: dict[str, Mapping[str, float]] = {}
    for row in disks_by_role:
        disks[row.role] = row.names
        most = {"iops": row.rated_iops, "bandwidth": row.rated_bandwidth}
        if given_ratings := {name: value for name, value in most.items() if value is not None}:
            rated[row.role] = given_ratings
    return disks, rated


PLAIN = (
    "take",
    "new_host",
    "new_topology",
    "workload",
    "outstanding",
    "log_unit",
    "interval",
    "first_counts",
)


def to_json(agreement: Agreement) -> dict[str, Any]:
    return {
        "chosen": [_choice_to_json(choice) for choice in agreement.chosen],
        "name": agreement.name,
        "question": agreement.question,
        "origin": dict(agreement.origin),
        "are_repeats": agreement.are_repeats,
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
    return Agreement(
        chosen,
        stored["name"],
        stored["question"],
        stored["origin"],
        bool(stored.get("are_repeats")),
    )


def _choice_to_json(choice: ResultChoice) -> dict[str, Any]:
    return {
        "key": list(choice.key),
        "host": choice.host.pk if choice.host else None,
        "topology": choice.topology.pk if choice.topology else None,
        "beside": list(choice.beside) if choice.beside else None,
        "disks": [asdict(row) for row in choice.disks],
        **{name: getattr(choice, name) for name in PLAIN},
    }


def disks_from_json(rows: Iterable[Mapping[str, Any]]) -> tuple[SourceDisks, ...]:
    return tuple(SourceDisks(**{**row, "names": tuple(row["names"])}) for row in rows)
