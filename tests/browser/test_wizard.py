"""The wizard where there is much to tick: found by words of names, ticked by keys, and all of it without a script."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from benchlab.campaigns.models import Campaign, Workload
from benchlab.topologies.models import Topology
from benchlab.web.lists import MAX_UNSEARCHED_CHOICES
from tests.browser.axe import violations
from tests.browser.person import DESK, PHONE
from tests.browser.test_charts import log_in
from tests.charts import made

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
KINDS = ("hosts", "topologies", "workloads")
ROWS = MAX_UNSEARCHED_CHOICES + 2
DIRECTORY = [{"kind": "directory", "options": {"path": "/srv/a"}, "devices": []}]
FIO = {"rw": "randread", "size": 1 << 20, "runtime_s": 60}


@pytest.fixture
def many(team, user) -> None:
    """More of each kind than one sees at a glance."""
    for number in range(ROWS):
        made.host(team, f"vm-{number:02}")
        Topology.objects.create(team=team, name=f"Tree {number:02} on xfs", stack=DIRECTORY)
        name = f"Random reads {number:02}"
        Workload.objects.create(team=team, name=name, tool="fio", options=FIO)


def shown(page, kind: str):
    return page.locator(f"#id_{kind} label:visible")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_list_is_found_by_words_and_ticked_by_keys(chromium, live_server, many, scheme):
    page, said = log_in(chromium, live_server, scheme)
    page.goto(f"{live_server.url}/campaigns/new/")
    page.fill("#id_name", "By keys")
    wished = {"hosts": "VM 03", "topologies": "11 tree", "workloads": "reads 07"}
    for kind, words in wished.items():
        find = page.get_by_label(f"Find {kind}")
        find.press("Enter")  # creates nothing
        find.fill(words)
        expect(shown(page, kind)).to_have_count(1)
        expect(page.locator(f"fieldset:has(#id_{kind}) [role=status]")).to_have_text(f"1 of {ROWS}")
        page.keyboard.press("Tab")
        expect(shown(page, kind).get_by_role("checkbox")).to_be_focused()
        page.keyboard.press("Space")
    expect(page.locator("#campaign-estimate")).to_contain_text("Runs")
    for viewport in (DESK, PHONE):
        page.set_viewport_size(viewport)
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]
    assert said == []
    page.context.close()


def test_what_is_ticked_stays_in_sight_and_is_created(chromium, live_server, many):
    page, said = log_in(chromium, live_server, "light")
    page.goto(f"{live_server.url}/campaigns/new/")
    page.fill("#id_name", "Kept")
    for kind in KINDS:
        page.locator(f"#id_{kind} input").first.check()
        find = page.get_by_label(f"Find {kind}")
        find.fill("02")
        expect(shown(page, kind)).to_have_count(2)
        find.fill("no such")
        expect(shown(page, kind)).to_have_count(1)
        expect(page.get_by_text("None has “no such”.")).to_have_count(KINDS.index(kind) + 1)
        expect(page.locator(f"#id_{kind} input").first).to_be_checked()
    page.get_by_label("Find hosts").fill("")
    expect(shown(page, "hosts")).to_have_count(ROWS)
    assert not Campaign.objects.exists()
    page.get_by_role("button", name="Create it and show the plan").click()
    page.wait_for_url(re.compile(r"/campaigns/\d+/$"))
    run = Campaign.objects.get().runs.first()
    assert str(run.host) == "vm-00" and str(run.topology) == "Tree 00 on xfs"
    assert said == []
    page.context.close()


def test_few_have_no_field_and_no_script_shows_all(chromium, live_server, many, team):
    page, _ = log_in(chromium, live_server, "light")
    state = page.context.storage_state()
    plain = chromium.new_context(java_script_enabled=False, storage_state=state).new_page()
    plain.goto(f"{live_server.url}/campaigns/new/")
    for kind in KINDS:
        expect(shown(plain, kind)).to_have_count(ROWS)
        expect(plain.locator(f"[data-finds=id_{kind}]")).to_be_hidden()
    for row in team.hosts.all()[MAX_UNSEARCHED_CHOICES:]:
        row.delete()
    page.goto(f"{live_server.url}/campaigns/new/")
    expect(page.get_by_label("Find hosts")).to_have_count(0)
    expect(page.get_by_label("Find workloads")).to_be_visible()
    for one in (plain, page):
        one.context.close()
