"""The station that is full: random closed networks, solved exactly, of which the truth is known (docs/analysis.md, 6).

Stations in product form: single servers (rotational disks, a core, a lock or log), several servers (flash), and a delay
(what a request waits for nobody in). Buzen's convolution gives throughput and queues at any population.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from benchlab.analysis.devices import Deepest, Full, full_station
from benchlab.testing import profiles

RUNS = 1500 if profiles.profile() == profiles.FULL else 300
SEED = 14
DEEPEST = 256
NOISE = 0.05
LEADS = 1.3


@dataclass
class Station:
    kind: str  # "devices", "layers", "cpu", "hidden", "delay"
    demand: float  # s of service a request needs there
    servers: float = 1

    @property
    def limit(self) -> float:
        """s a request at the least, where nothing else holds it back."""
        return self.demand / self.servers


def solved(stations, population):
    """(throughput, [requests at each station]) at `population` and below: exact, as arrays over 0..population."""
    scale = max(one.limit for one in stations)
    terms = [_terms(one, scale, population) for one in stations]
    before, after = [_unit(population)], [_unit(population)]
    for term in terms:
        before.append(_times(before[-1], term))
    for term in reversed(terms):
        after.append(_times(after[-1], term))
    whole = before[-1]
    each = np.arange(population + 1)
    queues = []
    for index, term in enumerate(terms):
        rest = _times(before[index], after[len(terms) - 1 - index])
        at = _times(each * term, rest)[population]
        queues.append(at / _times(term, rest)[population])
    return whole[population - 1] / whole[population] / scale, queues


def _unit(population):
    return np.eye(1, population + 1)[0]


def _times(one, other):
    return np.convolve(one, other)[: len(one)]


def _terms(one, scale, population):
    """demand^k over the product of how many work at once, k = 0..population; x scale^-k."""
    counts = np.arange(1, population + 1)
    logs = np.log(one.demand / scale) - np.log(np.minimum(counts, one.servers))
    found = np.concatenate([[0.0], np.cumsum(logs)])
    return np.exp(found - found.max())


def drawn(dice, rotational, kinds=("cpu", "hidden")):
    """A random set-up: up to 12 members, a CPU, something that is not seen, and a delay."""
    members = int(dice.integers(1, 13))
    service = dice.uniform(3e-3, 10e-3) if rotational else dice.uniform(60e-6, 300e-6)
    servers = 1 if rotational else int(dice.integers(4, 25))
    shares = dice.dirichlet(np.full(members, 400.0))
    devices = [Station("devices", service * share, servers) for share in shares]
    worst = max(one.limit for one in devices)
    others = [Station(kind, worst * np.exp(dice.uniform(-1.8, 1.4))) for kind in kinds]
    return [*devices, *others, Station("delay", worst * dice.uniform(0, 8), np.inf)]


def said(dice, stations, population=DEEPEST):
    def at(depth):
        rate, queues = solved(stations, depth)
        noise = dice.lognormal(0, NOISE, len(stations) + 2)
        seen = {
            f"sd{i}": q * noise[i] for i, q in enumerate(queues) if stations[i].kind == "devices"
        }
        cpu = next(one.demand for one in stations if one.kind == "cpu") * rate
        busy = min(1.0, cpu * dice.lognormal(0, 0.02))
        held = [q for q, one in zip(queues, stations, strict=True) if one.kind == "layers"]
        entered = (sum(seen.values()) + sum(held)) * noise[-2] if held else None
        return Deepest(depth, rate * noise[-1], seen, busy, entered)

    return full_station(at(population // 2), at(population))


def truth(stations):
    """(kind of the leading station, how far it leads the next kind)."""
    worst = {
        kind: max(one.limit for one in stations if one.kind == kind)
        for kind in NAMES
        if any(one.kind == kind for one in stations)
    }
    first, second = sorted(worst.values(), reverse=True)[:2]
    return max(worst, key=worst.get), first / second


NAMES = {
    "devices": Full.DEVICES,
    "layers": Full.LAYERS,
    "cpu": Full.CPU,
    "hidden": Full.NOTHING,
}


def test_the_solution_is_exact():
    """Against mean value analysis, and against a pair of equal stations, of which the answer is known."""
    two = [Station("devices", 0.01), Station("hidden", 0.01)]
    rate, queues = solved(two, 10)
    assert rate == pytest.approx(10 / 11 / 0.01) and queues == pytest.approx([5, 5])
    demands = [0.004, 0.001, 0.0025]
    held = np.zeros(3)
    for population in range(1, 33):
        waits = np.array(demands) * (1 + held)
        rate = population / (waits.sum() + 0.02)
        held = rate * waits
    plain = [*(Station("devices", one) for one in demands), Station("delay", 0.02, np.inf)]
    found, queues = solved(plain, 32)
    assert found == pytest.approx(rate) and queues[:3] == pytest.approx(held)
    assert sum(queues) == pytest.approx(32)


SEEN = ("cpu", "hidden")
STACKED = (*SEEN, "layers")


@pytest.mark.parametrize(
    ("rotational", "kinds"),
    [(True, SEEN), (False, SEEN), (True, STACKED), (False, STACKED)],
    ids=["rotational", "flash", "layers on rotational", "layers on flash"],
)
def test_what_leads_is_named_and_nothing_else(rotational, kinds):
    dice = np.random.default_rng(SEED)
    clear = dict.fromkeys(("devices", *kinds), 0)
    right, wrong, waits = dict(clear), 0, 0
    for _ in range(RUNS // 2):
        stations = drawn(dice, rotational, kinds)
        leading, lead = truth(stations)
        if lead < LEADS:
            continue
        full = said(dice, stations).full
        clear[leading] += 1
        right[leading] += full == NAMES[leading]
        wrong += full in NAMES.values() and full != NAMES[leading]
        waits += full == Full.NOT_YET
    named = {kind: right[kind] / clear[kind] for kind in clear}
    told = ", ".join(f"{kind} {named[kind]:.0%} of {clear[kind]}" for kind in named)
    print(f"seed {SEED}: {told}; wrong {wrong}, not full yet {waits}")
    assert wrong == 0 and min(clear.values()) >= RUNS / 40
    # Many disks with many slots each are not full with 256 outstanding, which is said.
    least = {"devices": 0.90 if rotational else 0.65, "cpu": 0.85, "hidden": 0.85, "layers": 0.85}
    assert all(named[kind] >= least[kind] for kind in named)


def at(depth, iops, cpu=None, **queues):
    return Deepest(depth, iops, queues, cpu)


def test_by_hand():
    """16 more are outstanding, and 14 of them are in flight at the disks: 0.875."""
    found = full_station(at(16, 1000, 0.2, sda=7, sdb=7), at(32, 1040, 0.2, sda=14, sdb=14))
    assert found.full == Full.DEVICES and found.queued == pytest.approx(0.875)
    assert found.gain == pytest.approx(0.04) and found.device == ""
    one = full_station(at(16, 1000, sda=1, sdb=12), at(32, 1000, sda=1, sdb=28))
    assert one.full == Full.DEVICES and one.device == "sdb"
    assert full_station(at(16, 1000, sda=2), at(32, 1000, sda=2.1)).full == Full.NOTHING
    assert full_station(at(16, 1000, sda=2), at(32, 1000, sda=8)).full == Full.UNCLEAR
    assert full_station(at(16, 1000, sda=8), at(32, 1000, 0.97, sda=24)).full == Full.CPU
    assert full_station(at(16, 1000, sda=8), at(32, 1160, sda=24)).full == Full.NOT_YET


def test_what_waits_between_the_volume_and_its_disks_by_hand():
    """16 more are outstanding: 13 of them are in flight at the volume, 1 at its disks, so 12 wait in the layers."""

    def deep(depth, entered, queue, cpu=0.3):
        return Deepest(depth, 1000, {"sda": queue}, cpu, entered)

    found = full_station(deep(16, 15, 2), deep(32, 28, 3))
    assert found.full == Full.LAYERS and found.inside == pytest.approx(0.75)
    assert found.queued == pytest.approx(1 / 16)
    assert full_station(deep(16, 15, 2), deep(32, 28, 3, 0.95)).full == Full.CPU
    assert full_station(deep(16, 15, 2), deep(32, 31, 15)).full == Full.DEVICES
    assert full_station(deep(16, 3, 2), deep(32, 4, 3)).full == Full.NOTHING, "above the volume"
    more = full_station(deep(16, 4, 8), deep(32, 6, 14))  # each became several below
    assert more.full == Full.UNCLEAR and more.inside == 0
    assert full_station(deep(16, None, 2), deep(32, 28, 3)).full == Full.NOTHING
    assert full_station(deep(16, float("nan"), 2), deep(32, 28, 3)).inside is None


def test_nothing_to_say():
    nan = float("nan")
    assert full_station(at(16, 1000, sda=1), at(48, 1000, sda=3)) is None, "no doubling"
    assert full_station(at(16, 1000, sda=1), at(32, 1000, sdb=3)) is None
    assert full_station(at(16, 1000), at(32, 1000)) is None
    assert full_station(at(16, 1000, sda=nan), at(32, 1000, sda=1)) is None
    assert full_station(at(16, 0, sda=1), at(32, 1000, sda=1)) is None
    assert full_station(at(0, 1, sda=1), at(0, 1, sda=1)) is None
