# SPDX-License-Identifier: Apache-2.0
"""Results that were read in a draft's files: as JSON until a person agrees, and as pages and API offer them.

Series are counted only: they are read again from the text.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from agents.contracts import Metric, Series, Unit
from agents.drivers import registry
from agents.readers import fio_log
from agents.texts.parsed_result import ParsedResult, Reading
from benchlab.campaigns import matrix
from benchlab.campaigns.models import Campaign
from benchlab.imports import workloads
from benchlab.imports.machine import MachineRow
from benchlab.imports.models import Draft, DraftFile, Source
from benchlab.imports.workloads import MAX_NAME as MAX_WORKLOAD_NAME
from benchlab.imports.workloads import Work, name_workloads

# (DraftFile id, first line)
Key = tuple[int, int]
LOG_UNITS = {"us": "microseconds: fio before 3.0", "ns": "nanoseconds: fio 3.0 and later"}
# readers of reports that are printed at an interval
WATCHERS = ("iostat", "zpool_iostat")
# whose readings are in memory as they are stored
FILES_AT_ONCE = 20
# of ParsedResult
RESULT_FIELDS = (
    "kind",
    "first",
    "last",
    "title",
    "tool",
    "version",
    "command",
    "outstanding",
    "trouble",
    "described",
    "head",
    "varies",
    "parts",
    "needs",
    "options",
    "options_complete",
    "point",
    "sweep",
    "notes",
)
METRIC_FIELDS = ("name", "value", "unit", "labels", "note", "line")


@dataclass(frozen=True, slots=True)
class OfferedResult:
    """A result of a draft, as it is offered."""

    file: DraftFile
    parsed: ParsedResult
    # what is stored of each
    series: Sequence[Mapping[str, Any]]
    # of fio's log that does not say it: what results beside it tell
    log_unit: str = ""
    # of what was done, beside the other results of the draft
    workload_name: str = ""

    @property
    def result_key(self) -> Key:
        return self.file.pk, self.parsed.first

    @property
    def is_measured(self) -> bool:
        """True for a result that can be stored as a run."""
        return not (self.parsed.trouble or self.parsed.described)

    @property
    def watches(self) -> bool:
        """It only watched: a result of its own only if it belongs to no other."""
        return bool(self.series or self.parsed.needs) and not (
            self.parsed.tool and self.parsed.metrics
        )

    @property
    def needs_reports(self) -> bool:
        """True where no command tells the interval between a watcher's reports, and what the first one is."""
        return self.parsed.kind in WATCHERS and self.is_measured and not self.parsed.command

    @property
    def needs_log_unit(self) -> bool:
        """True where a person must say what the text leaves open?"""
        return bool(self.parsed.needs) and not self.log_unit

    @property
    def log_unit_words(self) -> str:
        return LOG_UNITS.get(self.log_unit, "")

    @property
    def label(self) -> str:
        reader = registry.all_readers().get(self.parsed.kind)
        return reader.LABEL if reader else self.parsed.kind

    @property
    def option_texts(self) -> list[tuple[str, str]]:
        return _option_texts(self.parsed.options)

    @property
    def sweep_texts(self) -> list[tuple[str, str]]:
        return _option_texts(self.parsed.sweep)

    @property
    def point_texts(self) -> list[tuple[str, str]]:
        return _option_texts(self.parsed.point)

    @property
    def sweep_points_text(self) -> str:
        """Those of a sweep in one table, or the job names of the parts."""
        if self.parsed.parts:
            return ", ".join(part["title"] for part in self.parsed.parts.values())
        return ", ".join(
            value for labels in self.parsed.sweep_points() for value in labels.values()
        )


def _option_texts(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names and texts of the options."""
    return [(name, _format_option(name, value)) for name, value in options.items()]


def _format_option(name: str, value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_format_option(name, item) for item in value)
    return matrix.format_value(name, value)


def offered_results(draft: Draft) -> list[OfferedResult]:
    """Everything found in it, in its order; also what is in trouble."""
    files = draft.files.defer("content", "reading").in_bulk()
    read = draft.files.filter(reading__isnull=False).order_by("position")
    # What was read takes several times the memory of the figures in it, so no row keeps it.
    rows = read.values_list("pk", "reading__found").iterator(chunk_size=FILES_AT_ONCE)
    results = [
        OfferedResult(files[pk], from_json(stored), stored["series"])
        for pk, rows_of_file in rows
        if pk in files
        for stored in rows_of_file or ()
    ]
    return _with_workload_names(_with_units(results))


def _with_workload_names(results: Sequence[OfferedResult]) -> list[OfferedResult]:
    """Each result with the name of its workload; of what is only described, its title."""
    parts = [result.parsed.each_part() if result.is_measured else [] for result in results]
    named = iter(
        name_workloads([Work(part) for parts_of_result in parts for part in parts_of_result])
    )
    names = [dict.fromkeys(next(named).name for _ in own) for own in parts]
    return [
        replace(result, workload_name=", ".join(own) or result.parsed.title[:MAX_WORKLOAD_NAME])
        for result, own in zip(results, names, strict=True)
    ]


# options that a draft's page shows side by side, and results
MAX_COLUMNS = 8
MAX_ROWS = 50


@dataclass(frozen=True, slots=True)
class ComparedResults:
    """Results of one tool, and the options in which they differ."""

    label: str
    names: Sequence[str]
    # number of the result on the page, its title, and the value of each option
    rows: Sequence[tuple[int, str, Sequence[str]]]
    more_names: int = 0
    more_rows: int = 0

    @property
    def count(self) -> int:
        return len(self.rows) + self.more_rows


def compare_results(results: Sequence[OfferedResult]) -> list[ComparedResults]:
    """Options that differ between the results of each tool, where any does."""
    by_tool: dict[str, list[tuple[int, ParsedResult]]] = {}
    for number, parsed in _numbered_parts(results):
        by_tool.setdefault(parsed.kind, []).append((number, parsed))
    compared = []
    for kind, numbered in by_tool.items():
        works = [Work(parsed).options for _, parsed in numbered]
        names = workloads.differing_options(works)
        if not names:
            continue
        rows = [
            (
                number,
                parsed.title,
                [_value_of(options, name) for name in names[:MAX_COLUMNS]],
            )
            for (number, parsed), options in zip(numbered, works, strict=True)
        ]
        compared.append(
            ComparedResults(
                registry.all_readers()[kind].LABEL,
                [workloads.SHORT_NAMES.get(name, name) for name in names[:MAX_COLUMNS]],
                rows[:MAX_ROWS],
                max(len(names) - MAX_COLUMNS, 0),
                max(len(rows) - MAX_ROWS, 0),
            )
        )
    return compared


def _value_of(options: Mapping[str, Any], name: str) -> str:
    if name not in options:
        return "–"
    return "yes" if options[name] is True else workloads.value_text(name, options[name])


@dataclass(frozen=True, slots=True)
class FarApartResults:
    """Results between which no option differs, by their numbers on the page."""

    numbers: Sequence[int]
    times: float


def far_apart_results(results: Sequence[OfferedResult]) -> list[FarApartResults]:
    """Results of which a person must say whether they are repeats."""
    numbered = _numbered_parts(results)
    return [
        FarApartResults([numbered[index][0] for index in far.indexes], far.times)
        for far in workloads.find_far_apart([Work(parsed) for _, parsed in numbered])
    ]


def _numbered_parts(results: Sequence[OfferedResult]) -> list[tuple[int, ParsedResult]]:
    """Measured results, and the parts of one that has several, with the number of the result on the page."""
    return [
        (number, part)
        for number, result in enumerate(results, 1)
        if result.is_measured and not result.watches
        for part in result.parsed.each_part()
    ]


def _with_units(results: Sequence[OfferedResult]) -> list[OfferedResult]:
    """Each log with the unit that fio's results beside it tell, by their version."""
    units: dict[str, set[str]] = {}
    for result in results:
        if result.parsed.kind == "fio" and (unit := fio_log.unit(result.parsed.version)):
            units.setdefault(_folders(result.file.name)[0], set()).add(unit)
    return [
        replace(result, log_unit=_near(result.file.name, units)) if result.parsed.needs else result
        for result in results
    ]


def _near(name: str, units_by_folder: Mapping[str, set[str]]) -> str:
    """Unit of the results in the same folder, or else in the nearest one above; "" if they differ or there are none."""
    units: set[str] = next(
        (units_by_folder[folder] for folder in _folders(name) if folder in units_by_folder), set()
    )
    return next(iter(units)) if len(units) == 1 else ""


def _folders(name: str) -> list[str]:
    """Folders from the file's own up to its archive; "." alone for a file that came in none."""
    folders = [str(folder) for folder in PurePosixPath(name).parents]
    return folders[:-1] or folders


def campaigns_by_hash(draft: Draft) -> dict[str, Campaign]:
    """SHA-256 -> the team's campaign that has a file of the same content already."""
    hashes = draft.files.filter(trouble="").values("sha256")
    rows = Source.objects.not_deleted().filter(campaign__team=draft.team, sha256__in=hashes)
    return {row.sha256: row.campaign for row in rows.select_related("campaign").order_by("pk")}


def to_json(reading: Reading, machine: Sequence[MachineRow] = ()) -> dict[str, Any]:
    """JSON of a file that was read: results, lines that nobody knows, and the machine that it shows."""
    return {
        "found": [
            {
                **_fields_to_json(result, RESULT_FIELDS),
                "metrics": [_fields_to_json(metric, METRIC_FIELDS) for metric in result.metrics],
                "series": [_series_to_json(series) for series in result.series],
            }
            for result in reading.results
        ],
        "unread": [dataclasses.asdict(row) for row in reading.unread],
        "machine": storable_value(list(machine)),
    }


def from_json(stored: Mapping[str, Any]) -> ParsedResult:
    """Rebuild a result from an entry of "found"; without its series."""
    fields = {name: stored[name] for name in RESULT_FIELDS if name in stored}
    metrics = tuple(Metric(**{**row, "unit": Unit(row["unit"])}) for row in stored["metrics"])
    return ParsedResult(**{**fields, "metrics": metrics, "notes": tuple(stored["notes"])})


def _fields_to_json(row: ParsedResult | Metric, names: Sequence[str]) -> dict[str, Any]:
    return {name: storable_value(getattr(row, name)) for name in names}


def _series_to_json(series: Series) -> dict[str, Any]:
    return {
        "device": series.device,
        "metric": series.metric,
        "unit": str(series.unit),
        "samples": len(series.values),
        "seconds": storable_value(series.times[-1]) if series.times else 0,
    }


def storable_value(value: Any) -> Any:
    """Value that PostgreSQL's JSON takes: a text may have come with a NUL or half a character from a JSON string."""
    if isinstance(value, str):
        # nearly all of them
        if value.isascii() and "\0" not in value:
            return value
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {storable_value(str(key)): storable_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable_value(item) for item in value]
    return value
