"""The first campaign of `up`: what it compares, so that the first page has a chart with two lines and a verdict."""

from __future__ import annotations

import re
import shutil

import pytest

from benchlab.campaigns.models import Run
from benchlab.up import firstrun
from tests.verdicts.bench import Bench

pytestmark = pytest.mark.django_db


def test_the_first_campaign_compares_writes_with_and_without_fsync(
    team, user, tmp_path, monkeypatch, web
):
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(firstrun, "pg_test_fsync", lambda: "")
    load = firstrun.workloads(tmp_path, team, user)[0]
    assert load.tool == "fio" and load.sweep == {"iodepth": [1, 4, 16], "fsync": [0, 1]}
    bench = Bench(team)
    layout = bench.build("Scratch directory")
    for fsync, top in ((0, 3000), (1, 1000)):
        done = bench.measure(layout, top, load=load, depths=(1, 4, 16))
        for run in Run.objects.filter(attempts__in=done):
            run.point = {**run.point, "fsync": fsync}
            run.options = {**run.options, "fsync": fsync}
            run.save()
    page = web.get(f"/campaigns/{bench.campaign.pk}/").text
    assert not re.search(r'<h3 id="answer-1">.*?</a> <span class="muted">fsync', page)
    assert "the IOPS of fsync 1: fsync 0" in page and ">Conclusive</span>" in page
