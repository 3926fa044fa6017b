"""The disks of a running attempt, now: by hand, and as a page asks for it."""

from __future__ import annotations

import re
from math import nan

import pytest
from django.urls import reverse

from benchlab.charts import attempt_figures
from benchlab.charts.sampled_tracks import Track
from benchlab.runs.models import Attempt, Layout, LiveChunk
from tests.charts import made, made_live

FACTS = {
    "devices": [
        {"name": "sdb", "path": "/dev/sdb", "type": "disk", "rotational": False, "model": "P30 "},
        {"name": "sdc", "path": "/dev/sdc", "type": "disk", "rotational": True, "model": ""},
        {"name": "dm-0", "path": "/dev/mapper/x", "type": "lvm"},
        {"name": "sdc1", "path": "/dev/sdc1", "type": "part"},
    ]
}


def tracks(device: str, read: list[float], write: list[float], busy: float) -> list[Track]:
    times = [float(at) for at in range(101 - len(read), 101)]
    rows = {"read.bandwidth": read, "write.bandwidth": write, "util": [busy] * len(read)}
    return [Track(device, name, "B/s", times, values) for name, values in rows.items()]


def test_a_strip_has_the_last_90_seconds_and_the_numbers_of_this_one():
    """100 s of 3 MB/s, of which 90 are seen; the other disk did twice as much, and is as high as a strip."""
    found = tracks("sdb", [1e6] * 100, [2e6] * 100, 0.5) + tracks("sdc", [6e6], [nan], 1.0)
    found += tracks("sdc", [0.0], [6e6], 0.97)
    one, other = attempt_figures.build_strips(found, FACTS).disks
    assert (one.name, one.kind, one.css) == ("sdb", "SSD, P30", "s5")
    assert (one.read, one.written, one.busy) == (1e6, 2e6, 50)
    places = one.line.removeprefix("M").split("L")
    assert len(places) == 90 and places[0] == "1.3 17.0" and places[-1] == "120.0 17.0"
    assert (other.kind, other.css, other.line) == ("HDD", "s1", "M120.0 2.0")
    assert (other.read, other.written, other.busy) == (0, 6e6, 97)


def test_a_second_of_which_nothing_is_known_is_not_drawn_nor_told():
    [one] = attempt_figures.build_strips(
        tracks("sdb", [1.0, 1.0, nan], [1.0, nan, nan], nan), FACTS
    ).disks
    assert one.line == "M117.3 2.0" and (one.read, one.written, one.busy) == (None, None, None)
    [none] = attempt_figures.build_strips(tracks("sdb", [nan], [nan], 0.0), FACTS).disks
    assert (none.line, none.area, none.busy) == ("", "", 0)


def test_an_idle_disk_has_a_line_at_the_bottom():
    [one] = attempt_figures.build_strips(tracks("sdb", [0.0], [0.0], 0.0), FACTS).disks
    assert one.line == "M120.0 32.0"


def test_volumes_and_partitions_are_no_disks():
    names = ("dm-0", "sdc1", "sdc", "sdb", "nvme0n1")
    found = [track for name in names for track in tracks(name, [1.0], [1.0], 0.1)]
    assert [one.name for one in attempt_figures.build_strips(found, FACTS).disks] == [
        "sdb",
        "sdc",
        "nvme0n1",
    ]
    assert [one.name for one in attempt_figures.build_strips(found, FACTS, {"sdc"}).disks] == [
        "sdc"
    ]


def test_of_many_disks_some_are_left_to_the_chart():
    found = [track for n in range(30) for track in tracks(f"sd{n}", [1.0], [1.0], 0.1)]
    shown = attempt_figures.build_strips(found, {})
    assert (len(shown.disks), shown.hidden_disks) == (
        attempt_figures.MAX_STRIPS,
        30 - attempt_figures.MAX_STRIPS,
    )


@pytest.fixture
def running(lab) -> Attempt:
    """sdb is its layout's; sda is the system's. Each moves 10 times 4 KiB a second."""
    load = made.workload(lab.team, "other")
    attempt = made_live.running(lab.campaign, lab.host, lab.stacks[0], load, frames=0)
    busy = "# /proc/diskstats\n" + "".join(
        f"    8 {n} {name} {{ios}} 0 {{sectors}} 9 0 0 0 0 1 9 9\n"
        for n, name in enumerate(("sda", "sdb"))
    )
    frames = "".join(
        f"@ {at * 10**9}\n{busy.format(ios=at * 10, sectors=at * 80)}.\n" for at in range(100, 105)
    )
    LiveChunk.objects.create(attempt=attempt, offset=0, data=frames.encode())
    return attempt


@pytest.mark.django_db
def test_a_page_shows_the_layouts_own_disks_and_all_when_asked(web, other_web, running):
    url = reverse("attempt-strips", args=[running.pk])
    own, every = web.get(url).text, web.get(url, {"disks": "all"}).text
    assert "<b>sdb</b>" in own and "<b>sda</b>" not in own and "41 kB/s" in own
    assert "<b>sda</b>" in every and "<b>sdb</b>" in every
    page = web.get(reverse("campaign-detail", args=[running.run.campaign_id])).text
    assert "<b>sdb</b>" in page and "<b>sda</b>" not in page and f'hx-get="{url}"' in page
    page = web.get(
        reverse("campaign-detail", args=[running.run.campaign_id]), {"disks": "all"}
    ).text
    assert "<b>sda</b>" in page and f'hx-get="{url}?disks=all"' in page
    assert other_web.get(url).status_code == 404


@pytest.mark.django_db
def test_nobody_goes_on_to_ask_for_what_is_over(web, running):
    Attempt.objects.filter(pk=running.pk).update(outcome="succeeded", phase="done")
    answer = web.get(reverse("attempt-strips", args=[running.pk]))
    assert answer.status_code == 286
    assert answer["HX-Reswap"] == "none"  # it would empty what was seen last


@pytest.mark.django_db
def test_samples_that_cannot_be_read_are_no_error(web, running):
    LiveChunk.objects.update(
        data=b"@ 1\n# /proc/diskstats\n nonsense\n.\n@ 2\n# /proc/diskstats\n x\n.\n"
    )
    url = reverse("attempt-strips", args=[running.pk])
    assert "The samples cannot be read" in web.get(url).text


@pytest.mark.django_db
def test_before_samples_a_card_says_so(web, running):
    LiveChunk.objects.all().delete()
    assert card(web, running) == "The layout’s disks, now: Waiting for the first samples."


@pytest.mark.django_db
def test_a_disk_that_nobody_samples_is_not_waited_for(web, running):
    chunk = running.live.get()
    chunk.data = bytes(chunk.data).replace(b" sdb ", b" sdx ")
    chunk.save()
    assert "None of these disks was sampled" in card(web, running)


@pytest.mark.django_db
def test_a_scratch_directory_shows_all_disks_of_its_host(web, running):
    """It claims none: what is shown is no layout's."""
    Layout.objects.filter(pk=running.layout_id).update(plan={"claims": {}, "steps": []})
    said = card(web, running)
    assert said.startswith(f"All disks of {running.run.host}, now:")
    assert "sda" in said and "sdb" in said


def card(web, running: Attempt) -> str:
    """Its heading and what is in it, in plain words."""
    page = web.get(reverse("campaign-detail", args=[running.run.campaign_id])).text
    found = page.partition(f'id="disks-{running.pk}">')[2].partition("</section>")[0]
    return " ".join(re.sub("<[^>]*>", " ", found.replace("</h2>", ":")).split())
