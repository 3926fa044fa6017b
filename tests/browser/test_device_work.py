"""The disks' work and what is full, in a real browser: clean under axe, light and dark."""

from __future__ import annotations

import pytest

from agents.contracts import Claim, Target
from agents.plans import applied_part
from agents.plans.chain import LayerSpec
from agents.plans.stack import Placed, StackPlan
from benchlab.runs.models import Measurement, Series
from tests.browser.axe import violations
from tests.browser.test_charts import drawn, log_in
from tests.charts import made
from tests.charts.test_full_stations import DEPTHS, sampled

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

DISKS = tuple(f"sd{letter}" for letter in "bcdefghijklm")
TESTS = ("one.open_datasync", "one.fdatasync", "two.fdatasync", "open_sync.1x16")
TIMES = [float(second) for second in range(1, 25)]


def layer(kind, **uses):
    given = {
        use: tuple(Claim(f"serial:{name}", f"/dev/{name}", 1, "") for name in names)
        for use, names in uses.items()
    }
    target = Target("bl1", devices=given)
    return Placed(LayerSpec(kind), target, target, ())


@pytest.fixture
def campaign(team, user):
    """Article 000 in small: an LVM cache on a stripe of twelve, of which two do the work; and a line that ends full."""
    where, campaign = made.host(team, disks=12), made.campaign(team)
    synced = made.workload(team, "pg_test_fsync", "pg_test_fsync")
    layout = made.done_layout(campaign, where, made.topology(team, "LVM cache"))
    stack = (layer("lvm", data=DISKS), layer("lvm_cache", cache=("nvme0n1",), below=DISKS))
    layout.plan = applied_part.to_json(StackPlan("bl1", stack, "f"))
    layout.save(update_fields=["plan"])
    attempt = made.finished(campaign, layout, synced, None, 1, 5000.0)
    ends = (6.0, 12.0, 18.0, 24.0)
    attempt.windows = [
        {"name": name, "start": end - 6, "end": end, "measured": True}
        for name, end in zip(TESTS, ends, strict=True)
    ]
    attempt.save(update_fields=["windows"])
    for name in TESTS:
        Measurement.objects.create(attempt=attempt, name=f"{name}.ops", value=5000.0, unit="op/s")
    rows = [
        (name, metric, [value * (0.97 + 0.01 * (at % 7)) for at in TIMES])
        for name in (*DISKS, "nvme0n1")
        for metric, value in device(name).items()
    ]
    rows += [("dm-3", "read.hits", [90.0] * 24), ("dm-3", "read.misses", [10.0] * 24)]
    Series.objects.bulk_create(
        Series(
            attempt=attempt,
            sampler="diskstats",
            device=d,
            metric=m,
            unit="op/s",
            times=TIMES,
            values=v,
        )
        for d, m, v in rows
    )
    swept = made.swept(
        campaign, where, made.topology(team, "stripe"), made.workload(team), depths=DEPTHS
    )
    swept[0].layout.plan = applied_part.to_json(
        StackPlan("bl2", (layer("lvm", data=DISKS[:2]),), "f")
    )
    swept[0].layout.save(update_fields=["plan"])
    sampled(swept, {32: 15.0, 64: 30.0}, 0.6)
    return campaign, attempt


def device(name):
    if name == "nvme0n1":
        return {
            "write.iops": 9000.0,
            "write.bandwidth": 6e7,
            "read.iops": 800.0,
            "read.bandwidth": 5e7,
        }
    busy = name in ("sdb", "sdc")
    return {
        "write.iops": 14413.0 if busy else 7248.0,
        "write.bandwidth": 3e7 if busy else 3.4e5,
        "read.iops": 1.0,
        "read.bandwidth": 4096.0,
    }


@pytest.mark.one_in(2)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_they_are_drawn_and_clean(chromium, live_server, campaign, scheme):
    made_of, attempt = campaign
    page, said = log_in(chromium, live_server, scheme)
    page.goto(f"{live_server.url}/runs/{attempt.run_id}/")
    drawn(page)
    assert violations(page) == []
    assert "2 of 12 do 95 %: sdb, sdc" in page.locator("#device-work").inner_text()
    assert page.locator("#hit-ratios tbody tr").count() == len(TESTS)
    page.goto(f"{live_server.url}/campaigns/{made_of.pk}/report/")
    drawn(page)
    assert violations(page) == [] and said == []
    assert page.get_by_text("What is full: at 64 the disks, where 94 %").count() == 1
