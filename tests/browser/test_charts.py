"""Charts in a real browser: drawn, clean under the content security policy and under axe, light and dark."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from benchlab.runs.models import LiveChunk
from tests.browser import console
from tests.browser.axe import violations
from tests.browser.person import PHONE
from tests.charts import made, made_live

CACHE = Path(__file__).parents[1] / "cases/samplers/dm_cache/lvm-cache-and-writecache.txt"
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def campaign(team, user):
    where, campaign, load = made.host(team), made.campaign(team), made.workload(team)
    for name in ("LVM 64 KiB", "raw"):
        attempts = made.swept(campaign, where, made.topology(team, name), load, depths=(1, 4, 16))
        made.sampled(attempts[0])
        attempts[0].windows = made.WINDOWS
        attempts[0].save()
    return campaign


def log_in(chromium, live_server, scheme: str) -> tuple[Any, list[str]]:
    """A page of alice's, and what its console complains of from now on."""
    page = chromium.new_context(
        color_scheme=scheme, accept_downloads=True, reduced_motion="reduce"
    ).new_page()
    said: list[str] = []
    console.listen(page, said.append)
    page.goto(f"{live_server.url}/login/")
    assert violations(page) == []
    page.fill("#id_username", "alice")
    page.fill("#id_password", "alice-password")
    page.click("main button")
    return page, said


def drawn(page: Any) -> None:
    page.wait_for_load_state()
    for chart in page.locator(".chart").all():
        chart.locator(".main-svg").first.wait_for(state="attached")


def settled(page: Any) -> None:
    """What htmx put there is wired, too: a link that is clicked before leads to a new page, as without script."""
    expect(page.locator(".htmx-added, .htmx-swapping, .htmx-settling")).to_have_count(0)


def si(told: str) -> float:
    """Of "7.45k r/s sdb"."""
    number, prefix = re.match(r"([-\d.]+)([kMm]?)", told).groups()
    return float(number) * {"": 1.0, "k": 1e3, "M": 1e6, "m": 1e-3}[prefix]


def becomes(page: Any, true: str, seconds: float = 10.0) -> None:
    """The policy forbids what Playwright's own wait_for_function does."""
    end = time.monotonic() + seconds
    while not page.evaluate(true):
        assert time.monotonic() < end, true
        page.wait_for_timeout(50)


@pytest.mark.quick
@pytest.mark.one_in(2)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_compare_and_run_pages_are_drawn_and_clean(chromium, live_server, campaign, scheme):
    page, said = log_in(chromium, live_server, scheme)
    run = campaign.runs.first().pk
    answered = f"/campaigns/{campaign.pk}/report/#answers"
    for path in (answered, f"/compare/?campaign={campaign.pk}", f"/runs/{run}/", "/compare/"):
        page.goto(live_server.url + path)
        drawn(page)
        assert violations(page) == [], path
    page.click("#theme-toggle")
    drawn(page)
    assert said == []
    page.context.close()


def test_a_chart_can_be_saved_and_a_point_opens_its_run(chromium, live_server, campaign):
    page, said = log_in(chromium, live_server, "light")
    page.goto(f"{live_server.url}/compare/?campaign={campaign.pk}")
    drawn(page)
    for kind, start in (("PNG", b"\x89PNG"), ("SVG", b"<svg")):
        with page.expect_download() as download:
            page.get_by_role("button", name=f"Download the chart as {kind}").first.click()
        kept = download.value.path().read_bytes()
        assert kept.startswith(start)
    # On the page the heading says it; a picture goes without one.
    assert re.search(rb'class="gtitle"[^>]*>IOPS and total latency over outstanding', kept)
    assert page.locator(".gtitle").first.text_content().startswith("Line: median of")
    assert page.locator("[data-title*='Share']").count() == 0
    point = page.locator(".chart .scatterlayer .trace .points path").last.bounding_box()
    page.mouse.click(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2)
    page.wait_for_url("**/runs/*/")
    assert said == []
    page.context.close()


def test_a_click_in_a_chart_tells_every_device_at_that_instant(chromium, live_server, campaign):
    page, said = log_in(chromium, live_server, "light")
    page.goto(f"{live_server.url}/runs/{campaign.runs.first().pk}/")
    drawn(page)
    page.evaluate("() => { globalThis.stays = true; }")
    plot = page.locator("#devices .chart-tall .nsewdrag").first
    plot.scroll_into_view_if_needed()
    plot.click()
    part, caption = page.locator("#instant"), page.locator("#instant caption")
    expect(caption).to_contain_text("The sample from ")
    settled(page)
    end = float(re.search(r"to (\d+) s", caption.inner_text()).group(1))
    assert float(page.input_value("#instant-at")) == end and 20 < end < 40
    assert part.locator("tbody tr").count() == 5  # four disks and the volume on them
    part.get_by_role("button", name="Sample after").click()
    expect(caption).to_contain_text(f"to {end + 1:g} s")
    settled(page)
    for order in ("ascending", "descending"):
        part.get_by_role("link", name="Time busy, util").click()
        expect(part.locator(f"th[aria-sort={order}]")).to_have_count(1)
        settled(page)
    shares = [float(text[:-2]) for text in part.locator("td:last-child").all_inner_texts()]
    assert shares == sorted(shares, reverse=True) and len(shares) == 5
    assert f"at={end + 1:g}" in page.url and "sort=-util" in page.url
    page.fill("#instant-at", "7.5")
    page.keyboard.press("Enter")
    expect(caption).to_contain_text("from 7 to 8 s")
    expect(part.locator("th[aria-sort=descending]")).to_have_count(1)
    assert page.evaluate("globalThis.stays") and violations(page) == []
    page.reload()
    expect(caption).to_contain_text("from 7 to 8 s")
    assert said == []
    page.context.close()


REPEAT = """() => {
  const chart = document.querySelector(".chart");
  const curveNumber = chart.data.findIndex((one) => one.mode === "markers");
  Plotly.Fx.hover(chart, [{ curveNumber, pointNumber: 0 }]);
}"""


def test_a_repeat_is_told_with_its_depth_and_run(chromium, live_server, campaign):
    page, said = log_in(chromium, live_server, "light")
    page.goto(f"{live_server.url}/compare/?campaign={campaign.pk}")
    drawn(page)
    page.evaluate(REPEAT)
    told = page.locator(".chart .hoverlayer .hovertext").first.text_content()
    run = campaign.runs.order_by("pk").first()
    wanted = rf"LVM 64 KiB *outstanding 1, {run.which}: IOPS [\d.]+.k IOPS *run {run.pk} · click opens it"
    assert re.fullmatch(wanted, told), told
    assert said == []
    page.context.close()


def test_names_at_the_ends_of_lines_go_with_them_and_a_phone_has_none(
    chromium, live_server, campaign
):
    page, said = log_in(chromium, live_server, "light")
    page.goto(f"{live_server.url}/compare/?campaign={campaign.pk}")
    drawn(page)
    names = page.locator(".chart .annotation-text")
    expect(names.get_by_text("raw", exact=True)).to_have_count(2)  # IOPS and latency
    page.locator(".chart .legendtoggle").last.click()
    expect(names.get_by_text("raw", exact=True)).to_have_count(0)
    expect(names.get_by_text("LVM 64 KiB", exact=True)).to_have_count(2)
    page.click("#theme-toggle")  # drawn anew
    page.wait_for_timeout(500)
    expect(names.get_by_text("raw", exact=True)).to_have_count(0)
    page.set_viewport_size(PHONE)
    expect(names.get_by_text("LVM 64 KiB", exact=True)).to_have_count(0)
    assert said == []
    page.context.close()


def test_charts_of_caches_come_by_themselves_while_a_point_runs(
    chromium, live_server, campaign, team
):
    host, topology = campaign.runs.first().host, made.topology(team, "cached")
    attempt = made_live.running(campaign, host, topology, made.workload(team, "other"), frames=0)
    page, said = log_in(chromium, live_server, "light")
    page.goto(f"{live_server.url}/runs/{attempt.run_id}/")
    drawn(page)
    assert page.locator(".chart").count() == 1
    LiveChunk.objects.create(attempt=attempt, offset=0, data=CACHE.read_bytes())
    page.locator("#live-caches .main-svg").first.wait_for(state="attached")
    chart = page.locator("#live-caches .chart")
    chart.evaluate("(one) => { one.seen = true; }")
    with page.expect_response(lambda answer: "part=live-caches" in answer.url):
        pass
    page.wait_for_timeout(500)
    assert chart.evaluate("(one) => one.seen")  # kept over the swap, with its zoom
    assert page.get_by_text("Cache hit ratio and dirty data").count()
    assert violations(page) == [] and said == []
    page.context.close()


def test_zooming_into_a_run_fetches_that_part_as_finely_as_there_is_room(
    chromium, live_server, campaign
):
    attempt = campaign.runs.last().attempts.get()
    made.sampled(attempt, seconds=7200)
    page, said = log_in(chromium, live_server, "light")
    page.goto(f"{live_server.url}/runs/{attempt.run_id}/")
    drawn(page)
    chart = "document.querySelector('#devices .chart')"
    assert page.evaluate(f"{chart}.data[0].x.length") <= 1000
    with page.expect_response(lambda one: "from=600" in one.url and "to=700" in one.url):
        page.evaluate(f"Plotly.relayout({chart}, {{'xaxis.range': [600, 700]}})")
    becomes(page, f"{chart}.data[0].x.length == 103")
    assert page.evaluate(f"{chart}.layout.xaxis.range") == [600, 700]
    with page.expect_response(lambda one: "/devices.json" in one.url and "from=" not in one.url):
        page.evaluate(f"Plotly.relayout({chart}, {{'xaxis.autorange': true}})")
    becomes(page, f"{chart}.data[0].x.length > 200")
    page.get_by_role("button", name="Full screen").first.click()
    becomes(
        page,
        "document.fullscreenElement?.querySelector('.main-svg').clientHeight > innerHeight - 9",
    )
    page.keyboard.press("Escape")
    assert said == []
    page.context.close()


def test_a_crosshair_goes_through_all_panels(chromium, live_server, campaign):
    page, said = log_in(chromium, live_server, "light")
    page.goto(f"{live_server.url}/runs/{campaign.runs.first().pk}/")
    drawn(page)
    panel = page.locator("#devices .chart").first.locator(".nsewdrag").first
    panels = page.locator("#devices .chart").first.locator(".nsewdrag").count()
    assert panels > 2
    panel.hover()
    lines = page.locator("#devices .chart").first.locator(".crosshair")
    expect(lines).to_have_count(panels)
    told = page.locator("#devices .chart").first.locator(".hoverlayer .legend")
    told.wait_for()
    values = [si(line) for line in told.locator(".legendtext").all_text_contents()]
    assert len(values) >= 5 and values == sorted(values, reverse=True)
    page.mouse.move(1, 1)
    expect(page.locator(".crosshair")).to_have_count(0)
    assert said == []
    page.context.close()


# Seconds at which the first cross-hair of a chart stands.
INSTANT = """(chart) => {
  const axis = chart._fullLayout.xaxis;
  return axis.p2d(parseFloat(chart.querySelector(".crosshair").style.translate) - axis._offset);
}"""


def test_other_charts_of_the_run_show_the_same_instant(chromium, live_server, campaign):
    page, said = log_in(chromium, live_server, "light")
    page.goto(f"{live_server.url}/runs/{campaign.runs.first().pk}/")
    drawn(page)
    devices = page.locator("#devices .chart[data-figure-url*='devices.json']")
    cpu = page.locator("#devices .chart[data-figure-url*='cpu.json']")
    others = page.locator(".chart:not([data-instant]) .crosshair")
    devices.locator(".nsewdrag").first.hover()
    expect(cpu.locator(".crosshair")).to_have_count(1)
    there, here = cpu.evaluate(INSTANT), devices.evaluate(INSTANT)
    assert there == pytest.approx(here, abs=1e-3) and here > 1
    cpu.locator(".nsewdrag").hover()
    panels = devices.locator(".nsewdrag").count()
    expect(devices.locator(".crosshair")).to_have_count(panels)
    expect(cpu.locator(".crosshair")).to_have_count(0)  # Plotly draws that one
    assert others.count() == 0
    page.mouse.move(1, 1)
    expect(page.locator(".crosshair")).to_have_count(0)
    # One that shows another part has none.
    chart = "document.querySelector('.chart[data-figure-url*=\"devices.json\"]')"
    page.evaluate(f"Plotly.relayout({chart}, {{'xaxis.range': [0, 2]}})")
    cpu.locator(".nsewdrag").hover()
    cpu.locator(".hoverlayer .legend").wait_for()
    page.wait_for_timeout(200)
    assert devices.locator(".crosshair").count() == 0
    assert said == []
    page.context.close()


@pytest.mark.night
def test_many_disks_are_a_band_and_each_of_them_on_demand(chromium, live_server, campaign, team):
    where, load = made.host(team, "many", disks=12), made.workload(team, "other")
    [attempt] = made.swept(
        campaign, where, made.topology(team, "stripe"), load, depths=(4,), repeats=1
    )
    made.sampled(attempt, disks=12, seconds=7200)
    attempt.meta = {"disks": {"data": [f"sd{chr(98 + n)}" for n in range(12)]}}
    attempt.windows = made.WINDOWS
    attempt.save()
    page, said = log_in(chromium, live_server, "light")
    page.goto(f"{live_server.url}/runs/{attempt.run_id}/")
    drawn(page)
    chart = "document.querySelector('#devices .chart')"
    names = f"new Set({chart}.data.filter((one) => one.showlegend).map((one) => one.name)).size"
    assert page.evaluate(names) == 3  # the volume, the band, the median
    page.evaluate(f"Plotly.relayout({chart}, {{'xaxis.range': [600, 700]}})")
    becomes(page, f"{chart}.data[0].x.length == 103")
    with page.expect_response(lambda one: "members=1" in one.url and "from=600" in one.url):
        page.select_option("select[name=members]", "1")
    becomes(page, f"{names} == 13")
    assert page.evaluate(f"{chart}.layout.xaxis.range") == [600, 700]
    page.locator("#devices .chart .nsewdrag").first.hover()
    told = page.locator("#devices .chart .hoverlayer .legendtext")
    told.nth(12).wait_for()
    values = [si(line) for line in told.all_text_contents()]
    assert values == sorted(values, reverse=True)
    shades = "document.querySelector('#devices .chart[data-figure-url*=\"disks.json\"]')"
    with page.expect_response(lambda one: "disks.json" in one.url and "metric=write" in one.url):
        page.select_option("#devices select[name=metric]", "write.iops")
    becomes(page, f"{shades}.layout.title.text.includes('writes')")
    assert page.evaluate(f"{shades}.data[0].y.length") == 12
    assert violations(page) == [] and said == []
    page.goto(f"{live_server.url}/runs/{attempt.run_id}/?members=1#devices-in-numbers")
    becomes(page, f"{chart}.data?.length > 13")
    assert page.evaluate(names) == 13
    assert page.locator("#devices-in-numbers[open]").count() == 1
    page.set_viewport_size(PHONE)
    panels = f"Object.values({chart}._fullLayout._plots ?? {{}}).map((one) => one.yaxis._length)"
    becomes(page, f"{panels}.length > 3 && {panels}.every((one) => one > 80)")  # not the legend's
    legend = page.locator("#devices .chart .legend").first.bounding_box()
    below = page.locator("#devices .chart").first.bounding_box()
    assert legend["height"] > 13 * 18
    assert legend["y"] + legend["height"] <= below["y"] + below["height"]
    page.context.close()
