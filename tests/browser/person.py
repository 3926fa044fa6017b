"""Somebody at a browser: looks at each page in light, in dark and on a phone, and notes whatever is wrong with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from playwright.sync_api import TimeoutError

from benchlab.testing import profiles
from tests.browser import console
from tests.browser.axe import violations

SHOTS = os.environ.get("BENCHLAB_SHOTS")
PICTURES = Path(SHOTS or Path(__file__).parent / "screenshots")
# Nobody looks at those of quick and ci, which would be a tenth of the time of pages.
TAKES_PICTURES = (
    bool(SHOTS) or profiles.WHOLE_GROUP not in os.environ or profiles.profile() == profiles.FULL
)
PATIENCE_MS = 30_000  # a busy machine
SETTLED_MS = 600  # charts are drawn anew a moment after the last change of width
# Chromium now and then draws no frame at all after a change of width
PICTURE_MS, PICTURE_TRIES = (
    10_000,
    4,
)
THEMES = ["dark", "light"]
DESK, PHONE = {"width": 1400, "height": 900}, {"width": 390, "height": 844}
# A violation of the content security policy is reported to the page, not always to the console.
TELL = """addEventListener("securitypolicyviolation", (event) =>
  console.error("CSP: " + event.violatedDirective + " " + event.blockedURI))"""


def themes(name: str) -> list[str]:
    """In which a page is looked at: one drawn for each page, both by night and where a person chose the test."""
    by_profile = profiles.WHOLE_GROUP in os.environ
    return profiles.drawn(f"theme of {name}", THEMES, quick=1, more=1) if by_profile else THEMES


class Person:
    """`complaints`: all that the console, the policy and axe said so far, with the page they said it on."""

    def __init__(self, chromium: Any, url: str, *, javascript: bool = True) -> None:
        self.javascript = javascript
        self.url = url
        self.complaints: list[str] = []
        context = chromium.new_context(
            viewport=DESK,
            java_script_enabled=javascript,
            accept_downloads=True,
            base_url=url,
            reduced_motion="reduce",  # a badge that pulses is painted again and again, without a graphics card
        )
        context.add_init_script(TELL)
        context.set_default_timeout(PATIENCE_MS)
        self.page = context.new_page()
        console.listen(self.page, self._complain)

    def close(self) -> None:
        self.page.context.close()

    def _complain(self, text: str) -> None:
        self.complaints.append(f"{self.page.url}: {text}")

    def log_in(self, name: str, password: str) -> None:
        self.page.goto("/login/")
        self.look("login")
        self.page.fill("#id_username", name)
        self.page.fill("#id_password", password)
        self.press("Log in")

    def go(self, name: str) -> None:
        """By the navigation; the new page's scripts have run then."""
        with self.page.expect_navigation(wait_until="load"):
            self.page.get_by_label("Main").get_by_role("link", name=name, exact=True).click()

    def press(self, name: str) -> None:
        """A link or a button of the page: many links look like buttons, and say so to a screen reader."""
        main = self.page.get_by_role("main")
        links, buttons = (
            main.get_by_role(role, name=name, exact=True) for role in ("link", "button")
        )
        links.or_(buttons).click()
        self.page.wait_for_load_state()  # of the new page, where it led to one

    def drawn(self) -> None:
        """Every chart of the page is there."""
        self.page.wait_for_load_state()
        for chart in self.page.locator(".chart").all():
            chart.locator(".main-svg").first.wait_for(state="attached")

    def look(self, name: str, *, quick: bool = False) -> None:
        """`quick` for pages that change while one looks: a picture and axe, light only.

        The profiles quick and ci draw one of the two themes for each page.
        """
        if not self.javascript:
            self.picture(f"{name}-nojs")
            return
        for scheme in ("light",) if quick else themes(name):
            self.page.emulate_media(color_scheme=scheme)
            self.picture(f"{name}-{scheme}")
            self.complaints += [f"{name}, {scheme}: {one}" for one in violations(self.page)]
        if not quick:
            self._on_a_phone(name)

    def _on_a_phone(self, name: str) -> None:
        self.page.set_viewport_size(PHONE)
        self._redrawn()
        wide = self.page.evaluate("document.documentElement.scrollWidth")
        if wide > PHONE["width"]:
            self.complaints.append(f"{name}: {wide} px wide on a phone of {PHONE['width']} px")
        self.picture(f"{name}-phone")
        self.page.set_viewport_size(DESK)
        self._redrawn()  # who clicks a point next would miss it

    def _redrawn(self) -> None:
        if self.page.locator(".chart").count():
            self.page.wait_for_timeout(SETTLED_MS)

    def picture(self, name: str) -> None:
        """Taken again where Chromium stalled: what is proven is the page, not that the first picture came."""
        if not TAKES_PICTURES:
            return
        PICTURES.mkdir(parents=True, exist_ok=True)
        for left in reversed(range(PICTURE_TRIES)):
            try:
                self.page.screenshot(
                    path=PICTURES / f"{name}.png",
                    full_page=True,
                    animations="disabled",
                    timeout=PICTURE_MS,
                )
                return
            except TimeoutError:
                if not left:
                    raise
