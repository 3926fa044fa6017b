"""The course of a run's rate: stored with its findings, and a mark beside its figures wherever they are shown."""

from __future__ import annotations

import csv
import io

import pytest
from django.urls import reverse
from django.utils import timezone

from benchlab.analysis.steady import Course, State
from benchlab.findings import storing
from benchlab.runs.models import Series

pytestmark = pytest.mark.django_db


def add_rate(attempt, values) -> None:
    """Its IOPS each second, by the tool."""
    times = [float(second + 1) for second in range(len(values))]
    attempt.windows = [{"name": "measured", "start": 0, "end": times[-1], "measured": True}]
    attempt.save()
    Series.objects.create(
        attempt=attempt, sampler="fio", device="", metric="read.iops", unit="op/s", times=times, values=values
    )  # fmt: skip


@pytest.fixture
def fallen(lab):
    """The lab whose first attempt fell to a third after 40 of 120 s."""
    add_rate(lab.attempt, [9000.0 + second % 7 for second in range(40)] + [3000.0] * 80)
    storing.find_for_attempts([attempt.pk for attempt in lab.attempts])
    lab.attempt.refresh_from_db()
    return lab


def test_it_is_stored_with_the_findings(fallen):
    course = Course.from_json(fallen.attempt.course)
    assert (course.state, course.edge_s, course.unit) == (State.STEP, 40.0, "op/s")
    assert course.first == pytest.approx(9003, abs=1) and course.second == 3000
    other = fallen.attempts[1]
    other.refresh_from_db()
    assert other.course == {"state": "no series"}
    assert fallen.attempt.findings.get(kind="not_steady").says == (
        "at 40 s of 120 s the IOPS fell from 9.00 k IOPS to 3.00 k IOPS and stayed there: the mean describes neither"
    )


def test_a_run_whose_samples_were_removed_keeps_its_own(fallen):
    fallen.attempt.series.all().delete()
    fallen.attempt.raw_removed_at = timezone.now()
    fallen.attempt.save()
    storing.find_for_attempts([fallen.attempt.pk])
    fallen.attempt.refresh_from_db()
    assert fallen.attempt.course["state"] == "step"


def test_pages_mark_its_figures(fallen, client):
    client.force_login(fallen.user)
    run = client.get(reverse("run-detail", args=[fallen.run.pk])).content.decode()
    [course] = run.split('id="course"')[1:]
    sentence = course.partition("</p>")[0].partition(">")[2]
    assert sentence == (
        "Not steady: step. The figures are means over the whole run; the last third did 3 k IOPS."
    )
    campaign = client.get(reverse("campaign-detail", args=[fallen.campaign.pk])).content.decode()
    assert "1 of 2 not steady: step" in campaign
    rows = client.get(reverse("campaign-csv", args=[fallen.campaign.pk]))
    table = csv.DictReader(io.StringIO(b"".join(rows).decode()))
    states = {row["run"]: row["course"] for row in table}
    assert states.pop(str(fallen.run.pk)) == "step" and set(states.values()) == {"no series"}


def test_charts_mark_it_with_words_and_a_sign(fallen, client):
    client.force_login(fallen.user)
    address = reverse("campaign-figure", args=[fallen.campaign.pk])
    figure = client.get(f"{address}?workload={fallen.load.pk}").json()
    [sign] = [trace for trace in figure["data"] if "not steady" in trace.get("name", "")]
    assert sign["x"] == [1] and sign["marker"]["symbol"] == "diamond-open"
    hovers = [text for trace in figure["data"] for text in trace.get("text", []) if "step" in text]
    assert hovers and all("not steady: step" in text for text in hovers)


def test_the_api_and_the_tables_have_it(fallen, client):
    client.force_login(fallen.user)
    attempt = client.get(f"/api/attempts/{fallen.attempt.pk}/").json()
    assert attempt["course"]["state"] == "step" and attempt["course"]["edge_s"] == 40
    rows = client.get("/api/results/?format=csv&course=step")
    found = list(csv.DictReader(io.StringIO(b"".join(rows).decode())))
    assert {row["attempt"] for row in found} == {str(fallen.attempt.pk)}
    assert {row["course"] for row in found} == {"step"}
