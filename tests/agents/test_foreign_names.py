"""A mapping of somebody else's whose name holds a word of ours is theirs: names are compared whole, or up to a boundary
that only we and LVM draw."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from agents.contracts import Step
from agents.errors import AgentError
from agents.facts import stacks
from agents.facts.graph import Graph, has_layout_name
from agents.facts.sections import Section
from agents.layers import _lvm
from agents.plans import stack
from agents.plans.blank import not_blank
from agents.safety.guard import refusals
from agents.steps import scripts
from tests.agents.made_up import LAYOUT, claim, disk, host, spare
from tests.agents.test_gone import POOL, SDB, SDC, TOOLS, plan

OWN = (
    "",
    "-data",
    "-crypt",
    "-data_rimage_0",
    "-my--volume",
    "-lvol0_pmspare",
    "/data",
    "/vol@snap",
    "_0",
    "_12",
)
FOREIGN = ("7", "x", "7-data", ":old", "-data:old", "--old-data", ".bak", "_old", "_0x", "@1", "+", "=1", "#", "-a@b",
           " data", "\n", "-data\n")  # fmt: skip


@pytest.mark.parametrize("rest", OWN)
def test_a_name_of_ours_is_known(rest):
    assert has_layout_name(f"{LAYOUT}{rest}", LAYOUT)


@pytest.mark.parametrize(
    "name", [f"{LAYOUT}{rest}" for rest in FOREIGN] + [f"x{LAYOUT}", f"vg-{LAYOUT}-data", ""]
)
def test_a_name_that_only_begins_like_ours_is_not(name):
    assert not has_layout_name(name, LAYOUT)


def section(text: str) -> Section:
    return Section("dmsetup", 0, text.encode(), "")


@pytest.mark.parametrize("name", ["a:b", ":a", "a:", "bl17-data:old", "#+-.:=@_"])
def test_a_colon_may_stand_in_a_name(name):
    """device-mapper takes it; the whole host was refused for one that begins with it."""
    lines = stacks.parse_dm_tables(
        section(f"{name}: 0 8 linear 8:16 0\nempty: \nbl17-data: 0 8 error\n")
    )
    found = list(replace(host(SDB), dm_tables=tuple(lines)).mappings())
    assert found == [
        (name, ["0", "8", "linear", "8:16", "0"]),
        ("empty", []),
        ("bl17-data", ["0", "8", "error"]),
    ]


@pytest.mark.parametrize("line", ["bl17-data 0 8 linear 8:16 0", "bl17: x", "a b: 0 8 error"])
def test_what_is_no_table_is_refused(line):
    with pytest.raises(AgentError):
        stacks.parse_dm_tables(section(f"{line}\n"))


DATA = f"{LAYOUT}-data"
THEIRS = [f"{DATA}:old", f"{LAYOUT}--old-data", f"x:{DATA}"]


@pytest.mark.parametrize("name", THEIRS)
def test_the_table_of_another_is_not_ours(name):
    facts = replace(host(SDB), dm_tables=(f"{name}: 0 8 linear 8:16 0",))
    assert _lvm.device_table(DATA, facts) == []
    assert not_blank((), facts, LAYOUT) == []


@pytest.mark.parametrize("name", THEIRS)
def test_a_disk_under_anothers_mapping_is_not_wiped(name):
    """Ours is there too, on the other disk: what lies on this one was taken for it."""
    ours = disk(
        "dm-0",
        9,
        type="lvm",
        path=f"/dev/mapper/{DATA}",
        majmin="253:0",
        serial="",
        parents=["sdc"],
    )
    facts = host(SDB, replace(SDC, holders=("dm-0",)), ours, tools=TOOLS,
                 dm_tables=[f"{name}: 0 8 linear {SDB.majmin} 0", f"{DATA}: 0 8 linear {SDC.majmin} 0"])  # fmt: skip
    step = Step(("wipefs", "--all", "/dev/sdb"), "", destroys=(claim(SDB),))
    assert any(
        "is used by device-mapper" in said for said in refusals(step, facts, spare(SDB), LAYOUT)
    )


@pytest.mark.parametrize("name", THEIRS)
def test_a_teardown_takes_nothing_of_another_out_of_the_kernel(name):
    made = plan("lvm")
    theirs = disk(
        "dm-9",
        19,
        type="lvm",
        path=f"/dev/mapper/{name}",
        majmin="253:9",
        serial="",
        parents=["sdb"],
    )
    facts = host(replace(SDB, holders=("dm-9",)), SDC, theirs, tools=TOOLS,
                 dm_tables=[f"{name}: 0 8 linear {SDB.majmin} 0"])  # fmt: skip
    assert not Graph(facts).is_ours("dm-9", LAYOUT)
    steps = stack.teardown_stack(made, facts)
    assert not any(step.argv[2:3] == (scripts.DM_REMOVE,) for step in steps)
    wiping = [step for step in steps if step.destroys]
    assert all(
        refusals(step, facts, POOL, LAYOUT)
        for step in wiping
        if "/dev/sdb" in " ".join(map(str, step.argv))
    )


@pytest.mark.parametrize("volume", ["other", "data--old", "precious_data", "lvol", "fast2"])
def test_a_volume_made_by_hand_in_our_group_stays_in_the_kernel(volume):
    """wipefs then finds its disk in use: it was taken out, and what was on it wiped."""
    facts = host(replace(SDB, holders=("dm-0", "dm-9")), SDC, tools=TOOLS, dm_tables=[
        f"{DATA}: 0 8 linear {SDB.majmin} 0", f"{LAYOUT}-{volume}: 0 8 linear {SDB.majmin} 8"])  # fmt: skip
    steps = stack.teardown_stack(plan("lvm"), facts)
    taken = [step.argv[4:] for step in steps if step.argv[2:3] == (scripts.DM_REMOVE,)]
    assert taken == [(DATA,)]


# As the real one: a device that udev reads (busy says how often it will) is "busy", and --retry waits for it.
DMSETUP = """#!/bin/sh
cd "${0%/*}" || exit
[ "$1" = info ] && exec cat listed
shift 2
if [ "$1" = --retry ]; then shift; else
    read -r busy <busy
    [ "$busy" = 0 ] || { echo $((busy - 1)) >busy; echo "Device or resource busy" >&2; exit 1; }
fi
printf "%s\\n" "$@" >>log
for name; do
    grep -vxF -e "$name" listed >left
    mv left listed
done
"""


@pytest.fixture
def removed(tmp_path: Path):
    """Function that tells what DM_REMOVE would remove on a host where dmsetup lists these names."""

    def run(there: list[str], *names: str, busy: int = 0) -> list[str]:
        listed, log = tmp_path / "listed", tmp_path / "log"
        listed.write_text("".join(f"{name}\n" for name in there))
        log.write_text("")
        (tmp_path / "busy").write_text(f"{busy}\n")
        fake = tmp_path / "dmsetup"
        fake.write_text(DMSETUP)
        fake.chmod(0o755)
        env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        argv = ["sh", "-c", scripts.DM_REMOVE, "remove", *names]
        subprocess.run(argv, env=env, check=True, cwd=tmp_path)
        return log.read_text().splitlines()

    return run


def test_those_that_are_there_are_removed_in_their_order(removed):
    assert removed(["other", "bl17-b", "bl17-a"], "bl17-a", "bl17-gone", "bl17-b") == [
        "bl17-a",
        "bl17-b",
    ]
    assert removed(["bl17-a"], "bl17-a") == ["bl17-a"]
    assert removed([], "bl17-a") == []


@pytest.mark.parametrize("times", [1, 3, 10**6])
def test_one_that_is_read_for_a_moment_is_tried_again(removed, times):
    assert removed(["bl17-a", "bl17-b"], "bl17-a", "bl17-b", busy=times) == ["bl17-a", "bl17-b"]


@pytest.mark.parametrize(
    "theirs",
    [
        "x bl17-data y",
        "bl17-data y",
        "x bl17-data",
        "bl17-data-old",
        "bl17-data:old",
        "*",
        "x\tbl17-data",
    ],
)
def test_a_name_that_holds_ours_as_a_word_is_not_ours(removed, theirs):
    assert removed([theirs, "No devices found"], "bl17-data") == []


def test_a_name_is_no_pattern(removed):
    assert removed(["bl17-data"], "bl17-*", "bl17-dat?", "[b]l17-data") == []
