"""Every page in a real browser: no violation of the content security policy, also where a host means harm."""

from __future__ import annotations

import pytest

from benchlab.team import permissions
from benchlab.testing import profiles
from tests.browser.test_charts import log_in
from tests.security import hostile
from tests.security.conftest import rows  # noqa: F401
from tests.security.test_pages import NOT_HERE, SEEN, addresses
from tests.team.test_table import rows as table_rows  # noqa: F401

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
# They would end the session, or are no pages: files, figures, fragments.
LEAVES = {"logout", "account_logout", "healthz", "readyz", "api-docs"}
TELL = """window.said = []; addEventListener("securitypolicyviolation",
  (event) => window.said.push(event.violatedDirective + " " + event.blockedURI + " " + event.sample));
window.pwned = () => window.said.push("a host's words ran")"""


def is_a_page(name: str) -> bool:
    return not any(word in name for word in ("figure", "csv", "download", "file", "data"))


EVERY = sorted(
    name
    for name in set(SEEN) - (NOT_HERE - {"api-docs"}) - LEAVES | {"api-docs"}
    if is_a_page(name) and permissions.PAGES[name].see is not None
)
HALF = len(EVERY) // 2
PAGES = profiles.drawn("pages under the policy", EVERY, quick=HALF, more=HALF)


@pytest.mark.draws
def test_no_page_violates_the_policy(chromium, live_server, user, rows):  # noqa: F811
    user.is_superuser = True
    user.save()
    page, _ = log_in(chromium, live_server, "light")
    page.add_init_script(TELL)
    wrong, seen = [], 0
    for name in PAGES:
        for address in addresses(name, rows)[:2]:
            answer = page.request.get(live_server.url + address)
            if "html" not in answer.headers.get("content-type", ""):
                continue  # a file
            page.goto(live_server.url + address, wait_until="load")
            page.wait_for_timeout(50)
            wrong += [f"{name}: {said}" for said in page.evaluate("window.said")]
            seen += 1
    assert seen > 20 and not wrong, "\n".join(wrong)
    page.context.close()
    assert hostile.MARK
