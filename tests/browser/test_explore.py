"""Explore in a real browser: isolate, hide and sort stay in the address, one zoom zooms all; no script is needed."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.axe import violations
from tests.browser.person import PHONE
from tests.browser.test_charts import becomes, drawn, log_in
from tests.charts import made

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
NAMES = ["LVM 4 KiB", "LVM 16 KiB", "raw"]


@pytest.fixture
def campaign(team, user):
    campaign, load = made.campaign(team), made.workload(team)
    for host in (made.host(team), made.host(team, "vm-12")):
        for number, name in enumerate(NAMES, start=2):
            stack = made.topology(team, name)
            depths = (1, 4, 16)
            made.swept(campaign, host, stack, load, top=9000.0 * number, depths=depths, repeats=3)
    return campaign


def traces(page) -> list[str]:
    return page.evaluate(
        "document.querySelector('.chart').data.filter((t) => t.name).map((t) => t.name)"
    )


def test_hiding_isolating_and_sorting_stay_in_the_address(chromium, live_server, campaign):
    page, said = log_in(chromium, live_server, "light")
    page.goto(f"{live_server.url}/explore/?campaign={campaign.pk}")
    drawn(page)
    assert len(traces(page)) == 6
    page.get_by_role("link", name="Hide raw · vm-12").click()
    expect(page.get_by_role("link", name="Show raw · vm-12")).to_be_visible()
    drawn(page)
    becomes(page, "document.querySelector('.chart').data?.filter((t) => t.name).length === 5")
    assert "hide=" in page.url
    page.get_by_role("link", name="max").click()
    expect(page.locator("th[aria-sort=ascending]")).to_contain_text("max")
    first = page.locator("table.lines tbody th").first
    expect(first).to_contain_text("LVM 4 KiB")
    page.reload()
    drawn(page)
    assert len(traces(page)) == 5
    expect(page.locator("th[aria-sort=ascending]")).to_contain_text("max")
    page.get_by_role("link", name="LVM 4 KiB · vm-09", exact=True).click()
    becomes(page, "document.querySelector('.chart').data?.filter((t) => t.name).length === 1")
    assert "only=" in page.url
    page.reload()
    drawn(page)
    assert traces(page) == ["LVM 4 KiB · vm-09"]
    assert said == []
    page.context.close()


def test_a_choice_draws_at_once_and_the_form_says_it(chromium, live_server, campaign):
    page, said = log_in(chromium, live_server, "light")
    page.goto(f"{live_server.url}/explore/?campaign={campaign.pk}")
    drawn(page)
    page.get_by_label("Up", exact=True).select_option("lat.mean")
    page.get_by_role("heading", name="Total latency, mean over outstanding I/Os").wait_for()
    assert "y=lat.mean" in page.url
    page.go_back()
    expect(page.get_by_label("Up", exact=True)).not_to_have_value("lat.mean")
    assert "y=lat.mean" not in page.url
    page.go_forward()
    expect(page.get_by_label("Up", exact=True)).to_have_value("lat.mean")
    drawn(page)
    page.get_by_role("link", name="Latency against IOPS").click()
    page.get_by_role("heading", name="against IOPS").wait_for()
    assert page.get_by_label("Across", exact=True).input_value() == "iops"
    page.get_by_label("Add a filter").fill("oio <= 4")
    page.get_by_label("Add a filter").press("Enter")
    expect(page.get_by_text("36 of 54 runs")).to_be_visible()
    assert said == []
    page.context.close()


def test_one_zoom_zooms_every_panel(chromium, live_server, campaign):
    page, said = log_in(chromium, live_server, "light")
    page.goto(f"{live_server.url}/explore/?campaign={campaign.pk}")
    drawn(page)
    page.get_by_role("button", name="Split by host").click()
    becomes(page, "Boolean(document.querySelector('.chart').layout?.xaxis2)")
    plot = page.locator(".chart .nsewdrag").first.bounding_box()
    x, y = plot["x"], plot["y"]
    page.mouse.move(x + plot["width"] * 0.3, y + plot["height"] * 0.2)
    page.mouse.down()
    page.mouse.move(x + plot["width"] * 0.8, y + plot["height"] * 0.9, steps=5)
    page.mouse.up()
    becomes(page, "document.querySelector('.chart').layout.xaxis.autorange === false")
    for letter in "xy":
        one, two = page.evaluate(
            f"['', '2'].map((n) => document.querySelector('.chart').layout['{letter}axis' + n].range)"
        )
        assert one == two
    assert said == []
    page.context.close()


def test_a_split_view_is_zoomed_across_as_one_and_fills_the_screen(chromium, live_server, campaign):
    page, said = log_in(chromium, live_server, "light")
    page.goto(f"{live_server.url}/explore/?campaign={campaign.pk}&y=iops")
    drawn(page)
    page.get_by_role("button", name="Split view").click()
    becomes(page, "Boolean(document.querySelector('.chart').layout?.xaxis2)")
    one, two = (page.locator(".chart .nsewdrag").nth(n).bounding_box() for n in (0, 1))
    assert one["y"] == two["y"] and one["x"] + one["width"] < two["x"]  # side by side
    page.mouse.move(two["x"] + two["width"] * 0.5, two["y"] + 40)  # at depth 4 of 1, 4 and 16
    expect(page.locator(".chart .crosshair")).to_have_count(2)
    before = page.evaluate("document.querySelector('.chart').layout.yaxis2.range")
    x, y = one["x"], one["y"]
    page.mouse.move(x + one["width"] * 0.3, y + one["height"] * 0.2)
    page.mouse.down()
    page.mouse.move(x + one["width"] * 0.8, y + one["height"] * 0.9, steps=5)
    page.mouse.up()
    becomes(page, "document.querySelector('.chart').layout.xaxis.autorange === false")
    ranges = "['', '2'].map((n) => document.querySelector('.chart').layout['xaxis' + n].range)"
    left, right = page.evaluate(ranges)
    assert left == right
    # Each metric has a scale of its own.
    assert page.evaluate("document.querySelector('.chart').layout.yaxis2.range") == before
    page.get_by_role("button", name="Full screen").click()
    full = "document.fullscreenElement?.querySelector('.main-svg').clientHeight > innerHeight - 9"
    becomes(page, full)
    assert page.evaluate(ranges) == [left, right]
    # As Escape does where there is a browser around the page
    page.evaluate("document.exitFullscreen()")
    page.set_viewport_size(PHONE)
    upper, lower = "document.querySelectorAll('.chart .nsewdrag')", ".getBoundingClientRect()"
    becomes(page, f"{upper}[0]{lower}.bottom < {upper}[1]{lower}.top")
    assert said == []
    page.context.close()


def test_a_view_is_saved_from_the_title_row_by_keys(chromium, live_server, campaign):
    page, said = log_in(chromium, live_server, "light")
    page.goto(f"{live_server.url}/explore/?campaign={campaign.pk}")
    page.locator(".page-head summary", has_text="Save view").focus()
    page.keyboard.press("Enter")
    assert violations(page) == []
    page.keyboard.press("Tab")
    page.keyboard.type("Six lines")
    page.keyboard.press("Enter")
    page.wait_for_url("**/explore/**")
    expect(page.get_by_role("link", name="Six lines")).to_be_visible()
    assert said == []
    page.context.close()


def test_a_campaign_is_found_by_a_word_and_ticked_by_keys(chromium, live_server, campaign, team):
    for number in range(14):
        made.campaign(team, f"Cache of {number} GiB")
    page, said = log_in(chromium, live_server, "light")
    page.set_viewport_size(PHONE)
    # with a choice of axes: without any it begins with the latest campaign
    page.goto(f"{live_server.url}/explore/?y=iops")
    find = page.get_by_label("Find campaigns")
    find.fill("stripe")
    find.press("Enter")
    boxes = page.locator(".explore-form input[name=campaign]")
    expect(boxes).to_have_count(1)
    expect(find).to_be_focused()
    assert violations(page) == []
    page.keyboard.press("Tab")
    expect(boxes.first).to_be_focused()
    page.keyboard.press("Space")
    drawn(page)
    becomes(page, "document.querySelector('.chart')?.data?.length > 5")
    expect(page.locator(".explore-form input[name=campaign]:checked")).to_be_focused()
    assert said == []
    page.context.close()


def test_every_line_is_told_at_one_depth(chromium, live_server, campaign):
    page, said = log_in(chromium, live_server, "light")
    page.goto(f"{live_server.url}/explore/?campaign={campaign.pk}")
    drawn(page)
    point = page.locator(".chart .scatterlayer .trace .points path").nth(1).bounding_box()
    page.mouse.move(point["x"] + point["width"] / 2, point["y"] - 40)
    told = page.locator(".chart .hoverlayer .legendtext")
    expect(told).to_have_count(6)
    order = [text.partition(" ·")[0] for text in told.all_text_contents()]
    assert order == ["raw", "raw", "LVM 16 KiB", "LVM 16 KiB", "LVM 4 KiB", "LVM 4 KiB"]
    assert said == []
    page.context.close()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_clean_and_fits_a_phone(chromium, live_server, campaign, scheme):
    page, said = log_in(chromium, live_server, scheme)
    for query in (
        "",
        "&y=iops&beside=lat.mean",
        "&facet=line&baseline=0000000000",
        "&x=outstanding&y=topology&colour=iops",
    ):
        for width in (1440, 390):
            page.set_viewport_size({"width": width, "height": 900})
            page.goto(f"{live_server.url}/explore/?campaign={campaign.pk}{query}")
            drawn(page)
            assert violations(page) == [], query
            assert page.evaluate("document.documentElement.scrollWidth") == width, query
    page.goto(f"{live_server.url}/explore/")
    assert violations(page) == []
    assert said == []
    page.context.close()


def test_it_works_without_javascript(chromium, live_server, campaign):
    page, _ = log_in(chromium, live_server, "light")
    state = page.context.storage_state()
    plain = chromium.new_context(java_script_enabled=False, storage_state=state).new_page()
    plain.goto(f"{live_server.url}/explore/?campaign={campaign.pk}")
    plain.get_by_label("Across", exact=True).select_option("topology")
    plain.get_by_label("Up", exact=True).select_option("lat.mean")
    plain.get_by_role("button", name="Show").first.click()
    plain.locator("#explore-numbers summary").click()
    expect(plain.locator("#explore-numbers tbody tr")).to_have_count(2 * 3 * 3)
    plain.get_by_role("link", name="Hide vm-12 · outstanding I/Os 4").click()
    plain.locator("#explore-numbers summary").click()
    expect(plain.locator("#explore-numbers tbody tr")).to_have_count(2 * 3 * 3 - 3)
    for one in (plain, page):
        one.context.close()
