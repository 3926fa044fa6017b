# SPDX-License-Identifier: Apache-2.0
"""Evidence of a pasted text. Nothing is stored."""

from __future__ import annotations

from agents.context.reading import read_facts
from agents.drivers import text_reading
from agents.texts.parsed_result import ParsedResult, Reading
from benchlab.diagnosis.evidence import Evidence, Result


def read_evidence(text: str, name: str = "") -> tuple[Evidence, Reading]:
    """Evidence of the text, and what its readers found and left unread."""
    reading = text_reading.read_text(text, name)
    results = tuple(_result(parsed) for parsed in reading.results if not parsed.trouble)
    return Evidence(results, read_facts(text), tuple(text.split("\n"))), reading


def _result(parsed: ParsedResult) -> Result:
    return Result(
        kind=parsed.kind,
        title=parsed.title,
        metrics=parsed.metrics,
        details=parsed.details,
        series=parsed.series,
        options=parsed.options,
        options_complete=parsed.options_complete,
        outstanding=parsed.outstanding,
        command=parsed.command,
        first=parsed.first,
        last=parsed.last,
    )
