"""A difference that is there is called, and equals are not: whole campaigns in the order ABBA on real disks.

The disks have a pace of their own (paced.py): what a busy machine takes besides would make their difference smaller.
"""

from __future__ import annotations

import pytest

from benchlab.campaigns.models import Workload
from benchlab.engine.new_runs import create_campaign
from benchlab.practice import DiskSpec, SlowDisk
from benchlab.runs.models import Attempt
from benchlab.testing.profiles import CI, FULL, QUICK, profile
from benchlab.topologies.services import create_topology
from tests.api.conftest import api
from tests.rig import paced
from tests.rig.stacks import fs, layer
from tests.rig.test_article_shapes import FSYNC, STRIPE, lab
from tests.runs import drive
from tests.verdicts.bench import texts

__all__ = ["api"]  # fixture
pytestmark = [pytest.mark.rig, pytest.mark.night, pytest.mark.django_db(transaction=True)]

BLOCK = 1 << 16
PACES = {"one": 100 * BLOCK, "equal": 100 * BLOCK, "slower": 100 * BLOCK * 5 // 6}  # B/s
FIFTH = 5 / 6
FIO = {"rw": "randread", "block_size": BLOCK, "size": 8 << 20, "runtime_s": 3}  # one at a time


def test_a_fifth_is_called_and_equals_are_not(make_rig_host, team, user, api, web):
    rig = make_rig_host([DiskSpec(64)])
    disks = {name: [paced.add(rig, n, pace)] for n, (name, pace) in enumerate(PACES.items())}
    host = lab(rig, team, user, **disks)
    rows = {
        name: create_topology(
            team=team, user=user, name=name, stack=[layer("raw", {}, data=(name, 1))]
        )
        for name in PACES
    }
    workload = Workload.objects.create(team=team, name="reads", tool="fio", options=FIO)
    campaign = create_campaign(
        team=team, user=user, name="a fifth", question="Which disk is slower?", hosts=[host],
        topologies=list(rows.values()), workloads=[workload], repeats=3, order="abba", seed=1,
    )  # fmt: skip
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign, 600)
    attempts = Attempt.objects.filter(run__campaign=campaign)
    assert [one.outcome for one in attempts] == ["succeeded"] * 9
    query = {"campaign": campaign.pk, "baseline": rows["one"].pk}
    [answer] = api.get("/api/verdicts/", query).json()["results"]
    lines = {line["name"]: line for line in answer["lines"]}
    print(answer["says"])
    slower, equal = lines["slower"], lines["equal"]
    assert slower["design"] == equal["design"] == "abba"
    assert slower["curve"]["verdict"] == "slower"
    assert slower["curve"]["low"] < FIFTH < slower["curve"]["high"] < 1
    assert slower["curve"]["least_repeats"] == slower["curve"]["most_repeats"] == 3
    assert equal["curve"]["verdict"] in ("no difference worth naming", "not enough data")
    assert equal["curve"]["low"] < 1 < equal["curve"]["high"]
    [says] = [one for one in answer["says"] if "more throughput than slower" in one]
    page = web.get(f"/campaigns/{campaign.pk}/", {"baseline": rows["one"].pk})
    assert says.partition(" (")[0] in texts(page)


CAMPAIGNS = {QUICK: 1, CI: 1, FULL: 10}[profile()]
CACHED = [STRIPE, layer("lvm_cache", {"mode": "writeback"}, cache=("ssd", 1)), fs("xfs")]


def test_a_stripe_under_two_names_is_one_and_its_cache_is_found(make_rig_host, team, user, api):
    """Campaign after campaign, in turns with four repeats; the machine around the host is as noisy as it is."""
    rig = make_rig_host(
        [DiskSpec(512, serial="FAST")], [SlowDisk(256, serial=f"S{n}") for n in range(4)]
    )
    host = lab(rig, team, user, ssd=["ubdb"], hdd=["nbd0", "nbd1", "nbd2", "nbd3"])
    stacks = {"stripe": [STRIPE, fs("xfs")], "twin": [STRIPE, fs("xfs")], "cache": CACHED}
    rows = {
        name: create_topology(team=team, user=user, name=name, stack=stack)
        for name, stack in stacks.items()
    }
    workload = Workload.objects.create(
        team=team, name="fsync", tool="fio", options={**FSYNC, "runtime_s": 3}
    )
    for number in range(CAMPAIGNS):
        campaign = create_campaign(
            team=team, user=user, name=f"twins {number}", question="Does the cache help?",
            hosts=[host], topologies=list(rows.values()), workloads=[workload], repeats=4,
            order="abba", seed=number,
        )  # fmt: skip
        drive.plan_and_start(campaign)
        drive.to_the_end(campaign, 600)
        query = {"campaign": campaign.pk, "baseline": rows["stripe"].pk}
        [answer] = api.get("/api/verdicts/", query).json()["results"]
        lines = {line["name"]: line for line in answer["lines"]}
        twin, cache = lines["twin"]["curve"], lines["cache"]["curve"]
        values = {
            name: sorted(
                round(attempt.measurements.get(name="iops", labels={}).value or 0)
                for attempt in Attempt.objects.filter(
                    run__campaign=campaign, run__topology=row, outcome="succeeded"
                )
            )
            for name, row in rows.items()
        }
        print(number, values, answer["says"], {n: line["place"] for n, line in lines.items()})
        assert twin["verdict"] not in ("faster", "slower") and twin["low"] < 1 < twin["high"]
        assert cache["verdict"] == "faster" and lines["cache"]["place"] == 1
        assert lines["twin"]["place"] == lines["stripe"]["place"] == 2
