# SPDX-License-Identifier: Apache-2.0
"""Results of a draft: everything that was found in its files, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agents.drivers import registry
from agents.readers import fio_log
from agents.texts.parsed_result import ParsedResult
from benchlab.campaigns import points
from benchlab.campaigns.models import Campaign
from benchlab.imports import reading_json
from benchlab.imports.models import Draft, DraftFile, Source

# (DraftFile id, first line)
Key = tuple[int, int]
LOG_UNITS = {"us": "microseconds: fio before 3.0", "ns": "nanoseconds: fio 3.0 and later"}
# whose readings are in memory as they are stored
FILES_AT_ONCE = 20
NAMING_OPTIONS = ("rw", "direction", "bs", "block_size", "rwmixread")


@dataclass(frozen=True, slots=True)
class OfferedResult:
    """A result of a draft, as it is offered."""

    file: DraftFile
    parsed: ParsedResult
    # of what is stored: "series", counted
    raw: Mapping[str, Any]
    # of fio's log that does not say it: what results beside it tell
    log_unit: str = ""

    @property
    def result_key(self) -> Key:
        return self.file.pk, self.parsed.first

    @property
    def watches(self) -> bool:
        """It only watched: a result of its own only if it belongs to no other."""
        return bool(self.raw["series"] or self.parsed.needs) and not (
            self.parsed.tool and self.parsed.metrics
        )

    @property
    def needs_log_unit(self) -> bool:
        """Must a person say what the text leaves open?"""
        return bool(self.parsed.needs) and not self.log_unit

    @property
    def log_unit_words(self) -> str:
        return LOG_UNITS.get(self.log_unit, "")

    @property
    def workload_name(self) -> str:
        """A name for what was done, from its kind and options; what is only described has one."""
        if self.parsed.described:
            return self.parsed.title[:90]
        options = self.parsed.options
        words = [
            _format_option(name, options[name]) for name in NAMING_OPTIONS if options.get(name)
        ]
        # sweeps over different things do not share a chart's axis
        if self.parsed.varies:
            words.append(f"over {self.parsed.varies.replace('_', ' ')}")
        return " ".join([self.parsed.tool or self.parsed.kind, *words])[:90]

    @property
    def option_texts(self) -> list[tuple[str, str]]:
        """Names and texts of the options."""
        return [(name, _format_option(name, value)) for name, value in self.parsed.options.items()]

    @property
    def sweep_texts(self) -> list[tuple[str, str]]:
        return [(name, _format_option(name, values)) for name, values in self.parsed.sweep.items()]

    @property
    def sweep_points_text(self) -> str:
        """Those of a sweep in one table."""
        varies = self.parsed.varies
        return ", ".join(labels[varies] for labels in self.parsed.sweep_points()) if varies else ""

    @property
    def point_texts(self) -> list[tuple[str, str]]:
        return [(name, _format_option(name, value)) for name, value in self.parsed.point.items()]


def _format_option(name: str, value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_format_option(name, item) for item in value)
    return points.format_value(name, value)


def offered_results(draft: Draft) -> list[OfferedResult]:
    """Everything found in it, in its order; also what is in trouble."""
    files = draft.files.defer("content", "reading").in_bulk()
    read = draft.files.filter(reading__isnull=False).order_by("position")
    # What was read takes several times the memory of the figures in it, so no row keeps it.
    rows = read.values_list("pk", "reading__found").iterator(chunk_size=FILES_AT_ONCE)
    return _with_units(
        [
            OfferedResult(files[pk], reading_json.from_json(stored), {"series": stored["series"]})
            for pk, rows_of_file in rows
            if pk in files
            for stored in rows_of_file or ()
        ]
    )


def _with_units(results: Sequence[OfferedResult]) -> list[OfferedResult]:
    """Each log with the unit that fio's results beside it tell, by their version."""
    units: dict[str, set[str]] = {}
    for result in results:
        if result.parsed.kind == "fio" and (unit := fio_log.unit(result.parsed.version)):
            units.setdefault(_folder(result.file.name), set()).add(unit)
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


def _folders(name: str) -> Iterator[str]:
    """Folders from the file's own up to its archive, or to the upload itself if it came in none."""
    folder = _folder(name)
    while folder:
        yield folder
        folder = _folder(folder)
    if "/" not in name:
        yield ""


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def campaigns_by_hash(draft: Draft) -> dict[str, Campaign]:
    """SHA-256 -> the team's campaign that has a file of the same content already."""
    hashes = draft.files.filter(trouble="").values("sha256")
    rows = Source.objects.not_deleted().filter(campaign__team=draft.team, sha256__in=hashes)
    return {row.sha256: row.campaign for row in rows.select_related("campaign").order_by("pk")}


def reader_label(kind: str) -> str:
    reader = registry.all_readers().get(kind)
    return reader.LABEL if reader else kind
