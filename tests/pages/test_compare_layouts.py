"""The short way to a campaign: layouts sized to a host's disks, planned by its last facts, made only when asked for."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from benchlab.campaigns.models import Campaign, Workload
from benchlab.hosts import discovery, registration, spare_disks
from benchlab.hosts.models import Host
from benchlab.team.models import Membership
from benchlab.topologies.models import Topology
from tests.hosts.conftest import disk, facts

pytestmark = pytest.mark.django_db
PAGE = "/compare-layouts/"
TOOLS = dict.fromkeys(("fio", "lvm", "mdadm", "xfs", "mkfs.xfs", "dmsetup", "wipefs"), "1")


@pytest.fixture
def host(team, user, nudges) -> Host:
    """With four spare hard disks and a spare SSD of 1 GiB each, and all programs but those of bcache and ZFS."""
    return known(team, user, "lab1", "bcde", "f")


def known(team, user, name: str, slow: str, fast: str, **more: str) -> Host:
    """A host that was read, its disks of these letters spare; of 1 GiB each."""
    made = registration.add_host(team, name, "192.0.2.1", registration.make_credential(team, name))
    Host.objects.filter(pk=made.pk).update(host_key="ssh-ed25519 AAAA")
    disks = [disk(f"sd{letter}") for letter in slow]
    disks += [disk(f"sd{letter}", rotational=False, model="Fast") for letter in fast]
    programs = {"cache_check": "1", "lvm": "LVM version: 2.03.16(2)", "mkfs": "1"}
    discovery.store_facts(
        made, facts(*disks, boot_id=name * 9, tools={**TOOLS, **programs, **more})
    )
    for device in made.devices.exclude(name="sda"):
        role = "ssd" if device.name[-1] in fast else "hdd"
        spare_disks.mark_spare(device, user, device.confirmation, role)
    return Host.objects.get(pk=made.pk)


@pytest.fixture
def second(team, user, host) -> Host:
    """With fewer hard disks than the first."""
    return known(team, user, "lab2", "bcd", "f")


def wish(host: Host, **changes: object) -> dict[str, object]:
    given = {
        "host": host.pk, "layouts": ["stripe", "lvm-cache"], "matters": "random", "repeats": "4",
        "time": "look", "depths": "1, 4", "name": "",
    }  # fmt: skip
    return {**given, **changes}


def test_the_page_comes_filled_in(web, host):
    answer = web.get(PAGE)
    assert answer.context["chosen"].first.host == host
    assert "sized to 4 hdd, 1 ssd" in answer.text
    ticked = [one["fitting"].shape.slug for one in answer.context["offers"] if one["ticked"]]
    assert ticked == ["stripe", "lvm-cache"]
    assert answer.context["estimate"].runs == 2 * 4 * (5 + 1)  # depths of fio, and the fsync test
    assert answer.context["comparison"].disk_count == 5
    assert not Campaign.objects.exists() and not Topology.objects.exists()


def test_what_cannot_be_built_says_why(web, host):
    said = {
        one["fitting"].shape.slug: one["fitting"].error for one in web.get(PAGE).context["offers"]
    }
    assert said["stripe"] == said["lvm-cache"] == ""
    assert "zpool" in said["zpool"] and "install" in said["zpool"]
    assert said["mirror-ssd"].startswith("Needs 2 spare ssd")


def test_it_makes_topologies_workloads_and_the_campaign(web, user, host):
    answer = web.post(PAGE, wish(host, create="1"))
    made = Campaign.objects.get()
    assert answer["Location"] == reverse("campaign-detail", args=[made.pk])
    assert made.created_by == user and made.question.startswith("Which is best on lab1: Stripe of")
    assert made.runs.count() == 2 * 2 * 2 * 4
    assert sorted(Topology.objects.values_list("name", flat=True)) == [
        "LVM cache on ssd before a stripe of 4 hdd, xfs", "Stripe of 4 hdd, xfs",
    ]  # fmt: skip
    assert {one.options["runtime_s"] for one in Workload.objects.all()} == {10}


def test_the_same_again_takes_what_is_there(web, host):
    for _ in range(2):
        web.post(PAGE, wish(host, create="1"))
    counts = Campaign.objects.count(), Topology.objects.count(), Workload.objects.count()
    assert counts == (2, 2, 2)


def test_a_name_that_is_taken_gets_a_number(web, team, host):
    Topology.objects.create(team=team, name="Stripe of 4 hdd, xfs", stack=[{"kind": "raw"}])
    web.post(PAGE, wish(host, create="1"))
    assert Topology.objects.filter(name="Stripe of 4 hdd, xfs 2").exists()


def test_files_fit_the_smallest_layout(web, host):
    answer = web.post(PAGE, wish(host, layouts=["stripe", "alone-ssd"], create="1"))
    assert answer.status_code == 302, answer.context["form"].errors
    sizes = {one.options["size"] for one in Workload.objects.all()}
    assert len(sizes) == 1 and max(sizes) <= 2**29


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"layouts": ["stripe"]}, "Tick 2 to 4 layouts, not 1."),
        ({"layouts": []}, "Tick 2 to 4 layouts."),
        ({"layouts": ["stripe", "stripe"]}, "Tick 2 to 4 layouts, not 1."),
        ({"layouts": ["stripe", "zpool"]}, "zpool is not one of the available choices"),
        ({"depths": "1, x"}, "Give whole numbers"),
        ({"depths": "0"}, "from 1 to 1024"),
        ({"depths": ""}, "required"),
        ({"time": "never"}, "not one of the available choices"),
        ({"repeats": "-3"}, "not one of the available choices"),
    ],
    ids=str,
)
def test_a_wish_that_is_wrong_is_said_and_kept(web, host, change, says):
    answer = web.post(PAGE, wish(host, name="My own", create="1") | change)
    assert says in answer.text and 'value="My own"' in answer.text
    assert not Campaign.objects.exists()


def test_an_estimate_with_htmx_is_the_bar_alone(htmx, host):
    answer = htmx.post(PAGE, wish(host))
    assert "<html" not in answer.text and 'id="compare-dock"' in answer.text
    assert "5 disks on lab1" in answer.text


def test_another_host_is_another_form(htmx, host):
    answer = htmx.get(PAGE, {"host": host.pk})
    assert "<html" not in answer.text and 'id="compare-form"' in answer.text


def test_the_same_on_several_hosts_is_sized_to_the_fewest_disks(web, host, second):
    alone = web.get(PAGE)
    assert [one.host for one in alone.context["chosen"].candidates] == [second]
    answer = web.get(PAGE, {"host": host.pk, "also": second.pk})
    assert [one.host for one in answer.context["chosen"].choices] == [host, second]
    assert "sized to 3 hdd, 1 ssd, as each of the 2 hosts has" in answer.text
    assert answer.context["estimate"].runs == 2 * alone.context["estimate"].runs
    assert (
        answer.context["comparison"].disk_count == 2 * (3 + 1)
        and "8 disks on lab1, lab2" in answer.text
    )
    web.post(PAGE, wish(host, also=[second.pk], create="1"))
    made = Campaign.objects.get()
    assert {row.host for row in made.layouts.all()} == {host, second}
    assert made.runs.count() == 2 * (2 * 2 * 2 * 4)
    assert made.name.startswith("lab1, lab2: Stripe of 3 hdd, xfs or LVM cache")
    assert Topology.objects.count() == 2


def test_seven_hosts_take_no_more_queries_than_two(web, team, user, host, second):
    others = [known(team, user, f"lab{n}", "bcde", "f") for n in range(3, 8)]

    def queries(*also: Host) -> int:
        with CaptureQueriesContext(connection) as seen:
            assert web.post(PAGE, wish(host, also=[one.pk for one in also])).context["comparison"]
        return len(seen)

    few = queries(second)  # which makes the installation's letters, too
    assert queries(second, *others) == queries(second) <= few <= 30


def test_what_does_not_fit_says_on_which_host(web, team, user, host):
    small = known(team, user, "lab2", "b", "fg", lvm="")
    said = {
        one["fitting"].shape.slug: one["fitting"].error
        for one in web.get(PAGE, {"host": host.pk, "also": small.pk}).context["offers"]
    }
    assert said["mirror-hdd"].startswith("lab2: Needs 2 spare hdd; this host has 1.")
    assert said["zpool"].startswith("lab1 has no zpool") and " · lab2 has no zpool" in said["zpool"]
    assert said["alone-ssd"] == ""


def test_hosts_without_a_role_in_common_say_so(web, team, user, host):
    other = known(team, user, "lab2", "", "")
    slow = known(team, user, "lab3", "", "f")
    host.devices.filter(role="ssd").update(spare=False)
    answer = web.get(PAGE, {"host": host.pk, "also": slow.pk})
    assert "no spare disks of one role in common" in answer.text
    assert other not in [one.host for one in answer.context["chosen"].candidates]  # it has none


def test_a_host_of_another_team_does_not_join(web, other_user, host):
    theirs = known(other_user.teams.get(), other_user, "lab9", "bcde", "f")
    answer = web.post(PAGE, wish(host, also=[theirs.pk], create="1"))
    assert answer.status_code == 302
    assert {row.host for row in Campaign.objects.get().layouts.all()} == {host}


def test_hosts_of_two_teams_are_not_in_one_campaign(web, user, other_user, host):
    theirs = known(other_user.teams.get(), other_user, "lab9", "bcde", "f")
    Membership.objects.create(team=theirs.team, user=user)
    answer = web.get(PAGE, {"host": host.pk, "also": theirs.pk})
    assert theirs in [one.host for one in answer.context["choices"]]
    assert [one.host for one in answer.context["chosen"].choices] == [host] and not answer.context[
        "chosen"
    ].candidates


def test_nothing_of_another_team(other_web, host):
    answer = other_web.get(PAGE)
    assert answer.context["choices"] == [] and "No host yet" in answer.text
    other_web.post(PAGE, wish(host, create="1"))
    assert not Campaign.objects.exists()


def test_a_host_that_does_not_answer_is_shut(web, host):
    Host.objects.filter(pk=host.pk).update(trouble="timed_out", trouble_text="no answer for 3 s")
    answer = web.get(PAGE)
    assert answer.context["chosen"] is None and "no answer for 3 s" in answer.text


def test_no_other_host_is_taken_for_one_that_was_lost_meanwhile(web, host, second):
    """It made the campaign on the next host that has disks, without a word."""
    Host.objects.filter(pk=host.pk).update(trouble="timed_out", trouble_text="no answer for 3 s")
    answer = web.post(PAGE, wish(host, create="1"))
    assert answer.status_code == 200 and not Campaign.objects.exists()
    assert "Not chosen any more: lab1 (no answer for 3 s)." in answer.text
    assert [one.host for one in answer.context["chosen"].choices] == [second]
    web.post(PAGE, wish(second, also=[host.pk], create="1"))
    assert not Campaign.objects.exists(), "on one host of two"
    assert web.post(PAGE, wish(second, create="1")).status_code == 302


def test_a_host_that_is_gone_is_told(web, host, second, other_user):
    theirs = known(other_user.teams.get(), other_user, "lab9", "bcde", "f")
    for pk in (theirs.pk, 10**30, "x\0"):
        answer = web.post(PAGE, wish(host, create="1") | {"host": pk})
        assert "That host is not there any more." in answer.text and "lab9" not in answer.text
    assert not Campaign.objects.exists()


def test_a_host_without_a_spare_disk_says_what_to_do(web, host):
    host.devices.update(spare=False)
    assert "No disk of lab1 is marked spare" in web.get(PAGE).text


def test_a_busy_host_is_offered_for_later(web, team, user, host):
    web.post(PAGE, wish(host, create="1"))
    Campaign.objects.get().layouts.filter(position=0).update(phase="ready")
    answer = web.get(PAGE)
    assert "busy: this would wait for its turn" in answer.text
    offered = [one["fitting"] for one in answer.context["offers"] if not one["fitting"].error]
    assert len(offered) > 4 and all(one.size and one.disks for one in offered)
