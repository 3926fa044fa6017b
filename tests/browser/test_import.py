"""From a pasted article to a chart, in a real browser: every page clean under axe and the content security policy."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from benchlab.imports import draft_store, drafts
from tests.browser.person import Person
from tests.imports.test_storing import TEXT as DD
from tests.imports.test_unlike_runs import IOSTAT, fio

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

ICF = Path(__file__).parents[1] / "cases" / "readers" / "icf" / "article002.icf"
ARTICLE = """Some words before it, as an article has them. <b>Not bold.</b>

$ pg_test_fsync -f /data/1
5 seconds per test
O_DIRECT supported on this platform for open_datasync and open_sync.

Compare file sync methods using one 8kB write:
(in wal_sync_method preference order, except fdatasync is Linux's default)
        open_datasync                    8022.741 ops/sec     125 usecs/op
        fdatasync                        7895.225 ops/sec     127 usecs/op
        fsync                            7613.119 ops/sec     131 usecs/op
        fsync_writethrough                            n/a
        open_sync                        7814.620 ops/sec     128 usecs/op

Compare file sync methods using two 8kB writes:
(in wal_sync_method preference order, except fdatasync is Linux's default)
        open_datasync                    4000.741 ops/sec     250 usecs/op
        fdatasync                        5895.225 ops/sec     170 usecs/op
        fsync                            5613.119 ops/sec     178 usecs/op
        fsync_writethrough                            n/a
        open_sync                        3814.620 ops/sec     262 usecs/op

Compare open_sync with different write sizes:
(This is designed to compare the cost of writing 16kB in different write
open_sync sizes.)
         1 * 16kB open_sync write        6014.620 ops/sec     166 usecs/op
         2 *  8kB open_sync writes       3814.620 ops/sec     262 usecs/op
         4 *  4kB open_sync writes       2014.620 ops/sec     496 usecs/op
         8 *  2kB open_sync writes       1014.620 ops/sec     986 usecs/op
        16 *  1kB open_sync writes        514.620 ops/sec    1943 usecs/op

Test if fsync on non-write file descriptor is honored:
(If the times are similar, fsync() can sync data written on a different
descriptor.)
        write, fsync, close              7414.620 ops/sec     135 usecs/op
        write, close, fsync              7514.620 ops/sec     133 usecs/op

Non-sync'ed 8kB writes:
        write                          314620.000 ops/sec       3 usecs/op

$ dd if=/dev/zero of=/data/img bs=1024k count=10240 oflag=direct
10240+0 records in
10240+0 records out
10737418240 bytes (11 GB) copied, 10.0000 s, 1.1 GB/s
"""


@pytest.fixture
def person(chromium, live_server, user):
    found = Person(chromium, live_server.url)
    found.log_in("alice", "alice-password")
    yield found
    found.close()


@pytest.fixture(autouse=True)
def at_work(monkeypatch) -> None:
    """A worker reads whatever is handed in and stores what is agreed to, before anybody can look."""

    def read(ids):
        for pk in list(ids):
            drafts.read_file(pk)

    monkeypatch.setattr(drafts, "queue_reading", read)
    monkeypatch.setattr(draft_store, "queue_storing", draft_store.store_draft)


@pytest.fixture
def nudged(monkeypatch, at_work) -> list[int]:
    """Messages to workers, of which there are none here."""
    sent: list[int] = []
    monkeypatch.setattr(draft_store, "queue_storing", sent.append)
    return sent


def test_a_pasted_article_becomes_a_chart(person):
    page = person.page
    person.go("Import")
    person.look("import")
    page.fill("#import-text", ARTICLE)
    person.press("Preview")
    page.get_by_text("2 results with").wait_for()
    person.look("import-found")
    page.get_by_text("Disks, and what they are rated for").click()
    person.look("import-disks")
    page.get_by_role("link", name="9", exact=True).first.click()
    page.locator("#L9", has_text="8022.741 ops/sec").wait_for()
    person.look("import-lines")
    page.go_back()
    page.fill("#id_new_host", "db-1")
    person.press("Confirm and store")
    page.get_by_text("Choose a topology, or name a new one.").first.wait_for()
    assert page.input_value("#id_new_host") == "db-1"
    person.look("import-refused")
    page.fill("#id_new_topology", "twelve disks")
    page.fill("#id_campaign", "An article")
    page.fill("#id_url", "https://example.org/article")
    person.press("Confirm and store")
    page.get_by_role("heading", name="An article").wait_for()
    person.drawn()
    person.look("import-campaign")
    page.locator("#campaign-heat td a").first.click()
    page.get_by_role("heading", name="Everything the tool measured").wait_for()
    person.look("import-run")
    page.locator("#measurements td a").first.click()
    page.locator("li.marked").wait_for()
    person.look("artifact-lines")
    person.go("Library")
    person.look("library")
    assert person.complaints == []


def test_what_differs_is_shown_and_asked(person):
    page = person.page
    person.go("Import")
    page.fill(
        "#import-text",
        IOSTAT + fio("w", 172) + fio("w", 13300) + fio("w", 180, "$ fio --name=w --sync=1\n"),
    )
    person.press("Preview")
    page.get_by_text("are they repeats?").wait_for()
    person.look("import-differ")
    page.fill("#id_new_host", "db-1")
    page.fill("#id_new_topology", "one disk")
    person.press("Confirm and store")
    page.get_by_role("heading", name="pasted.txt").wait_for()
    assert person.complaints == []


def test_watchers_alone_have_a_page(person):
    page = person.page
    person.go("Import")
    page.fill("#import-text", IOSTAT)
    person.press("Preview")
    page.get_by_text("Seconds between reports").wait_for()
    page.fill("#id_new_host", "db-1")
    page.fill("#id_new_topology", "one disk")
    person.press("Confirm and store")
    page.get_by_role("heading", name="What the devices did").wait_for()
    person.look("import-watched")
    assert person.complaints == []


def test_files_and_without_javascript(chromium, live_server, user, tmp_path):
    (tmp_path / "one.txt").write_text(ARTICLE)
    (tmp_path / "two.bin").write_bytes(b"\x89PNG\0\0")
    person = Person(chromium, live_server.url, javascript=False)
    person.log_in("alice", "alice-password")
    person.go("Import")
    person.page.set_input_files("#import-files", [tmp_path / "one.txt", tmp_path / "two.bin"])
    person.press("Preview")
    person.page.get_by_text("it is binary, not text").wait_for()
    person.look("import-files")
    person.close()
    assert person.complaints == []


DROP = """(files) => {
  const carried = new DataTransfer();
  for (const [name, text] of Object.entries(files)) carried.items.add(new File([text], name));
  return carried;
}"""


def dropped(person: Person, files: dict[str, str]) -> None:
    """As a person lets go of files over the box."""
    box = person.page.locator(".drop")
    carried = person.page.evaluate_handle(DROP, files)
    for event in ("dragenter", "dragover", "drop"):
        box.dispatch_event(event, {"dataTransfer": carried})


def test_several_files_are_dropped_and_stored_by_a_worker(person, nudged):
    page = person.page
    person.go("Import")
    files = {f"{n}.txt": DD.format(n=n, b=n << 20, rate=(n << 20) / 1e6) for n in (1, 2, 3)}
    dropped(person, {**files, "azure.icf": ICF.read_text()})
    expect(page.locator(".drop-names li")).to_have_text(
        ["1.txt (1 KiB)", "2.txt (1 KiB)", "3.txt (1 KiB)", "azure.icf (2 KiB)"]
    )
    person.look("import-dropped")
    person.press("Preview")
    page.get_by_text("4 results with").wait_for()
    person.look("import-dropped-found")
    page.fill("#id_new_host", "db-1")
    page.fill("#id_new_topology", "one disk")
    page.fill("#id_campaign", "Three of dd")
    person.press("Confirm and store")
    page.get_by_text("Storing: 0 of 4 results.").wait_for()
    person.look("import-storing", quick=True)
    (pk,) = nudged
    draft_store.store_draft(pk)
    page.get_by_role("link", name="Three of dd").wait_for()  # the page came by itself
    page.get_by_text("4 stored in").wait_for()
    person.look("import-stored")
    page.get_by_role("link", name="workload", exact=True).click()
    page.get_by_role("link", name="8 KiB; 50% Read; 50% random").wait_for()
    assert person.complaints == []
