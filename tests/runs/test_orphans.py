"""Leftovers of a finished layout are seen on its host, and taken down when a person has seen it and says so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from agents.facts.model import HostFacts, Mount
from agents.plans import applied_part, stack
from agents.plans.chain import specs, stage_specs
from agents.safety.guard import Spare
from benchlab.audit.models import Entry
from benchlab.engine import commands, host_cleanup
from benchlab.hosts import discovery
from benchlab.hosts.models import FactSnapshot
from benchlab.runs.models import Layout, StepLog, installation_tag
from benchlab.workers import messages
from tests.hosts.conftest import disk, facts
from tests.topologies.plans import TOOLS, layer

pytestmark = pytest.mark.django_db
STRIPE = [layer("lvm", data=("hdd", 2)), layer("filesystem", {"type": "xfs"})]


@pytest.fixture(autouse=True)
def nudges(monkeypatch) -> None:
    monkeypatch.setattr(messages, "send", lambda task, pk: None)


def blank() -> HostFacts:
    return facts(disk("sdb"), disk("sdc"), tools=TOOLS)


def left_by(name: str) -> HostFacts:
    """The host with the volume of a stripe still on its two disks, mounted."""
    mount = f"/mnt/benchlab/{name}"
    volume = disk(
        "dm-0", path=f"/dev/mapper/{name}-data", type="lvm", serial="", model="", majmin="254:0",
        parents=("sdb", "sdc"), mounts=(mount,),
    )  # fmt: skip
    return facts(
        disk("sdb", holders=("dm-0",)), disk("sdc", holders=("dm-0",)), volume,
        mounts=(Mount(f"/dev/mapper/{name}-data", mount, "xfs", "rw", "254:0"),),
        members={"sdb": f"lvm {name}", "sdc": f"lvm {name}"}, tools=TOOLS,
    )  # fmt: skip


def changed(name: str) -> HostFacts:
    """That host after something else was done to it."""
    return replace(left_by(name), kernel="6.1.1")


@pytest.fixture
def ended(make_layout) -> Layout:
    """A layout that was built, and is done."""
    layout = make_layout(phase="done", outcome="succeeded", runs=0)
    found = blank()
    pool = [Spare(f"serial:S-{name}", 2**30, "WDC WD40", "hdd") for name in ("sdb", "sdc")]
    layout.plan = applied_part.to_json(stack.plan_stack(specs(STRIPE), layout.name, found, pool))
    layout.save()
    began(layout, "sdb", "sdc")
    return layout


def began(layout: Layout, *disks: str) -> None:
    """A command that ran on these disks."""
    StepLog.objects.create(
        layout=layout, kind="apply", argv=["wipefs"], says="…", exit_code=0,
        destroys=[f"serial:S-{name}" for name in disks],
    )  # fmt: skip


def read(layout: Layout, found: HostFacts | None = None) -> FactSnapshot:
    return discovery.store_facts(layout.host, found or left_by(layout.name))


def only(layout: Layout, snapshot: FactSnapshot) -> host_cleanup.Orphan:
    (orphan,) = host_cleanup.find_orphans(layout.host, snapshot)
    return orphan


def test_what_is_left_is_told_with_the_disks_it_is_on(ended):
    orphan = only(ended, read(ended))
    assert (orphan.name, orphan.layout, orphan.why_not) == (ended.name, ended, "")
    assert [lost.node for lost in orphan.destroys] == ["/dev/sdb", "/dev/sdc"]
    assert f"/dev/sdb (lvm {ended.name})" in orphan.left
    assert f"/mnt/benchlab/{ended.name} is still mounted" in orphan.left


def test_a_disk_that_swapped_names_is_told_as_itself(ended):
    found = left_by(ended.name)
    swap = {"sdb": "S-sdc", "sdc": "S-other"}
    devices = [replace(d, serial=swap.get(d.name, d.serial)) for d in found.devices]
    orphan = only(ended, read(ended, replace(found, devices=tuple(devices))))
    told = [(lost.node, lost.serial) for lost in orphan.destroys]
    assert told == [("/dev/sdb", ""), ("/dev/sdb", "S-sdc")]
    assert orphan.destroys[0].holds == ("not on this host now",)


def test_nothing_is_told_of_a_blank_host_or_of_others(ended):
    assert host_cleanup.find_orphans(ended.host, read(ended, blank())) == []
    for name in ("blqqq1", "bl1", "vg0"):
        assert host_cleanup.find_orphans(ended.host, read(ended, left_by(name))) == []


def test_a_layout_that_holds_the_host_leaves_nothing(make_layout, ended):
    Layout.objects.filter(pk=ended.pk).update(phase="tearing_down")
    assert host_cleanup.find_orphans(ended.host, read(ended)) == []


def test_a_reading_that_finds_the_same_after_its_end_tells_of_an_orphan(ended):
    Layout.objects.filter(pk=ended.pk).update(phase="tearing_down")
    before = read(ended)
    Layout.objects.filter(pk=ended.pk).update(phase="done", ended_at=timezone.now())
    assert host_cleanup.find_orphans(ended.host, before) == []  # it stood there then
    assert read(ended) == before  # no row of its own
    assert only(ended, read(ended)).name == ended.name


def test_a_layout_that_nobody_knows_is_for_hands(ended):
    name = f"bl{installation_tag()}999999"
    orphan = only(ended, read(ended, left_by(name)))
    assert orphan.layout is None and "no longer in the database" in orphan.why_not
    assert orphan.by_hand == (
        f"umount /mnt/benchlab/{name}", f"vgremove {name}",
        "wipefs --all /dev/sdb", "wipefs --all /dev/sdc",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"plan": None}, "Its plan cannot be used"),
        ({"phase": "draft", "outcome": ""}, "use its campaign's page"),
    ],
)
def test_what_no_button_can_take_down_says_why(ended, change, says):
    Layout.objects.filter(pk=ended.pk).update(**change)
    orphan = only(ended, read(ended))
    assert says in orphan.why_not and orphan.by_hand and not orphan.destroys


def test_without_any_command_nobody_knows_what_was_made(ended):
    ended.steps.all().delete()
    assert "No command of it is recorded" in only(ended, read(ended)).why_not


def test_disks_that_no_command_touched_are_not_its_to_wipe(ended):
    ended.steps.all().delete()
    began(ended, "sdb")
    orphan = only(ended, read(ended))
    assert "No command of it touched its disks" in orphan.why_not
    assert orphan.by_hand and not orphan.destroys
    with pytest.raises(commands.CommandError, match="No command of it touched its disks"):
        host_cleanup.tear_down_orphan(ended, ended.host.snapshots.latest("pk").pk)


def test_a_stage_that_never_began_is_not_told(ended):
    more = {"layer": 1, "options": {}, "devices": [{"use": "data", "role": "hdd", "count": 1}]}
    three = replace(blank(), devices=(*blank().devices, disk("sdd")))
    pool = [Spare(f"serial:S-sd{x}", 2**30, "WDC WD40", "hdd") for x in "bcd"]
    made = stack.plan_stack(specs(STRIPE), ended.name, three, pool, stage_specs([more]))
    Layout.objects.filter(pk=ended.pk).update(plan=applied_part.to_json(made))
    ended.refresh_from_db()
    found = left_by(ended.name)
    orphan = only(ended, read(ended, replace(found, devices=(*found.devices, disk("sdd")))))
    assert [lost.node for lost in orphan.destroys] == ["/dev/sdb", "/dev/sdc"]


def test_it_is_torn_down_and_locks_the_host(ended):
    host_cleanup.tear_down_orphan(ended, read(ended).pk)
    ended.refresh_from_db()
    assert (ended.phase, ended.outcome, ended.ended_at) == ("tearing_down", "succeeded", None)
    assert (ended.teardown_tries, ended.transitions.get().old) == (0, "done")


def test_not_while_another_layout_holds_the_host(ended, make_layout):
    holder = make_layout(phase="ready", runs=0)
    with pytest.raises(
        commands.CommandError, match=f"Layout {holder.name} of campaign first holds"
    ):
        host_cleanup.tear_down_orphan(ended, read(ended).pk)
    ended.refresh_from_db()
    assert ended.phase == "done"


def test_only_by_the_newest_facts(ended):
    old = read(ended)
    assert read(ended) == old  # a reading that finds the same is no newer one
    read(ended, changed(ended.name))
    with pytest.raises(commands.CommandError, match="lab1 has changed since: look at what is left"):
        host_cleanup.tear_down_orphan(ended, old.pk)
    with pytest.raises(commands.CommandError, match="the facts of lab1 you saw"):
        host_cleanup.tear_down_orphan(ended, None)


def test_not_where_nobody_has_looked(ended):
    with pytest.raises(commands.CommandError, match="The facts of lab1 were never read"):
        host_cleanup.tear_down_orphan(ended, None)


def test_not_when_nothing_is_left(ended):
    with pytest.raises(commands.CommandError, match="Nothing of"):
        host_cleanup.tear_down_orphan(ended, read(ended, blank()).pk)


def page(ended: Layout) -> str:
    return reverse("host-orphan", args=[ended.host_id, ended.pk])


def test_the_host_page_leads_to_a_page_that_asks(web, ended):
    snapshot = read(ended)
    host_page = reverse("host-detail", args=[ended.host_id])
    text = web.get(host_page).text
    assert f'id="orphan-{ended.name}"' in text and page(ended) in text
    assert f"Orphan of {ended.name}" in text
    text = web.get(page(ended)).text
    assert "Everything on 2 disks will be destroyed" in text and "destroy 2 disks on lab1" in text
    sent = {"snapshot": snapshot.pk, "typed": "yes"}
    assert "Nothing was done" in web.post(page(ended), sent, follow=True).text
    assert Entry.objects.get(action="host-orphan").outcome == "refused"
    sent["typed"] = "destroy 2 disks on lab1"
    assert "Taking down what" in web.post(page(ended), sent, follow=True).text
    ended.refresh_from_db()
    assert ended.phase == "tearing_down"
    assert "Left behind" not in web.get(host_page).text


def test_a_page_that_is_old_does_nothing(web, ended):
    old = read(ended).pk
    read(ended, changed(ended.name))
    sent = {"snapshot": old, "typed": "destroy 2 disks on lab1"}
    assert "has changed since" in web.post(page(ended), sent, follow=True).text
    ended.refresh_from_db()
    assert ended.phase == "done"


def test_another_team_sees_and_does_nothing(other_web, ended):
    read(ended)
    assert other_web.get(page(ended)).status_code == 404
    assert other_web.post(page(ended)).status_code == 404


def test_a_page_without_an_orphan_goes_back(web, ended):
    read(ended, blank())
    assert web.get(page(ended)).status_code == 302


def test_by_api(user, other_user, ended):
    api = APIClient()
    api.force_authenticate(user)
    snapshot = read(ended)
    told = api.get(f"/api/hosts/{ended.host_id}/orphans/").json()
    assert told["snapshot"] == snapshot.pk
    (orphan,) = told["orphans"]
    assert (orphan["name"], orphan["layout"], orphan["why_not"]) == (ended.name, ended.pk, "")
    assert [lost["serial"] for lost in orphan["destroys"]] == ["S-sdb", "S-sdc"]
    path = f"/api/layouts/{ended.pk}/teardown/"
    assert api.post(path).status_code == 409
    assert api.post(path, {"snapshot": "x"}, format="json").status_code == 400
    answer = api.post(path, {"snapshot": told["snapshot"]}, format="json")
    assert answer.json()["phase"] == "tearing_down"
    api.force_authenticate(other_user)
    assert api.get(f"/api/hosts/{ended.host_id}/orphans/").status_code == 404
