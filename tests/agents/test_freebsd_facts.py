"""FreeBSD's facts. No FreeBSD kernel was at hand: readings are composed from manuals, the kernel's formats and
transcripts, as each case's "source" says (tests/cases/facts/freebsd/); the script itself runs over stub commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.contracts import AgentError, Reason
from agents.facts import freebsd, volumes
from agents.facts.device_uses import system_devices, unknown_system_reasons
from agents.facts.graph import Graph
from benchlab.testing.profiles import examples
from tests.agents import freebsd_host as fb
from tests.agents.freebsd_host import DISK, disk, read, why

CASES = Path(__file__).parents[1] / "cases" / "facts" / "freebsd"


@pytest.mark.parametrize("path", sorted(CASES.glob("*.out")), ids=lambda path: path.stem)
def test_case(path):
    facts = freebsd.parse_freebsd_facts(path.read_bytes())
    wanted = json.loads(path.with_suffix(".json").read_text())
    assert wanted.pop("source")
    spares = wanted.pop("may_be_wiped")
    devices = wanted.pop("devices")
    assert [d.name for d in facts.devices] == sorted(devices)
    for device in facts.devices:
        found = {key: getattr(device, key) for key in device.__dataclass_fields__}
        found["signatures"] = [[s.type, s.label] for s in device.signatures]
        found = json.loads(json.dumps(found))
        said = devices[device.name]
        assert {key: found[key] for key in said} == said, device.name
    for key, value in wanted.items():
        assert json.loads(json.dumps(getattr(facts, key))) == value, key
    assert [d.name for d in facts.devices if d.type == "disk" and not why(facts, d.name)] == spares


def test_the_host_of_article_001():
    facts = read()
    assert (facts.os_family, facts.os_name, facts.arch) == (
        "freebsd",
        "FreeBSD 10.0-RELEASE",
        "amd64",
    )
    assert (facts.cpus, facts.memory, facts.hostname) == (24, 68635471872, "db1.example")
    assert facts.boot_id == "dmesg-1403796312" and facts.unknown == () and facts.root
    swap = facts.find_device("mfid0p2")
    assert swap.swap and swap.links == ("/dev/gpt/swap0",) and swap.parents == ("mfid0",)
    assert (swap.label, swap.start, swap.size) == ("swap0", 1572864, 4294967296)
    assert facts.members == {"mfid0p3": "zpool zroot"}
    assert system_devices(Graph(facts)) == {"mfid0", "mfid0p3"} and not unknown_system_reasons(
        Graph(facts)
    )
    assert "the running system is on it" in why(facts, "mfid0")
    assert [d.name for d in facts.devices if d.type != "part" and not why(facts, d.name)] == [
        f"mfid{n}" for n in (1, 10, 11, 12, 2, 3, 4, 5, 6, 7, 8, 9)
    ]


def test_the_boot_is_known_by_its_random_number_where_there_is_one():
    """kern.boottime moves when the clock is set, and means a boot only when nothing better is there."""
    dump = "Format: Length:16 Dump:0x4c8609698ad1a11cdc00cf6eb7d954e1"
    assert read(boot_id=dump).boot_id == "4c8609698ad1a11cdc00cf6eb7d954e1"
    assert read(booted=("", 1, "No such file")).boot_id == "boottime-1403796300"
    with pytest.raises(AgentError, match=r"kern\.boottime"):
        read(booted="", sysctl=fb.SYSCTL.partition("kern.boottime")[0])


@pytest.mark.parametrize(
    ("config", "identity", "rotational"),
    [
        ({"ident": "WD-1", "lunid": "50014EE25c8c1c6e", "rotationrate": "7200"},
         "wwn:0x50014ee25c8c1c6e", True),
        ({"ident": "S1", "rotationrate": "0"}, "serial:S1", False),
        ({"ident": "0000", "lunid": "0000000000000000"}, f"weak:ada1:{DISK}", None),
        ({"ident": "(null)", "lunid": "short"}, f"weak:ada1:{DISK}", None),
        ({"ident": "a&#x26;b&#xE9;"}, "serial:a&bé", None),
    ],
)  # fmt: skip
def test_who_a_disk_is(config, identity, rotational):
    found = read(disk(**config, descr="WDC &lt;1&gt;")).find_device("ada1")
    assert (found.identity, found.rotational, found.model) == (identity, rotational, "WDC <1>")


def test_sectors_and_other_names():
    made = fb.article_001(0).geom(
        "DISK", "nda0", gives=[("nda0", DISK)], alias="nvd0", ident="N1", descr="NVMe"
    )
    made.label("diskid/DISK-N1", "nda0", DISK)
    xml = made.xml().replace("<name>nda0</name>\n\t  <alias>", "<name>nda0</name>\n\t  <alias>")
    stripe = xml.rindex("<stripesize>0<", 0, xml.index("N1</ident>"))
    xml = xml[:stripe] + "<stripesize>4096<" + xml[stripe + len("<stripesize>0<") :]
    found = read(made, geom=xml).find_device("nda0")
    assert found.links == ("/dev/diskid/DISK-N1", "/dev/nvd0")
    assert (found.logical_sector, found.physical_sector) == (512, 4096)


def test_partitions_of_a_labelled_disk_stand_on_the_disk():
    made = fb.article_001(0).disk("ada1").label("diskid/DISK-1", "ada1", DISK)
    made.table("diskid/DISK-1", "GPT", [("diskid/DISK-1p1", DISK >> 1, "freebsd-ufs", "")])
    made.geom("VFS", "ffs.diskid/DISK-1p1", on=["diskid/DISK-1p1"])
    facts = read(made, mounts=fb.MOUNTS + "\n/dev/diskid/DISK-1p1 /data ufs rw 2 2")
    assert facts.find_device("diskid/DISK-1p1").parents == ("ada1",)
    assert "is mounted at /data" in why(facts, "ada1")
    assert [s.type for s in facts.find_device("ada1").signatures] == ["gpt"]


def test_a_file_system_that_mount_does_not_show_is_mounted_all_the_same():
    made = disk().geom("VFS", "ffs.ada1", on=["ada1"])
    assert read(made).find_device("ada1").mounts == ("by the kernel as ffs.ada1",)


STACKS = [
    ("MIRROR", "gm0", "mirror/gm0", "mirror gm0"),
    ("STRIPE", "st0", "stripe/st0", "stripe st0"),
    ("RAID", "Intel-1", "raid/r0", "raid Intel-1"),
    ("ELI", "ada1.eli", "ada1.eli", "eli ada1.eli"),
    ("MULTIPATH", "m0", "multipath/m0", "multipath m0"),
    ("NEVER_HEARD_OF", "x", "x/y", "never_heard_of x"),
]


@pytest.mark.parametrize(("kind", "name", "gives", "owner"), STACKS)
def test_whatever_geom_stands_on_a_disk_owns_it(kind, name, gives, owner):
    facts = read(disk().geom(kind, name, on=["ada1"], gives=[(gives, DISK - 512)]))
    assert facts.members["ada1"] == owner and facts.find_device(gives).parents == ("ada1",)
    assert f"belongs to {owner}" in why(facts, "ada1") and f"carries /dev/{gives}" in why(
        facts, "ada1"
    )
    idle = read(disk().geom(kind, name, on=["ada1"]))  # broken: it gives nothing
    assert f"belongs to {owner}" in why(idle, "ada1")


def test_a_node_that_a_program_writes_to_is_in_use():
    assert "open for writing" in why(
        read(disk().geom("DEV", "ada1", on=["ada1"], mode="r1w1e0")), "ada1"
    )
    assert not why(read(disk().geom("DEV", "ada1", on=["ada1"], mode="r1w0e0")), "ada1")


TANK = """  pool: tank
 state: DEGRADED
status: One or more devices has been taken offline by the administrator.
config:

\tNAME                     STATE     READ WRITE CKSUM
\ttank                     DEGRADED     0     0     0
\t  raidz2-0               DEGRADED     0     0     0
\t    gpt/t1               ONLINE       0     0     0
\t    5939868321408276145  OFFLINE      0     0     0  was /dev/gptid/b5ae.eli
\tlogs
\t  mirror-1               ONLINE       0     0     0
\t    /dev/ada1            ONLINE       0     0     0
\tcache
\t  /tmp/cache.img         ONLINE       0     0     0

errors: No known data errors
"""


def test_pools_by_label_and_what_is_missing():
    made = disk().disk("ada2").label("gpt/t1", "ada2", DISK)
    facts = read(made, zpool=fb.ZROOT + TANK)
    assert facts.members == {"mfid0p3": "zpool zroot", "ada2": "zpool tank", "ada1": "zpool tank"}
    assert facts.unknown == (volumes.missing_device_message("tank", "gptid/b5ae.eli"),)
    assert facts.zpool_members == ("ada1", "ada2", "mfid0p3")


def test_what_zfs_uses_and_no_pool_shows_is_unknown():
    made = disk().geom("ZFS::VDEV", "zfs::vdev", on=["ada1"])
    assert read(made).unknown == ("ZFS uses ada1, which is not in any pool of zpool status",)


def test_a_zvol_stands_on_its_pool():
    made = disk().geom("ZFS::VDEV", "zfs::vdev", on=["ada1"])
    made.geom("ZFS::ZVOL", "zvol/bl17/vol", gives=[("zvol/bl17/vol", 1 << 30)])
    facts = read(
        made, zpool=fb.ZROOT + "  pool: bl17\nconfig:\n\tbl17 ONLINE 0 0 0\n\t  ada1 ONLINE 0 0 0\n"
    )
    assert facts.find_device("zvol/bl17/vol").parents == ("ada1",)
    assert Graph(facts).is_ours("zvol/bl17/vol", "bl17") and facts.unknown == ()


def test_a_root_on_a_pool_without_zpool_refuses_all():
    facts = read(zpool=None)
    assert "which is not a pool in the facts" in why(facts, "mfid1")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"zpool": ("", 1, "internal error: out of memory")}, "zpool ended with exit code 1"),
        ({"mounts": (fb.MOUNTS, 1, "oops")}, "mounts ended with exit code 1: oops"),
        ({"swaps": ("", 1, "kvm_open")}, "swaps ended with exit code 1"),
        ({"uid": "1001"}, "they need root"),
        ({"swaps": fb.SWAPS + "\n/dev/zz 1 0 1 0%"}, "swap on /dev/zz"),
    ],
)
def test_what_could_not_be_read_is_said_and_refuses(changes, said):
    facts = read(**changes)
    assert any(said in unknown for unknown in facts.unknown)
    assert "not everything on this host could be read" in why(facts, "mfid1")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"geom": "<mesh><class>"}, "not XML"),
        ({"geom": "<!DOCTYPE a><mesh/>"}, "a declaration"),
        ({"geom": fb.article_001().xml().replace("<mediasize>524288<", "<mediasize>huge<")}, "mediasize of mfid0p1"),
        ({"geom": fb.article_001().xml().replace("<name>mfid0p1</name>", "")}, "without name"),
        ({"geom": fb.article_001().xml().replace("<name>SWAP</name>", "")}, "without name"),
        ({"mounts": "what"}, "mounts, line 1"),
        ({"swaps": "/dev/x on"}, "swaps, line 1"),
        ({"geom": None}, "no section 'geom'"),
        ({"sysctl": ("", 1, "sysctl: no")}, "no kern.osrelease"),
    ],
)  # fmt: skip
def test_what_cannot_be_understood_names_its_section(changes, said):
    with pytest.raises(AgentError, match=said) as raised:
        read(**changes)
    assert raised.value.reason is Reason.BAD_FACTS


def test_a_user_of_something_unknown_is_refused():
    xml = disk().geom("MIRROR", "gm0", on=["gone"]).xml()
    with pytest.raises(AgentError, match="not defined"):
        read(geom=xml)
    with pytest.raises(AgentError, match="not defined"):
        read(geom=disk().geom("LABEL", "x", on=["gone"], gives=[("label/x", 512)]).xml())


@settings(max_examples=examples(150), deadline=None)
@given(
    st.sampled_from(["geom", "mounts", "swaps", "zpool", "sysctl", "boot_id", "head__ada1"]),
    st.text(alphabet=st.characters(codec="utf-8"), max_size=60),
)
def test_rubbish_is_an_agent_error_or_does_no_harm(name, rubbish):
    try:
        facts = read(disk(), **{name: rubbish})
    except AgentError as error:
        assert error.reason is Reason.BAD_FACTS
    else:
        assert why(facts, "mfid0")
