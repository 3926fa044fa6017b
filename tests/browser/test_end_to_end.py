"""From the login page to a chart of real numbers, as a person goes, on a real host; with JavaScript and without."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.conf import global_settings
from django.contrib.auth.models import User
from playwright.sync_api import expect

from benchlab.practice import UmlHost
from benchlab.team.models import Membership
from tests import stack
from tests.browser.person import Person
from tests.rig.blank import assert_blank

pytestmark = [pytest.mark.browser, pytest.mark.rig, pytest.mark.django_db(transaction=True)]

SPARE = {"ubdc": "RIG-DISK-1", "ubdd": "RIG-DISK-2"}
CAMPAIGN_S = 600  # three points of three seconds, what is around them, and a busy machine
REDIS = 14


@pytest.fixture
def alice(team, settings) -> str:
    """A person who logs in by password; the password. The web server is no test: it wants a production hash."""
    settings.PASSWORD_HASHERS = global_settings.PASSWORD_HASHERS
    Membership.objects.create(team=team, user=User.objects.create_user("alice", password="alice-8"))
    return "alice-8"


@pytest.fixture
def served(transactional_db, tmp_path: Path) -> Iterator[str]:
    """BenchLab's address."""
    redis = stack.redis_url(REDIS)
    with stack.worker(tmp_path, redis), stack.web(tmp_path, redis) as url:
        yield url


def add_host(person: Person, rig_host: UmlHost) -> None:
    page = person.page
    person.go("Hosts")
    person.look("hosts-empty")
    person.press("Add a host")
    person.look("host-add")
    page.fill("#id_name", "rig")
    page.fill("#id_address", "127.0.0.1")
    page.fill("#id_port", str(rig_host.port))
    person.press("Next: keys")
    page.locator(".fingerprint").wait_for()  # a worker asks for it
    person.look("host-key")
    ours = page.locator("#our-key ~ pre.commands").first.inner_text()
    rig_host.ssh("tee", "-a", "/root/.ssh/authorized_keys", stdin=ours + "\n")
    shown = page.locator(".fingerprint").inner_text()
    printed = rig_host.ssh("ssh-keygen", "-lf", "/etc/ssh/ssh_host_ed25519_key.pub").stdout
    assert printed.split()[1] == shown
    page.check("#id_compared")
    person.press("Pin this key and connect")
    expect(page.get_by_role("heading", name="Disks")).to_be_visible()
    person.look("host")


def skip_to_the_content(person: Person) -> None:
    """By the keyboard alone, past the navigation."""
    page = person.page
    skip = page.get_by_role("link", name="Skip to content")
    page.keyboard.press("Tab")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator("main :is(a, button)").first).to_be_focused()


def mark_spare(person: Person, name: str, serial: str, *, mistyped: bool) -> None:
    page = person.page
    person.press(f"Mark spare… {name}")
    page.fill("#id_role", "ssd")
    if mistyped:
        page.fill("#id_typed", serial.lower())
        person.press(f"Mark {name} spare")
        expect(page.locator(".errorlist")).to_contain_text(f"type '{serial}' exactly")
        person.look("spare-refused")
    page.fill("#id_typed", serial)
    person.press(f"Mark {name} spare")
    expect(page.locator("#messages")).to_contain_text(f"Marked {name} spare")


def make_topology(person: Person) -> None:
    person.go("Topologies")
    person.look("topologies-empty")
    person.press("Use xfs on one SSD")
    expect(person.page.get_by_role("heading", level=1)).to_have_text("xfs on one SSD")
    person.look("topology")
    person.press("Plan on a host…")
    person.press("Show the plan")
    expect(person.page.locator(".drawing .disk")).to_have_count(1)
    person.look("topology-plan")


def make_workload(person: Person) -> None:
    page = person.page
    person.go("Workloads")
    person.look("workloads-empty")
    person.press("New fio workload")
    page.fill("#id_name", "8 KiB random 50/50")
    for option, value in {
        "rw": "randrw", "block_size": "8k", "iodepth": "1 2 4", "size": "64MiB", "runtime_s": "3",
    }.items():  # fmt: skip
        page.fill(f"#id_option-{option}", value)
    person.look("workload-new")
    person.press("Save")
    expect(page.locator("#points ~ table tbody tr")).to_have_count(3)
    person.look("workload")


def make_campaign(person: Person) -> None:
    """The wizard, with an estimate before anything is made."""
    page = person.page
    person.press("Use it in a campaign")
    page.fill("#id_name", "How deep is xfs?")
    page.fill("#id_question", "Do more outstanding I/Os give more IOPS?")
    page.fill("#id_repeats", "1")
    page.get_by_label("rig").check()
    page.get_by_label("xfs on one SSD").check()
    if not person.javascript:
        person.press("Estimate")
    runs = page.locator("#campaign-estimate .numbers dd").first
    expect(runs).to_have_text("3")
    person.look("campaign-new")
    person.press("Create it and show the plan")


def read_the_plan(person: Person) -> None:
    page = person.page
    start = page.get_by_role("button", name="Start, destroy 1 disk")
    if not person.javascript:
        reload_until(person, start.is_visible)
    expect(start).to_be_visible(timeout=60_000)
    plan = page.locator("#campaign-plan")
    expect(plan.locator("tbody th")).to_have_text(re.compile("/dev/ubd[cd]"))
    expect(plan.locator("tbody td").nth(1)).to_have_text(re.compile("RIG-DISK-[12]"))
    expect(plan.locator(".ops").first).to_contain_text("mkfs.xfs")
    expect(plan.locator(".drawing svg")).to_have_accessible_description(
        re.compile("Raw disk on data")
    )
    person.look("plan")
    page.fill("#id_typed", "destroy 1 disk on lab1")
    start.click()
    expect(page.locator("#id_typed_error")).to_contain_text("This says lab1. The disks are on rig.")
    expect(page.locator("#id_typed")).to_have_value("destroy 1 disk on lab1")
    page.fill("#id_typed", "destroy 1 disk on rig")
    start.click()


def reload_until(person: Person, true: Callable[[], bool]) -> None:
    """As somebody without JavaScript does."""
    until = time.monotonic() + CAMPAIGN_S
    while not true():
        assert time.monotonic() < until, person.page.get_by_role("main").inner_text()
        person.page.wait_for_timeout(500)
        person.page.reload()


def state_of(person: Person):
    return person.page.locator(".campaign-head .badge").first


def watch(person: Person) -> None:
    """The page follows the campaign on its own: heat map, live chart, pause and resume, results."""
    page = person.page
    page.evaluate(
        "() => { window.heard = 0; document.addEventListener('htmx:sseMessage', () => heard++) }"
    )
    live = page.locator("#campaign-running .chart .main-svg")
    expect(live.first).to_be_attached(timeout=60_000)
    expect(live.locator(".trace").first).to_be_attached(timeout=60_000)
    person.look("live", quick=True)
    heard = page.evaluate("heard")
    assert heard > 0, "no server-sent event arrived"
    person.press("Pause")
    expect(state_of(person)).to_have_text("Paused")
    person.look("paused", quick=True)
    person.press("Resume")
    page.evaluate("window.stayed = true")
    expect(state_of(person)).to_have_text("Done", timeout=CAMPAIGN_S * 1000)
    assert page.evaluate("window.stayed"), "the page was loaded anew"
    expect(page.locator("#campaign-heat td a[class^=c]")).to_have_count(3)
    expect(page.locator("#campaign-results .chart .main-svg").first).to_be_attached()


def click_the_last_point(person: Person) -> None:
    page = person.page
    points = page.locator("#campaign-results .chart .scatterlayer .trace").first.locator(
        ".points path"
    )
    expect(points).to_have_count(3)
    points.last.scroll_into_view_if_needed()
    last = points.last.bounding_box()
    page.mouse.click(last["x"] + last["width"] / 2, last["y"] + last["height"] / 2)
    page.wait_for_url("**/runs/*/")


def check_an_artifact(person: Person) -> None:
    """The hash that the page shows is that of what it gives."""
    row = person.page.locator("#artifacts tbody tr").first
    with person.page.expect_download() as download:
        row.get_by_role("link").first.click()
    given = hashlib.sha256(download.value.path().read_bytes()).hexdigest()
    assert row.locator(".hash").inner_text() == given


def compare(person: Person) -> None:
    person.go("Explore")
    person.look("explore-empty")
    person.page.get_by_role("link", name="Compare by workload", exact=True).click()
    person.page.wait_for_url("**/compare/**")
    person.look("compare-empty")
    person.page.get_by_label(re.compile("How deep is xfs")).check()
    person.press("Compare")
    person.drawn()
    person.look("compare")


def up_to_the_start(person: Person, rig_host: UmlHost, password: str) -> None:
    person.log_in("alice", password)
    person.look("home-empty")
    skip_to_the_content(person)
    add_host(person, rig_host)
    for number, (name, serial) in enumerate(SPARE.items()):
        mark_spare(person, name, serial, mistyped=number == 0)
    person.look("host-spares")
    make_topology(person)
    make_workload(person)
    make_campaign(person)
    read_the_plan(person)


@pytest.mark.quick
def test_from_login_to_charts_of_real_numbers(chromium, served, alice, rig_host):
    person = Person(chromium, served)
    up_to_the_start(person, rig_host, alice)
    watch(person)
    person.look("campaign")
    person.page.get_by_text("The numbers as a table").click()
    person.look("campaign-numbers")
    click_the_last_point(person)
    person.drawn()
    person.look("run")
    check_an_artifact(person)
    compare(person)
    for place in ("Home", "Campaigns", "Hosts", "Topologies", "Workloads", "API"):
        person.go(place)
        person.look(place.lower())
    assert person.complaints == []
    assert_blank(rig_host, *SPARE)
    person.close()


@pytest.mark.night
def test_the_whole_way_without_javascript(chromium, served, alice, rig_host):
    person = Person(chromium, served, javascript=False)
    page = person.page
    up_to_the_start(person, rig_host, alice)
    reload_until(person, lambda: state_of(person).inner_text() == "Done")
    page.get_by_text("The numbers as a table").click()
    numbers = page.get_by_role("region", name="Numbers of").locator("tbody tr")
    expect(numbers).to_have_count(3)
    for depth, row in zip((1, 2, 4), numbers.all(), strict=True):
        expect(row.locator("td.num").first).to_contain_text(str(depth))
        expect(row.locator("td.num").nth(1)).to_contain_text("IOPS")
    person.look("campaign")
    assert person.complaints == []
    assert_blank(rig_host, *SPARE)
    person.close()
