"""Layouts and figures of set-ups that are compared: which layers count, which use a disk has, which figure is taken."""

from __future__ import annotations

import pytest

from benchlab.analysis import finding, set_ups
from benchlab.analysis.evidence import Access, Device, Layer, Line, Run

DATA = {"data": ("sdb", "sdc")}
LOG = Layer("partition", {"use": "log"}, {"log": ("nvme0n1",)})
POOL = Layer("zpool", {"layout": "mirror"}, {**DATA, "log": ("nvme0n1",)})
CACHED = Layer("bcache", {"cache_mode": "writeback"}, {"backing": ("sdb",), "cache": ("nvme0n1",)})


def line(*runs: Run) -> Line:
    return Line("a", "w", runs, tuple(range(1, len(runs) + 1)))


def of_layers(*layers: Layer) -> Line:
    return line(Run(tool="fio", layers=layers))


@pytest.mark.parametrize(
    ("depths", "figures", "taken"),
    [
        ((4,), ("iops", "bandwidth"), "bandwidth"),
        ((4, 4), ("iops", "bandwidth"), "bandwidth"),
        ((1, 4), ("iops", "bandwidth"), "iops"),
        ((1, 4), ("bandwidth",), "bandwidth"),
        ((4,), (), ""),
    ],
)
def test_a_sweep_is_compared_by_its_iops_and_one_depth_by_its_throughput(depths, figures, taken):
    values = dict.fromkeys(figures, 1.0)
    runs = [Run(tool="fio", access=Access(outstanding=n), figures=values) for n in depths]
    assert set_ups.common_figure([line(*runs)]) == taken


@pytest.mark.parametrize(
    ("layers", "spare", "expected"),
    [
        ((POOL,), (), (("zpool", (("layout", '"mirror"'),), (("data", 2), ("log", 1))),)),
        ((LOG, POOL), ("log",), (("zpool", (("layout", '"mirror"'),), (("data", 2),)),)),
        ((LOG,), ("cache",), (("partition", (("use", '"log"'),), (("log", 1),)),)),
        ((CACHED,), ("cache",), (("raw", (), (("data", 1),)),)),
        ((Layer("bcache", {}, {"cache": ("nvme0n1",)}),), ("cache",), ()),
    ],
)
def test_spare_uses_are_left_out_of_a_stack(layers, spare, expected):
    assert set_ups.stack_signature(layers, spare) == expected


def test_a_stack_that_is_not_counted_names_its_uses_only():
    assert set_ups.stack_signature([POOL], ignore=["layout"], counted=False) == (
        ("zpool", (), (("data", 0), ("log", 0))),
    )


@pytest.mark.parametrize(
    ("layer", "use", "expected"),
    [
        (POOL, "log", True),
        (POOL, "cache", False),
        (LOG, "log", True),
        (Layer("partition", {"use": "log"}), "log", True),
        (Layer("partition", {"use": "log"}), "cache", False),
        (Layer("lvm", {"use": "log"}), "log", False),
        (CACHED, "cache", True),
        (Layer("lvm_cache"), "cache", True),
        (Layer("lvm_cache"), "log", False),
    ],
)
def test_a_use_is_given_by_disks_by_a_partition_or_by_a_layer_that_caches(layer, use, expected):
    assert set_ups.has_use(of_layers(layer), use) is expected


def test_disks_that_hold_data_are_named_once():
    cache = Layer("partition", {"use": "cache"}, {"data": ("nvme1n1",)})
    assert of_layers(LOG, cache, POOL, Layer("zfs", {}, DATA)).data_disks == (
        "sdb",
        "sdc",
    )


@pytest.mark.parametrize(
    ("kind", "options", "reaches"),
    [
        *[
            (kind, {}, True)
            for kind in ("raw", "partition", "tuning", "lvm", "dm_crypt", "directory", "filesystem")
        ],
        ("filesystem", {"type": "xfs"}, True),
        ("filesystem", {"type": "ext4"}, True),
        ("filesystem", {"type": "btrfs"}, False),
        *[("md", {"level": level}, level in (0, 1, 10)) for level in (0, 1, 4, 5, 6, 10)],
        ("md", {}, False),
        ("zpool", {}, False),
        ("bcache", {}, False),
    ],
)
def test_small_writes_reach_the_disk_through_some_layers_only(kind, options, reaches):
    run = Run(
        tool="fio",
        access=Access(writes=True, direct=True, block=512),
        layers=(Layer(kind, options, {"data": ("sdb",)}),),
        devices={"sdb": Device("sdb", physical_block=4096)},
    )
    assert [one.about for one in finding.run_findings()["sub_sector_writes"].applies(run)] == [
        "block size"
    ] * reaches
