"""The table of runs and the search in a real browser: by keys, sorted, grouped, downloaded; clean under axe."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from benchlab.hosts.models import Device
from tests.browser.axe import violations
from tests.browser.person import Person
from tests.charts import made

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def lab(team, user: User):
    load = made.workload(team)
    for name in ("vm-10", "vm-2"):
        host = made.host(team, name)
        Device.objects.create(
            host=host, identity=f"serial:BTWA{name}", name="sdb", serial=f"BTWA{name}", size=2**30
        )
        made.swept(
            made.campaign(team, f"On {name}"),
            host,
            made.topology(team, "raw"),
            load,
            depths=(1, 4),
            repeats=1,
        )


@pytest.mark.quick
def test_search_sort_group_and_download(chromium, live_server, lab):
    person = Person(chromium, live_server.url)
    person.log_in("alice", "alice-password")
    page = person.page
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.type("btwavm-2")
    page.locator("#search-found").get_by_role("link", name="sdb of vm-2").wait_for()
    assert violations(page) == []
    page.keyboard.press("Escape")
    assert page.locator("#search-found").inner_text() == ""
    page.locator("#search").fill("btwavm-2")  # a browser empties the field as well
    page.keyboard.press("Enter")
    page.wait_for_url("**/search/?q=*")
    assert page.get_by_role("main").locator("mark").inner_text() == "BTWAvm-2"
    person.look("search")
    person.go("Runs")
    page.get_by_role("columnheader").get_by_role("link", name="Host", exact=True).click()
    page.wait_for_url("**ordering=host*")
    assert page.locator("tbody tr").first.locator("td").nth(1).inner_text() == "vm-2"
    person.look("runs")
    page.get_by_label("Column 1", exact=True).fill("host")
    page.get_by_label("Column 1", exact=True).press("Tab")
    page.locator("#run-values-1 option").nth(1).wait_for(state="attached")
    page.get_by_label("Value 1", exact=True).fill("vm-10")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**host=vm-10*")
    assert page.locator("tbody tr").count() == 2
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV", exact=True).click()
    assert download.value.path().read_text().count("vm-10") == 4  # host and campaign of each
    page.locator("summary", has_text="Group by").click()
    page.get_by_role("group", name="Group by").get_by_label("Host", exact=True).check()
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**group=host*")
    assert page.locator("tbody th").all_inner_texts() == ["vm-10"]
    person.look("runs-grouped")
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/runs/")  # the menu is folded there
    box = page.locator(".pinned")
    box.evaluate("box => box.scrollTo(400, 0)")
    left = page.locator("tbody th").first.bounding_box()["x"]
    assert abs(left - box.bounding_box()["x"]) < 3, "the first column stays"
    assert person.complaints == []
    person.close()


def test_all_of_it_without_a_script(chromium, live_server, lab):
    person = Person(chromium, live_server.url, javascript=False)
    person.log_in("alice", "alice-password")
    page = person.page
    page.get_by_role("banner").get_by_role("searchbox").fill("BTWAvm-10")
    page.get_by_role("banner").get_by_role("searchbox").press("Enter")
    assert page.get_by_role("main").get_by_role("link", name="sdb of vm-10").is_visible()
    person.go("Runs")
    page.get_by_label("Column 1", exact=True).fill("outstanding")
    page.get_by_label("Operator 1").select_option("gte")
    page.get_by_label("Value 1", exact=True).fill("many")
    page.get_by_role("button", name="Show").click()
    assert page.get_by_text("Give a number, in base units, not 'many'.").is_visible()
    page.get_by_label("Value 1", exact=True).fill("4")
    page.get_by_role("button", name="Show").click()
    assert page.locator("tbody tr").count() == 2
    for box in page.get_by_label("Select run").all():
        box.check()
    page.get_by_role("button", name="Compare selected").click()
    page.wait_for_url("**/compare/?*")
    person.go("Hosts")
    page.get_by_role("main").get_by_role("searchbox").fill("vm-2")
    page.get_by_role("button", name="Filter").click()
    assert page.locator("tbody tr").count() == 1
    person.close()
