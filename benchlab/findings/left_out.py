# SPDX-License-Identifier: Apache-2.0
"""Numbers of answers and findings that a report leaves out as its team dismissed them, and nothing else of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class OmittedCounts:
    """In a page's context as `left_out`: the page is a report. Who shows answers or findings there fills it in."""

    answers: int = 0
    findings: int = 0

    @property
    def anchor(self) -> str:
        """Place where the team has them, on the page that the report is of."""
        return "answers" if self.answers else "findings"

    @property
    def text(self) -> str:
        """ "2 answers and 1 finding were", empty where nothing is left out."""
        counts = [(self.answers, "answer"), (self.findings, "finding")]
        parts = [f"{number} {noun}{'s' if number > 1 else ''}" for number, noun in counts if number]
        single = self.answers + self.findings == 1
        return f"{' and '.join(parts)} {'was' if single else 'were'}" if parts else ""
