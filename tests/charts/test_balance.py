"""Balance: which disks are compared, and what even and uneven look like."""

from __future__ import annotations

import pytest

from agents.chain import LayerSpec
from agents.contracts import Claim, Frame, Target, Window
from agents.samplers import diskstats
from agents.stack import Placed
from benchlab.charts import balance
from benchlab.charts.balance import Shared
from benchlab.charts.devices import Track
from benchlab.charts.windows import parts


def lvm(*names: str, **more: tuple[str, ...]) -> Placed:
    devices = {
        use: tuple(Claim(f"serial:{n}", f"/dev/{n}", 1, "") for n in given)
        for use, given in {"data": names, **more}.items()
    }
    target = Target("bl1", devices=devices)
    return Placed(LayerSpec("lvm"), target, target, ())


def shared(layers: list[Placed], tracks: list[Track]) -> list[Shared]:
    """Of a run whose tool told no times."""
    return balance.shared(layers, parts(tracks, []))


def writes(**rates: float) -> list[Track]:
    return [Track(n, "write.iops", "op/s", (1.0, 2.0), (r, r)) for n, r in rates.items()]


def test_two_of_four_disks_do_it_all():
    [found] = shared([lvm("sdb", "sdc", "sdd", "sde")], writes(sdb=100, sdc=100, sdd=0, sde=0))
    assert found.operation == "writes" and found.variation == pytest.approx(1.0)
    assert found.members == ("sdb", "sdc", "sdd", "sde")


def test_even_is_nought_and_the_cache_disk_is_no_member():
    [found] = shared([lvm("sdb", "sdc", cache=("sdd",))], writes(sdb=5, sdc=5, sdd=900))
    assert found.variation == 0 and "sdd" not in found.members


def test_without_activity_or_with_a_member_unseen_nothing_is_said():
    assert shared([lvm("sdb", "sdc")], writes(sdb=0, sdc=0)) == []
    assert shared([lvm("sdb", "sdc")], writes(sdb=10)) == []


def test_the_disks_below_are_counted_where_they_are_used():
    assert shared([lvm("sdb", below=("sdc", "sdd"))], writes(sdb=1, sdc=1, sdd=2)) == []


def test_flushes_count_as_writes_but_write_no_bytes():
    """As seen of an fdatasync on a stripe: every member gets the flush, two get the data."""
    done = writes(nbd0=1, nbd1=1, nbd2=2, nbd3=2)
    moved = {"nbd0": 0.0, "nbd1": 0.0, "nbd2": 4096.0, "nbd3": 4096.0}
    done += [Track(name, "write.bandwidth", "B/s", (1.0,), (b,)) for name, b in moved.items()]
    found = {
        one.operation: one.variation for one in shared([lvm("nbd0", "nbd1", "nbd2", "nbd3")], done)
    }
    assert found == {"writes": pytest.approx(1 / 3), "bytes written": pytest.approx(1.0)}


# Article 000: a stripe of 4, 4 KiB each, and pg_test_fsync. A write of 8 kB meets two disks; its last tests, with their
# 16 kB, and the 16 MiB that it lays out first, meet all four.

LINE = "   8 {} {} 0 0 0 0 {} 0 {} 0 0 0 0\n"  # of /proc/diskstats: writes, sectors written
NAMES = ("sdb", "sdc", "sdd", "sde")
LAYS_OUT, SYNCS, ALL_FOUR = (100, 100, 100, 100), (60, 60, 0, 0), (80, 80, 80, 80)  # per second
SECONDS = (*[LAYS_OUT] * 4, *[SYNCS] * 5, *[ALL_FOUR] * 5)
TESTS = [Window("file", 0.0, 4.0, False), Window("one", 4.0, 9.0), Window("open_sync", 9.0, 14.0)]


def frames() -> list[Frame]:
    done = [0, 0, 0, 0]
    found = []
    for second, rates in enumerate([(0, 0, 0, 0), *SECONDS]):
        done = [before + rate for before, rate in zip(done, rates, strict=True)]
        text = "".join(
            LINE.format(16 * number, name, count, 8 * count)
            for number, (name, count) in enumerate(zip(NAMES, done, strict=True))
        )
        found.append(Frame(100.0 + second, {"/proc/diskstats": text}))
    return found


def test_of_article_000_each_test_has_a_balance_of_its_own():
    tracks = [Track(s.device, s.metric, s.unit, s.times, s.values) for s in diskstats.series(frames())]  # fmt: skip
    told = balance.shared([lvm(*NAMES)], parts(tracks, TESTS))
    written = {one.window: one.variation for one in told if one.operation == "bytes written"}
    assert written == {"one": pytest.approx(1.0), "open_sync": 0.0}
    # By hand: (60 + 60 + 0 + 0) / 4 = 30 a second, each disk 30 off the mean: 30 / 30.
    [whole] = [one for one in shared([lvm(*NAMES)], tracks) if one.operation == "bytes written"]
    assert whole.window == "the whole run" and whole.variation < 0.25, "so it was told before"
