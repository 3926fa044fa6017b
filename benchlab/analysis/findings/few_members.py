# SPDX-License-Identifier: Apache-2.0
"""k of n disks do the work: the others only add cost (docs/analysis.md, section 6; article 000, 2 of 12)."""

from __future__ import annotations

from benchlab.analysis.devices.balance import Balance, Spread
from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings._disks import BYTES_LABEL, Group, balances
from benchlab.analysis.formats import join_names, share

LABEL = "Few disks do the work"
METHOD = "Findings"


def applies(run: Run) -> list[Finding]:
    """Report one finding for each use and direction: the window in which the fewest disks do the work."""
    findings = []
    for way in BYTES_LABEL:
        balances_by_group: dict[Group, list[tuple[str, Balance]]] = {}
        for window, group, balance in balances(run, way):
            balances_by_group.setdefault(group, []).append((window, balance))
        for group, parts in balances_by_group.items():
            few = [
                (window, part_balance)
                for window, part_balance in parts
                if part_balance.spread == Spread.FEW
            ]
            if few:
                findings.append(_describe_few_members(way, group, few, len(parts)))
    return findings


def _describe_few_members(
    way: str, group: Group, few: list[tuple[str, Balance]], total: int
) -> Finding:
    window, balance = min(few, key=lambda pair: (len(pair[1].doers), -_carried_share(pair[1])))
    doers = tuple(group.names[index] for index in balance.doers)
    sentence = (
        f"{len(doers)} of {len(group.names)} disks ({group.kind}, {group.use}) carry {share(_carried_share(balance))}"
        f" of the {BYTES_LABEL[way]}: {join_names(doers)}"
    )
    if total > 1:
        sentence += f"; so in {len(few)} of {total} windows, this is of {window}"
    elif balance.averaged:
        sentence += (
            "; by a single report" if balance.windows == 1 else f"; by {balance.windows} samples"
        )
    return Finding(
        sentence,
        Severity.LIMIT,
        {
            "share": Number(
                _carried_share(balance),
                "1",
                f"{BYTES_LABEL[way]}, by {join_names(doers)}",
                metric=f"{way}.bandwidth",
            ),
            "disks": Number(len(doers), "1", f"disks of {len(group.names)}"),
        },
        about=f"{way} {group.kind} {group.use}",
    )


def _carried_share(balance: Balance) -> float:
    return sum(balance.shares[index] for index in balance.doers)
