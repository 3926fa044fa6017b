"""Do the disks of a stripe, array or pool share the work? Coefficient of variation over the members. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from agents.stack import BELOW, Placed
from benchlab.analysis.curves import balance
from benchlab.analysis.series import mean
from benchlab.charts.windows import Part

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
    window: str  # over what: "measured", "one.fdatasync", "the whole run"
    members: tuple[str, ...]  # kernel names
    variation: float  # standard deviation / mean of their mean rates


def shared(layers: Sequence[Placed], parts: Iterable[Part]) -> list[Shared]:
    """For each part of the run, each use with several disks, and each operation that any of them saw."""
    return [one for part in parts for one in _during(layers, part)]


def _during(layers: Sequence[Placed], part: Part) -> list[Shared]:
    known = [track for track in part.tracks if track.metric in OPERATIONS]
    rates = {(t.device, t.metric): mean(t.values, t.lengths) for t in known}
    found = []
    for layer, use, members in _groups(layers):
        for metric, operation in OPERATIONS.items():
            each = [rates[m, metric] for m in members if (m, metric) in rates]
            variation = balance(each) if len(each) == len(members) else None
            if variation is not None:
                found.append(Shared(layer, use, operation, part.name, members, variation))
    return found


def _groups(layers: Sequence[Placed]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for layer in layers:
        for use, claims in layer.target.devices.items():
            # The kernel writes cciss!c0d0 for /dev/cciss/c0d0.
            names = tuple(c.node.removeprefix("/dev/").replace("/", "!") for c in claims)
            if use != BELOW and len(names) > 1:
                yield layer.spec.kind, use, names
