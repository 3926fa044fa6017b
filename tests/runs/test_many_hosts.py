"""The machines of tests/bench/bench_hosts.py are hosts like any other: a campaign on three of them goes through."""

from __future__ import annotations

import pytest

from benchlab.runs.models import Attempt, StepLog
from tests.bench import bench_hosts, machines
from tests.runs import drive

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
HOSTS, SECONDS = 3, 1


def test_campaigns_on_made_up_machines(tmp_path):
    lab = bench_hosts.Lab()
    with machines.farm(tmp_path, HOSTS, lab.key.public_key) as farm:
        first, *others = (lab.host(number, farm) for number in range(HOSTS))
        campaigns = [lab.campaign([first], 2, SECONDS), lab.campaign(others, 1, SECONDS)]
        for campaign in campaigns:
            drive.plan_and_start(campaign)
            drive.to_the_end(campaign, 60)
    for campaign in campaigns:
        assert bench_hosts.failed(campaign) == []
        lags = bench_hosts.lags(campaign)
        assert len(lags) == 2 and min(lags) > 0
    assert [len(bench_hosts.gaps(campaign)) for campaign in campaigns] == [1, 0]
    assert bench_hosts.wall_s(campaigns[0]) > 2 * SECONDS
    rows = Attempt.objects.all()
    assert len({row.boot_id for row in rows}) == HOSTS
    assert len({row.measurements.get(name="iops").value for row in rows}) == 4
    assert all(row.series.filter(sampler="diskstats").exists() for row in rows)
    commands = StepLog.objects.all()
    assert {row.exit_code for row in commands} == {0}
    assert len({row.layout_id for row in commands.filter(kind="teardown")}) == HOSTS
