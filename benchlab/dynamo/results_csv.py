# SPDX-License-Identifier: Apache-2.0
"""Results in IOmeter's own format, made of the messages that dynamo sent."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from agents.dynamo import account, icf, results_csv, transcript
from agents.dynamo.account import Measured
from agents.dynamo.results_csv import TimedTest
from agents.dynamo.wire import DynamoError
from agents.tools.dynamo import MESSAGES
from benchlab.campaigns.models import Campaign, Run
from benchlab.runs.models import Artifact, Attempt
from benchlab.runs.outputs import RawRemoved
from benchlab.runs.progress import latest_attempts
from benchlab.runs.states import Outcome


def campaign_attempts(campaign: Campaign) -> list[Attempt]:
    """The last attempts of its runs that succeeded with dynamo, in the order of the campaign."""
    rows = latest_attempts().filter(
        run__campaign=campaign, run__tool="dynamo", outcome=Outcome.SUCCEEDED
    )
    return list(rows.select_related("run__workload").order_by("run__position"))


def attempts_csv(attempts: Iterable[Attempt], description: str) -> str:
    """A file without results where no attempt has any."""
    timed_tests: list[TimedTest] = []
    for attempt in attempts:
        row = Artifact.objects.filter(attempt=attempt, name=MESSAGES).first()
        if row is None:
            continue
        try:
            tests = account.reconstruct_tests(transcript.parse_transcript(row.read()))
        except (DynamoError, RawRemoved):
            # the run's page says what is wrong with it
            continue
        ended = attempt.ended_at or row.created_at
        timed_tests += [
            TimedTest(
                _with_spec_name(test, spec_name(attempt.run)),
                _stamp(ended.timestamp() - (test.ended - test.began)),
                _stamp(ended.timestamp()),
            )
            for test in tests
        ]
    return results_csv.write_csv(timed_tests, description)


# What a sweep may vary that makes it another access specification; the rest has columns of its own.
ACCESS = ("block_size", "read_percent", "random_percent", "access")


def spec_name(run: Run) -> str:
    """Name as in the workload's .icf file, with the swept values."""
    swept = (f"{key} {run.point[key]}" for key in ACCESS if key in run.point)
    return icf.spec_name("; ".join((run.workload.name, *swept)))


def _with_spec_name(test: Measured, name: str) -> Measured:
    """dynamo was told of a size only: it does nothing with a name."""
    workers = (worker._replace(access=worker.access._replace(name=name)) for worker in test.workers)
    return test._replace(workers=tuple(workers))


def _stamp(at: float) -> str:
    when = datetime.fromtimestamp(at, UTC)
    return f"{when:%Y-%m-%d %H:%M:%S}:{when.microsecond // 1000:03}"
