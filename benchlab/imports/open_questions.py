"""What a text leaves open and a person is asked, unless what is beside it tells: the unit of fio's logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agents.readers import fio_log

if TYPE_CHECKING:
    from benchlab.imports.checking import Chosen
    from benchlab.imports.draft_results import Key, Shown

UNITS = {"us": "microseconds: fio before 3.0", "ns": "nanoseconds: fio 3.0 and later"}
QUESTION = (
    "Say what its latencies are in: fio before 3.0 wrote microseconds, later ones nanoseconds."
)


def answered(shown: Sequence[Shown]) -> list[Shown]:
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


def unit(shown: Shown, chosen: Chosen, offered: Mapping[Key, Shown]) -> str:
    """As the person says; else as what stands beside it, or what it belongs to, tells."""
    its = offered.get(chosen.beside) if chosen.beside else None
    return chosen.log_unit or shown.log_unit or (fio_log.unit(its.found.version) if its else "")


def wrong(shown: Shown, chosen: Chosen, offered: Mapping[Key, Shown]) -> str:
    """What is wrong with the answer; "" for nothing."""
    if not shown.found.needs:
        return "Its unit is known." if chosen.log_unit else ""
    if chosen.log_unit and shown.log_unit not in ("", chosen.log_unit):
        return f"By the result of fio beside it, they are {UNITS[shown.log_unit]}."
    return "" if unit(shown, chosen, offered) else QUESTION


def name(shown: Shown, chosen: Chosen, offered: Mapping[Key, Shown]) -> str:
    """What its reader gets as the file's name, so that nothing is open; "" for that of the file."""
    found = unit(shown, chosen, offered) if shown.found.needs else ""
    return fio_log.told(shown.file.name, found) if found else ""
