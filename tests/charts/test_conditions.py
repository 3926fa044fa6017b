"""Set-ups that one compares, and what else differs: a warning for the second only, in words."""

from __future__ import annotations

import copy
import csv
import io
from types import SimpleNamespace

import pytest
from django.urls import reverse

from benchlab.campaigns.models import Campaign, Run
from benchlab.charts.cards import campaign_cards
from benchlab.charts.conditions import line_differences, stack_text
from benchlab.charts.queries import line_labels, line_styles, read_groups
from benchlab.charts.tables import curve_points
from benchlab.hosts.models import FactSnapshot
from benchlab.runs.models import Attempt, Layout
from tests.charts import made


def changed(host, **devices):
    """A later snapshot of the host: each of its disks with these."""
    told = copy.deepcopy(host.snapshots.latest().facts)
    for device in told["devices"]:
        device.update(devices)
    return FactSnapshot.objects.create(host=host, facts=told)


@pytest.fixture
def pair(team, user):
    """The same sweep on the same layout in two campaigns."""
    host, stack, load = made.host(team), made.topology(team, "raw"), made.workload(team)
    changed(host, scheduler="none", logical_sector=512, physical_sector=4096, serial="S1")
    both = [made.campaign(team, name) for name in ("Monday", "Friday")]
    for one in both:
        made.swept(one, host, stack, load, depths=(1, 4, 16))
    return SimpleNamespace(team=team, user=user, host=host, stack=stack, load=load, both=both)


def between(pair):
    found = line_differences(pair.user, read_groups(pair.user, [one.pk for one in pair.both]))
    return found.get(pair.load.pk)


def on_facts(campaign, **devices):
    facts = changed(campaign.runs.first().host, **devices)
    Attempt.objects.filter(run__campaign=campaign).update(facts=facts)


def test_equals_compare_without_a_word(pair):
    assert between(pair) is None


@pytest.mark.parametrize(
    ("devices", "name", "words"),
    [
        ({"scheduler": "mq-deadline"}, "Scheduler", ("none", "mq-deadline")),
        ({"model": "OTHER"}, "Device model", ("INTEL SSDSC2BB48", "OTHER")),
        ({"size": 1 << 40}, "Device size", ("480 GiB", "1 TiB")),
        ({"physical_sector": 512}, "Sectors", ("512/4096 B", "512/512 B")),
    ],
)
def test_two_campaigns_on_unlike_devices_say_so(web, pair, devices, name, words):
    on_facts(pair.both[1], **devices)
    found = between(pair)
    assert found.compared.names == ()
    assert found.others.names == (name,)
    assert [cells for _, cells in found.others.rows] == [(words[0],), (words[1],)]
    page = web.get(reverse("compare"), {"campaign": [one.pk for one in pair.both]})
    assert f"<strong>What else differs:</strong> {name}." in page.content.decode()


def test_other_disks_say_so_and_more_of_the_same_do_not(pair):
    disks = [
        {"identity": f"serial:S{n}", "node": f"/dev/sd{n}", "size": 1, "model": "M"}
        for n in range(4)
    ]
    first, second = (Layout.objects.filter(campaign=one) for one in pair.both)
    first.update(plan={"claims": disks[:2]})
    second.update(plan={"claims": disks[2:]})
    assert between(pair).others.names == ("Devices",)
    stripe = made.topology(pair.team, "stripe")
    for rows in (second, Run.objects.filter(campaign=pair.both[1])):
        rows.update(topology=stripe)
    second.update(plan={"claims": disks})
    found = between(pair)
    assert (found.compared.names, found.others.names) == (("Layout",), ())


def test_the_layout_that_is_compared_rings_no_alarm(pair):
    other = [{"kind": "lvm", "options": {"stripes": 2, "stripe_size": 65536}}]
    stripe = made.topology(pair.team, "stripe of two")
    Run.objects.filter(campaign=pair.both[1]).update(topology=stripe)
    Layout.objects.filter(campaign=pair.both[1]).update(topology=stripe, stack=other)
    found = between(pair)
    assert found.others.names == ()
    assert found.compared.names == ("Layout",)
    assert [cells[0] for _, cells in found.compared.rows] == [
        stack_text(pair.stack.stack),
        stack_text(other),
    ]


def test_a_layout_of_one_name_that_was_edited_does(pair):
    Layout.objects.filter(campaign=pair.both[1]).update(stack=[{"kind": "raw", "options": {}}])
    found = between(pair)
    assert (found.compared.names, found.others.names) == ((), ("Layout",))


def test_a_scheduler_that_the_layout_sets_is_what_is_compared(pair):
    tuned = [{"kind": "raw", "options": {}}, {"kind": "tuning", "options": {"scheduler": "kyber"}}]
    stack = made.topology(pair.team, "raw, kyber")
    Run.objects.filter(campaign=pair.both[1]).update(topology=stack)
    Layout.objects.filter(campaign=pair.both[1]).update(topology=stack, stack=tuned)
    on_facts(pair.both[1], scheduler="kyber")
    found = between(pair)
    assert found.compared.names == ("Layout", "Scheduler")
    assert found.others.names == ()


def test_a_scheduler_that_runs_ask_for_is_what_is_compared(team, user):
    """The host's facts tell one for both: they were read when the layout stood."""
    host, stack, load = made.host(team), made.topology(team, "raw"), made.workload(team)
    changed(host, scheduler="none", serial="S1")
    campaign = made.campaign(team, "Schedulers")
    layout = made.done_layout(campaign, host, stack)
    for scheduler in ("mq-deadline", "kyber"):
        for depth in (1, 4):
            made.finished(campaign, layout, load, depth, 1, 1000.0, scheduler)
    lines = read_groups(user, [campaign.pk])
    assert line_labels(lines) == ["scheduler kyber", "scheduler mq-deadline"]
    # Which is nothing that the tool was asked: who measured without shares the chart (equal_workloads).
    assert {(line.scheduler, line.load, line.varied_options) for line in lines} == {
        ("kyber", "", ()),
        ("mq-deadline", "", ()),
    }
    found = line_differences(user, lines)[load.pk]
    assert found.compared.names == ("Point", "Scheduler")
    assert [cells for _, cells in found.compared.rows] == [
        ("scheduler kyber", "kyber"),
        ("scheduler mq-deadline", "mq-deadline"),
    ]
    assert found.others.names == ()


def test_what_nobody_told_is_neither_equal_nor_different(pair):
    """An imported result: no facts, and of its options only what the text says."""
    Campaign.objects.filter(pk=pair.both[1].pk).update(source=Campaign.Source.LIBRARY)
    Attempt.objects.filter(run__campaign=pair.both[1]).update(facts=None, tool_version="")
    found = between(pair)
    assert (found.compared.names, found.others.names) == ((), ())
    ((label, names),) = found.unstated
    assert label == "Friday"
    assert {"Kernel", "CPU", "Memory", "Scheduler", "Tool", "some options of the tool"} <= set(
        names.split(", ")
    )


def test_a_drivers_default_is_no_word_of_the_source():
    from agents import options
    from agents.drivers import registry

    full = options.dump(
        options.build_options(registry.layer("lvm").Options, {"stripes": 4, "stripe_size": 4096})
    )
    assert stack_text([{"kind": "lvm", "options": full}, {"kind": "raw"}]) == (
        "lvm (stripes 4, stripe size 4 KiB) > raw"
    )


def test_repeats_that_were_not_measured_alike_are_told_where_they_are_drawn(pair, web):
    """The kernel was changed before the last repeat; every depth's median would mix both."""
    (campaign, _) = pair.both
    late = Attempt.objects.filter(run__campaign=campaign, run__repeat=3)
    told = copy.deepcopy(pair.host.snapshots.latest().facts) | {"kernel": "6.12.9-amd64"}
    late.update(
        facts=FactSnapshot.objects.create(host=pair.host, facts=told), fingerprint="another"
    )
    (card,) = campaign_cards(pair.user, campaign.pk)
    assert card.differences.others.names == ("Kernel",)
    assert card.differences.others.rows == (
        ("raw", ("6.1.0-28-amd64 (6 runs); 6.12.9-amd64 (3 runs)",)),
    )
    assert (
        "6.12.9-amd64 (3 runs)"
        in web.get(reverse("campaign-detail", args=[campaign.pk])).content.decode()
    )
    assert between(pair).others.names == ("Kernel",)


def test_nothing_is_asked_of_repeats_that_were_measured_alike(pair, django_assert_num_queries):
    with django_assert_num_queries(2):
        (card,) = campaign_cards(pair.user, pair.both[0].pk)
    assert card.differences is None


AILS = "md: sdb has failed in md127"


@pytest.fixture
def degraded(pair):
    """The last repeat of each point of Monday's was measured on an array that had lost a disk."""
    rows = Attempt.objects.filter(run__campaign=pair.both[0], run__repeat=3)
    rows.update(degraded=[{"seen": "before", "says": AILS}], fingerprint="another")
    return pair


def test_repeats_on_what_was_not_in_order_are_a_line_of_their_own(degraded):
    """They were in the same median as the others, without a word in the chart."""
    healthy, bad = found = read_groups(degraded.user, [degraded.both[0].pk])
    assert [{s.repeat for s in line.samples} for line in found] == [{1, 2}, {3}]
    assert line_labels(found) == ["raw", "raw · degraded"]
    assert not healthy.has_unlike_repeats and not bad.has_unlike_repeats
    assert healthy.identity != bad.identity and len({*line_styles(found)}) == 2
    assert {(p.label, p.repeats) for p in curve_points(found)} == {
        ("raw", 2),
        ("raw · degraded", 1),
    }


def test_the_only_line_says_so_too(degraded):
    [bad] = [line for line in read_groups(degraded.user, [degraded.both[0].pk]) if line.condition]
    assert line_labels([bad]) == ["raw · degraded"]


def test_page_and_csv_of_a_degraded_line_say_what_was_not_in_order(web, degraded):
    campaign = degraded.both[0].pk
    assert "raw · degraded" in web.get(reverse("campaign-detail", args=[campaign])).content.decode()
    answer = web.get(reverse("campaign-csv", args=[campaign])).content.decode()
    rows = list(csv.DictReader(io.StringIO(answer)))
    assert {(row["repeat"], row["not in order"]) for row in rows} == {
        ("1", ""),
        ("2", ""),
        ("3", AILS),
    }
    assert len({row["fingerprint"] for row in rows if row["not in order"]}) == 1


def test_a_point_whose_repeats_have_unlike_fingerprints_is_marked(web, pair):
    campaign = pair.both[0]
    rows = Attempt.objects.filter(run__campaign=campaign)
    rows.update(fingerprint="one")
    rows.filter(run__repeat=2, run__outstanding=4).update(fingerprint="another")
    marked = [
        p.outstanding
        for p in curve_points(read_groups(pair.user, [campaign.pk]))
        if p.unlike_conditions
    ]
    assert marked == [4]
    shown = web.get(reverse("campaign-detail", args=[campaign.pk])).content.decode()
    assert shown.count("Unlike conditions") == 1
