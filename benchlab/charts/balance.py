"""Do the disks of a stripe, array or pool share the work? Coefficient of variation over the members. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from agents.stack import BELOW, Placed
from benchlab.analysis.curves import balance
from benchlab.charts.devices import Track

# Bytes too: kernels count a flush, which every member gets, as a write of nothing (seen on 6.1).
OPERATIONS = {
    "read.iops": "reads",
    "write.iops": "writes",
    "read.bandwidth": "bytes read",
    "write.bandwidth": "bytes written",
}


@dataclass(frozen=True, slots=True)
class Shared:
    """How one operation spread over the disks of one use: 0 is even, 1 and more is a few disks doing it all."""

    layer: str  # kind: "lvm"
    use: str  # "data"
    operation: str  # "writes"
    members: tuple[str, ...]  # kernel names
    variation: float  # standard deviation / mean of their mean rates


def shared(layers: Sequence[Placed], tracks: Iterable[Track]) -> list[Shared]:
    """For each use with several disks, and each operation that any of them saw."""
    rates = {(t.device, t.metric): _mean(t.values) for t in tracks if t.metric in OPERATIONS}
    found = []
    for layer, use, members in _groups(layers):
        for metric, operation in OPERATIONS.items():
            known = [rates[m, metric] for m in members if (m, metric) in rates]
            variation = balance(known) if len(known) == len(members) else None
            if variation is not None:
                found.append(Shared(layer, use, operation, members, variation))
    return found


def _groups(layers: Sequence[Placed]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for layer in layers:
        for use, claims in layer.target.devices.items():
            # The kernel writes cciss!c0d0 for /dev/cciss/c0d0.
            names = tuple(c.node.removeprefix("/dev/").replace("/", "!") for c in claims)
            if use != BELOW and len(names) > 1:
                yield layer.spec.kind, use, names


def _mean(values: Sequence[float]) -> float:
    known = np.asarray(values, dtype=float)
    known = known[~np.isnan(known)]
    return float(known.mean()) if known.size else float("nan")
