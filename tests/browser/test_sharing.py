"""A link made by one person and opened by another without an account, also inside of another site's page."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser import console
from tests.browser.axe import violations
from tests.browser.test_charts import INSTANT, drawn, log_in
from tests.sharing.conftest import HOST, SERIAL, lab, link_of

__all__ = ["lab"]
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def stranger(chromium: Any, scheme: str = "light", width: int = 1280) -> tuple[Any, list[str]]:
    """A page of a browser that has no cookie, and what its console complains of."""
    context = chromium.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    page = context.new_page()
    said: list[str] = []
    console.listen(page, said.append)
    return page, said


def test_a_link_is_made_and_opened_by_a_stranger(chromium, live_server, lab):
    page, said = log_in(chromium, live_server, "light")
    page.goto(f"{live_server.url}/runs/{lab.run.pk}/")
    page.get_by_role("button", name="Share a link …").click()
    assert violations(page) == []
    page.get_by_role("button", name="Create the link").click()
    link = page.input_value("#share-link")
    assert link.startswith(f"{live_server.url}/s/")
    assert violations(page) == []

    guest, complained = stranger(chromium)
    guest.goto(link)
    drawn(guest)
    assert HOST not in guest.inner_text("body") and "host A" in guest.inner_text("body")
    assert violations(guest) == []
    assert guest.context.cookies() == []

    page.goto(f"{live_server.url}/shares/")
    assert violations(page) == []
    page.get_by_role("button", name="Take back").click()
    assert guest.goto(link).status == 404
    assert violations(guest) == []
    assert said == []
    assert [text for text in complained if "404" not in text] == []
    guest.context.close()
    page.context.close()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["run", "campaign", "report", "comparison"])
def test_what_a_guest_gets_is_drawn_and_clean(chromium, live_server, lab, kind, scheme):
    _, token = link_of(lab, kind)
    page, said = stranger(chromium, scheme)
    for path in ("", "embed/"):
        page.goto(f"{live_server.url}/s/{token}/{path}")
        drawn(page)
        assert violations(page) == [], path
        assert SERIAL not in page.content()
    assert said == []
    page.context.close()


def test_a_guest_sees_one_instant_in_all_charts_of_a_run(chromium, live_server, lab):
    _, token = link_of(lab, "run")
    page, said = stranger(chromium)
    page.goto(f"{live_server.url}/s/{token}/")
    drawn(page)
    devices, cpu = (
        page.locator(f".chart[data-chart-name$='-{name}']") for name in ("devices", "cpu")
    )
    devices.locator(".nsewdrag").first.hover()
    expect(devices.locator(".crosshair")).to_have_count(devices.locator(".nsewdrag").count())
    expect(cpu.locator(".crosshair")).to_have_count(1)
    there, here = cpu.evaluate(INSTANT), devices.evaluate(INSTANT)
    assert there == pytest.approx(here, abs=1e-3) and here > 1
    page.mouse.move(1, 1)
    expect(page.locator(".crosshair")).to_have_count(0)
    assert said == []
    page.context.close()


@pytest.fixture
def elsewhere() -> Iterator[Any]:
    """Another origin, whose page holds what its `body` says."""

    class Page(BaseHTTPRequestHandler):
        body = ""

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(f"<!DOCTYPE html><title>A blog</title>{Page.body}".encode())

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Page, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_the_snippet_works_in_another_sites_page(chromium, live_server, lab, elsewhere):
    """As it is copied from the shared page; the page itself, without /embed/, is refused there."""
    _, token = link_of(lab, "campaign")
    guest, _ = stranger(chromium)
    guest.goto(f"{live_server.url}/s/{token}/")
    guest.locator("details summary", has_text="another site").click()
    snippet = guest.locator("textarea").first.input_value()

    holder, address = elsewhere
    holder.body = snippet
    page, said = stranger(chromium)
    page.goto(address)
    page.frame_locator("iframe").locator(".chart .main-svg").first.wait_for(state="attached")
    assert [text for text in said if "favicon" not in text and "404" not in text] == []

    holder.body = snippet.replace("/embed/", "/")
    # The frame is lazy: the page around it is loaded before it is asked for.
    refused = ("frame-ancestors", "X-Frame-Options")
    with page.expect_console_message(lambda m: any(word in m.text for word in refused)):
        page.goto(address)
    assert page.frame_locator("iframe").locator(".chart").count() == 0
    page.context.close()
    guest.context.close()


def test_people_talk_about_a_run(chromium, live_server, lab):
    page, said = log_in(chromium, live_server, "light")
    page.goto(f"{live_server.url}/runs/{lab.run.pk}/")
    page.fill("#talk-comment-text", "See https://example.org/x <script>alert(1)</script>\nand this")
    page.get_by_role("button", name="Comment", exact=True).click()
    page.fill("#talk-tag-name", "<b>odd</b>")
    page.get_by_role("button", name="Add tag").click()
    page.locator("#talk-note summary").click()
    page.fill("#talk-note-text", "Disk 3 is slow.")
    page.get_by_role("button", name="Save the note").click()
    page.get_by_role("button", name="Star").click()
    talk = page.locator("#talk")
    expect(page.get_by_role("button", name="Starred: remove the star")).to_be_visible()
    page.wait_for_load_state()
    assert "<script>alert(1)</script>" in talk.inner_text()
    assert (
        talk.get_by_role("link", name="https://example.org/x")
        .get_attribute("rel")
        .startswith("nofollow")
    )
    assert talk.locator(".tag", has_text="<b>odd</b>").count() == 1
    assert talk.locator("script, b").count() == 0
    drawn(page)
    assert violations(page) == []
    for path in ("/", "/activity/", f"/campaigns/{lab.campaign.pk}/report/"):
        page.goto(live_server.url + path)
        assert violations(page) == [], path
    page.goto(live_server.url)
    assert page.locator("#starred-title").count() == 1
    assert said == []
    page.context.close()
