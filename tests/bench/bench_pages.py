"""The cost of pages with charts: a campaign of 540 runs, a run of 12 disks for an hour, a run of 16 disks for a day.

The web server is that of `manage.py up`, static files compressed and hashed; the browser is a Chromium with no cache.
Each figure is the best of several, with the median beside it. Server CPU is the web server's own.
"""

from __future__ import annotations

import http.client
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import django
import psutil

from tests.bench import lab_services, options
from tests.bench.bench_api import verdict

RUNS, HOUR, DAY = 540, (12, 3600), (16, 86_400)
# Requests in a row, whose CPU is told together: the kernel counts it in hundredths
ROUNDS, AT_ONCE = (
    7,
    5,
)
IDLE_S = 12.0
KB, READY_MS, CPU_MS, DRAWN_MS, ZOOMED_MS, ANSWER_MS = 150, 1500, 150, 300, 300, 300  # targets
# When a chart was asked for, and when Plotly had drawn it; zooming is timed from the turn of the wheel.
TIMED = """(() => {
  let plotly;
  window.drawn = [];
  Object.defineProperty(window, "Plotly", {
    configurable: true,
    get: () => plotly,
    set: (made) => {
      const react = made.react;
      made.react = async (chart, ...rest) => {
        const begun = performance.now();
        const done = await react(chart, ...rest);
        window.drawn.push({ name: chart.dataset.chartName, begun, done: performance.now() });
        return done;
      };
      plotly = made;
    },
  });
})()"""
ASKED = "performance.getEntriesByType('resource').filter((one) => one.name.includes('%s')).at(-1).startTime"


def main() -> int:
    options.none(__doc__)
    django.setup()
    from django.core.management import call_command

    from tests.bench import lab_data, lab_long

    call_command("migrate", verbosity=0)
    owner = lab_data.person(f"pages {time.time()}")
    campaign = lab_long.campaign(owner, RUNS)
    hour, day = (lab_long.run(owner, *size) for size in (HOUR, DAY))
    directory = Path(tempfile.mkdtemp(prefix="bench-pages-"))
    try:
        with lab_services.web(directory, lab_services.environment(directory)) as (url, server):
            lab = Lab(url, server, lab_long.session(owner))
            bad = of_campaign(lab, campaign)
            bad += of_day(lab, day)
            with browser(lab) as pages:
                bad += campaign_seen(pages, campaign)
                bad += hour_seen(pages, hour)
        return int(bad > 0)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class Lab:
    """The web server, asked by somebody who is logged in."""

    def __init__(self, url: str, server: psutil.Process, cookies: dict[str, str]) -> None:
        self.url, self.server, self.cookies = url, server, cookies
        self.line = http.client.HTTPConnection(str(urlsplit(url).netloc))

    def get(self, path: str) -> bytes:
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        self.line.request("GET", path, headers={"Cookie": cookie, "Accept-Encoding": "gzip"})
        answer = self.line.getresponse()
        body = answer.read()
        assert answer.status == 200, (path, answer.status, body[:500])
        return body

    def cpu_ms(self, path: str) -> list[float]:
        """Of one request, as many rounds as there are."""
        self.get(path)
        return [self._cpu_ms(path) for _ in range(ROUNDS)]

    def _cpu_ms(self, path: str) -> float:
        before = sum(self.server.cpu_times()[:2])
        for _ in range(AT_ONCE):
            self.get(path)
        return (sum(self.server.cpu_times()[:2]) - before) * 1000 / AT_ONCE

    def wall_ms(self, path: str) -> list[float]:
        self.get(path)
        return [timed(lambda: self.get(path)) for _ in range(ROUNDS)]


def timed(what: Callable[[], object]) -> float:
    """Milliseconds."""
    started = time.perf_counter()
    what()
    return (time.perf_counter() - started) * 1000


def told(text: str, found: list[float], most: float, unit: str = "ms") -> int:
    """The best of them against its target."""
    best, median = min(found), statistics.median(found)
    said = f"{text}: {best:.0f} {unit}, median {median:.0f} (target {most} {unit})"
    return verdict(said, best < most)


def of_campaign(lab: Lab, campaign: int) -> int:
    path = f"/campaigns/{campaign}/"
    figure = f"{path}figure.json"
    bad = told(f"campaign page of {RUNS} runs, server CPU", lab.cpu_ms(path), CPU_MS)
    print(f"       its page: {len(lab.get(path)) / 1000:.0f} kB sent", flush=True)
    return bad + told("its chart's figure, server", lab.wall_ms(figure), ANSWER_MS)


def of_day(lab: Lab, attempt: Any) -> int:
    """16 disks x 24 h: the first chart, then closer and closer, as bands and disk by disk."""
    path = f"/attempts/{attempt.pk}/devices.json"
    size = f"{DAY[0]} disks x {DAY[1] / 3600:.0f} h"
    zooms = {
        "whole": "width=480", "12 h": "width=480&from=20000&to=63200", "1 h": "width=480&from=40000&to=43600",
        "2 min": "width=480&from=40000&to=40120",
    }  # fmt: skip
    bad = 0
    for words, query in zooms.items():
        bad += told(f"{size}, {words}, server", lab.wall_ms(f"{path}?{query}"), ANSWER_MS)
    for words, query in zooms.items():
        asked = f"{path}?{query}&members=1"
        bad += told(f"{size}, {words}, disk by disk, server", lab.wall_ms(asked), ANSWER_MS)
    page = lab.wall_ms(f"/runs/{attempt.run_id}/")
    print(
        f"       its page without charts: {min(page):.0f} ms, median {statistics.median(page):.0f}"
    )
    return bad


@contextmanager
def browser(lab: Lab) -> Iterator[Callable[[], Any]]:
    """Makes pages with an empty cache, logged in."""
    from playwright.sync_api import sync_playwright

    from tests.browser.conftest import CHROMIUM, QUIET

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)

        def page() -> Any:
            context = chromium.new_context(
                base_url=lab.url, viewport={"width": 1400, "height": 900}
            )
            context.add_cookies(
                [
                    {"name": name, "value": value, "url": lab.url}
                    for name, value in lab.cookies.items()
                ]
            )
            made = context.new_page()
            made.add_init_script(TIMED)
            return made

        yield page
        chromium.close()


def until(page: Any, true: str) -> None:
    """The policy forbids what Playwright's own wait_for_function does."""
    end = time.monotonic() + 60
    while not page.evaluate(true):
        assert time.monotonic() < end, true
        page.wait_for_timeout(5)


def watched(network: Any) -> tuple[dict[str, str], dict[str, float]]:
    """(address, bytes over the wire) of each request from now on."""
    urls: dict[str, str] = {}
    sizes: dict[str, float] = {}
    network.on(
        "Network.requestWillBeSent", lambda e: urls.update({e["requestId"]: e["request"]["url"]})
    )
    network.on(
        "Network.loadingFinished",
        lambda e: sizes.update({e["requestId"]: e["encodedDataLength"]}),
    )
    return urls, sizes


def campaign_seen(pages: Callable[[], Any], campaign: int) -> int:
    """Cold: bytes beside Plotly, and until its charts are drawn; then whether it asks for anything."""
    sent: list[float] = []
    ready: list[float] = []
    for _ in range(ROUNDS):
        page = pages()
        network = page.context.new_cdp_session(page)
        network.send("Network.enable")
        urls, sizes = watched(network)
        page.goto(f"/campaigns/{campaign}/")
        until(page, "window.drawn.length >= document.querySelectorAll('.chart').length")
        ready.append(page.evaluate("Math.max(...window.drawn.map((one) => one.done))"))
        page.wait_for_timeout(300)
        sent.append(sum(size for one, size in sizes.items() if "plotly" not in urls[one]) / 1000)
        if len(sent) == ROUNDS:
            before = len(urls)
            page.wait_for_timeout(IDLE_S * 1000)
            asked = len(urls) - before
            plotly = sum(size for one, size in sizes.items() if "plotly" in urls[one]) / 1000
            largest = sorted(((size, urls[one]) for one, size in sizes.items()), reverse=True)
        page.context.close()
    bad = told(f"campaign of {RUNS} runs, cold, beside Plotly ({plotly:.0f} kB)", sent, KB, "kB")
    parts = (f"{urlsplit(url).path} {size / 1000:.0f} kB" for size, url in largest[1:7])
    print(f"       of that {', '.join(parts)}", flush=True)
    bad += told("until its charts are drawn, cold", ready, READY_MS)
    return bad + verdict(f"idle for {IDLE_S:.0f} s, it asked {asked} times", asked == 0)


def hour_seen(pages: Callable[[], Any], attempt: Any) -> int:
    """From asking for the figure to Plotly having drawn it; the zoom's 120 ms of waiting for another turn included."""
    name, path = f"run-{attempt.run_id}-devices", f"/attempts/{attempt.pk}/devices.json"
    chart = f"document.querySelector('[data-chart-name={name}]')"
    mine = f"window.drawn.filter((one) => one.name === '{name}')"
    first: list[float] = []
    zoomed: list[float] = []
    single: list[float] = []
    page = pages()
    for _ in range(ROUNDS):
        page.goto(f"/runs/{attempt.run_id}/")
        until(
            page,
            f"{mine}.length > 0 && window.drawn.length >= document.querySelectorAll('.chart').length",
        )
        first.append(page.evaluate(f"{mine}[0].done - ({ASKED % path})"))
        page.wait_for_timeout(300)
        for into in ("[600, 1800]", "[900, 1000]"):
            count = page.evaluate(f"{mine}.length")
            at = page.evaluate(
                f"(() => {{ const at = performance.now(); Plotly.relayout({chart}, {{'xaxis.range': {into}}});"
                " return at; })()"
            )
            until(page, f"{mine}.length > {count}")
            zoomed.append(page.evaluate(f"{mine}.at(-1).done") - at)
            page.wait_for_timeout(100)
        count = page.evaluate(f"{mine}.length")
        page.select_option("select[name=members]", "1")
        until(page, f"{mine}.length > {count}")
        single.append(page.evaluate(f"{mine}.at(-1).done - ({ASKED % path})"))
    page.context.close()
    size = f"{HOUR[0]} disks x {HOUR[1]} s"
    bad = told(f"{size}, drawn", first, DRAWN_MS)
    bad += told(f"{size}, zoomed into, with the 120 ms that it waits", zoomed, ZOOMED_MS)
    print(
        f"       its {HOUR[0]} disks for themselves, the part that was zoomed into: {min(single):.0f} ms"
    )
    return bad


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchlab.settings")
    sys.exit(main())
