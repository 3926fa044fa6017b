"""A difference that is there is called, and equals are not: whole campaigns in the order ABBA on real disks.

The disks have a pace of their own (paced.py): what a busy machine takes besides would make their difference smaller.
"""

from __future__ import annotations

import pytest

from benchlab.campaigns.models import Workload
from benchlab.engine.new_runs import create_campaign
from benchlab.practice import DiskSpec
from benchlab.runs.models import Attempt
from benchlab.topologies.services import create_topology
from tests.api.conftest import api
from tests.rig import paced
from tests.rig.stacks import layer
from tests.rig.test_article_shapes import lab
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
