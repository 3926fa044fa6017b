"""Complaints of a browser's console are heard, but for the events that the tests' own server has not."""

from __future__ import annotations

import pytest

from tests.browser import console
from tests.browser.person import Person
from tests.charts import made, made_live

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
SAYS = "console.error('first'); console.error(String(new Event('error'))); console.error('last')"


@pytest.mark.parametrize(
    ("host", "heard"),
    [("localhost", ["first", "last"]), ("127.0.0.1", ["first", console.ENDED, "last"])],
)
def test_an_ended_stream_is_an_error_where_events_are_streamed(chromium, live_server, host, heard):
    page = chromium.new_context().new_page()
    page.goto(f"{live_server.url}/healthz".replace("localhost", host))
    said: list[str] = []
    console.listen(page, said.append)
    page.evaluate(SAYS)
    assert said == heard


def test_a_page_that_asks_for_events_is_clean(chromium, live_server, user, team):
    """Some seconds later, too: that is when it is told for the second time that there are none."""
    campaign = made.campaign(team)
    made_live.running(campaign, made.host(team), made.topology(team, "raw"), made.workload(team))
    person = Person(chromium, live_server.url)
    person.log_in("alice", "alice-password")
    person.page.wait_for_url("**/")
    with person.page.expect_response("**/events/") as answered:
        person.page.goto(f"/campaigns/{campaign.pk}/")
    assert answered.value.status == 204
    person.page.wait_for_timeout(2_000)
    assert person.complaints == []
