"""Cards for the campaign page: a chart per workload, with the numbers as a table."""

from __future__ import annotations

import pytest
from django.http import QueryDict
from django.template.loader import render_to_string
from django.test import RequestFactory

from benchlab.charts.cards import campaign_cards, campaign_dom_ids
from benchlab.charts.queries import read_groups
from benchlab.runs.models import Measurement
from tests.charts import made


def test_a_card_per_workload_in_two_queries(user, lab, django_assert_num_queries):
    stream = made.workload(lab.team, "stream", "dd")
    made.finished(lab.campaign, lab.attempts[0].layout, stream, None, 1, 500.0)
    with django_assert_num_queries(2):
        found = campaign_cards(user, lab.campaign.pk)
    assert [(card.title, card.swept, card.metrics[0]) for card in found] == [
        ("randread 4 KiB", True, "iops"),
        ("stream", False, "bandwidth"),
    ]
    assert "metric=bandwidth" in found[1].figure_url
    assert all(point.little.holds for point in found[0].points)


@pytest.mark.parametrize("query", ["", "moment=built", "moment=after-1"])
def test_which_cards_there_are_is_told_without_their_numbers(
    user, other_user, lab, django_assert_num_queries, query
):
    """Some with a sweep, one without, one whose sweep has but one depth: whether that is all of it is asked."""
    for name, tool, depth in (("stream", "dd", None), ("begun", "fio", 4)):
        load = made.workload(lab.team, name, tool)
        made.finished(lab.campaign, lab.attempts[0].layout, load, depth, 1, 500.0)
    asked, pk = QueryDict(query), lab.campaign.pk
    with django_assert_num_queries(2):
        keys = campaign_dom_ids(read_groups(user, [pk], names=()), asked)
    assert keys == [card.dom_id for card in campaign_cards(user, pk, asked)]
    assert len(keys) == 3 and sum("bars" in key for key in keys) == 2
    assert campaign_dom_ids(read_groups(other_user, [pk], names=()), asked) == []


def test_a_depth_that_was_not_reached_is_told(user, lab):
    Measurement.objects.filter(name="lat.mean", attempt__run__outstanding=16).update(value=1e-4)
    card = campaign_cards(user, lab.campaign.pk)[0]
    assert {point.outstanding for point in card.points if not point.little.holds} == {16}


@pytest.mark.parametrize("who", ["user", "other_user"])
def test_the_cards_show_a_team_its_own(request, who, lab):
    asked = RequestFactory().get("/")
    asked.user = request.getfixturevalue(who)
    text = render_to_string(
        "charts/_cards.html", {"cards": campaign_cards(asked.user, lab.campaign.pk)}, asked
    )
    assert ("data-figure-url" in text) == (who == "user")
    assert ("No results yet" in text) == (who != "user")


def test_every_reason_has_words():
    from agents.contracts import Reason
    from benchlab.runs import verdict

    assert set(verdict.REASON_TEXTS) == set(Reason)
    assert verdict.explain_reason("something_new").happened == "something new"


def test_a_sweep_over_block_sizes_is_drawn_in_their_order(user, web, lab):
    load = made.workload(lab.team, "by block size")
    layout = lab.attempts[0].layout
    for number, size in enumerate((65536, 4096, 16384)):
        attempt = made.finished(lab.campaign, layout, load, None, number, 500.0)
        attempt.run.point = {"block_size": size}
        attempt.run.save()
    card = next(c for c in campaign_cards(user, lab.campaign.pk) if c.title == load.name)
    wanted = ["block size 4 KiB", "block size 16 KiB", "block size 64 KiB"]
    assert [point.label for point in card.points] == wanted
    bars = [t["name"] for t in web.get(card.figure_url).json()["data"] if t["type"] == "bar"]
    assert bars == wanted


@pytest.mark.django_db
def test_lines_and_cards_are_in_the_order_in_which_people_count(team, user):
    """Not in the order in which rows were made: 1 MiB comes after 256 KiB, and ten disks after two."""
    host, campaign = made.host(team), made.campaign(team)
    for stack in ("10 disks", "2 disks"):
        for load in ("write 1 MiB", "write 256 KiB"):
            workload = made.workload(team, load)
            made.swept(
                campaign, host, made.topology(team, stack), workload, depths=(1, 4), repeats=1
            )
    lines = read_groups(user, [campaign.pk])
    assert [(line.topology_name, line.workload_name) for line in lines] == [
        (stack, load)
        for stack in ("2 disks", "10 disks")
        for load in ("write 256 KiB", "write 1 MiB")
    ]
    cards = campaign_cards(user, campaign.pk)
    assert [card.title for card in cards] == ["write 256 KiB", "write 1 MiB"]
