"""A stranger's name counts where a name can stand, and nowhere else: every command that the drivers' cases give."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents import look_only
from agents.contracts import Step
from agents.drivers import registry
from agents.facts.graph import Graph
from agents.plans import stack
from agents.safety.guard import refusals
from agents.safety.name_places import FORMS, Mentions, names_in
from agents.steps import scripts
from benchlab.testing.profiles import examples
from tests.agents import situations
from tests.agents.layer_cases import FILES, commands
from tests.agents.made_up import LAYOUT, disk, host, spare
from tests.agents.test_guard_plans import ABLE, DISKS, STACKS, able_disk
from tests.each_case import check_each

# The layers whose commands are all written down: these, and who says forms of its own. One that is new may do without:
# then each of its words can be a name, and a host is refused on which a stranger's group is called like one of them.
OWN_FORMS = {kind: {**getattr(driver, "COMMANDS", {}), **getattr(driver, "SCRIPTS", {})}
             for kind, driver in registry.all_layers().items()}  # fmt: skip
WRITTEN = {"bcache", "directory", "filesystem", "flashcache", "lvm", "lvm_cache", "manual", "md", "partition",
           "raw", "tuning", "zfs", "zpool", "zvol"} | {kind for kind, own in OWN_FORMS.items() if own}  # fmt: skip
OF_THEM = [name for name, specs in STACKS.items() if {spec.kind for spec in specs} <= WRITTEN]
COMMANDS = sorted(
    {
        tuple(argv)
        for path in FILES
        if path.parent.name in WRITTEN
        for argv in commands(json.loads(path.read_text()))
        if not look_only.only_looks(argv)
    }
)
OWN = re.compile(rf"(?:|/.*|{LAYOUT}(?:[-/.].*)?)", re.DOTALL)
STRANGERS = ("0", "1", "5", "data", "cache", "log", "y", "archive", "vg0", "striped", "none")


def parts(text: str) -> set[str]:
    words = re.split(r"[\s,;='\"()\[\]]+", text)
    return {part for word in words for part in (word, word.partition("/")[0], *word.split(":"))}


def test_there_are_many_commands():
    assert len(COMMANDS) > 200
    own = {told for forms in OWN_FORMS.values() for told in forms}
    assert {argv[0] for argv in COMMANDS} <= {*FORMS, *own, "sh"}
    used = {argv[2] for argv in COMMANDS if argv[0] == "sh"}
    assert used >= set(scripts.ARGUMENTS) and used <= {*scripts.ARGUMENTS, *own}


def test_only_our_own_names_and_paths_stand_where_a_name_can():
    check_each(names_nothing_but_ours, COMMANDS)


def names_nothing_but_ours(argv):
    stdin = "y\n" if argv[0] == "flashcache_create" else ""
    for text in names_in(argv, stdin):
        several = "--devices" in argv or not text.startswith("/")
        for word in re.split(r"[\s,]+", text) if several else [text]:
            known = OWN.fullmatch(word) or scripts.FLASHCACHE_REMOVE in argv
            assert known, (word, argv)


def strange(name: str):
    """A host on which a stranger's group, array, pool and mapping have that name."""
    disks = [disk("sdx", 1), disk("sdy", 2), disk("sdz", 3), disk("sdw", 4)]
    mapped = disk("dm-7", 5, type="crypt", path=f"/dev/mapper/{name}", majmin="253:7", serial="",
                  parents=["sdw"])  # fmt: skip
    members = {"sdx": f"lvm {name}", "sdy": f"md {name}", "sdz": f"zpool {name}"}
    return host(*disks, mapped, members=members)


@pytest.mark.parametrize("kind", ["lvm", "md", "zpool", "mapped"])
@pytest.mark.parametrize("of", OF_THEM)
def test_strangers_with_common_names_refuse_no_plan(kind, of):
    """An installer's /dev/md0 is the array `0`; no plan of that host was allowed. Here are all such names at once."""
    disks = [able_disk(n, i) for i, n in enumerate(DISKS, 1)]
    spares = spare(*disks, role="ssd")
    seen = [situations.see(d, situations.blank) for d in disks]
    for number, name in enumerate(STRANGERS, 20):
        theirs = situations.see(able_disk(f"sdx{number}", number), situations.blank)
        if kind == "mapped":
            theirs.stacked(f"/dev/mapper/{name}", "crypt")
        else:
            theirs.members[theirs.disk.name] = f"{kind} {name}"
        seen.append(theirs)
    facts = situations.host_with(seen, **ABLE)
    plan = stack.plan_stack(STACKS[of], LAYOUT, facts, spares.values())
    steps = [one for step in plan.steps for one in (step, *step.undo)]
    steps += stack.teardown_stack(plan, facts)
    assert [said for step in steps for said in refusals(step, facts, spares, LAYOUT)] == []


@pytest.mark.parametrize(
    "argv",
    [
        ("vgremove", "--yes", "0"),
        ("vgremove", "-y", "data"),
        ("lvremove", "--yes", "data/data"),
        ("lvcreate", "--yes", "--name", "x", "data", "/dev/sdb"),
        ("lvcreate", "--yes", "--name", "data/x"),
        ("lvcreate", "--yes", "--addtag", "--name", "data"),
        ("lvcreate", "--yes", "--type", "data", "bl17"),
        ("lvconvert", "--yes", "--type", "cache", "--cachevol", "data", "bl17/data"),
        ("vgextend", "--yes", "--devices", "/dev/sdb", "0", "/dev/sdb"),
        ("lvs", "--config", 'activation{volume_list=["data"]}'),
        ("vgcreate", "--yes", "--config", 'activation{volume_list=["0"]}', "bl17", "/dev/sdb"),
        ("vgcreate", "--yes", "--config", "activation{volume_list=[0]}", "bl17", "/dev/sdb"),
        ("mdadm", "--stop", "0"),
        ("mdadm", "--manage", "0", "--add", "/dev/sdb"),
        ("mdadm", "--grow", "data", "--raid-devices=3"),
        ("mdadm", "--create", "0", "--level=1", "/dev/sdb"),
        ("mdadm", "--create", "/dev/md/bl17", "--name=0", "/dev/sdb"),
        ("zpool", "destroy", "data"),
        ("zpool", "destroy", "-f", "data"),
        ("zpool", "create", "-f", "cache", "/dev/sdb"),
        ("zpool", "create", "-f", "bl17", "data"),
        ("zpool", "create", "-f", "-o", "tname=data", "bl17", "/dev/sdb"),
        ("zpool", "add", "data", "/dev/sdb"),
        ("zfs", "destroy", "-r", "data/home"),
        ("zfs", "create", "-o", "sync=standard", "data/new"),
        ("dmsetup", "remove", "data"),
        ("cryptsetup", "close", "data"),
        ("sh", "-c", scripts.DM_REMOVE, "remove", "bl17-data", "data"),
        ("sh", "-c", scripts.FLASHCACHE_REMOVE, "remove", "data", "sdb", "sdc"),
        ("sh", "-c", scripts.ZERO, "zero", "data", "0"),
        ("sh", "-c", scripts.ZERO, "zero", "/dev/sdb", "data"),
        ("sh", "-c", scripts.ZERO + " ", "zero", "/dev/sdb", "0"),
        ("sh", "-c", 'vgremove "$1"', "x", "0"),
        ("sh", "-c", "vgremove -y data"),
        ("sh", "-ec", scripts.ZERO, "zero", "/dev/sdb", "0"),
        ("sh", "-c", scripts.QUEUE_WRITE, "set", "data", "/tmp/x"),
        ("/tmp/lvcreate", "--yes", "--name", "data", "bl17"),
        ("env", "lvcreate", "--yes", "--name", "data", "bl17"),
        ("xargs", "0"),
        ("wipefs", "--all", "data"),
        ("data",),
    ],
)
def test_a_strangers_name_where_a_name_can_stand_is_found(argv):
    found = set()
    for name in ("0", "data", "cache"):
        mentions = Mentions(Graph(strange(name)))
        for text, names in zip(argv, names_in(argv, ""), strict=False):
            found |= mentions.find_devices(text, names)[0]
    assert {"sdx", "sdy", "sdz", "dm-7"} <= found, argv


NAMED = [argv for argv in COMMANDS
         if argv[0] in ("mdadm", "zpool", "zfs") or argv[0].startswith(("vg", "lv"))]  # fmt: skip


def test_our_own_name_changed_for_a_strangers_is_found():
    """Word by word, wherever the group, array or pool is named by itself."""
    check_each(stranger_is_found, NAMED)


def stranger_is_found(argv):
    for at, word in enumerate(argv):
        if not re.fullmatch(rf"{LAYOUT}(?:/.*)?|--name={LAYOUT}", word) or argv[at - 1] == "--name":
            continue
        changed = (*argv[:at], word.replace(LAYOUT, "vg0"), *argv[at + 1 :])
        said = {part for text in names_in(changed, "") for part in parts(text)}
        assert "vg0" in said, changed


def takes(flag: str) -> bool:
    """True when a flag of one of our commands takes the word behind it for something that is no name."""
    own = [getattr(driver, "COMMANDS", {}) for driver in registry.all_layers().values()]
    every = [form for told in (FORMS, *own) for forms in told.values() for form in forms]
    return any(flag in form.taking for form in every)


@settings(max_examples=examples(2_000), deadline=None)
@given(
    argv=st.sampled_from(COMMANDS),
    at=st.integers(1, 40),
    name=st.sampled_from(["vg0", "Data_2", "x.y", "home", "bl170", "vg0/root", "a=vg0", "vg0:x"]),
)
def test_a_strangers_name_put_anywhere_into_a_command_is_found(argv, at, name):
    at = min(at, len(argv))
    if takes(argv[at - 1]) or (argv[0] == "sh" and at == 3):
        return  # it is what the flag says, or the script's own name
    changed = (*argv[:at], name, *argv[at:])
    said = {part for text in names_in(changed, "") for part in parts(text)}
    assert parts(name) - {"", "a", "x", "root"} <= said, changed


@settings(max_examples=examples(2_000), deadline=None)
@given(argv=st.sampled_from(COMMANDS), at=st.integers(0, 40), junk=st.text(max_size=6))
def test_what_is_not_word_for_word_ours_is_read_wholly(argv, at, junk):
    """A flag that is not written down, another script, another program: each word can be a name."""
    at = min(at, len(argv))
    flag = f"-{junk}x?"
    changed = (*argv[:at], flag, *argv[at:])
    if argv[0] == "sh" and at >= 3:
        return  # arguments of a script have kinds, not flags
    assert names_in(changed, "") == [*changed, ""]


def test_a_secret_and_what_is_read_count_too():
    step = Step(("cryptsetup", "open"), "", stdin="data")
    assert refusals(step, strange("data"), {}, LAYOUT)
    assert not refusals(Step(("umount", "/mnt/benchlab/bl17"), ""), strange("umount"), {}, LAYOUT)
