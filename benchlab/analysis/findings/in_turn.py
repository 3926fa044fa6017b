# SPDX-License-Identifier: Apache-2.0
"""Members are even over the run, and few work at a time: a stripe that is as fast as one (docs/analysis.md, 6)."""

from __future__ import annotations

from benchlab.analysis.devices.balance import Spread
from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings._disks import BYTES_LABEL, balances
from benchlab.analysis.formats import join_names

LABEL = "Disks work in turn"
METHOD = "Findings"


def applies(run: Run) -> list[Finding]:
    """Report one finding for each use and direction: the first window in which members work in turn."""
    findings: dict[str, Finding] = {}
    for way in BYTES_LABEL:
        for _, group, balance in balances(run, way):
            if balance.spread == Spread.IN_TURN:
                about = f"{way} {group.kind} {group.use}"
                findings.setdefault(
                    about, _describe_turns(way, about, group.names, balance.windows)
                )
    return list(findings.values())


def _describe_turns(way: str, about: str, members: tuple[str, ...], windows: int) -> Finding:
    half = len(members) // 2
    return Finding(
        f"{join_names(members)} share the {BYTES_LABEL[way]} evenly over the run, and in each second {half} of"
        f" {len(members)} or fewer carry nearly all of them",
        Severity.LIMIT,
        {
            "at once": Number(half, "1", f"disks of {len(members)}, or fewer"),
            "samples": Number(windows, "1", "samples"),
        },
        about=about,
    )
