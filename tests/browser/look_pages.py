"""The pages that `look_pictures` takes: those of docs/look, measured meanwhile on two practice hosts.

No test by its name: it is run for its pictures.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from django.conf import global_settings
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import expect

from benchlab.campaigns.models import Campaign, Workload
from benchlab.engine.new_runs import create_campaign
from benchlab.hosts import spare_disks
from benchlab.hosts.models import Device, Host
from benchlab.imports import reference_library
from benchlab.imports.reference_library import articles
from benchlab.practice import SlowDisk
from benchlab.runs.models import Attempt
from benchlab.runs.states import AttemptPhase
from benchlab.team.models import Membership, Team
from benchlab.topologies.models import Topology
from tests import stack
from tests.browser.look_pictures import MOCKUPS, ONLY, OUT
from tests.browser.person import Person
from tests.rig.test_campaigns import register

pytestmark = [pytest.mark.browser, pytest.mark.rig, pytest.mark.django_db(transaction=True)]

PAGES = ("home", "compare-layouts", "builder", "plan", "live", "campaign", "explore", "run-time")
LOOKS = {"light": (1440, 900), "dark": (1440, 900), "phone": (390, 844)}
REDIS = 11
LONGEST_S = 1800
MOST_BYTES = 120_000
# Times its width: of a page on a desk, on a phone; what is below says nothing more of its look
TALLEST = (
    2.0,
    9.0,
)
# As sharp as so many bytes allow: (width in px, quality); a phone's picture keeps its width.
STEPS = ((1200, 0.8), (1200, 0.6), (1080, 0.5), (960, 0.45), (840, 0.4))
DRAWN = ((600, 0.7),)
# A page of its own makes a small picture of a PNG: nothing has to be installed for it.
SHRINK = """async ([png, width, [desk, phone], quality]) => {
  const image = new Image();
  image.src = "data:image/png;base64," + png;
  await image.decode();
  const part = Math.min(width / image.width, 1);
  const canvas = document.createElement("canvas");
  canvas.width = image.width * part;
  canvas.height = Math.min(image.height, image.width * (image.width < 600 ? phone : desk)) * part;
  const to = canvas.getContext("2d");
  to.imageSmoothingQuality = "high";
  to.drawImage(image, 0, 0, image.width * part, image.height * part);
  return canvas.toDataURL("image/webp", quality).split(",")[1];
}"""
READS = {"rw": "randread", "block_size": 4096, "size": 64 << 20, "runtime_s": 4, "ramp_s": 1}
LONG = {**READS, "runtime_s": 30, "ramp_s": 5}


class Camera:
    """Takes pages of a person, and makes them small."""

    def __init__(self, person: Person, out: Path) -> None:
        self.page, self.out = person.page, out
        self.only = set(os.environ.get(ONLY, "").split(",")) - {""}
        self.dark_room = person.page.context.browser.new_context().new_page()
        out.mkdir(parents=True, exist_ok=True)

    def wants(self, name: str) -> bool:
        return not self.only or name in self.only

    def take(self, name: str, ready: Callable[[], Any] | None = None) -> None:
        """The page that is open, in each look; `ready` waits for what is to be seen on it."""
        if not self.wants(name):
            return
        assert "Internal error" not in self.page.title(), self.page.url
        for look, (width, height) in LOOKS.items():
            self.page.emulate_media(color_scheme="dark" if look == "dark" else "light")
            self.page.set_viewport_size({"width": width, "height": height})
            self.page.wait_for_timeout(800)  # charts follow the width
            self._show_all(width)
            if ready:
                ready()
                self._show_all(width)
            png = self.page.screenshot(animations="disabled")
            self.keep(png, self.out / f"{name}-{look}.webp", STEPS)

    def _show_all(self, width: int) -> None:
        """Make the window as high as the page, so that what sticks below is below."""
        high = self.page.evaluate("document.documentElement.scrollHeight")
        self.page.set_viewport_size({"width": width, "height": high})
        self.page.wait_for_timeout(300)

    def chart(self, name: str, selector: str) -> None:
        """By itself, on a light page, as a PNG: for the README."""
        self.page.emulate_media(color_scheme="light")
        self.page.set_viewport_size({"width": 1440, "height": 900})
        self.page.wait_for_timeout(800)
        self.page.locator(selector).first.screenshot(path=self.out / f"{name}.png")

    def keep(self, png: bytes, path: Path, steps: Sequence[tuple[int, float]]) -> None:
        """By the first of these steps that is small enough, else by the last."""
        text = base64.b64encode(png).decode()
        for width, quality in steps:
            made = self.dark_room.evaluate(SHRINK, [text, width, TALLEST, quality])
            small = base64.b64decode(made)
            if len(small) <= MOST_BYTES:
                break
        path.write_bytes(small)


@pytest.fixture
def served(transactional_db, tmp_path: Path) -> Iterator[str]:
    redis = stack.redis_url(REDIS)
    with stack.worker(tmp_path, redis), stack.web(tmp_path, redis) as url:
        yield url


@pytest.fixture
def alice(team: Team, settings: Any) -> User:
    settings.PASSWORD_HASHERS = global_settings.PASSWORD_HASHERS
    user = User.objects.create_user("alice", password="alice-8")
    Membership.objects.create(team=team, user=user)
    return user


def a_host(rig: Any, team: Team, user: User, name: str, roles: dict[str, str]) -> Host:
    """Registered, with these disks spare: name -> role."""
    host = register(rig, team, "root", name)
    for disk, role in roles.items():
        device = Device.objects.get(host=host, name=disk)
        spare_disks.mark_spare(device, user, device.confirmation, role)
    return host


@pytest.fixture
def lab(make_rig_host: Any, team: Team, alice: User) -> tuple[Host, Host]:
    """Eight slow disks and two faster ones; three fast ones, of which one is nobody's to erase.

    Each takes its time for a request, which no CPU is needed for: what is measured is the disks.
    """
    slow = [SlowDisk(128, delay_ms=8, serial=f"SLOW-{n}") for n in range(8)]
    one = make_rig_host([], [*slow, *(ssd(f"FAST-{n}") for n in range(2))], memory_mb=3072)
    two = make_rig_host([], [ssd(f"PLAIN-{n}") for n in range(3)], memory_mb=2560)
    roles = {f"nbd{n}": "hdd" for n in range(8)} | {"nbd8": "ssd", "nbd9": "ssd"}
    return (
        a_host(one, team, alice, "practice-1", roles),
        a_host(two, team, alice, "practice-2", {"nbd0": "ssd", "nbd1": "ssd"}),
    )


def ssd(serial: str) -> SlowDisk:
    """Four requests at a time."""
    return SlowDisk(512, delay_ms=2, threads=4, serial=serial)


def new_campaign(
    name: str,
    question: str,
    host: Host,
    topologies: list[Topology],
    options: dict[str, Any],
    depths: list[int],
    repeats: int = 4,
) -> Campaign:
    load = Workload.objects.create(
        team=host.team, name=f"Random reads of 4 KiB, {name}", tool="fio", options=options,
        sweep={"iodepth": depths},
    )  # fmt: skip
    return create_campaign(
        team=host.team, user=host.team.members.first(), name=name, question=question, hosts=[host],
        topologies=topologies, workloads=[load], repeats=repeats, order="abba" if repeats > 1 else "as_written",
    )  # fmt: skip


def start(person: Person, campaign: Campaign) -> None:
    page = person.page
    page.goto(reverse("campaign-detail", args=[campaign.pk]))
    button = page.get_by_role("button", name="Start, destroy")
    expect(button).to_be_visible(timeout=120_000)
    page.fill("#id_typed", page.locator(".phrase").first.inner_text())
    button.click()
    expect(page.locator("#messages")).to_contain_text("Started.")


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + LONGEST_S
    while not true():
        assert time.monotonic() < end
        time.sleep(1)


def over(campaign: Campaign) -> bool:
    return not campaign.layouts.exclude(phase="done").exists()


def measuring(campaign: Campaign) -> bool:
    return Attempt.objects.filter(run__campaign=campaign, phase=AttemptPhase.RUNNING).exists()


def done(campaign: Campaign) -> int:
    return Attempt.objects.filter(run__campaign=campaign, phase=AttemptPhase.DONE).count()


def test_take_all(
    chromium: Any, served: str, team: Team, alice: User, lab: tuple[Host, Host]
) -> None:
    reference_library.load_library(articles())
    one, two = lab
    person = Person(chromium, served)
    person.log_in("alice", "alice-8")
    camera = Camera(person, Path(os.environ[OUT]))
    if there := os.environ.get(MOCKUPS):
        mockups(camera, Path(there))
    waits = compared(person, camera, one)
    stacks = list(Topology.objects.filter(layouts__campaign=waits).distinct().order_by("pk"))
    builder(person, camera, stacks[1])
    plain = [
        Topology.objects.create(team=team, name=name, stack=[raw(kind)])
        for name, kind in (("Raw SSD", "raw"), ("md mirror", "md"))
    ]
    question = "Does an md mirror read as fast as one SSD?"
    small = new_campaign("Does a mirror cost reads?", question, two, plain, READS, [1, 4, 16])
    question = "Which is best for random reads?"
    large = new_campaign("Stripe, cache or SSD", question, one, stacks, READS, [1, 2, 4, 8, 16])
    if camera.wants("home"):
        start(person, small)
        until(lambda: over(small))
    if camera.wants("live") or camera.wants("campaign") or camera.wants("home"):
        start(person, large)
        live(person, camera, large)
        until(lambda: over(large))
        campaign(person, camera, large)
    if camera.wants("explore"):
        explore(person, camera)
    stripe = [one for one in stacks if one.name.startswith("Stripe")]
    question = "Do all eight disks work all the time?"
    long = new_campaign("A stripe for half a minute", question, one, stripe, LONG, [16], repeats=1)
    start(person, long)
    home(person, camera, long)
    until(lambda: over(long))
    run_time(person, camera, long)
    person.close()


def raw(kind: str) -> dict[str, Any]:
    options, count = ({"level": 1}, 2) if kind == "md" else ({}, 1)
    return {
        "kind": kind,
        "options": options,
        "devices": [{"use": "data", "role": "ssd", "count": count}],
    }


def mockups(camera: Camera, there: Path) -> None:
    """Less wide than they were made, but for a phone's."""
    (camera.out / "mockups").mkdir(exist_ok=True)
    for name in PAGES:
        for look in LOOKS:
            png = (there / f"{name}-{look}.png").read_bytes()
            camera.keep(png, camera.out / "mockups" / f"{name}-{look}.webp", DRAWN)


def compared(person: Person, camera: Camera, host: Host) -> Campaign:
    """The page filled in, then the plan that it leads to, which waits for somebody to agree."""
    page = person.page
    page.goto(f"{reverse('compare-layouts')}?host={host.pk}")
    for shape in ("stripe", "lvm-cache", "alone-ssd"):
        page.locator(f"input[name=layouts][value={shape}]").check()
    page.locator("input[name=matters][value=random]").check()
    expect(page.locator("#compare-dock")).to_contain_text("3 layouts")
    camera.take("compare-layouts")
    page.get_by_role("button", name="See the plan").click()
    page.wait_for_url("**/campaigns/*/")
    expect(page.get_by_role("button", name="Start, destroy")).to_be_visible(timeout=120_000)
    camera.take("plan")
    return Campaign.objects.get(source="")


def builder(person: Person, camera: Camera, topology: Topology) -> None:
    person.page.goto(reverse("topology-edit", args=[topology.pk]))
    camera.take("builder")


def live(person: Person, camera: Camera, campaign: Campaign) -> None:
    """Half done, while a point runs that was going on for some seconds."""
    page = person.page
    page.goto(reverse("campaign-detail", args=[campaign.pk]))
    if not camera.wants("live"):
        return
    until(lambda: done(campaign) * 2 >= campaign.runs.count())
    charts = [
        page.locator(f"#campaign-{part} .chart .scatterlayer .trace").first
        for part in ("results", "running")
    ]

    def drawn() -> None:
        before = done(campaign)
        until(lambda: done(campaign) > before and measuring(campaign))
        for chart in charts:
            expect(chart).to_be_attached(timeout=120_000)
        page.wait_for_timeout(1500)

    camera.take("live", drawn)


def home(person: Person, camera: Camera, campaign: Campaign) -> None:
    """While that one is measured, and two are over."""
    if not camera.wants("home"):
        return
    until(lambda: measuring(campaign))
    person.page.goto("/")
    camera.take("home")


def campaign(person: Person, camera: Camera, row: Campaign) -> None:
    person.page.goto(reverse("campaign-detail", args=[row.pk]))
    person.drawn()
    camera.take("campaign")
    camera.chart("practice-campaign", "#campaign-results .chart")


def run_time(person: Person, camera: Camera, row: Campaign) -> None:
    person.page.goto(reverse("run-detail", args=[row.runs.get().pk]))
    person.drawn()
    camera.take("run-time")


def explore(person: Person, camera: Camera) -> None:
    """Of the library: what article 002 measured."""
    campaign = Campaign.objects.get(
        source=Campaign.Source.LIBRARY, name__startswith="IOPS and latency over"
    )
    person.page.goto(f"{reverse('explore')}?campaign={campaign.pk}")
    person.drawn()
    camera.take("explore")
