"""Latency logs of fio that do not say what they are in: a result beside them tells, or a person is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command

from benchlab.campaigns.models import Campaign
from benchlab.imports.models import Draft
from benchlab.runs.models import Histogram, Series
from tests.api.conftest import client_of
from tests.imports.test_unpack import zipped

CASES = Path(__file__).parents[1] / "cases" / "tools" / "fio"
NEW = (CASES / "3.33-randrw.json").read_bytes()
OLD = (CASES / "1.59-text-randwrite-raw.txt").read_bytes()
DD = b"1024+0 records in\n1024+0 records out\n1073741824 bytes (1.1 GB, 1.0 GiB) copied, 2.04521 s, 525 MB/s\n"
LOG = b"500, 1200, 0, 4096\n1000, 800, 0, 4096\n1500, 900, 0, 4096\n"
ASKED = "Latencies of fio&#x27;s logs are in"
UNTOLD = "Say what its latencies are in"
pytestmark = pytest.mark.usefixtures("nudges")


def handed_in(web, **files: bytes) -> Draft:
    sent = [SimpleUploadedFile(name.replace("__", "."), raw) for name, raw in files.items()]
    assert web.post("/import/", {"files": sent}).status_code == 302
    return Draft.objects.latest("pk")


def typed(draft: Draft, **more: str) -> dict[str, str]:
    sent = {"campaign": "c", "new_host": "h", "new_topology": "t", **more}
    measured = ""
    for file in draft.files.order_by("position"):
        for one in file.reading["found"]:
            key = f"{file.pk}-{one['first']}"
            sent[f"r{key}-take"] = "on"
            if one["kind"] == "fio_log":
                sent[f"r{key}-beside"] = measured
            else:
                measured = key
    return sent


def means() -> list[float]:
    row = Series.objects.get(metric="read.lat.mean")
    return [float(value) for value in row.values]


@pytest.mark.parametrize(("beside", "scale"), [(NEW, 1e-9), (OLD, 1e-6)])
def test_a_result_of_fio_beside_it_tells(web, beside, scale):
    draft = handed_in(web, a__txt=beside, x_lat__1__log=LOG)
    shown = web.get(f"/import/{draft.pk}/").content.decode()
    assert ASKED not in shown and "By the result of fio beside it" in shown
    web.post(f"/import/{draft.pk}/", typed(draft))
    wanted = pytest.approx([1200 * scale, 800 * scale, 900 * scale])
    assert means() == wanted
    call_command("reparse")
    assert means() == wanted and Campaign.objects.count() == 1


def job_logs(kind: str) -> dict[str, bytes]:
    """Of three jobs, each half as fast as the one before; their latencies 1, 2 and 3 ms."""
    each = {"lat": (1e6, 2e6, 3e6), "iops": (400, 200, 100)}[kind]
    rows = [[f"{at}, {value:.0f}, 0, 0, 0\n" for at in (500, 1000, 1500)] for value in each]
    return {f"x_{kind}.{n}.log": "".join(some).encode() for n, some in enumerate(rows, 1)}


def test_the_logs_of_each_job_are_read_together(web):
    """As fio writes them unless told otherwise, with numjobs=3."""
    draft = handed_in(web, a__zip=zipped({"a.json": NEW, **job_logs("iops"), **job_logs("lat")}))
    web.post(f"/import/{draft.pk}/", typed(draft))
    for again in (False, True):
        if again:
            call_command("reparse")
        assert list(Series.objects.get(metric="read.iops").values) == [700, 700, 700]
        assert means() == pytest.approx([(400 * 1 + 200 * 2 + 100 * 3) / 700e3] * 3)


def test_logs_of_jobs_that_began_later_and_two_of_one_job_are_not_added_up(web):
    late = NEW.replace(b'"job options" : {', b'"job options" : {"startdelay" : "4",', 1)
    assert late != NEW
    draft = handed_in(web, a__zip=zipped({"a.json": late, **job_logs("iops")}))
    web.post(f"/import/{draft.pk}/", typed(draft))
    assert Campaign.objects.count() == 1 and not Series.objects.exists()
    twice = {"a.json": NEW, "x_iops.1.log": LOG, "y_iops.1.log": LOG}
    draft = handed_in(web, a__zip=zipped(twice))
    said = web.post(f"/import/{draft.pk}/", typed(draft), follow=True).content.decode()
    assert "a second log of the same job" in said and not Series.objects.exists()


@pytest.mark.parametrize(("unit", "scale"), [("us", 1e-6), ("ns", 1e-9)])
def test_a_person_is_asked_where_nothing_tells(web, unit, scale):
    draft = handed_in(web, a__txt=DD, x_lat__1__log=LOG)
    shown = web.get(f"/import/{draft.pk}/").content.decode()
    assert ASKED in shown and "microseconds: fio before 3.0" in shown
    shown = web.post(f"/import/{draft.pk}/", typed(draft)).content.decode()
    assert UNTOLD in shown and not Campaign.objects.exists()
    web.post(f"/import/{draft.pk}/", typed(draft, log_unit=unit))
    assert means() == pytest.approx([1200 * scale, 800 * scale, 900 * scale])


def test_results_that_differ_tell_nothing_but_the_one_it_belongs_to_does(web):
    draft = handed_in(web, a__json=NEW, b__txt=OLD, x_lat__1__log=LOG)
    assert ASKED in web.get(f"/import/{draft.pk}/").content.decode()
    web.post(f"/import/{draft.pk}/", typed(draft))  # beside b.txt, the last before it
    assert means() == pytest.approx([0.0012, 0.0008, 0.0009])


def test_the_nearest_folder_tells_and_another_archive_does_not(web):
    files = {"old/a.txt": OLD, "new/a.json": NEW, "new/logs/x_lat.1.log": LOG}
    draft = handed_in(web, a__zip=zipped(files))
    assert ASKED not in web.get(f"/import/{draft.pk}/").content.decode()
    draft = handed_in(web, a__json=NEW, b__zip=zipped({"x_lat.1.log": LOG}))
    assert ASKED in web.get(f"/import/{draft.pk}/").content.decode()


def test_the_api_asks_and_takes_no_answer_against_what_is_known(web, user):
    api = client_of(user)

    def agreed(draft: Draft, **more: str):
        first, log = draft.files.order_by("position")
        at = first.reading["found"][0]["first"]
        results = [{"file": first.pk, "first": at, "new_host": "h", "new_topology": "t"},
                   {"file": log.pk, "first": 1, "beside": {"file": first.pk, "first": at}, **more}]  # fmt: skip
        sent = {"campaign": "c", "results": results}
        return api.post(f"/api/imports/{draft.pk}/agree/", sent, format="json")

    draft = handed_in(web, a__txt=DD, x_lat__1__log=LOG)
    told = api.get(f"/api/imports/{draft.pk}/").json()["files"][1]["found"][0]
    assert (told["needs"], told["series"], told["trouble"]) == ("fio_log_unit", [], "")
    assert UNTOLD in str(agreed(draft).json()["errors"]["results.1.log_unit"])
    assert "results.1.log_unit" in agreed(draft, log_unit="ms").json()["errors"]
    known = handed_in(web, a__json=NEW, x_lat__1__log=LOG)
    assert "nanoseconds" in str(agreed(known, log_unit="us").json()["errors"]["results.1.log_unit"])
    assert not Campaign.objects.exists()
    assert agreed(draft, log_unit="us").status_code == 202
    assert means() == pytest.approx([0.0012, 0.0008, 0.0009])


def test_histograms_come_with_a_result(web):
    """As fio printed them, N; and again by reparse."""
    draft = handed_in(web, a__txt=(CASES / "3.33-noisy-randrw.json").read_bytes())
    web.post(f"/import/{draft.pk}/", typed(draft))
    for again in (False, True):
        if again:
            call_command("reparse")
        counted = {row.name: sum(row.counts) for row in Histogram.objects.all()}
        assert counted == {"read.clat": 510362, "write.clat": 218122}
