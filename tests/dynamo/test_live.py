"""Figures of a running test each second: every second is shown, once, whichever way it came."""

from __future__ import annotations

import pytest

from benchlab.campaigns.models import Workload
from benchlab.dynamo import dynamo_player, run_part
from benchlab.dynamo.models import ConsoleLines
from benchlab.engine.new_runs import create_campaign
from benchlab.hosts.models import Host
from benchlab.runs.models import Attempt, LiveChunk
from benchlab.topologies.models import Topology

pytestmark = pytest.mark.django_db


@pytest.fixture
def attempt(user, team) -> Attempt:
    host = Host.objects.create(team=team, name="win", access="dynamo", address="192.0.2.1")
    stack = [{"kind": "reported", "options": {"target": "C:"}, "devices": []}]
    topology = Topology.objects.create(team=team, name="C:", stack=stack)
    load = Workload.objects.create(team=team, name="8k", tool="dynamo", options={})
    create_campaign(
        team=team, user=user, name="c", question="", hosts=[host], topologies=[topology],
        workloads=[load], repeats=1, order="as_written",
    )  # fmt: skip
    return Attempt.objects.get()


def frame(at: int, *lines: str) -> bytes:
    text = "".join(f" {line}\n" for line in lines)
    return f"@ {at}000000000\n# work/now.json\n{text}.\n".encode()


def test_each_second_is_shown_once_however_it_came(attempt):
    said = [f'{{"t": {n}.0, "phase": "record", "iops": {n}}}' for n in range(1, 16)]
    offset = 0
    for n in range(2, 16):  # frames overlap, and a piece may end in the middle of one
        raw = frame(n, *said[max(0, n - 3) : n])
        for piece in (raw[:50], raw[50:]):
            LiveChunk.objects.create(attempt=attempt, offset=offset, data=piece)
            offset += len(piece)
    found = run_part.live_figures(attempt)
    assert (found["phase"], found["iops"]) == ("record", 15)
    times = [row["t"] for row in found["recent"]]
    assert times == sorted(set(times), reverse=True)
    assert len(times) >= 5 and times[0] == 15.0 and times[-1] == 16.0 - len(times)


def test_what_we_play_ourselves_is_kept_for_some_seconds(attempt):
    for n in range(20):
        dynamo_player.publish_line(attempt, {"t": float(n), "phase": "record", "iops": float(n)})
    dynamo_player.publish_line(attempt, {"t": 20.0, "phase": "stop"})
    found = run_part.live_figures(attempt)
    assert (found["phase"], found["iops"]) == ("stop", None)
    assert [row["iops"] for row in found["recent"]] == [19.0 - n for n in range(10)]
    assert ConsoleLines.objects.get().lines.count("\n") == ConsoleLines.MAX_LINES
