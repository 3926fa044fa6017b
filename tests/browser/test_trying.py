"""The box to try what a command's output holds: with and without JavaScript, light, dark, on a phone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.person import Person

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

SAMPLE = (
    "ioping statistics\n9 requests completed in 2.06 ms, 4.37 k iops, 17.1 MiB/s\nmean 228.7 us\n"
)
EXTRACT = """iops [op/s] x 1000 = regex: ([0-9.]+) k iops
bandwidth [B/s] = regex: iops, ([0-9.]+)
lat.mean [s] x 0.000001 = regex: ^mean ([0-9.]+) us"""


@pytest.mark.parametrize("javascript", [True, False])
def test_a_sample_is_tried(chromium, live_server, user, javascript) -> None:
    person = Person(chromium, live_server.url, javascript=javascript)
    person.log_in("alice", "alice-password")
    page = person.page
    page.goto("/workloads/new/?tool=command")
    page.fill("#id_name", "ioping")
    page.fill("#id_option-extract", EXTRACT)
    page.fill("#id_sample", SAMPLE)
    page.get_by_text("How such a line is written").click()
    person.press("Try")
    result = page.locator("#try-result")
    expect(result).to_contain_text("4370 op/s")
    expect(result).to_contain_text("say in the pattern what comes after the number")
    expect(page.locator("#id_name")).to_have_value("ioping")
    expect(page.locator("#id_sample")).to_have_value(SAMPLE)
    person.look("workload-try")
    assert person.complaints == []
    person.close()


def test_presets_stand_under_their_headings(chromium, live_server, user) -> None:
    person = Person(chromium, live_server.url)
    person.log_in("alice", "alice-password")
    person.page.goto("/workloads/")
    heading = person.page.get_by_role("heading", name="As the articles measured", exact=True)
    expect(heading).to_be_visible()
    person.look("workloads-presets")
    assert person.complaints == []
    person.close()
