# SPDX-License-Identifier: Apache-2.0
"""Members carry unlike shares of the bytes, though most of them work (docs/analysis.md, section 6)."""

from __future__ import annotations

from benchlab.analysis.devices.balance import Spread
from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings._disks import BYTES_LABEL, balances
from benchlab.analysis.formats import share

LABEL = "Disks are used unevenly"
METHOD = "Findings"


def applies(run: Run) -> list[Finding]:
    """Report one finding for each use and direction: the most uneven window."""
    worst: dict[str, tuple[float, Finding]] = {}
    for way in BYTES_LABEL:
        for window, group, balance in balances(run, way):
            about = f"{way} {group.kind} {group.use}"
            if balance.spread != Spread.UNEVEN or not balance.conclusive:
                continue
            order = sorted(range(len(balance.shares)), key=lambda index: -balance.shares[index])
            most, least = (group.names[order[end]] for end in (0, -1))
            high, low = balance.shares[order[0]], balance.shares[order[-1]]
            several = f" in {window}" if sum(each.measured for each in run.windows) > 1 else ""
            finding = Finding(
                f"Of the {BYTES_LABEL[way]}{several} {most} carries {share(high)} and {least} {share(low)},"
                f" where {share(1 / len(balance.shares))} each were even ({group.kind}, {group.use})",
                Severity.NOTE,
                {
                    "most": Number(
                        high,
                        "1",
                        f"{BYTES_LABEL[way]}, by {most}",
                        device=most,
                        metric=f"{way}.bandwidth",
                    ),
                    "least": Number(
                        low,
                        "1",
                        f"{BYTES_LABEL[way]}, by {least}",
                        device=least,
                        metric=f"{way}.bandwidth",
                    ),
                },
                about=about,
            )
            worst[about] = max(
                (balance.variation, finding),
                worst.get(about, (0.0, finding)),
                key=lambda pair: pair[0],
            )
    return [finding for _, finding in worst.values()]
