"""Pools, datasets and zvols in a reading; space as OpenZFS 2.1 reckons it on a real kernel; a pool that hangs."""

from __future__ import annotations

import pytest

from agents import options
from agents.contracts import AgentError, OptionsError, Reason, Target
from agents.drivers import registry
from agents.facts import volumes
from agents.facts.graph import Graph
from agents.facts.model import Dataset, Vdev, Zpool
from agents.facts.sections import Section, succeeded
from agents.layers import zpool
from agents.layers._zfs import Shape, group_bytes, largest, partition, reservation, usable
from agents.safety.guard import refusals
from tests.agents.made_up import LAYOUT, claim, disk, host, spare, wiping

MIB = 1 << 20
STATUS = """  pool: bl17
 state: ONLINE
config:

\tNAME           STATE     READ WRITE CKSUM
\tbl17           ONLINE       0     0     0
\t  raidz1-0     ONLINE       0     0     0
\t    /dev/vdb1  ONLINE       0     0     0
\t    /dev/vdc1  ONLINE       0     0     0
\tspecial\t
\t  /dev/vdf1    ONLINE       0     0     0
\tlogs\t
\t  mirror-1     ONLINE       0     0     0
\t    /dev/vdd1  ONLINE       0     0     0
\t    /dev/vde1  ONLINE       0     0     0
\tcache
\t  /dev/vdg1    ONLINE       0     0     0
\tspares
\t  /dev/vdh1    AVAIL   

errors: No known data errors

  pool: tank space
 state: SUSPENDED
status: One or more devices are faulted in response to IO failures.
config:

\tNAME                  STATE     READ WRITE CKSUM
\ttank space            UNAVAIL      0     0     0  insufficient replicas
\t  9199851986923583681 UNAVAIL      0     0     0  was /dev/vdi1

errors: List of errors unavailable: pool I/O is currently suspended
"""  # noqa: W291  (zpool ends lines with blanks)


def section(text: str, exit_code: int = 0) -> Section:
    return Section("zpool", exit_code, text.encode(), "")


def test_every_use_of_a_device_is_told_apart():
    bl17, tank = volumes.parse_status(section(STATUS))
    assert bl17 == Zpool(
        "bl17",
        "ONLINE",
        (
            Vdev("/dev/vdb1", "data", "raidz1-0", "ONLINE"),
            Vdev("/dev/vdc1", "data", "raidz1-0", "ONLINE"),
            Vdev("/dev/vdf1", "special", "", "ONLINE"),
            Vdev("/dev/vdd1", "log", "mirror-1", "ONLINE"),
            Vdev("/dev/vde1", "log", "mirror-1", "ONLINE"),
            Vdev("/dev/vdg1", "cache", "", "ONLINE"),
            Vdev("/dev/vdh1", "spare", "", "AVAIL"),
        ),
    )
    assert (tank.name, tank.state) == ("tank space", "SUSPENDED")
    assert tank.vdevs == (Vdev("/dev/vdi1", "data", "", "UNAVAIL"),)


def test_properties_and_who_set_them():
    said = section(
        "bl17/vol\tsync\tdisabled\tlocal\nbl17/vol\tatime\toff\tdefault\nbl17/vol\ta:b\tx\tlocal\n"
    )
    assert volumes.parse_datasets(said) == (
        Dataset("bl17/vol", {"sync": "disabled", "atime": "off"}, ("sync",)),
    )
    for sections in ({}, {"zfs_get": section("x", 1)}):
        assert volumes.parse_datasets(succeeded(sections, "zfs_get")) == ()
    pools = volumes.with_properties(
        [Zpool("bl17"), Zpool("tank")], section("bl17\tashift\t12\tlocal\n")
    )
    assert [dict(pool.properties) for pool in pools] == [{"ashift": "12"}, {}]
    with pytest.raises(AgentError, match="not name, property, value and source"):
        volumes.parse_datasets(section("no tabs here\n"))


def test_a_zvol_stands_on_its_pool_and_is_no_disk():
    part = disk("vdb1", 2, type="part", parents=["vdb"], serial="")
    zvol = disk("zd0", 3, serial="", links=["/dev/zvol/bl17/vol", "/dev/bl17/vol"])
    slice_ = disk("zd0p1", 4, type="part", parents=["zd0"], serial="")
    members = {"vdb1": "zpool bl17"}
    devices, lost = volumes.place_zvols([disk("vdb"), part, zvol, slice_], members)
    assert lost == []
    facts = host(*devices, members=members)
    assert Graph(facts).disks_under("zd0p1") == {"vdb"}
    found = facts.find_device("zd0")
    assert found is not None and found.type == "zvol"
    assert "on top of another device" in "; ".join(refusals(wiping(found), facts, spare(found), LAYOUT))  # fmt: skip
    assert volumes.place_zvols([zvol], {})[1] == [
        "/dev/zd0 is a zvol of a pool that the facts do not know"
    ]


@pytest.mark.parametrize(
    ("sizes", "shape", "said"),
    [
        ([[512 * MIB]] * 2, Shape(), 871960576 + 454656),  # beside log, cache, special and spare
        ([[512 * MIB] * 3], Shape(3, 1), 848593376 + 491040),
    ],
)
def test_a_pool_holds_what_the_kernel_said_less_a_mib(sizes, shape, said):
    assert partition(512 * MIB) == 502 * MIB
    spaces = [group_bytes([partition(size) for size in one], shape) for one in sizes]
    assert usable(spaces, shape) == said - MIB


@pytest.mark.parametrize(
    ("size", "block", "shape", "said"),
    [
        (400, 8192, Shape(3, 1), 574444885),
        (8, 8192, Shape(3, 1), 13281962),
        (300, 16384, Shape(3, 1), 321650688),
    ],
)
def test_a_volume_takes_what_the_kernel_said(size, block, shape, said):
    assert reservation(size * MIB, block, shape) == said
    most = largest(said, block, shape)
    assert most == size * MIB and reservation(most + MIB, block, shape) > said


@pytest.mark.parametrize("state", ["SUSPENDED", "UNAVAIL", "FAULTED"])
def test_a_pool_that_lost_a_disk_says_what_to_do(state):
    vdb = disk("vdb", signatures=[{"type": "gpt"}])
    zpool = registry.layer("zpool")
    facts = host(vdb, zpools=[{"name": "bl17", "state": state}])
    target = Target("bl17", {"data": (claim(vdb),)})
    with pytest.raises(AgentError, match="reboot the host, then retry"):
        zpool.teardown(options.build_options(zpool.Options, {}), target, facts)


def test_a_pool_whose_disk_was_pulled_is_not_written_to():
    vdb = disk("vdb", signatures=[{"type": "gpt"}])
    path = "/dev/vdc1"
    vdevs = [{"path": path, "use": "data", "group": "", "state": "ONLINE"}]
    pools = [{"name": "bl17", "state": "ONLINE", "vdevs": vdevs}]
    target = Target("bl17", {"data": (claim(vdb),)})
    zpool = registry.layer("zpool")
    of_another = host(vdb, zpools=pools, unknown=[volumes.missing_device_message("tank", path)])
    assert zpool.teardown(options.build_options(zpool.Options, {}), target, of_another)
    facts = host(vdb, zpools=pools, unknown=[volumes.missing_device_message("bl17", path)])
    with pytest.raises(AgentError, match=r"pulled: zpool reopen bl17\): fix that") as caught:
        zpool.teardown(options.build_options(zpool.Options, {}), target, facts)
    assert caught.value.reason is Reason.DISK_GONE


def test_freebsd_names_devices_without_their_directory():
    said = STATUS.replace("/dev/vd", "mfid").replace("bl17", "blabc7")
    first = volumes.parse_status(section(said))[0]
    assert [vdev.path for vdev in first.vdevs][:3] == ["mfidb1", "mfidc1", "mfidf1"]
    assert first.vdevs[0].group == "raidz1-0" and len(first.vdevs) == 7


@pytest.mark.parametrize(
    ("layout", "least"), [("mirror", 2), ("raidz1", 2), ("raidz2", 3), ("raidz3", 4)]
)
def test_a_group_is_wider_than_its_parity(layout, least):
    assert zpool.Options(layout=layout, width=least).width == least
    with pytest.raises(OptionsError, match="width"):
        zpool.Options(layout=layout, width=least - 1)
