"""Readers as plain as can be, and a text that they read."""

from __future__ import annotations

import re

from agents.contracts import Metric, Series, Unit
from agents.texts.parsed_result import ParsedResult

TEXT = "$ rates\nRATE 12 at depth 4\nRATE 13 at depth 8\n\nnobody knows <b>this</b>\nWATCH 1 2 3\nRATE broken\n"


class Rates:
    """ "RATE 12 at depth 4"; "RATE 12" says nothing of its depth."""

    LABEL = "Rates"
    KEYWORDS = ("RATE",)

    @staticmethod
    def find_results(text: str, name: str) -> list[ParsedResult]:
        return [
            _rate(number, line)
            for number, line in enumerate(text.split("\n"), start=1)
            if line.startswith("RATE ")
        ]


def _rate(number: int, line: str) -> ParsedResult:
    said = re.fullmatch(r"RATE (\d+)(?: at depth (\d+))?", line)
    if not said:
        return ParsedResult("rates", number, number, line, trouble=f"no rate in {line!r}")
    depth = int(said[2]) if said[2] else None
    metric = Metric("iops", float(said[1]), Unit.OPS_PER_SECOND, line=number)
    return ParsedResult(
        "rates", number, number, line, metrics=(metric,), outstanding=depth,
        point={"iodepth": depth} if depth else {},
    )  # fmt: skip


class Watch:
    """ "WATCH 1 2 3": a series."""

    LABEL = "Watch"
    KEYWORDS = ("WATCH",)

    @staticmethod
    def find_results(text: str, name: str) -> list[ParsedResult]:
        found = []
        for number, line in enumerate(text.split("\n"), start=1):
            if line.startswith("WATCH "):
                values = tuple(float(word) for word in line.split()[1:])
                times = tuple(float(n) for n in range(1, len(values) + 1))
                series = Series("sda", "read.iops", Unit.OPS_PER_SECOND, times, values)
                found.append(ParsedResult("watch", number, number, line, series=(series,)))
        return found


READERS = {"rates": Rates, "watch": Watch}
