"""The history of a set-up, and what curves say as a whole, in a real browser: drawn, clean under axe and the policy."""

from __future__ import annotations

import hashlib
import random
from datetime import UTC, datetime, timedelta

import pytest

from benchlab.hosts.models import FactSnapshot
from benchlab.runs.models import Attempt
from tests.browser.axe import violations
from tests.browser.test_charts import drawn, log_in
from tests.charts import made

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

BEGIN = datetime(2026, 1, 1, 3, tzinfo=UTC)
NIGHTS = 24


@pytest.fixture
def history(team, user):
    """A run a build and three builds a night; a newer kernel and 12 % less from the 17th night on, and one bad run."""
    dice = random.Random(4)
    host, stack, load = made.host(team), made.topology(team, "LVM 64 KiB"), made.workload(team)
    older = host.snapshots.get()
    newer = FactSnapshot.objects.create(host=host, facts=made.facts() | {"kernel": "6.12.9-amd64"})
    attempts = []
    for night in range(NIGHTS):
        campaign = made.campaign(team, f"Night {night + 1}")
        layout = made.done_layout(campaign, host, stack)
        for repeat in (1, 2, 3):
            slow = 0.88 if night >= 16 else 1.0
            bad = 0.5 if (night, repeat) == (9, 2) else 1.0
            attempt = made.finished(
                campaign, layout, load, 4, repeat, 38000 * slow * bad * dice.gauss(1, 0.015)
            )
            Attempt.objects.filter(pk=attempt.pk).update(
                fingerprint=hashlib.sha256(f"{night >= 16}".encode()).hexdigest(),
                facts=newer if night >= 16 else older,
                started_at=BEGIN + timedelta(days=night, minutes=repeat),
            )  # fmt: skip
            attempts.append(attempt)
    return attempts


SHAPES = {
    "sharp": (100, 200, 400, 405, 402, 401, 404),
    "soft": (100, 180, 290, 400, 470, 510, 530),
    "flat": (300, 302, 299, 301, 300, 303, 298),
    "steep": (12, 24, 48, 95, 190, 380, 750),
    "falls": (90, 180, 350, 340, 290, 240, 200),
    "unsure": (60, 118, 222, 384, 540, 640, 700),
}

NOISE = {"unsure": 0.1}


@pytest.fixture
def shapes(team, user):
    """A line for each thing that a curve may say as a whole."""
    host, load, campaign = made.host(team), made.workload(team), made.campaign(team)
    for name, values in SHAPES.items():
        layout = made.done_layout(campaign, host, made.topology(team, name))
        for power, value in enumerate(values):
            for repeat in (1, 2, 3):
                iops = 100 * value * (1 + NOISE.get(name, 0.01) * (repeat - 2))
                made.finished(campaign, layout, load, 2**power, repeat, iops)
    return campaign


@pytest.mark.one_in(2)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_history_is_drawn_and_clean(chromium, live_server, history, scheme):
    page, said = log_in(chromium, live_server, scheme)
    page.goto(f"{live_server.url}/runs/{history[0].run_id}/")
    page.get_by_role("link", name="History of this set-up").click()
    drawn(page)
    assert page.get_by_text("No change or drift of 3 % or more found in 48 runs").count() == 1
    assert violations(page) == []
    page.get_by_label("Ignore").select_option("kernel")
    page.get_by_role("button", name="Show").click()
    page.get_by_text("Kernel there: 6.1.0-28-amd64 before, 6.12.9-amd64 since.").wait_for()
    drawn(page)
    assert page.get_by_text("stands out").count() >= 1
    assert violations(page) == [] and said == []
    page.context.close()


@pytest.mark.night
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_curves_say_is_drawn_and_clean(chromium, live_server, shapes, scheme):
    page, said = log_in(chromium, live_server, scheme)
    page.goto(f"{live_server.url}/compare/?campaign={shapes.pk}")
    drawn(page)
    assert page.get_by_text("not reached, measure deeper").count() >= 1
    assert violations(page) == []
    page.get_by_label("Drawn").select_option("latency")
    page.get_by_text("Little's law: outstanding").first.wait_for()
    assert violations(page) == [] and said == []
    page.context.close()


def test_without_javascript_the_table_says_it(chromium, live_server, history, user, client):
    """The same choices by a form, the same numbers in the table."""
    page = chromium.new_context(java_script_enabled=False).new_page()
    page.goto(f"{live_server.url}/login/")
    page.fill("#id_username", "alice")
    page.fill("#id_password", "alice-password")
    page.click("main button")
    page.goto(f"{live_server.url}/runs/{history[0].run_id}/history/")
    page.get_by_label("Ignore").select_option("kernel")
    page.get_by_role("button", name="Show").click()
    assert page.get_by_text("Changed:").count() == 1
    assert page.locator("tbody tr").count() == 3 * NIGHTS
    page.context.close()
