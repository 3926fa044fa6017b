"""The conclusion of a campaign: one sentence over its answers, its grid, and what a card shows."""

from __future__ import annotations

import re

import pytest

from tests.charts import made
from tests.verdicts.bench import Bench, texts

pytestmark = pytest.mark.django_db
WORDS = 25
# what may be said of equals
OPEN = "(cannot be told apart|is undecided|are undecided|shows? no large difference|no large difference)"


def two_layouts(bench: Bench, tops: dict[str, tuple[float, float]], hosts: int = 1) -> None:
    """A and b under each workload, with these rates, on so many hosts."""
    loads = {name: made.workload(bench.team, name) for name in tops}
    for number in range(hosts):
        bench.host = made.host(bench.team, f"host-{number}")
        for at, layout in enumerate([bench.build("a"), bench.build("b")]):
            for name, load in loads.items():
                bench.measure(layout, tops[name][at], load=load, noise=0.002)


def conclusion(bench, api):
    return api.get("/api/verdicts/", {"campaign": bench.campaign.pk}).json()["conclusion"]


@pytest.mark.parametrize(
    ("tops", "hosts", "says"),
    [
        ({"x": (1000, 2100), "y": (1000, 2200)}, 1, r"b wins 2 of 2, 2\.1 to 2\.2 times a"),
        ({"x": (2100, 1000), "y": (1000, 2100)}, 1, r"[ab] wins 1 of 2, 2\.1 times [ab]; [ab] wins 1"),
        ({"x": (1000, 2100), "y": (1000, 1000)}, 1, rf"b wins 1 of 2, 2\.1 times a; 1 {OPEN}"),
        ({"x": (1000, 1000), "y": (1000, 1000)}, 1, f"No layout wins any of 2 comparisons: 2 {OPEN}"),
        ({"x": (1000, 2100)}, 3, r"b wins 3 of 3, 2\.1 times a; the ratios of the hosts agree within \d %"),
    ],
)  # fmt: skip
def test_one_sentence_over_all_answers(bench, api, web, tops, hosts, says):
    two_layouts(bench, tops, hosts)
    told = conclusion(bench, api)
    assert re.fullmatch(says, told["says"]), told
    assert told["decided"] == ("wins any" not in says) and not told["provisional"]
    assert f"{told['says']}." in texts(web.get(f"/campaigns/{bench.campaign.pk}/"))


def test_one_answer_is_its_own_conclusion(bench, api, web):
    two_layouts(bench, {"x": (1000, 2100)})
    assert conclusion(bench, api) is None
    assert "winners" not in web.get(f"/campaigns/{bench.campaign.pk}/").text


def test_the_grid_has_a_row_for_each_layout_with_its_wins(bench, web):
    two_layouts(bench, {"x": (1000, 2100), "y": (1000, 1000)}, hosts=2)
    page = web.get(f"/campaigns/{bench.campaign.pk}/").text
    grid = re.search(r'<table class="winners">.*?</table>', page, re.S)[0]
    rows = [
        re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", row)).strip() for row in grid.split("<tr")[2:]
    ]
    assert re.search(
        rf"b 2\.1× ✓ wins 2 of 2 [\d.]+( to [\d.]+)?× {OPEN}$",
        rows[0],
    )
    assert re.search(rf"a baseline baseline {OPEN}$", rows[1])


def visible_words(card: str) -> list[str]:
    """Words of a card without what is folded, and without its picture."""
    shown = re.sub(r"<(details|svg).*?</\1>", " ", card, flags=re.S)
    return re.sub(r"<[^>]+>", " ", shown).split()


def test_a_card_shows_one_number_and_few_words(bench, web):
    """The rest is folded, on the page of a campaign; a report is printed, so there it is unfolded."""
    two_layouts(bench, {"rand read 4 KiB": (1000, 2100), "rand write 4 KiB": (1000, 1000)})
    page = web.get(f"/campaigns/{bench.campaign.pk}/").text
    cards = re.findall(r'<article class="answer".*?</article>', page, re.S)
    assert len(cards) == 2
    for card in cards:
        assert len(visible_words(card)) <= WORDS, visible_words(card)
        assert card.count('class="fig"') <= 1 and "<strong>" in card
    assert not re.search(r'<details id="answer-more-\d+" open', page)
    report = web.get(f"/campaigns/{bench.campaign.pk}/report/").text
    assert len(re.findall(r'<details id="answer-more-\d+" open', report)) == 2


def test_a_campaign_of_one_layout_has_an_answer_of_its_own(bench, web):
    layout = bench.build("stripe")
    loads = [made.workload(bench.team, name) for name in ("x", "y", "z")]
    for load in loads:
        bench.measure(layout, 1000, load=load)
    page = web.get(f"/campaigns/{bench.campaign.pk}/")
    cards = re.findall(r'<article class="answer".*?</article>', page.text, re.S)
    assert len(cards) == 3 and "is-warn" not in "".join(cards)
    for card in cards:
        shown = " ".join(visible_words(card))
        assert re.search(
            r"\d+ IOPS at best, at 16 outstanding; [\d.]+ µ?m?s total latency there", shown
        )
    assert texts(page).count("Not compared") == 1


def test_what_cannot_be_told_from_the_best_has_no_place(bench, web):
    two_layouts(bench, {"x": (1000, 1000)})
    page = web.get(f"/campaigns/{bench.campaign.pk}/")
    table = re.search(r'<table class="ranked">.*?</table>', page.text, re.S)[0]
    assert table.count("cannot be told apart") == 2 and '<td class="num">1</td>' not in table
    assert re.search("≈ [ab], [ab] cannot be told apart", texts(page))


def test_two_that_lead_everywhere_share_the_first_place(bench, api):
    loads = [made.workload(bench.team, name) for name in ("x", "y")]
    for name, top in (("slow", 1000), ("fast", 3000), ("quick", 3000)):
        layout = bench.build(name)
        for load in loads:
            bench.measure(layout, top, load=load, noise=0.002)
    said = conclusion(bench, api)["says"]
    assert said.startswith("fast and quick share the first place in 2 of 2: 2 "), said
