"""A sweep of which one depth is measured so far is a curve with one point: the next makes no other chart of it."""

from __future__ import annotations

import pytest
from django.http import QueryDict

from benchlab.charts.cards import campaign_cards, campaign_dom_ids
from benchlab.charts.queries import read_groups
from benchlab.runs.models import Layout
from tests.charts import made

pytestmark = pytest.mark.django_db


@pytest.fixture
def growing(team, user):
    """Depths 1, 2 and 4 are planned on two layouts; nothing is measured yet."""
    campaign, load = made.campaign(team), made.workload(team)
    layouts = [
        made.done_layout(campaign, made.host(team, f"h{n}"), made.topology(team, f"T{n}"))
        for n in (1, 2)
    ]
    for layout in layouts:
        for depth in (2, 4):
            made.run(campaign, layout, load, depth, 1)
    return campaign, layouts, load


def card(user, campaign):
    (found,) = campaign_cards(user, campaign.pk)
    assert campaign_dom_ids(read_groups(user, [campaign.pk], names=()), QueryDict()) == [
        found.dom_id
    ]
    return found


def test_the_first_point_is_on_a_curve(web, user, growing):
    campaign, layouts, load = growing
    made.finished(campaign, layouts[0], load, 1, 1, 1000.0)
    first = card(user, campaign)
    drawn = web.get(first.figure_url).json()
    assert first.swept and {trace["type"] for trace in drawn["data"]} <= {"scatter"}
    assert [
        trace["x"] for trace in drawn["data"] if trace["yaxis"] == "y" and trace["y"] == [1000.0]
    ]
    page = web.get(f"/campaigns/{campaign.pk}/").text
    assert f'id="{first.dom_id}-chart"' in page and "bars" not in first.dom_id


def test_the_chart_keeps_its_id_as_points_come(web, user, growing):
    campaign, layouts, load = growing
    keys = []
    for depth in (1, 8, 16):
        for layout in layouts:
            made.finished(campaign, layout, load, depth, 1, 1000.0 * depth)
            keys.append(card(user, campaign).dom_id)
    assert len(set(keys)) == 1


def test_it_stays_a_curve_when_all_else_failed(web, user, growing):
    """The campaign is over, and the other depths have no result."""
    campaign, layouts, load = growing
    made.finished(campaign, layouts[0], load, 1, 1, 1000.0)
    assert not Layout.objects.exclude(phase="done").exists()
    found = card(user, campaign)
    assert found.swept and found.knees[0][1] == "unknown, as it takes at least 4 depths with IOPS"
    for more in ("", "&against=latency", "&latency=lat.all", "&operation=read"):
        assert web.get(found.figure_url + more).status_code == 200, more


def test_a_workload_of_one_depth_stays_bars(user, team):
    campaign, load = made.campaign(team), made.workload(team)
    layout = made.done_layout(campaign, made.host(team), made.topology(team, "T"))
    for repeat in (1, 2):
        made.finished(campaign, layout, load, 4, repeat, 1000.0)
    found = card(user, campaign)
    assert not found.swept and found.dom_id.endswith("-bars")


def test_what_else_varies_makes_no_sweep(user, team):
    """Two block sizes at one depth each: two bars, though the campaign knows two depths."""
    campaign, load = made.campaign(team), made.workload(team)
    layout = made.done_layout(campaign, made.host(team), made.topology(team, "T"))
    for size, depth in (("4k", 1), ("8k", 2)):
        attempt = made.finished(campaign, layout, load, depth, 1, 1000.0)
        attempt.run.point = {"iodepth": depth, "bs": size}
        attempt.run.save()
    assert not card(user, campaign).swept


def test_another_campaigns_depths_do_not_count(user, team, growing):
    _, layouts, load = growing
    other = made.campaign(team, "Other")
    layout = made.done_layout(other, layouts[0].host, layouts[0].topology)
    made.finished(other, layout, load, 1, 1, 1000.0)
    assert not card(user, other).swept


def test_one_question_more_and_only_while_there_is_one_depth(
    user, growing, django_assert_num_queries
):
    campaign, layouts, load = growing
    made.finished(campaign, layouts[0], load, 1, 1, 1000.0)
    with django_assert_num_queries(3):
        read_groups(user, [campaign.pk])
    made.finished(campaign, layouts[0], load, 2, 2, 1900.0)
    with django_assert_num_queries(2):
        read_groups(user, [campaign.pk])
