"""Balance: which disks are compared, and what even and uneven look like."""

from __future__ import annotations

import pytest

from agents.chain import LayerSpec
from agents.contracts import Claim, Target
from agents.stack import Placed
from benchlab.charts.balance import shared
from benchlab.charts.devices import Track


def lvm(*names: str, **more: tuple[str, ...]) -> Placed:
    devices = {
        use: tuple(Claim(f"serial:{n}", f"/dev/{n}", 1, "") for n in given)
        for use, given in {"data": names, **more}.items()
    }
    target = Target("bl1", devices=devices)
    return Placed(LayerSpec("lvm"), target, target, ())


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
