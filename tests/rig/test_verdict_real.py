"""A difference that is there is called, and equals are not: whole campaigns in the order ABBA on real disks."""

from __future__ import annotations

import pytest

from benchlab.campaigns.models import Workload
from benchlab.engine.new_campaign import create_campaign
from benchlab.practice import DiskSpec, SlowDisk
from benchlab.runs.models import Attempt
from benchlab.topologies.services import create_topology
from tests.api.conftest import api
from tests.rig.stacks import layer
from tests.rig.test_article_shapes import lab
from tests.runs import drive
from tests.verdicts.test_answers import texts

__all__ = ["api"]  # fixture
pytestmark = [pytest.mark.rig, pytest.mark.night, pytest.mark.django_db(transaction=True)]

# ms a request: the difference is the disk's own. No slower: who looks at a host's disks reads a hundred blocks of each.
DELAYS = {"one": 10, "equal": 10, "slower": 12}
FIFTH = 10 / 12
FIO = {"rw": "randread", "size": 8 << 20, "runtime_s": 3}  # one at a time


def test_a_fifth_is_called_and_equals_are_not(make_rig_host, team, user, api, web):
    disks = [SlowDisk(64, delay_ms=ms, serial=name) for name, ms in DELAYS.items()]
    rig = make_rig_host([DiskSpec(64)], disks)
    host = lab(rig, team, user, **{name: [f"nbd{n}"] for n, name in enumerate(DELAYS)})
    rows = {
        name: create_topology(
            team=team, user=user, name=name, stack=[layer("raw", {}, data=(name, 1))]
        )
        for name in DELAYS
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
