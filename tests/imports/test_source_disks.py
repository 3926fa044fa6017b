"""An import says what its disks are rated for: by page and API, checked where it was typed, and findings go by it."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from benchlab.campaigns.models import Campaign
from benchlab.findings.models import Finding
from benchlab.imports import agreements
from benchlab.imports.agreements import ResultDisks, SourceDisks
from benchlab.runs.models import Attempt
from benchlab.topologies.services import create_topology
from benchlab.verdicts import set_ups
from tests.api.conftest import client_of
from tests.imports.made import TEXT
from tests.imports.test_pages import handed_in, page, typed

pytestmark = pytest.mark.usefixtures("readers", "nudges")

STRIPE = [{"kind": "lvm", "devices": [{"use": "data", "role": "ssd", "count": 2}]}]
RAW = [{"kind": "raw", "devices": [{"use": "data", "role": "ssd", "count": 1}]}]
SSD = SourceDisks("ssd", ("P30",), 13, 2_000_000)


@pytest.fixture
def raw(team, user):
    return create_topology(team=team, user=user, name="one disk", stack=RAW)


def said(*results: ResultDisks) -> list[tuple[int, int, str]]:
    return list(agreements.disk_errors(results))


@pytest.mark.parametrize(
    ("disks", "number", "word"),
    [
        ([SourceDisks("SSD!", ("sda",))], 0, "not a role"),
        ([SourceDisks("", ("sda",))], 0, "not a role"),
        ([SourceDisks("ssd", ())], 0, "Name the disks"),
        ([SourceDisks("ssd", ("a\x07",))], 0, "not a name"),
        ([SourceDisks("ssd", ("a" * 65,))], 0, "not a name"),
        ([SourceDisks("ssd", tuple(f"sd{n}" for n in range(257)))], 0, "at most 256"),
        ([SourceDisks("ssd", ("sda",), 0)], 0, "rated IOPS"),
        ([SourceDisks("ssd", ("sda",), None, 10**16)], 0, "rated throughput"),
        ([SourceDisks("ssd", ("sda",)), SourceDisks("ssd", ("sdb",))], 1, "role ssd is listed twice"),
        ([SourceDisks("ssd", ("sda",)), SourceDisks("hdd", ("sda",))], 1, "disk sda is listed twice"),
        ([SourceDisks("ssd", ("sda",)), SourceDisks("hdd", ("sdb",))], 1, "No layer of one disk asks for the role hdd"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_of_the_disks_that_it_is_of(disks, number, word):
    found = said(ResultDisks(3, tuple(disks), "one disk", RAW))
    assert [(index, at) for index, at, _ in found] == [(3, number)]
    assert word in found[0][2]


def test_some_result_must_stand_on_the_disks_and_on_all_of_them():
    assert said(ResultDisks(0, (SSD,), "t", []), ResultDisks(1, (SSD,), "one disk", RAW)) == []
    [(index, number, why)] = said(ResultDisks(0, (SSD,), "a stripe", STRIPE))
    assert (index, number) == (0, 0)
    assert why == "a stripe uses 2 disks of the role ssd; 1 named."
    [(_, _, why)] = said(ResultDisks(0, (SSD,), "", []))
    assert "No layer of the topology asks for the role ssd" in why


def test_they_come_through_json_as_they_were():
    told = (SSD, SourceDisks("hdd", ("sda", "sdb")))
    assert agreements.disks_from_json([asdict(row) for row in told]) == told
    assert agreements.names_and_ratings(told) == (
        {"ssd": ("P30",), "hdd": ("sda", "sdb")},
        {"ssd": {"iops": 13, "bandwidth": 2_000_000}},
    )


def test_a_rating_typed_on_the_page_is_reached_at_a_depth(web, team, raw):
    draft = handed_in(web)
    assert "Disks, and what they are rated for" in page(web, draft)
    sent = typed(draft, new_topology="", topology=f"{raw.pk}", **{
        "disks0-role": "ssd", "disks0-names": "P30", "disks0-rated_iops": "13", "disks0-rated_mb": "2.5",
    })  # fmt: skip
    assert web.post(f"/import/{draft.pk}/", sent).status_code == 302
    campaign = Campaign.objects.get()
    metas = Attempt.objects.filter(run__campaign=campaign).values_list("meta", flat=True)
    assert {str((one["disks"], one["rated"])) for one in metas} == {
        "({'ssd': ['P30']}, {'ssd': {'iops': 13, 'bandwidth': 2500000}})"
    }
    set_ups.sweep_campaigns([campaign.pk])
    [found] = Finding.objects.filter(campaign=campaign, kind="rating_reached_at_depth")
    assert (
        "reaches the rating of its disk at 8 outstanding: 13.0 IOPS against 13.0 IOPS rated"
        in found.says
    )
    [found] = Finding.objects.filter(campaign=campaign, kind="rating_reached")
    assert "100 % of the 13.0 IOPS that P30 is rated for" in found.says


def test_what_is_wrong_is_told_in_its_row_and_all_that_was_typed_stays(web, raw):
    draft = handed_in(web)
    sent = typed(
        draft, **{"disks1-role": "ssd", "disks1-names": "P30, P31", "disks1-rated_iops": "5000"}
    )
    shown = web.post(f"/import/{draft.pk}/", sent).content.decode()
    assert shown.count("No layer of stripe asks for the role ssd") == 1
    assert '<details class="card" open>' in shown and 'value="P30, P31"' in shown
    assert shown.index("No layer of stripe") > shown.index("Disks of one role (2)")
    bad = sent | {"disks1-rated_iops": "-1"}
    assert "greater than or equal to 1" in web.post(f"/import/{draft.pk}/", bad).content.decode()
    assert not Campaign.objects.exists()


def test_the_api_takes_other_disks_for_each_result(user, raw):
    api = client_of(user)
    draft = api.post("/api/imports/", {"text": TEXT, "name": "a.txt"}).json()
    file = draft["files"][0]["id"]
    plain = {"file": file, "new_host": "h", "topology": raw.pk}
    disks = [{"role": "ssd", "names": ["P30"], "rated_iops": 26}]
    first = {**plain, "first": 2, "disks": disks}
    second = {**plain, "first": 3, "disks": [{**disks[0], "names": ["P40"], "rated_iops": 13}]}
    address = f"/api/imports/{draft['id']}/agree/"
    wrong = {**second, "disks": [{"role": "hdd", "names": ["S30"]}]}
    answer = api.post(address, {"campaign": "old", "results": [first, wrong]})
    assert answer.status_code == 400
    assert "role hdd" in str(answer.json()["errors"]["results.1.disks.0"])
    answer = api.post(address, {"campaign": "old", "results": [first, second]})
    assert answer.status_code == 202, answer.content
    runs = Attempt.objects.order_by("run__outstanding").values_list("meta", flat=True)
    assert [one["rated"] for one in runs] == [{"ssd": {"iops": 26}}, {"ssd": {"iops": 13}}]
    [found] = Finding.objects.filter(kind="rating_reached")
    assert "13.0 IOPS that P40 is rated for" in found.says


def test_an_import_that_tells_no_disks_keeps_none(web):
    draft = handed_in(web)
    web.post(f"/import/{draft.pk}/", typed(draft))
    metas = Attempt.objects.values_list("meta", flat=True)
    assert metas and not any("rated" in one or "disks" in one for one in metas)
