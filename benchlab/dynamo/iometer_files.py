# SPDX-License-Identifier: Apache-2.0
"""IOmeter's own files: workloads that an .icf file describes, and results as its .csv."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from agents.contracts import ParseError
from agents.dynamo import account, icf, results_csv, transcript
from agents.dynamo.account import Measured
from agents.dynamo.results_csv import TimedTest
from agents.dynamo.wire import DynamoError
from agents.tools.dynamo import MESSAGES
from benchlab.campaigns.models import Campaign, Run, Workload
from benchlab.campaigns.services import Person, create_workload
from benchlab.runs.models import Artifact, Attempt
from benchlab.runs.outputs import RawRemoved
from benchlab.runs.progress import latest_attempts
from benchlab.runs.states import Outcome
from benchlab.team.models import Team

TOOL = "dynamo"
# characters of a file; a real one has some tens of thousands
MAX_FILE_CHARACTERS = 2**20


def icf_text(row: Workload) -> str:
    """The .icf file of a workload. Raises ParseError where IOmeter cannot do the same."""
    if row.tool != TOOL or row.imported:
        raise ParseError(f"{row} is not a workload of dynamo.")
    try:
        return icf.write_icf(
            icf.build_config(
                [icf.Workload(row.name, row.options, row.sweep, description=row.description)]
            )
        )
    except ParseError as error:
        raise ParseError(f"IOmeter cannot do this one: {error}") from None


def create_icf_workload(
    *,
    team: Team,
    user: Person | None,
    name: str,
    options: Mapping[str, Any],
    sweep: Mapping[str, Sequence[Any]],
    description: str = "",
) -> Workload:
    """Create the workload as if a person had. Raises ValidationError."""
    lists = {option: list(values) for option, values in sweep.items()}
    return create_workload(
        team=team,
        user=user,
        name=name[:100],
        tool=TOOL,
        options=dict(options),
        sweep=lists,
        description=description,
    )


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
