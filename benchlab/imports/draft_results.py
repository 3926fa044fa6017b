# SPDX-License-Identifier: Apache-2.0
"""Results of a draft: everything that was found in its files, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agents.drivers import registry
from agents.readers import fio_log
from agents.texts.found import Found
from benchlab.campaigns import points
from benchlab.campaigns.models import Campaign
from benchlab.imports import reading_json
from benchlab.imports.models import Draft, DraftFile, Source

# (DraftFile id, first line)
Key = tuple[int, int]
LOG_UNITS = {"us": "microseconds: fio before 3.0", "ns": "nanoseconds: fio 3.0 and later"}
# whose readings are in memory as they are stored
FILES_AT_ONCE = 20
NAMED = ("rw", "direction", "bs", "block_size", "rwmixread")


@dataclass(frozen=True, slots=True)
class Shown:
    """A result of a draft, as it is offered."""

    file: DraftFile
    found: Found
    # of what is stored: "series", counted
    raw: Mapping[str, Any]
    # of fio's log that does not say it: what results beside it tell
    log_unit: str = ""

    @property
    def key(self) -> Key:
        return self.file.pk, self.found.first

    @property
    def watches(self) -> bool:
        """It only watched: a result of its own only if it belongs to no other."""
        return bool(self.raw["series"] or self.found.needs) and not (
            self.found.tool and self.found.metrics
        )

    @property
    def asks(self) -> bool:
        """Must a person say what the text leaves open?"""
        return bool(self.found.needs) and not self.log_unit

    @property
    def log_unit_words(self) -> str:
        return LOG_UNITS.get(self.log_unit, "")

    @property
    def workload(self) -> str:
        """A name for what was done, from its kind and options; what is only described has one."""
        if self.found.described:
            return self.found.title[:90]
        told = self.found.options
        said = [_words(name, told[name]) for name in NAMED if told.get(name)]
        # sweeps over different things do not share a chart's axis
        if self.found.varies:
            said.append(f"over {self.found.varies.replace('_', ' ')}")
        return " ".join([self.found.tool or self.found.kind, *said])[:90]

    @property
    def options(self) -> list[tuple[str, str]]:
        """In words."""
        return [(name, _words(name, value)) for name, value in self.found.options.items()]

    @property
    def sweep(self) -> list[tuple[str, str]]:
        return [(name, _words(name, values)) for name, values in self.found.sweep.items()]

    @property
    def points(self) -> str:
        """Those of a sweep in one table."""
        varies = self.found.varies
        return ", ".join(labels[varies] for labels in self.found.points()) if varies else ""

    @property
    def point(self) -> list[tuple[str, str]]:
        return [(name, _words(name, value)) for name, value in self.found.point.items()]


def _words(name: str, value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_words(name, one) for one in value)
    return points.value(name, value)


def results(draft: Draft) -> list[Shown]:
    """Everything found in it, in its order; also what is in trouble."""
    files = draft.files.defer("content", "reading").in_bulk()
    read = draft.files.filter(reading__isnull=False).order_by("position")
    # What was read takes several times the memory of the figures in it, so no row keeps it.
    rows = read.values_list("pk", "reading__found").iterator(chunk_size=FILES_AT_ONCE)
    return _with_units(
        [
            Shown(files[pk], reading_json.from_json(one), {"series": one["series"]})
            for pk, found in rows
            if pk in files
            for one in found or ()
        ]
    )


def _with_units(shown: Sequence[Shown]) -> list[Shown]:
    """Each log with the unit that fio's results beside it tell, by their version."""
    told: dict[str, set[str]] = {}
    for one in shown:
        if one.found.kind == "fio" and (unit := fio_log.unit(one.found.version)):
            told.setdefault(_folder(one.file.name), set()).add(unit)
    return [
        replace(one, log_unit=_near(one.file.name, told)) if one.found.needs else one
        for one in shown
    ]


def _near(name: str, told: Mapping[str, set[str]]) -> str:
    """By the results in its folder, or else in the nearest one above; "" where they differ, or there are none."""
    units: set[str] = next((told[folder] for folder in _folders(name) if folder in told), set())
    return next(iter(units)) if len(units) == 1 else ""


def _folders(name: str) -> Iterator[str]:
    """From its own up to its archive, or to the upload itself if it came in none."""
    folder = _folder(name)
    while folder:
        yield folder
        folder = _folder(folder)
    if "/" not in name:
        yield ""


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def known(draft: Draft) -> dict[str, Campaign]:
    """SHA-256 -> the team's campaign that has a file of the same content already."""
    hashes = draft.files.filter(trouble="").values("sha256")
    rows = Source.objects.there().filter(campaign__team=draft.team, sha256__in=hashes)
    return {row.sha256: row.campaign for row in rows.select_related("campaign").order_by("pk")}


def label(kind: str) -> str:
    reader = registry.all_readers().get(kind)
    return reader.LABEL if reader else kind
