from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.charts import made


@pytest.fixture
def lab(team, user):
    """Two topologies on one host under a sweep, three repeats; `dd` beside it; one attempt with samples."""
    where = made.host(team)
    stacks = [made.topology(team, "LVM 64 KiB"), made.topology(team, "raw")]
    campaign = made.campaign(team)
    load = made.workload(team)
    attempts = [
        attempt
        for stack, top in zip(stacks, (40000.0, 30000.0), strict=True)
        for attempt in made.swept(
            campaign, where, stack, load, top=top, depths=(1, 4, 16), seed=stack.pk
        )
    ]
    made.sampled(attempts[0])
    return SimpleNamespace(
        team=team, host=where, stacks=stacks, campaign=campaign, load=load, attempts=attempts
    )
