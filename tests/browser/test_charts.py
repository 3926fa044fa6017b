"""Charts in a real browser: drawn, clean under the content security policy and under axe, light and dark."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.axe import violations
from tests.charts import made

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def campaign(team, user):
    where, campaign, load = made.host(team), made.campaign(team), made.workload(team)
    for name in ("LVM 64 KiB", "raw"):
        attempts = made.swept(campaign, where, made.topology(team, name), load, depths=(1, 4, 16))
        made.sampled(attempts[0])
    return campaign


def log_in(chromium, live_server, scheme: str) -> tuple[Any, list[str]]:
    """A page of alice's, and what its console complains of from now on."""
    page = chromium.new_context(color_scheme=scheme, accept_downloads=True).new_page()
    said: list[str] = []
    page.on(
        "console", lambda message: said.append(message.text) if message.type == "error" else None
    )
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(f"{live_server.url}/login/")
    assert violations(page) == []
    page.fill("#id_username", "alice")
    page.fill("#id_password", "alice-password")
    page.click("main button")
    return page, said


def drawn(page: Any) -> None:
    for chart in page.locator(".chart").all():
        chart.locator(".main-svg").first.wait_for(state="attached")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_compare_and_run_pages_are_drawn_and_clean(chromium, live_server, campaign, scheme):
    page, said = log_in(chromium, live_server, scheme)
    run = campaign.runs.first().pk
    for path in (f"/compare/?campaign={campaign.pk}", f"/runs/{run}/", "/compare/"):
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
        assert download.value.path().read_bytes().startswith(start)
    assert page.locator("[data-title*='Share']").count() == 0
    point = page.locator(".chart .scatterlayer .trace .points path").last.bounding_box()
    page.mouse.click(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2)
    page.wait_for_url("**/runs/*/")
    assert said == []
    page.context.close()
