"""A test on a target that only dynamo reports: its limits beside those of one that we reach."""

from __future__ import annotations

from agents.contracts import Target
from agents.tools import dynamo
from benchlab.dynamo import session


def test_preparing_is_given_up_before_the_whole_run_is():
    chosen = dynamo.Options(size=1 << 40, workers=2, own_targets=True, runtime_s=60)
    made = dynamo.build_job(chosen, Target("bl1", mount="/mnt/bl1"))
    assert made.timeout_s > session.longest_preparation(chosen)
