"""Charts of latencies in a real browser: of a run that was counted in bins, and of one that told percentiles alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchlab.runs import artifacts, conclusion
from benchlab.runs.models import Attempt, Measurement
from tests.browser.axe import violations
from tests.browser.test_charts import becomes, drawn, log_in
from tests.charts import made

NOISY = Path(__file__).parents[1] / "cases/tools/fio/3.33-noisy-randrw.json"
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
CHART = "document.querySelector('#latency .chart')"


@pytest.fixture
def attempt(team, user) -> Attempt:
    """Of a noisy run of fio's own, with samples and percentiles over time as another would have them."""
    where, load = made.host(team), made.workload(team)
    (found,) = made.swept(
        made.campaign(team), where, made.topology(team, "raw"), load, depths=(16,), repeats=1
    )
    found.run.options = {}
    found.run.save()
    found.artifacts.all().delete()
    artifacts.store_artifacts(found, {"fio.json": NOISY.read_bytes()})
    assert conclusion.reparse_attempt(found) == ""
    made.sampled(found)
    made.with_percentiles(found, directions=("read", "write"))
    Attempt.objects.filter(pk=found.pk).update(windows=made.WINDOWS)
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_histogram_and_cdf_are_drawn_and_clean(chromium, live_server, attempt, scheme):
    page, said = log_in(chromium, live_server, scheme)
    page.goto(f"{live_server.url}/runs/{attempt.run_id}/")
    drawn(page)
    assert violations(page) == [] and said == []
    assert page.locator("#latency").get_by_text("99 % within 2.9 ms").count()
    assert page.evaluate(f"{CHART}.data.filter((one) => one.fill).length") == 2
    assert page.evaluate(f"{CHART}.layout.yaxis2.type") == "log"
    page.locator("#latency select[name=percent]").select_option("even")
    becomes(page, f"{CHART}.layout.yaxis2.type !== 'log'")
    page.set_viewport_size({"width": 390, "height": 844})
    becomes(page, f"{CHART}.layout.yaxis2.domain?.[1] < 0.6")  # below one another
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.context.close()


def test_percentiles_are_a_panel_of_the_time_chart(chromium, live_server, attempt):
    """With its zoom and its cross-hair; on a logarithmic axis, zoomed or not."""
    page, said = log_in(chromium, live_server, "light")
    page.goto(f"{live_server.url}/runs/{attempt.run_id}/")
    drawn(page)
    chart = "document.querySelector('#devices .chart')"
    number = page.evaluate(f"{chart}.data.find((one) => one.name === 'p99.9').yaxis.slice(1)")
    assert page.evaluate(f"{chart}.layout['yaxis{number}'].type") == "log"
    with page.expect_response(lambda one: "devices.json" in one.url and "from=" in one.url):
        page.evaluate(f"Plotly.relayout({chart}, {{'xaxis.range': [28, 40]}})")
    becomes(page, f"{chart}.layout['yaxis{number}'].type === 'log'")
    panels = page.evaluate(f"Object.keys({chart}._fullLayout._plots).length")
    page.locator("#devices .chart").first.locator(".nsewdrag").first.hover()
    becomes(page, f"{chart}.querySelectorAll('.crosshair').length === {panels}")
    assert said == []
    page.context.close()


def test_percentiles_alone_are_a_cdf_in_steps(chromium, live_server, attempt):
    attempt.histograms.all().delete()
    Measurement.objects.filter(attempt=attempt, name__startswith="write.").delete()
    page, said = log_in(chromium, live_server, "light")
    page.goto(f"{live_server.url}/runs/{attempt.run_id}/")
    drawn(page)
    assert page.evaluate(f"{CHART}.data.every((one) => !one.fill)")
    assert page.evaluate(f"{CHART}.data[0].line.shape") == "hv"
    assert "joined by steps" in page.evaluate(f"{CHART}.layout.title.text")
    assert violations(page) == [] and said == []
    page.context.close()


def test_lines_can_be_drawn_as_cdfs_at_one_depth(chromium, live_server, attempt):
    """Reads and writes together, as all I/O is asked for; then reads alone."""
    page, said = log_in(chromium, live_server, "dark")
    page.goto(f"{live_server.url}/compare/?campaign={attempt.run.campaign_id}")
    drawn(page)
    chart = "document.querySelector('main section .chart')"
    page.get_by_label("Drawn").select_option("cdf.16")
    becomes(page, f"{chart}.data[0].name.endsWith('(728,484)')")
    page.get_by_label("of", exact=True).select_option("read")
    becomes(page, f"{chart}.data[0].name.endsWith('(510,362)')")
    assert violations(page) == [] and said == []
    page.context.close()
