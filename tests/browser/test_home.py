"""Home in a browser: what runs, results as small charts, disks as blocks; light, dark, on a phone, without script."""

from __future__ import annotations

import re

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from benchlab.hosts.models import Device
from benchlab.runs.models import Attempt, Layout, StepLog
from benchlab.runs.states import LayoutPhase, Outcome
from tests.browser.person import Person
from tests.charts import made

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
SAYS = ("Make the physical volumes", "Make the striped volume", "Make the file system")


@pytest.fixture
def lab(team, user):
    """Three campaigns that are over, one that builds; two hosts with disks of every kind."""
    one, two = made.host(team, "r720xd"), made.host(team, "practice")
    load = made.workload(team)
    compared = made.campaign(team, "How wide a stripe?")
    for name, top in (
        ("LVM stripe of 4 HDD, 64 KiB", 9000.0),
        ("raw SSD", 90000.0),
        ("md RAID 10", 20000.0),
    ):
        made.swept(compared, one, made.topology(team, name), load, top=top)
    made.swept(made.campaign(team, "One SSD alone"), one, made.topology(team, "raw SSD"), load)
    plain = made.campaign(team, "Streams", repeats=1)
    for name, top in (("xfs", 120.0), ("zpool of 4", 90.0)):
        layout = made.done_layout(plain, one, made.topology(team, name))
        made.finished(plain, layout, made.workload(team, "write 1 MiB"), None, 1, top)
    gone = made.campaign(team, "It had no luck", repeats=1)
    layout = made.done_layout(gone, two, made.topology(team, "raw SSD"))
    attempt = made.finished(gone, layout, load, 1, 1, 1.0)
    Attempt.objects.filter(pk=attempt.pk).update(outcome=Outcome.FAILED, reason="tool_failed")
    Layout.objects.update(ended_at=timezone.now())
    for number in range(12):
        disk(one, f"sd{chr(98 + number)}", spare=True, present=number != 9)
    disk(one, "nvme0n1", spare=True, role="nvme")
    disk(one, "sda", role="", in_use="mounted on /")
    disk(two, "sdb", spare=True, role="ssd")
    disk(two, "sdc")
    building(
        made.campaign(team, "Does an SSD cache help a stripe?"),
        two,
        made.topology(team, "md RAID 10"),
    )
    waiting(made.campaign(team, "And four SSDs?"), two, made.topology(team, "Stripe of 4 SSD"))


def waiting(campaign, host, topology) -> None:
    """A plan of four disks, of which the host has one."""
    devices = [{"use": "data", "role": "ssd", "count": 4}]
    layout = Layout.objects.create(
        campaign=campaign, host=host, topology=topology, plan={}, planned_at=timezone.now(),
        stack=[{"kind": "lvm", "options": {}, "devices": devices}], expected_s=90,
    )  # fmt: skip
    Attempt.objects.create(
        run=made.run(campaign, layout, made.workload(host.team), 1, 1), layout=layout
    )


def disk(host, name: str, **fields) -> Device:
    told = {"role": "hdd", "size": 4 << 40, **fields}
    given = {"spare_size": told["size"]} if told.get("spare") else {}
    return Device.objects.create(
        host=host, identity=f"serial:{host}{name}", name=name, **told, **given
    )


def building(campaign, host, topology) -> None:
    steps = [{"says": says, "argv": ["true"]} for says in SAYS]
    layout = Layout.objects.create(
        campaign=campaign,
        host=host,
        topology=topology,
        stack=[],
        phase=LayoutPhase.PROVISIONING,
        plan={
            "layers": [{"steps": steps}],
            "claims": [{"identity": f"serial:{host}sdb", "node": "/dev/sdb"}],
        },
        begun_at=timezone.now(),
    )
    Attempt.objects.create(
        run=made.run(campaign, layout, made.workload(host.team), 1, 1), layout=layout
    )
    StepLog.objects.create(
        layout=layout, kind="apply", argv=["true"], says=SAYS[0], ended_at=timezone.now()
    )
    StepLog.objects.create(layout=layout, kind="apply", argv=["true"], says=SAYS[1])


@pytest.fixture
def person(chromium, live_server, user, lab):
    one = Person(chromium, live_server.url)
    one.log_in("alice", "alice-password")
    one.page.wait_for_url("**/")
    yield one
    one.close()


@pytest.mark.quick
def test_one_glance_tells_what_runs_what_came_out_and_which_disks_are_free(person):
    page = person.page
    expect(page.get_by_text("step 2 of 3: Make the striped volume")).to_be_visible()
    expect(page.locator(".latest svg[role=img]")).to_have_count(2)
    expect(page.locator(".latest .bars")).to_have_count(1)
    expect(page.locator(".fleet .disk")).to_have_count(16)
    needed = page.get_by_role("region", name="Action needed")
    expect(needed).to_contain_text("gone: sdk (hdd, 4 TiB)")
    expect(needed).to_contain_text("Stripe of 4 SSD lacks 3 spare ssd")
    expect(needed.get_by_role("button", name="Review plan of And four SSDs?")).to_be_visible()
    person.look("home-lab")
    page.set_viewport_size({"width": 1920, "height": 1080})
    person.picture("home-lab-wall")
    page.locator(".latest", has_text="raw SSD").first.locator("h3 a").click()
    page.wait_for_url("**/campaigns/*/")
    assert person.complaints == [], "\n".join(person.complaints)


def test_the_top_bar_tells_what_runs_on_every_page_and_on_a_phone(person):
    page = person.page
    person.go("Hosts")
    pill = page.locator("#top-pill")
    expect(pill).to_have_text("1 running")
    expect(page.locator("#nav-needed")).to_have_text("5 need you")
    person.look("top-bar")
    page.set_viewport_size({"width": 390, "height": 844})
    expect(pill).to_have_text("1 running")
    field = page.locator("#search")
    assert field.bounding_box()["width"] == 32
    field.click()
    assert field.bounding_box()["width"] > 300
    person.picture("top-bar-searching")
    field.fill("r720")
    expect(page.locator("#search-found a").first).to_be_visible()
    page.keyboard.press("Escape")  # a browser empties the field
    page.keyboard.press("Escape")
    pill.click()
    page.wait_for_url("**/campaigns/*/")
    assert person.complaints == [], "\n".join(person.complaints)


CUT = """Array.from(document.querySelectorAll(".wall section")).filter(
  (one) => one.scrollHeight > one.clientHeight + 1).map((one) => one.className)"""
LARGER = """document.documentElement.scrollHeight > innerHeight || document.documentElement.scrollWidth > innerWidth"""


@pytest.mark.night
def test_a_wall_screen_shows_all_without_scrolling(person):
    page = person.page
    page.get_by_role("button", name="Wall screen").click()
    page.wait_for_url("**/?wall=1")
    for width, height in ((1920, 1080), (1366, 768), (3840, 2160)):
        page.set_viewport_size({"width": width, "height": height})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            person.picture(f"wall-{width}-{scheme}")
        assert not page.evaluate(LARGER) and page.evaluate(CUT) == [], (width, height)
    expect(page.get_by_role("navigation")).to_have_count(0)
    for part in ("Running", "Action needed", "Latest results", "Fleet"):
        expect(page.get_by_role("region", name=part)).to_be_visible()
    expect(page.get_by_text("step 2 of 3: Make the striped volume")).to_be_visible()
    expect(page.locator(".wall-latest svg[role=img]")).to_have_count(2)
    told = page.locator(".at time").inner_text()
    expect(page.locator(".at time")).not_to_have_text(told)  # it refreshes itself
    assert not page.evaluate(LARGER)
    person.look("wall")
    page.keyboard.press("Escape")
    page.wait_for_url(re.compile(r"/$"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Home")
    page.goto("/?wall=1")
    page.context.clear_cookies()  # the session is over
    page.wait_for_url(re.compile("/login/"))
    assert person.complaints == [], "\n".join(person.complaints)


def test_a_wall_screen_holds_a_full_house(person, team):
    """More of everything than fits, under long names."""
    for number in range(9):
        where = made.host(team, f"storage-{number}.rack-{number}.site.example")
        for n in range(60):
            disk(where, f"sd{n}", spare=True, present=n != 7)
        name = f"Does a larger chunk help the array number {number} with small writes, {'and ' * 20} how much?"
        building(
            made.campaign(team, name), where, made.topology(team, f"A stripe {'x' * 60} {number}")
        )
    page = person.page
    for width, height in ((1920, 1080), (1366, 768)):
        page.set_viewport_size({"width": width, "height": height})
        page.goto("/?wall=1")
        person.picture(f"wall-full-{width}")
        assert not page.evaluate(LARGER) and page.evaluate(CUT) == [], (width, height)
    assert person.complaints == [], "\n".join(person.complaints)


def test_home_without_script(person, chromium, live_server):
    plain = Person(chromium, live_server.url, javascript=False)
    plain.page.context.add_cookies(person.page.context.cookies())
    plain.page.goto("/hosts/")
    expect(plain.page.locator("#nav-needed")).to_have_text("5 need you")
    plain.page.locator("#top-pill").click()
    expect(plain.page.locator("#campaign-state")).to_be_visible()
    plain.page.goto("/")
    expect(plain.page.locator(".latest svg[role=img]")).to_have_count(2)
    plain.look("home-lab")
    plain.page.get_by_role("button", name="Wall screen").click()
    expect(plain.page.locator(".wall-latest svg[role=img]")).to_have_count(2)
    plain.look("wall")
    plain.page.get_by_role("button", name="Leave").click()
    expect(plain.page.get_by_role("heading", level=1)).to_have_text("Home")
    plain.close()
    assert plain.complaints == []
