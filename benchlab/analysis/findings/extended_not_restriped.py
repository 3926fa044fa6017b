# SPDX-License-Identifier: Apache-2.0
"""A volume was extended, and its new disks carry little: old data stays where it is (docs/method.md; article 002).

LVM never restripes, a zpool never moves its data. New disks are the last of a layer, as growth appends them.
"""

from __future__ import annotations

from benchlab.analysis.devices.balance import Balance, Spread
from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings._disks import BYTES_LABEL, Group, balances
from benchlab.analysis.formats import join_names, share

LABEL = "Extended, not restriped"
METHOD = "Findings"

# Layers whose growth moves no data; md reshapes.
STAY = {"lvm": "volume", "zpool": "pool"}
# share of the load of the least busy old disk
LESS = 0.5


def applies(run: Run) -> list[Finding]:
    """Report one finding for each direction, only after a growth."""
    if not run.stage.startswith("after-"):
        return []
    findings: dict[str, Finding] = {}
    for way in BYTES_LABEL:
        for _, group, balance in balances(run, way):
            new = _idle_new_disks(group, balance)
            if new and group.kind in STAY and group.use == "data":
                findings.setdefault(
                    f"{way} {group.kind}", _describe_extension(way, group, balance, new)
                )
    return list(findings.values())


def _idle_new_disks(group: Group, balance: Balance) -> int:
    """Number of disks at the end that carry less than half of what each disk before them carries; 0: none."""
    if balance.spread not in (Spread.FEW, Spread.UNEVEN):
        return 0
    shares = balance.shares
    idle_counts = [k for k in range(1, len(shares)) if max(shares[-k:]) < LESS * min(shares[:-k])]
    return max(idle_counts, key=lambda k: min(shares[:-k]) - max(shares[-k:]), default=0)


def _describe_extension(way: str, group: Group, balance: Balance, new: int) -> Finding:
    added, carried = group.names[-new:], sum(balance.shares[-new:])
    return Finding(
        f"{join_names(added)} carr{'ies' if new == 1 else 'y'} {share(carried)} of the {BYTES_LABEL[way]}, where"
        f" {share(new / len(group.names))} were even: the {STAY[group.kind]} was extended, and what was written"
        " before stays on the other disks",
        Severity.LIMIT,
        {
            "share": Number(
                carried,
                "1",
                f"{BYTES_LABEL[way]}, by {join_names(added)}",
                metric=f"{way}.bandwidth",
            )
        },
        about=f"{way} {group.kind}",
    )
