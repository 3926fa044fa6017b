"""An attempt in the middle of its run, for the tests of live pages."""

from __future__ import annotations

from django.utils import timezone

from benchlab.campaigns.models import Campaign, Workload
from benchlab.hosts.models import Host
from benchlab.runs.models import Attempt, Layout, LiveChunk
from benchlab.runs.states import AttemptPhase, LayoutPhase
from benchlab.topologies.models import Topology
from tests.charts import made as made_rows


def running(
    made: Campaign, where: Host, stack: Topology, load: Workload, frames: int = 20
) -> Attempt:
    """An attempt in the middle of its run, with live samples of one disk."""
    layout = made_rows.done_layout(made, where, stack)
    Layout.objects.filter(pk=layout.pk).update(phase=LayoutPhase.READY, outcome="")
    attempt = Attempt.objects.create(
        run=made_rows.run(made, layout, load, 4, 1),
        layout=layout,
        phase=AttemptPhase.RUNNING,
        facts=layout.facts_ready,
        started_at=timezone.now(),
    )
    offset = 0
    for first in range(0, frames, 5):
        data = "".join(frame(at) for at in range(first, min(first + 5, frames))).encode()
        LiveChunk.objects.create(attempt=attempt, offset=offset, data=data)
        offset += len(data)
    return attempt


def frame(at: int, more: int = 0) -> str:
    """One tick of hostside/sampler.sh: sdb reads 1000 times a second, 4 KiB each, 0.5 ms each; `more` till then."""
    ios = 1000 * at + more
    counters = f"{ios} 0 {ios * 8} {ios // 2} 0 0 0 0 1 {at * 900} {ios // 2}"
    return f"@ {(100 + at) * 10**9}\n# /proc/diskstats\n    8      16 sdb {counters}\n.\n"
