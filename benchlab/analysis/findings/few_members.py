# SPDX-License-Identifier: Apache-2.0
"""k of n disks do the work: the others only cost what they cost (docs/analysis.md, section 6; article 000, 2 of 12)."""

from __future__ import annotations

from benchlab.analysis.devices.balance import Balance, Spread
from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings._disks import BYTES_LABEL, Group, balances
from benchlab.analysis.formats import join_names, share

LABEL = "Few disks do the work"
METHOD = "Findings"


def applies(run: Run) -> list[Finding]:
    """One for each use and direction: of several windows the one in which the fewest do it."""
    found = []
    for way in BYTES_LABEL:
        told: dict[Group, list[tuple[str, Balance]]] = {}
        for window, group, one in balances(run, way):
            told.setdefault(group, []).append((window, one))
        for group, parts in told.items():
            few = [(window, one) for window, one in parts if one.spread == Spread.FEW]
            if few:
                found.append(_describe_few_members(way, group, few, len(parts)))
    return found


def _describe_few_members(
    way: str, group: Group, few: list[tuple[str, Balance]], of: int
) -> Finding:
    window, one = min(few, key=lambda pair: (len(pair[1].doers), -_carried_share(pair[1])))
    doers = tuple(group.names[index] for index in one.doers)
    says = (
        f"{len(doers)} of {len(group.names)} disks ({group.kind}, {group.use}) carry {share(_carried_share(one))}"
        f" of the {BYTES_LABEL[way]}: {join_names(doers)}"
    )
    if of > 1:
        says += f"; so in {len(few)} of {of} windows, this is of {window}"
    elif one.averaged:
        says += "; by a single report" if one.windows == 1 else f"; by {one.windows} samples"
    return Finding(
        says,
        Severity.LIMIT,
        {
            "share": Number(
                _carried_share(one),
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
