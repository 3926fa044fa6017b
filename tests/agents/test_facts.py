"""What hosts print, and what is read from it. tests/cases/facts/ holds real readings (.out) and the facts in them
(.json); what no host at hand prints is made up below, section by section, from the manuals."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agents.contracts import AgentError, Need, Ran, Reason
from agents.facts import linux, lvm
from agents.facts.sections import text, unhex, unoctal
from tests.agents import made_up

CASES = Path(__file__).parents[1] / "cases" / "facts"
REAL = sorted(CASES.glob("*.out"))


def _subset(facts: linux.HostFacts, device) -> dict:
    found = {key: getattr(device, key) for key in device.__dataclass_fields__}
    found["signatures"] = [[s.type, s.offset, s.label] for s in device.signatures]
    return json.loads(json.dumps(found))


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_real_reading(path):
    facts = linux.parse(path.read_bytes())
    wanted = json.loads(path.with_suffix(".json").read_text())
    devices = wanted.pop("devices")
    assert {d.name for d in facts.devices} == devices.keys()
    for device in facts.devices:
        found = _subset(facts, device)
        said = devices[device.name]
        silent = {key: found[key] for key in ("serial", "mounts", "holders", "signatures", "swap")}
        assert {key: found[key] for key in said} == said
        assert all(not value for key, value in silent.items() if key not in said), device.name
    for key, value in wanted.items():
        assert json.loads(json.dumps(getattr(facts, key))) == value, key


def test_a_volume_tells_the_group_as_pvs_does():
    """So the script need not ask pvs, which takes a third of a reading."""
    printed = (CASES / "debian12_stacks.out").read_bytes()
    quiet = re.sub(rb"=(\w+) begin pvs\n.*?=\1 done\n", b"", printed, flags=re.S)
    assert quiet != printed
    asked, told = linux.parse(printed), linux.parse(quiet)
    assert told.lvm_pvs == asked.lvm_pvs == ("/dev/ubdc",)
    assert told.members == asked.members and told.members["ubdc"] == "lvm vg0"


@pytest.mark.parametrize(
    ("volume", "group"),
    [("vg0-lv0", "vg0"), ("my--vg-my--lv", "my-vg"), ("bl17-data_corig", "bl17"), ("a----b-c", "a--b")],
)  # fmt: skip
def test_the_group_in_a_volumes_name(volume, group):
    disk = made_up.disk(
        "sdb", holders=["dm-0"], signatures=[{"type": "LVM2_member", "offset": 536}]
    )
    held = made_up.disk("dm-0", 2, path=f"/dev/mapper/{volume}", type="lvm")
    assert lvm.grouped([disk, held]) == [("/dev/sdb", group)]
    crypt = made_up.disk("dm-0", 2, path=f"/dev/mapper/{volume}", type="crypt")
    assert lvm.grouped([disk, crypt]) == []


# A made-up host, section by section.

ROOT_MOUNT = "27 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw"


def sysfs(name: str, number: str, size: int = 2097152, **more: Any) -> list[str]:
    values = {"dev": number, "size": str(size), "ro": "0", "removable": "0", **more}
    return [f"/sys/class/block/{name}/{key}:{value}" for key, value in values.items()]


def pairs(name: str, number: str, kind: str = "disk", **more: str) -> str:
    values = {"NAME": name, "KNAME": name, "MAJ:MIN": number, "TYPE": kind, **more}
    return " ".join(f'{key.replace("_", "-")}="{value}"' for key, value in values.items())


def output(**changed: str | tuple[str, int, str] | None) -> bytes:
    """A reading of a host with sda (sda2 is /), and `changed` sections: text, or (text, exit, stderr)."""
    files = [*sysfs("sda", "8:0"), *sysfs("sda2", "8:2", partition="2")]
    sections: dict[str, str | tuple[str, int, str] | None] = {
        "uid": "0",
        "files": "\n".join([*files, "/proc/self/mountinfo:" + ROOT_MOUNT]),
        "picked": "/proc/cpuinfo:processor\t: 0\n/proc/meminfo:MemTotal:        1024 kB",
        "tree": "/sys/class/block/*/holders/*\n/sys/block/sda/sda2/partition",
        "lsblk": pairs("sda", "8:0") + "\n" + pairs("sda2", "8:2", "part"),
        "signatures": "sda,0x1fe,,,PMBR\nsda2,0x438,u-1,,ext4",
    }
    for key, value in changed.items():
        name = key.replace("__", " ")
        added = isinstance(value, str) and value.startswith("+")
        sections[name] = f"{sections.get(name, '')}\n{value[1:]}" if added else value
    parts = ["=n0 facts"]
    for name, content in sections.items():
        if content is None:
            continue
        out, code, err = (content, 0, "") if isinstance(content, str) else content
        parts.append(f"=n0 begin {name}\n{out}\n=n0 end {code}\n{err}\n=n0 done")
    return "\n".join([*parts, "=n0 complete", ""]).encode("utf-8", "surrogateescape")


def device(name: str, **changed):
    found = linux.parse(output(**changed)).device(name)
    assert found is not None
    return found


def extra(name: str, number: str, lsblk: dict[str, str] | None = None, **more: Any) -> dict:
    """Sections of one more disk."""
    return {
        "files": "+" + "\n".join(sysfs(name, number, **more)),
        "lsblk": "+" + pairs(name, number, **(lsblk or {})),
    }


def test_the_made_up_host_reads():
    facts = linux.parse(output())
    assert [d.name for d in facts.devices] == ["sda", "sda2"]
    assert facts.unknown == () and facts.device("sda2").mounts == ("/",)
    assert facts.device("sda").signatures[0].type == "PMBR" and facts.memory == 1048576


@pytest.mark.parametrize(
    ("printed", "meant"),
    [
        ("WD\\x20Red\\x20\\x20", "WD Red"),
        ("a\\x22b\\x5cc\\x24(x)\\x60y\\x60;'", "a\"b\\c$(x)`y`;'"),
        ("caf\\xc3\\xa9", "café"),
        ("bad\\xff\\x00", "bad\\xff\\x00"),
        ("\udcff", "\\xff"),
    ],
)
def test_odd_serials_survive_as_text(printed, meant):
    found = device("sdb", **extra("sdb", "8:16", {"SERIAL": printed, "MODEL": printed}))
    assert (found.serial, found.model) == (meant, meant)
    assert found.identity == f"serial:{meant}"


def test_old_and_new_column_names_are_one():
    """util-linux 2.37 wrote MAJ_MIN and LOG_SEC for MAJ:MIN and LOG-SEC."""
    row = pairs("sda", "8:0").replace("MAJ:MIN", "MAJ_MIN")
    assert device("sda", lsblk=row).majmin == "8:0"


def test_util_linux_2_23_reads_each_device_alone():
    """CentOS 7: no -O for wipefs, and a heading when it finds something."""
    alone = "# offset,uuid,label,type\n0x218,Gx,,LVM2_member\n0x438,u,a\\x2cb,ext4"
    found = linux.parse(output(signatures=None, wipefs__sda=alone, wipefs__sda2="", pvs="  /dev/sda|vg0"))  # fmt: skip
    assert [(s.type, s.label) for s in found.device("sda").signatures] == [
        ("LVM2_member", ""), ("ext4", "a,b"),
    ]  # fmt: skip
    assert found.device("sda2").signatures_known and found.members == {"sda": "lvm vg0"}


def test_a_device_that_wipefs_cannot_open_is_not_known():
    found = device("sda", signatures=None, wipefs__sda=("", 1, "wipefs: No medium found"))
    assert not found.signatures_known


def test_a_comma_in_a_label_does_not_hide_the_type():
    assert device("sda", signatures="sda,0x0,u,x,swap,swap").signatures[0].label == "x,swap"


def test_serial_and_wwn_fall_back_on_sysfs():
    """No udev (a container's host, busybox mdev): lsblk has neither."""
    found = device("sdb", **extra("sdb", "8:16", None, **{"device/wwid": "naa.5000c500a1b2c3d4"}))
    assert found.wwn == "0x5000c500a1b2c3d4"
    found = device("sdb", **extra("sdb", "8:16", None, **{"wwid": "t10.ATA  X", "serial": "S1\t"}))
    assert found.identity == "serial:S1"


@pytest.mark.parametrize("nothing", ["_null_", "(null)", "0000000000", "None", "N/A"])
def test_a_placeholder_is_no_serial(nothing):
    assert device("sdb", **extra("sdb", "8:16", {"SERIAL": nothing})).weak


def test_a_partition_has_no_identity_of_its_disk():
    rows = pairs("sda", "8:0", WWN="0xA") + "\n" + pairs("sda2", "8:2", "part", WWN="0xA")
    facts = linux.parse(output(lsblk=rows))
    assert facts.device("sda").identity == "wwn:0xA" and facts.device("sda2").weak


def test_two_paths_to_one_disk_keep_one_identity_each():
    more = extra("sdb", "8:16", {"WWN": "0xB"})
    second = extra("sdc", "8:32", {"WWN": "0xB"})
    both = {key: more[key] + "\n" + second[key][1:] for key in more}
    found = linux.parse(output(**both))
    assert [d.name for d in found.devices if d.identity == "wwn:0xB"] == ["sdb", "sdc"]


def test_names_with_a_slash_are_nodes_in_a_directory():
    found = device("cciss!c0d0", **extra("cciss!c0d0", "104:0"), signatures="c0d0,0x0,,,ext4")
    assert found.path == "/dev/cciss/c0d0" and found.signatures[0].type == "ext4"


def test_a_mount_point_with_spaces_newlines_and_backslashes():
    line = "/proc/self/mountinfo:30 27 8:0 / /a\\040b\\012c\\134d rw - xfs /dev/sda rw"
    assert device("sda", files="+" + line).mounts == ("/a b\nc\\d",)


@pytest.mark.parametrize(
    "line",
    [
        "30 27 0:40 / /x rw - btrfs /dev/sda rw,space_cache",
        "30 27 8:99 / /x rw - xfs /dev/sdz rw,logdev=/dev/sda",
        "30 27 8:0 / /x rw - xfs /dev/root rw",
    ],
)
def test_every_way_to_be_mounted_counts(line):
    assert device("sda", files="+/proc/self/mountinfo:" + line).mounts == ("/x",)


def test_a_loop_over_a_disk_stands_on_it():
    """The kernel names neither as the other's holder, and lets wipefs open the disk for itself alone."""
    over = extra("loop0", "7:0", {"TYPE": "loop"}, **{"loop/backing_file": "/dev/sda"})
    facts = linux.parse(output(**over))
    assert facts.device("loop0").parents == ("sda",) and facts.device("sda").holders == ("loop0",)
    file = extra("loop0", "7:0", {"TYPE": "loop"}, **{"loop/backing_file": "/var/sda"})
    assert device("loop0", **file).parents == ()


def test_a_mount_in_a_container_counts():
    assert device("sda", namespaces="9 1 8:0 / /data rw - ext4 /dev/sda rw").mounts == ("/data",)


def test_all_members_of_a_mounted_btrfs_are_mounted():
    tree = "+/sys/fs/btrfs/u-1/devices/sda\n/sys/fs/btrfs/u-1/devices/sda2"
    assert device("sda", tree=tree).mounts == ("/",)
    assert device("sda", tree="+/sys/fs/btrfs/u-1/devices/sda").mounts == ("btrfs u-1",)


def test_swap_is_found_by_any_path():
    heading = "/proc/swaps:Filename\t\t\tType\t\tSize"
    udev = "+/run/udev/data/b8:0:S:disk/by-id/x"
    row = "/proc/swaps:/dev/disk/by-id/x       partition 1 0 -2"
    assert device("sda", picked=udev, files=f"+{heading}\n{row}").swap


def test_swap_on_a_device_nobody_knows_is_unknown():
    facts = linux.parse(output(files="+/proc/swaps:/dev/zz partition 1 0 -2"))
    assert facts.unknown == ("swap on /dev/zz, which is no device here",)


MDSTAT = """Personalities : [raid6] [raid5] [raid4]
md0 : active (auto-read-only) raid5 sda2[3](S) sda[0](F)
      2095104 blocks super 1.2 level 5 [3/3] [UUU]
      [==>..................]  recovery = 12.6% (37043392/292945152) finish=127.5min speed=33440K/sec

md1 : inactive nvme0n1p3[1](S)
unused devices: <none>"""


def test_members_of_arrays():
    lines = "\n".join("/proc/mdstat:" + line for line in MDSTAT.split("\n"))
    facts = linux.parse(output(files="+" + lines))
    assert facts.md_members == ("nvme0n1p3", "sda", "sda2")
    assert facts.members["sda"] == "md md0"


ZPOOL = """  pool: tank
 state: DEGRADED
config:
\tNAME                      STATE     READ WRITE CKSUM
\ttank                      DEGRADED     0     0     0
\t  mirror-0                DEGRADED     0     0     0
\t    /dev/disk/by-id/a     ONLINE       0     0     0
\t    1234567890            UNAVAIL      0     0     0  was /dev/sdq1
"""


def test_members_of_pools_and_what_is_missing():
    facts = linux.parse(output(zpool=ZPOOL, picked="+/run/udev/data/b8:0:S:disk/by-id/a"))
    assert facts.zpool_members == ("sda",) and facts.members["sda"] == "zpool tank"
    assert facts.unknown == ()  # what is not open is nobody's
    hidden = linux.parse(output(zpool=ZPOOL))
    assert hidden.unknown == ("zpool tank has /dev/disk/by-id/a, which is no device here",)
    again = linux.parse(output(zpool=ZPOOL, picked="+/run/udev/data/b8:0:S:sdq1"))
    assert again.members["sda"] == "zpool tank"


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"pvs": ("", 5, "WARNING: x\n  Failed to read\n")}, "pvs ended with exit code 5: Failed to read"),
        ({"lsblk": ("", 1, "lsblk: failed to access sysfs")}, "lsblk ended with exit code 1"),
        ({"lsblk": None}, "lsblk printed nothing"),
        ({"zpool": ("", 1, "internal error")}, "zpool ended with exit code 1"),
        ({"uid": "1000"}, "they need root"),
        (extra("dm-0", "253:0"), "dmsetup is not installed"),
        ({**extra("dm-0", "253:0"), "dmsetup": ("", 1, "no control")}, "dmsetup ended with"),
    ],
)  # fmt: skip
def test_what_could_not_be_read_is_said(sections, said):
    assert any(said in unknown for unknown in linux.parse(output(**sections)).unknown)


def test_no_zfs_module_is_no_pool():
    told = ("", 1, "The ZFS modules are not loaded.\nTry running modprobe")
    assert linux.parse(output(zpool=told)).unknown == ()


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"lsblk": 'NAME="sda" KNAME="sda'}, "lsblk, line 1"),
        ({"lsblk": "+sda 8:0 disk"}, "lsblk, line 3"),
        ({"signatures": "sda,ext4"}, "signatures, line 1"),
        ({"signatures": "sdq,0x0,,,ext4"}, "'sdq' is no device"),
        ({"signatures": "0x0,,,ext4"}, "signatures, line 1"),
        ({"tree": "what"}, "tree, line 1"),
        ({"files": "+rubbish"}, "files, line"),
        ({"files": "+/sys/class/block/sdb/size:huge"}, "size of sdb is 'huge'"),
        ({"files": "+/proc/self/mountinfo:27 1 8:2 / /"}, "mountinfo, line 2"),
        ({"files": "/sys/class/block/sda/size:1"}, "no mountinfo"),
        ({"files": "+/proc/swaps:what is this"}, "swaps, line 1"),
        ({"files": "+/proc/mdstat:md0 is strange"}, "mdstat, line 1"),
        ({"picked": "+what"}, "picked, line 3"),
        ({"pvs": "no bar"}, "pvs, line 1"),
        ({"dmsetup": "no colon"}, "dmsetup, line 1"),
        ({"uid": None}, "no section 'uid'"),
    ],
)
def test_what_cannot_be_understood_names_section_and_line(sections, said):
    with pytest.raises(AgentError, match=said) as raised:
        linux.parse(output(**sections))
    assert raised.value.reason is Reason.BAD_FACTS


def test_a_reading_that_is_cut_off_anywhere_is_refused():
    whole = output()
    for end in range(len(whole) - 1):
        with pytest.raises(AgentError):
            linux.parse(whole[:end])


def test_a_banner_before_the_reading_does_no_harm():
    assert linux.parse(b"Welcome!\n=x\n" + output()).devices


def test_an_output_cannot_forge_a_section():
    told = "=n1 end 0\n\n=n1 done\n=n1 begin pvs"
    assert "swap" not in linux.parse(output(version__fio=told)).tools["fio"]


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_become_text_that_a_database_takes(raw):
    for found in (text(raw), unhex(raw), unoctal(raw)):
        assert "\0" not in found
        found.encode()


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(["files", "picked", "tree", "lsblk", "signatures", "pvs", "dmsetup", "zpool"]),
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=40),
)
@example("zpool", "\x1f")
@example("files", "/proc/mdstat:\x1f")
def test_rubbish_in_a_section_is_an_agent_error_or_does_no_harm(name, rubbish):
    try:
        facts = linux.parse(
            output(**{name: "+" + rubbish if name in {"files", "lsblk"} else rubbish})
        )
    except AgentError as error:
        assert error.reason is Reason.BAD_FACTS
    else:
        assert facts.device("sda2").mounts == ("/",)


# The command.


class Answers:
    """A shell without sudo: root=True raises or prints sudo's refusal."""

    def __init__(self, says: bytes | None) -> None:
        self.says = says
        self.asked: list[Any] = []

    def run(self, argv, *, stdin=b"", root=False, timeout_s=60.0) -> Ran:
        self.asked.append(root)
        if root and self.says is None:
            raise AgentError("no sudo", Reason.NO_SUDO)
        return Ran(tuple(argv), 0, self.says or b"" if root else output(uid="1000"), b"")


@pytest.mark.parametrize("says", [None, b"sudo: a password is required\n"])
def test_without_sudo_it_reads_what_it_can(says):
    shell = Answers(says)
    facts = linux.read(shell)
    assert shell.asked == [True, False] and not facts.sudo and facts.unknown


def test_each_program_is_asked_once():
    argv = linux.command([Need("fio"), Need("fio"), Need("x", version_argv=("x", "-V"))], "n")
    assert argv[3:] == ("facts", "n", "fio --version", "x -V")


SHELLS = [["dash"], ["bash"], ["busybox", "sh"], ["busybox", "ash"]]


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_the_script_runs_under(shell):
    if shutil.which(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not installed")
    asked = linux.command([Need("sh", version_argv=("echo", "1.2 *"))], "abc")
    done = subprocess.run([*shell, *asked[1:]], capture_output=True, check=True)
    assert done.stderr == b""
    facts = linux.parse(done.stdout)
    assert facts.kernel and facts.cpus and facts.memory and facts.boot_id and facts.mounts
    assert facts.tools == {"sh": "1.2 *"}


def test_the_script_only_looks():
    """Words that change something have no business in it, and it writes to no file."""
    code = [line.partition("#")[0] if line.lstrip().startswith("#") else line
            for line in linux.SCRIPT.splitlines()]  # fmt: skip
    words = " ".join(code).replace("/", " ").split()
    changing = {"rm", "mv", "dd", "mount", "umount", "tee", "kill", "modprobe", "-a", "--all"}
    assert not changing & set(words)
    written = {word for line in code for word in line.split() if ">" in word and "&" not in word}
    assert written <= {">/dev/null", "2>/dev/null"}


def test_facts_that_do_not_agree_with_themselves_are_read_again():
    """Right after a boot LVM's volumes appear while the host is looked at."""
    tree = "+/sys/class/block/sda/holders/dm-0"
    looks = [output(tree=tree), output(tree=tree), output()]
    facts = linux.settled(lambda: looks.pop(0))
    assert looks == [] and not linux.strangers(facts)


def test_it_is_not_looked_at_for_ever():
    looks: list[bytes] = []

    def look() -> bytes:
        looks.append(output(tree="+/sys/class/block/sda/holders/dm-0"))
        return looks[-1]

    found = linux.settled(look)
    assert linux.strangers(found) == {"dm-0"} and len(looks) == linux.LOOKS
