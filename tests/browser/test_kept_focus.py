"""The keyboard's focus while a part of a page is drawn anew: it stays on what it was on, with an id or without one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from agents.plans import applied_part
from benchlab.hosts import discovery
from benchlab.runs.models import Layout
from tests import stack
from tests.browser.person import Person
from tests.browser.test_live_page import building, ready
from tests.charts import made
from tests.topologies.plans import cached, many_disks
from tests.topologies.plans import made as planned

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

# Each thing in <main> that keys reach is given the focus, a part of the page is asked for anew, and the focus is looked
# at again. Told: how many there are, how many were drawn anew, and those that lost the focus.
LOST = """async (selector) => {
  const reached = "main :is(a[href], button, input, select, textarea, summary, [tabindex='0'])";
  const stops = () => [...document.querySelectorAll(reached)].filter((one) => one.checkVisibility());
  const said = (one) => one.outerHTML.replace(/ (class|value)="[^"]*"/g, "").slice(0, 160);
  const lost = [];
  let swapped = 0;
  const many = stops().length;
  for (let at = 0; at < many; at++) {
    const one = stops()[at];
    one.focus();
    const before = said(one);
    const url = document.querySelector(selector).getAttribute("hx-get");
    const event = new Event("changed"); /* by the clock alone a page with a stream asks for nothing */
    await htmx.ajax("GET", url, { source: selector, target: selector, swap: "outerHTML", event });
    await new Promise((done) => setTimeout(done, 60));
    swapped += !one.isConnected;
    const now = document.activeElement;
    if (said(now) !== before) lost.push(before);
  }
  return { many, swapped, lost };
}"""


@pytest.fixture
def person(chromium, web, tmp_path) -> Iterator[Person]:
    with stack.web(tmp_path, stack.redis_url(9)) as url:
        one = Person(chromium, url)
        session = {
            "name": settings.SESSION_COOKIE_NAME,
            "value": web.cookies[settings.SESSION_COOKIE_NAME].value,
            "url": url,
        }
        one.page.context.add_cookies([session])
        yield one
        one.close()


def lost(person: Person, address: str, part: str) -> tuple[int, list[str]]:
    """Number of things that were drawn anew under the focus, and those that lost it."""
    person.page.goto(address)
    person.drawn()
    found: dict[str, Any] = person.page.evaluate(LOST, part)
    assert found["many"] > 5
    return found["swapped"], found["lost"]


def a_draft(team) -> Layout:
    host, found = made.host(team, "vm-11"), many_disks()
    plan = planned(cached(), found)
    layout = Layout.objects.create(
        campaign=made.campaign(team), host=host, topology=made.topology(team, "planned"), stack=cached(),
        plan=applied_part.to_json(plan), plan_fingerprint=plan.fingerprint, planned_at=timezone.now(),
        facts_planned=discovery.store_facts(host, found),
    )  # fmt: skip
    made.run(layout.campaign, layout, made.workload(team), 4, 1)
    return layout


def test_on_a_campaign_that_is_a_draft_is_built_or_measured(person, team):
    draft, built = a_draft(team), building(team, ended=3)
    measured = made.campaign(team, "Measured")
    layout = ready(measured, made.host(team, "vm-10"), team)
    for depth in (1, 4):
        made.finished(measured, layout, made.workload(team), depth, 1, 1000.0 * depth)
    for campaign in (draft.campaign_id, built.campaign_id, measured.pk):
        swapped, gone = lost(person, f"/campaigns/{campaign}/", "#campaign-now")
        assert gone == []
        assert swapped > 0
    assert person.complaints == []


def test_on_home(person, team):
    building(team, ended=3)
    a_draft(team)
    for part in ("#home-now", "#home-rest"):
        swapped, gone = lost(person, "/", part)
        assert gone == []
        assert swapped > 3
