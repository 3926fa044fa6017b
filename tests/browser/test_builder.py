"""The builder in a real browser: a stack made by clicks, by keys alone, by dragging; one that is wrong, and mended."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from benchlab.topologies.models import Topology
from tests.browser.axe import violations
from tests.browser.person import Person
from tests.campaigns.conftest import make_host, make_spare

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

TB = 10**12
DRAG = """([from, to]) => {
  const data = new DataTransfer();
  const send = (id, type) => document.getElementById(id).dispatchEvent(
    new DragEvent(type, {bubbles: true, cancelable: true, dataTransfer: data}));
  send(from, "dragstart"); send(to, "dragover"); send(to, "drop");
}"""


@pytest.fixture
def lab(team):
    made = make_host(team, "lab1")
    for letter in "bcdef":
        make_spare(made, f"sd{letter}", "hdd", 4 * TB)
    make_spare(made, "nvme0n1", "ssd", TB)
    return made


@pytest.fixture
def person(lab, live_server, user, chromium):
    one = Person(chromium, live_server.url)
    one.log_in("alice", "alice-password")
    one.page.wait_for_url("**/")
    one.page.goto("/topologies/new/")
    yield one
    one.close()


def cards(page):
    return page.locator("a.lay b")


def settled(page) -> None:
    """Wait until htmx has nothing under way: it gives the focus last."""
    page.wait_for_load_state("networkidle")
    busy = ".htmx-request, .htmx-swapping, .htmx-settling, .htmx-added"
    expect(page.locator(busy)).to_have_count(0)


def test_a_stripe_by_clicks_with_its_sizes_and_the_whole_look(person):
    page = person.page
    person.look("builder-empty")
    page.locator("#gap-0").get_by_role("button", name=re.compile("^LVM ?A")).click()
    expect(cards(page)).to_have_text(["LVM"])
    page.get_by_label("Add a layer on top of LVM").click()
    page.locator("#gap-1").get_by_role("button", name=re.compile("^File system")).click()
    expect(cards(page)).to_have_text(["File system", "LVM"])
    expect(page.locator("#builder-verdict")).to_contain_text("Valid")
    expect(page.locator("#builder-computed")).to_contain_text("256 KiB (4 × 64 KiB)")
    expect(page.locator(".dev b")).to_have_text(["sdb", "sdc", "sdd", "sde"])
    page.locator("#lay-0").click()
    page.locator("#id_layer0-data-count").fill("5")
    expect(page.locator(".dev b")).to_have_count(5)
    expect(page.locator("#id_layer0-data-count")).to_be_focused()
    expect(page.locator("#builder-fits")).to_contain_text("5 of 5 spare")
    page.locator("#id_layer0-data-count").fill("6")
    expect(page.locator("#builder-fits")).to_contain_text("1 hdd short.")
    person.look("builder-short")
    settled(page)
    page.get_by_role("button", name="Make it 5 hdd").click()
    expect(page.locator("#id_layer0-data-count")).to_have_value("5")
    page.fill("#id_name", "Stripe of 5")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url(re.compile(r"/topologies/\d+/$"))
    row = Topology.objects.get()
    assert [entry["kind"] for entry in row.stack] == ["lvm", "filesystem"]
    assert row.stack[0]["devices"] == [{"use": "data", "role": "hdd", "count": 5}]
    assert person.complaints == []


def test_by_keys_alone(person):
    """The places to add are reached by Tab and opened by Enter; arrows move what has the focus, Delete removes it."""
    page, keys = person.page, person.page.keyboard
    page.locator("#gap-0 > summary").focus()
    page.locator("#gap-0 button[value='add 0 lvm']").focus()
    keys.press("Enter")
    expect(page.locator("#lay-0")).to_be_focused()
    settled(page)
    keys.press("Shift+Tab")
    expect(page.locator("#gap-1 > summary")).to_be_focused()
    keys.press("Enter")
    keys.press("Tab")
    expect(page.locator("#gap-1 .fits button").first).to_be_focused()
    keys.press("Escape")
    expect(page.locator("#gap-1 > summary")).to_be_focused()
    expect(page.locator("#gap-1 .fits")).to_be_hidden()
    keys.press("Enter")
    page.locator("button[value='add 1 filesystem']").first.focus()
    keys.press("Enter")
    expect(cards(page)).to_have_text(["File system", "LVM"])
    expect(page.locator("#lay-1")).to_be_focused()
    settled(page)
    keys.press("ArrowDown")
    expect(cards(page)).to_have_text(["LVM", "File system"])
    expect(page.locator("#lay-0")).to_be_focused()
    expect(page.locator("#builder-verdict")).to_contain_text("Not valid")
    settled(page)
    keys.press("ArrowDown")  # it is the lowest already
    keys.press("ArrowUp")
    expect(cards(page)).to_have_text(["File system", "LVM"])
    expect(page.locator("#builder-verdict")).to_contain_text("Valid")
    settled(page)
    keys.press("Delete")
    expect(cards(page)).to_have_text(["LVM"])
    expect(page.locator("#lay-0")).to_be_focused()
    settled(page)
    keys.press("Enter")
    expect(page.locator("#id_layer0-data-role")).to_be_focused()
    settled(page)
    assert person.complaints == []


def test_undo_by_keys_keeps_the_focus_and_goes_forward_again(person):
    page, keys = person.page, person.page.keyboard
    page.locator("#gap-0 button[value='add 0 lvm']").click()
    expect(cards(page)).to_have_text(["LVM"])
    settled(page)  # htmx listens to a new field only then
    page.locator("#id_layer0-data-count").fill("3")
    expect(page.locator(".dev b")).to_have_count(3)
    settled(page)
    page.locator("#lay-0").focus()
    keys.press("Delete")
    expect(cards(page)).to_have_count(0)
    settled(page)
    undo = page.get_by_role("button", name="Undo")
    undo.focus()
    keys.press("Enter")
    expect(cards(page)).to_have_text(["LVM"])
    expect(page.locator("#id_layer0-data-count")).to_have_value("3")
    settled(page)
    expect(undo).to_be_focused()
    person.look("builder-undo")
    keys.press("Enter")
    expect(cards(page)).to_have_count(0)
    assert person.complaints == []


def test_a_stack_and_the_same_without_its_cache_by_one_click_more(person):
    page = person.page
    kinds = ("lvm", "lvm_cache", "filesystem")
    for at, kind in enumerate(kinds):
        if at:
            page.locator(f"#gap-{at} > summary").click()
        page.locator(f"#gap-{at} button[value='add {at} {kind}']").click()
        expect(cards(page)).to_have_count(at + 1)
        settled(page)
    page.get_by_label("Also make it without the cache").check()
    page.fill("#id_name", "Cached")
    person.look("builder-also")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#messages")).to_contain_text(
        "Cached and Cached, without the cache are saved."
    )
    assert Topology.objects.count() == 2
    assert person.complaints == []


@pytest.mark.night
def test_dragged_wrongly_it_says_so_and_its_button_mends_it(person):
    page = person.page
    page.locator("#gap-0 button[value='add 0 lvm']").click()
    expect(cards(page)).to_have_text(["LVM"])
    for at, kind, label in ((1, "lvm_cache", "LVM cache"), (2, "filesystem", "File system")):
        page.locator(f"#gap-{at} > summary").click()
        page.locator(f"#gap-{at} button[value='add {at} {kind}']").click()
        expect(cards(page).first).to_have_text(label)
    expect(page.locator(".riser .dev b")).to_have_text("nvme0n1")
    person.look("builder-cache")
    page.evaluate(DRAG, ["lay-2", "gap-1"])  # the file system between the stripe and the cache
    expect(cards(page)).to_have_text(["LVM cache", "File system", "LVM"])
    trouble = page.locator(".troubles")
    expect(trouble).to_contain_text("Layer 3 (LVM cache) needs a logical volume")
    person.look("builder-wrong")
    trouble.get_by_role("button", name="Move LVM cache below File system").click()
    expect(cards(page)).to_have_text(["File system", "LVM cache", "LVM"])
    expect(trouble).to_have_count(0)
    page.locator("#lay-2").drag_to(page.locator("#lay-1"))  # as a hand does it
    expect(cards(page)).to_have_text(["LVM cache", "File system", "LVM"])
    settled(page)
    assert person.complaints == []


def test_what_is_wrong_is_told_at_its_field_while_it_is_typed(person):
    page = person.page
    page.locator("#gap-0 button[value='add 0 lvm']").click()
    field = page.locator("#id_layer0-stripe_size")
    expect(field).to_be_visible()
    settled(page)  # htmx listens to a new field only then
    field.fill("65537")
    expect(page.locator("#said-id_layer0-stripe_size")).to_contain_text("is not a power of two")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_be_focused()
    expect(field).to_have_value("65537")
    page.emulate_media(color_scheme="light")
    assert violations(page) == []
    field.fill("128k")
    expect(page.locator("#said-id_layer0-stripe_size")).to_be_empty()
    expect(page.locator("#builder-computed")).to_contain_text("512 KiB (4 × 128 KiB)")
    expect(field).not_to_have_attribute("aria-invalid", "true")
    field.press("Enter")
    settled(page)
    assert page.url.endswith("/topologies/new/") and not Topology.objects.exists()
    expect(field).to_have_value("128k")
    assert person.complaints == []


def test_who_comes_back_finds_what_was_built(person):
    page = person.page
    page.locator("#gap-0 button[value='add 0 lvm']").click()
    expect(cards(page)).to_have_text(["LVM"])
    settled(page)
    page.fill("#id_name", "so far")
    page.locator("#id_layer0-data-count").fill("3")
    expect(page.locator(".dev b")).to_have_count(3)
    page.get_by_role("link", name="Topologies").first.click()
    page.wait_for_url("**/topologies/")
    page.go_back()
    expect(cards(page)).to_have_text(["LVM"])
    expect(page.locator("#id_name")).to_have_value("so far")
    expect(page.locator("#id_layer0-data-count")).to_have_value("3")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url(re.compile(r"/topologies/\d+/$"))
    page.go_back()
    expect(page.locator("#id_name")).to_have_value("")
    assert person.complaints == []
