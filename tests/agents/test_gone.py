"""A dead disk: the rest of a layout is taken down, and the guard allows it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agents.contracts import Claim, Step
from agents.drivers import registry
from agents.facts.model import BlockDevice, HostFacts, Signature
from agents.plans import stack
from agents.plans.blank import not_blank
from agents.plans.chain import DiskRequest, LayerSpec
from agents.plans.layout_faults import missing_claims, relocated, steps_without, with_current_names
from agents.safety.guard import refusals
from agents.steps import scripts
from agents.uuids import lvm_uuid_of, uuid_of
from tests.agents.made_up import LAYOUT, claim, disk, host, spare

TOOLS = {n.program: "1" for kind in registry.all_layers().values() for n in kind.NEEDS}
SDB, SDC = (disk(f"sd{letter}", n, size=4 << 30) for n, letter in enumerate("bc", start=1))
POOL = spare(SDB, SDC, role="ssd")
PV = Signature("LVM2_member", 0, "", lvm_uuid_of(LAYOUT, "pv", "data", "/dev/sdb"))
MD = Signature("linux_raid_member", 0, f"any:{LAYOUT}")
MD_FACTS: dict[str, Any] = {
    "members": {"sdb": f"md {LAYOUT}"},
    "md_members": ["sdb"],
    "md_arrays": [{"name": "md127", "state": "active", "level": "raid1",
                   "members": [{"device": "sdb", "number": 0}]}],
}  # fmt: skip
LVM_FACTS: dict[str, Any] = {
    "members": {"sdb": f"lvm {LAYOUT}"},
    "dm_tables": [f"{LAYOUT}-data: 0 8 striped 2 8 8:16 0 8:32 0"],
}
VOLUME = {"path": f"/dev/mapper/{LAYOUT}-data", "type": "lvm", "majmin": "253:0"}
DM = disk("dm-0", 9, serial="", parents=["sdb", "sdc"], **VOLUME)
ARRAY = disk("md127", 8, type="raid1", path="/dev/md127", links=[f"/dev/md/{LAYOUT}"], serial="", majmin="9:127",
             parents=["sdb"])  # fmt: skip


def plan(kind: str, **options: Any) -> stack.StackPlan:
    spec = LayerSpec(kind, options, (DiskRequest("data", "ssd", 2),))
    return stack.plan_stack((spec,), LAYOUT, host(SDB, SDC, tools=TOOLS), POOL.values())


def left(signature: Signature, on_it: BlockDevice, **facts: Any) -> HostFacts:
    """Of a layout on two disks, when the second one is dead."""
    alive = replace(SDB, holders=(on_it.name,), signatures=(signature,))
    return host(alive, on_it, tools=TOOLS, **facts)


MD_ONLY: dict[str, Any] = {
    "md_arrays": [{"name": "md127", "state": "active", "level": "raid0",
                   "members": [{"device": "sdb", "number": 0}, {"device": "sdc", "number": 1}]}],
}  # fmt: skip
MD_BOTH = {**MD_ONLY, "members": {"sdb": f"md {LAYOUT}"}, "md_members": ["sdb"]}
BOTH = replace(ARRAY, parents=("sdb", "sdc"))
# Linux 6.1, every other time: udev took the broken array's link away, and whose it is its members say.
NAMELESS = replace(BOTH, path="/dev/md127", links=())
MD_NAMELESS = {
    **MD_ONLY,
    "members": dict.fromkeys(("sdb", "sdc"), f"md {LAYOUT}"),
    "md_members": ["sdb"],
}


def replugged(signature: Signature, on_it: BlockDevice, **facts: Any) -> HostFacts:
    """The same, when the second disk was pulled out and plugged in again: the kernel gave it another name."""
    alive = replace(SDB, holders=(on_it.name,), signatures=(signature,))
    again = replace(SDC, name="sdz", path="/dev/sdz", majmin="65:144", signatures=(signature,))
    return host(alive, again, on_it, tools=TOOLS, **facts)


@pytest.mark.parametrize(
    ("made", "facts"),
    [(plan("lvm"), left(PV, DM, **LVM_FACTS)), (plan("md", level=1), left(MD, ARRAY, **MD_FACTS))],
    ids=["lvm", "md"],
)
def test_what_is_left_is_taken_down_without_the_dead_disk(made, facts):
    lost = missing_claims(made.claims, facts)
    facts = with_current_names(facts, made.claims)
    assert [claim.node for claim in lost] == ["/dev/sdc"]
    steps = steps_without(stack.teardown_stack(made, facts), lost)
    assert [said for step in steps for said in refusals(step, facts, POOL, LAYOUT)] == []
    assert any("/dev/sdb" in step.argv for step in steps)
    assert not any("/dev/sdc" in str(word) for step in steps for word in step.argv)
    said = not_blank(made.claims, facts, LAYOUT)
    assert any(text.startswith("/dev/sdc") and "is not on this host" in text for text in said)


def test_steps_of_a_dead_disk_alone_are_left_out_and_those_of_none_stay():
    both, dead = claim(SDB), claim(SDC)
    steps = [Step(("a",), "", destroys=(both, dead)), Step(("b",), "", destroys=(dead,)), Step(("c",), "")]  # fmt: skip
    assert [(step.argv, step.destroys) for step in steps_without(steps, [dead])] == [
        (("a",), (both,)), (("c",), ()),
    ]  # fmt: skip


def test_a_disk_with_another_name_is_not_gone():
    renamed = replace(SDC, name="sdz", path="/dev/sdz")
    assert missing_claims([claim(SDC)], host(SDB, renamed)) == ()


def under(facts: HostFacts, name: str = "dm-0") -> tuple[str, ...]:
    return next(device.parents for device in facts.devices if device.name == name)


def test_only_names_that_nobody_has_are_forgotten():
    """Another disk may have come, and have the name now: what stands on it stands on it."""
    facts = host(SDB, replace(SDC, serial="another"), DM, tools=TOOLS)
    assert with_current_names(facts, [claim(SDC)]) == facts
    assert with_current_names(facts, []) == facts
    assert under(with_current_names(host(SDB, DM), [claim(SDC)])) == ("sdb",)
    stranger = replace(DM, parents=("sdb", "sdx"))
    assert under(with_current_names(host(SDB, stranger), [claim(SDC)])) == ("sdb", "sdx")


SDZ = replace(SDC, name="sdz", path="/dev/sdz", majmin="65:144")  # the disk that was sdc


def test_what_stood_on_a_disk_stands_on_it_under_the_name_that_it_has_now():
    assert under(with_current_names(host(SDB, SDZ, DM), [claim(SDC)])) == ("sdb", "sdz")
    twin = replace(SDZ, name="sdy", path="/dev/sdy")
    assert under(with_current_names(host(SDB, SDZ, twin, DM), [claim(SDC)])) == ("sdb",)


def test_so_do_partitions_and_members_of_arrays():
    parts = replace(DM, parents=("sdb1", "sdc2", "sdc3"))
    now = disk("sdz2", 40, type="part", serial="", parents=["sdz"])
    assert under(with_current_names(host(SDB, SDZ, now, parts), [claim(SDC)])) == ("sdb1", "sdz2")
    told = {"sdb": "md bl17", "sdc": "md bl17"}
    facts = with_current_names(host(SDB, SDZ, members=told, **MD_ONLY), [claim(SDC)])
    assert [member.device for member in facts.md_arrays[0].members] == ["sdb", "sdz"]
    assert facts.members["sdz"] == facts.members["sdb"]  # whose array it is in, its members say


def test_what_a_disk_under_its_new_name_belongs_to_is_not_what_its_old_name_did():
    owned = {"sdc": "md bl17", "sdz": "md other"}
    facts = with_current_names(host(SDB, SDZ, DM, members=owned), [claim(SDC)])
    assert facts.members["sdz"] == "md other"


@pytest.mark.parametrize(
    ("made", "facts"),
    [
        (plan("lvm"), replugged(PV, DM, **LVM_FACTS)),
        (plan("md", level=0), replugged(MD, BOTH, **MD_BOTH)),
        (plan("md", level=0), replugged(MD, NAMELESS, **MD_NAMELESS)),
    ],
    ids=["lvm", "md", "md without its link"],
)
def test_a_disk_that_was_pulled_and_plugged_in_again_comes_down_with_the_rest(made, facts):
    """The volume held sdc, which is gone; the same disk is sdz now. It was not taken out of the kernel, so the other
    disk was busy, three times.
    """
    assert missing_claims(made.claims, facts) == ()
    facts = with_current_names(facts, made.claims)
    steps = stack.teardown_stack(relocated(made, facts), facts)
    assert [said for step in steps for said in refusals(step, facts, POOL, LAYOUT)] == []
    first = steps[0].argv
    assert f"{LAYOUT}-data" in first or first[-1] == "/dev/md127"
    assert any("/dev/sdz" in step.argv for step in steps)
    assert not any("/dev/sdc" in str(word) for step in steps for word in step.argv)


OWNED = {"members": dict.fromkeys(("sdb", "sdc"), f"md {LAYOUT}"), **MD_ONLY}
STRANGERS = replace(BOTH, links=("/dev/md/archive",))


def downs(
    on_it: BlockDevice, *here: BlockDevice, **facts: Any
) -> tuple[list[Step], HostFacts, tuple[Claim, ...]]:
    """Steps where no disk of the layout is left, the facts, and the lost disks."""
    made, now = plan("md", level=0), host(on_it, *here, tools=TOOLS, **facts)
    lost = missing_claims(made.claims, now)
    now = with_current_names(now, made.claims, LAYOUT)
    return steps_without(stack.teardown_stack(relocated(made, now), now), lost), now, lost


UNSAID = {"members": dict.fromkeys(("sdb", "sdc"), "md md127"), **MD_ONLY}


@pytest.mark.parametrize(
    ("on_it", "said"), [(BOTH, OWNED), (NAMELESS, UNSAID)], ids=["linked", "nameless"]
)
def test_an_array_none_of_whose_disks_came_back_is_stopped(on_it, said):
    """It stood on for ever, and no command ever named it: every try said that it is still there."""
    steps, facts, lost = downs(on_it, **said)
    assert [claim.node for claim in lost] == ["/dev/sdb", "/dev/sdc"]
    assert [(step.argv[-1], step.destroys) for step in steps] == [("/dev/md127", ())]
    assert [said for step in steps for said in refusals(step, facts, POOL, LAYOUT)] == []


def bcache(*links: str) -> tuple[list[Step], HostFacts]:
    """Steps where both disks of a bcache were pulled out, and its volume stands; and the facts."""
    specs = (
        LayerSpec("bcache", {}, (DiskRequest("backing", "ssd", 1), DiskRequest("cache", "ssd", 1))),
    )
    made = stack.plan_stack(specs, LAYOUT, host(SDB, SDC, tools=TOOLS), POOL.values())
    volume = disk("bcache0", 7, path="/dev/bcache0", links=links, serial="", parents=["sdb"])
    now = with_current_names(host(volume, tools=TOOLS), made.claims, LAYOUT)
    return steps_without(stack.teardown_stack(made, now), made.claims), now


def test_a_bcache_none_of_whose_disks_came_back_is_stopped_by_its_set_and_label():
    [release], facts = bcache(f"/dev/bcache/by-label/{LAYOUT}")
    assert release.argv[2] == scripts.BCACHE_RELEASE and release.destroys == ()
    assert release.argv[4:] == (f"/sys/fs/bcache/{uuid_of(LAYOUT, 'bcache')}", LAYOUT)
    assert refusals(release, facts, POOL, LAYOUT) == []


@pytest.mark.parametrize(
    "links", [(), ("/dev/bcache/by-label/archive",), (f"/dev/bcache/by-label/{LAYOUT}0",)]
)
def test_a_strangers_bcache_without_disks_is_left_alone(links):
    assert bcache(*links)[0] == []


def test_a_nameless_one_whose_disks_were_all_put_back_is_stopped_and_they_are_erased():
    """Nothing says whose it is: its superblocks went with the disks, which have other names now. They were refused as
    members of something that is not ours.
    """
    again = [replace(one, name=f"sd{n}", path=f"/dev/sd{n}", majmin=f"65:{ord(n)}", signatures=(MD,))
             for one, n in ((SDB, "y"), (SDC, "z"))]  # fmt: skip
    steps, facts, lost = downs(NAMELESS, *again, **UNSAID)
    assert lost == () and steps[0].argv[-1] == "/dev/md127"
    assert [said for step in steps for said in refusals(step, facts, POOL, LAYOUT)] == []
    assert any("/dev/sdy" in step.argv and "/dev/sdz" in step.argv for step in steps)


OTHERS = {
    "md_arrays": [{"name": "md127", "state": "active", "level": "raid0",
                   "members": [{"device": "sdb", "number": 0}, {"device": "sdx", "number": 1}]}],
    "members": dict.fromkeys(("sdb", "sdx"), "md md127"),
}  # fmt: skip
ARCHIVE = {"members": dict.fromkeys(("sdb", "sdc"), "md archive"), **MD_ONLY}


@pytest.mark.parametrize(
    ("on_it", "said"), [(STRANGERS, ARCHIVE), (NAMELESS, OTHERS), (NAMELESS, MD_ONLY)]
)
def test_one_that_is_not_surely_ours_is_left_alone(on_it, said):
    steps, facts, _ = downs(on_it, **said)
    assert steps == []
    stop = Step(("sh", "-c", scripts.MD_STOP, "stop", "/dev/md127"), "")
    assert refusals(stop, facts, POOL, LAYOUT)
    assert refusals(replace(stop, destroys=(claim(SDB),)), facts, POOL, LAYOUT)


LEG = disk("dm-2", 12, path=f"/dev/mapper/{LAYOUT}-data_rimage_1", type="lvm", majmin="253:2", serial="",
           signatures_known=False)  # fmt: skip
ALIVE = replace(LEG, name="dm-1", path=f"/dev/mapper/{LAYOUT}-data_rimage_0", majmin="253:1", parents=("sdb",),
                signatures_known=True)  # fmt: skip
DEAD_LEG: dict[str, Any] = {
    "members": {"sdb": f"lvm {LAYOUT}", "sdc": f"lvm {LAYOUT}"},
    "dm_tables": [f"{LAYOUT}-data: 0 8 raid raid1 3 0 region_size 4096 2 - 253:1 - 253:2",
                  f"{LAYOUT}-data_rimage_0: 0 8 linear 8:16 0", f"{LAYOUT}-data_rimage_1: 0 8 error"],
}  # fmt: skip


def mirror(leg: BlockDevice, **facts: Any) -> HostFacts:
    """A mirror of LVM's on sdb and sdc, one of whose legs stands on nothing."""
    signed = [replace(device, signatures=(PV,)) for device in (SDB, SDC)]
    on_it = replace(DM, parents=("dm-1", leg.name))
    return host(*signed, ALIVE, leg, on_it, tools=TOOLS, **{**DEAD_LEG, **facts})


def test_a_mirror_whose_leg_answers_nothing_but_errors_is_taken_out_of_the_kernel():
    made, facts = plan("lvm", type="mirror"), mirror(LEG)
    steps = stack.teardown_stack(made, facts)
    assert [said for step in steps for said in refusals(step, facts, POOL, LAYOUT)] == []
    removed = [f"{LAYOUT}-{name}" for name in ("data", "data_rimage_0", "data_rimage_1")]
    assert steps[0].argv[4:] == tuple(removed)
    assert any(LAYOUT in said for said in not_blank(made.claims, facts, LAYOUT))


def test_a_leg_that_lsblk_leaves_out_is_taken_out_of_the_kernel_too():
    """It goes up from the disks, and the leg stands on one that was plugged in again under another name."""
    leg = replace(
        ALIVE, name=LEG.name, path=LEG.path, majmin=LEG.majmin, type="unknown", parents=("sdc",)
    )
    tables = [*DEAD_LEG["dm_tables"][:2], f"{LAYOUT}-data_rimage_1: 0 8 linear 8:99 0"]
    steps = stack.teardown_stack(plan("lvm", type="mirror"), mirror(leg, dm_tables=tables))
    assert f"{LAYOUT}-data_rimage_1" in steps[0].argv


@pytest.mark.parametrize(
    ("leg", "table"),
    [(replace(LEG, path="/dev/mapper/vg0-lost"), "vg0-lost: 0 8 error"),  # a stranger's
     (LEG, f"{LAYOUT}-data_rimage_1: 0 4 error"),  # one that is half of it only: see below
     (LEG, f"{LAYOUT}-data_rimage_1: 0 8 linear 9:9 0")],
    ids=["a stranger's", "in part", "not known"],
)  # fmt: skip
def test_nothing_but_our_own_that_is_wholly_errors_passes_for_standing_on_nothing(leg, table):
    rows = [table, table.replace("0 4 error", "4 4 linear 9:9 0")]
    facts = mirror(leg, dm_tables=[*DEAD_LEG["dm_tables"][:2], *rows])
    name = leg.path.removeprefix("/dev/mapper/")
    step = Step(
        ("sh", "-c", scripts.DM_REMOVE, "remove", name), "", destroys=(claim(SDB), claim(SDC))
    )
    assert any("is not part of the plan" in said for said in refusals(step, facts, POOL, LAYOUT))


def test_a_command_that_names_the_dead_disk_is_refused_still():
    both = Step(("wipefs", "/dev/sdb", "/dev/sdc"), "", destroys=(claim(SDB), claim(SDC)))
    [step] = steps_without([both], [claim(SDC)])
    assert any("names /dev/sdc" in said for said in refusals(step, host(SDB), POOL, LAYOUT))
