"""Histograms of latencies: kept with a result's figures, read anew by reparse, kept as long as figures are."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from benchlab.lifecycle.tasks import sweep_raw
from benchlab.runs import artifacts, conclusion
from benchlab.runs.models import Attempt, Histogram, Layout, Series
from benchlab.runs.states import Outcome
from benchlab.runs.verdict import Verdict
from tests.api.conftest import client_of
from tests.charts import made

CASES = Path(__file__).parents[1] / "cases" / "tools" / "fio"
NOISY = (CASES / "3.33-noisy-randrw.json").read_bytes()
SAMPLES = {"read.clat": 510362, "write.clat": 218122}  # as fio printed them, N


@pytest.fixture
def attempt(team) -> Attempt:
    host, topology = made.host(team), made.topology(team, "raw")
    (found,) = made.swept(
        made.campaign(team), host, topology, made.workload(team), depths=(1,), repeats=1
    )
    found.run.options = {}
    found.run.save()
    found.artifacts.all().delete()
    return found


def counted() -> dict[str, int]:
    rows = Histogram.objects.order_by("name")
    assert len({(row.attempt_id, row.name) for row in rows}) == len(rows)
    return {row.name: sum(row.counts) for row in rows}


def test_they_come_with_the_figures_and_again_by_reparse(attempt):
    artifacts.store_artifacts(attempt, {"fio.json": NOISY})
    _, figures = conclusion.conclude_attempt(attempt, Verdict(Outcome.SUCCEEDED))
    conclusion.replace_figures(attempt, figures)
    assert counted() == SAMPLES
    before = list(Histogram.objects.values_list("name", "lows", "highs", "counts"))
    assert conclusion.reparse_attempt(attempt) == ""
    assert list(Histogram.objects.values_list("name", "lows", "highs", "counts")) == before


def test_a_run_that_was_cut_off_has_none(attempt):
    artifacts.store_artifacts(attempt, {"fio.json": NOISY})
    _, figures = conclusion.conclude_attempt(attempt, Verdict(Outcome.CANCELLED))
    assert not figures.histograms


def test_they_stay_when_raw_output_goes(attempt):
    made.sampled(attempt, disks=1, seconds=5)
    made.binned(attempt)
    Layout.objects.update(ended_at=timezone.now() - timedelta(days=8))
    team = attempt.run.campaign.team
    team.keep_raw_days = 7
    team.save()
    sweep_raw()
    assert not Series.objects.exists() and Histogram.objects.exists()


def test_the_api_tells_them_in_seconds(user, attempt):
    artifacts.store_artifacts(attempt, {"fio.json": NOISY})
    assert conclusion.reparse_attempt(attempt) == ""
    api = client_of(user)
    found = api.get(f"/api/histograms/?attempt={attempt.pk}&name=read.clat").json()["results"]
    (one,) = found
    assert sum(one["counts"]) == SAMPLES["read.clat"] and one["run"] == attempt.run_id
    assert one["lows"][0] == pytest.approx(396e-9) and one["labels"] == {}
    assert api.get(f"/api/histograms/?run={attempt.run_id}").json()["count"] == 2
