# SPDX-License-Identifier: Apache-2.0
"""Disk activity while a run measured: shared by findings of devices. Means of a part are over its own windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from benchlab.analysis.devices.amplification import application_rates
from benchlab.analysis.devices.balance import Balance, balance_samples
from benchlab.analysis.evidence import Layer, Run, Track
from benchlab.analysis.findings._stacks import IDLE, copies_of

BYTES_LABEL = {"read": "bytes read", "write": "bytes written"}
PARITY = {"raidz": 1, "raidz1": 1, "raidz2": 2, "raidz3": 3}
# copies of a mirror whose number of copies is unknown
DEFAULT_MIRROR_COPIES = 2
MD_PARITY = {4: 1, 5: 1, 6: 2}


@dataclass(frozen=True, slots=True)
class Group:
    """Disks of one use in a layer."""

    kind: str
    use: str
    names: tuple[str, ...]


def disk_groups(run: Run) -> list[Group]:
    """Groups of disks from the bottom layer up, without spares."""
    groups = [
        Group(layer.kind, use, names)
        for layer in run.layers
        for use, names in layer.uses.items()
        if names
    ]
    return [group for group in groups if group.use not in IDLE]


def measured_parts(run: Run) -> list[tuple[str, Run]]:
    """(its name, the run as if only that had been measured) of each window; of a run without any, the whole."""
    measured = [window for window in run.windows if window.measured]
    if len(measured) < 2:
        return [(measured[0].name if measured else "", run)]
    return [(window.name, replace(run, windows=(window,))) for window in measured]


class _ByIdentity:
    """A run that is compared by identity and not by content: three findings in a row ask for the same results."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and self.run is other.run

    def __hash__(self) -> int:
        return id(self.run)


WindowBalance = tuple[str, Group, Balance]


def balances(run: Run, way: str) -> tuple[WindowBalance, ...]:
    """(window, disks, their balance) of each part where it is known, for "read" or "write"."""
    return _balances(_ByIdentity(run), way)


# both directions of one run
@lru_cache(maxsize=2)
def _balances(this: _ByIdentity, way: str) -> tuple[WindowBalance, ...]:
    return tuple(_each_balance(this.run, way))


def _each_balance(run: Run, way: str) -> Iterator[WindowBalance]:
    wide = [group for group in disk_groups(run) if len(group.names) > 1]
    for window, part in measured_parts(run) if wide else ():
        for group in wide:
            balance = _balance(part, group, way)
            if balance is not None:
                yield window, group, balance


def _balance(part: Run, group: Group, way: str) -> Balance | None:
    moved = _by_name(part, f"{way}.bandwidth", group)
    operations = _by_name(part, f"{way}.iops", group)
    across = _by_name(part, f"{'write' if way == 'read' else 'read'}.bandwidth", group)
    if len(moved) < len(group.names) or len(operations) < len(group.names):
        return None
    first = moved[group.names[0]]
    if any(track.times != first.times for track in (*moved.values(), *operations.values())):
        return None
    return balance_samples(
        [moved[name].values for name in group.names],
        [operations[name].values for name in group.names],
        first.spans(),
        [track.values for track in across.values() if track.times == first.times],
    )


def _by_name(part: Run, metric: str, group: Group) -> Mapping[str, Track]:
    return {track.device: track for track in part.measured_tracks(metric, group.names)}


def tool_rates(part: Run, window: str, run: Run) -> dict[str, float | None]:
    """{"read", "write": B/s that the tool moved in a part of a run}; None where that is unknown, as for a whole run."""
    measured = [window for window in run.windows if window.measured]
    if not measured:
        return {"read": None, "write": None}
    only = run.access.only_direction
    return application_rates(part.figures, window, alone=len(measured) == 1, only=only)


def only_writes(run: Run) -> bool:
    """True when the tool is known to read nothing."""
    reads = run.access.reads
    return run.access.writes is True and reads is False and not run.figures.get("read.bandwidth")


def write_multiple(run: Run) -> float:
    """Bytes on the disks for each byte written, by the layout itself: copies, the parity of small writes, a cache."""
    factor = 1.0
    for layer in run.layers:
        factor *= copies_of(layer) or DEFAULT_MIRROR_COPIES
        if layer.kind == "md":
            factor *= 1 + md_parity(layer)
        elif layer.kind == "zpool":
            factor *= 1 + PARITY.get(str(layer.options.get("layout", "")), 0)
        elif layer.uses.get("cache"):
            factor *= 2
    return factor


def md_parity(layer: Layer) -> int:
    """Number of parity disks of an array; 0 for a level without any, or one that is not reported as a number."""
    level = layer.options.get("level", 5)
    return MD_PARITY.get(level, 0) if isinstance(level, int) else 0


def is_resyncing(run: Run) -> bool:
    """True if an array was resynced or checked during the run."""
    going = (value > 0 for track in run.measured_tracks("sync.bandwidth") for value in track.values)
    return bool(run.meta.get("during")) or any(going)
