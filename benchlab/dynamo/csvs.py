"""Results in IOmeter's own format, made of the messages that dynamo sent."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from agents.dynamo import account, results_csv, transcript
from agents.dynamo.results_csv import Stamped
from agents.dynamo.wire import DynamoError
from agents.tools.dynamo import MESSAGES
from benchlab.campaigns.models import Campaign
from benchlab.campaigns.progress import latest_attempts
from benchlab.runs.models import Artifact, Attempt
from benchlab.runs.states import Outcome


def of_campaign(campaign: Campaign) -> list[Attempt]:
    """The last attempts of its runs that succeeded with dynamo, in the order of the campaign."""
    rows = latest_attempts().filter(
        run__campaign=campaign, run__tool="dynamo", outcome=Outcome.SUCCEEDED
    )
    return list(rows.select_related("run").order_by("run__position"))


def of_attempts(attempts: Iterable[Attempt], description: str) -> str:
    """A file without results where no attempt has any."""
    found: list[Stamped] = []
    for attempt in attempts:
        row = Artifact.objects.filter(attempt=attempt, name=MESSAGES).first()
        if row is None:
            continue
        try:
            tests = account.tests(transcript.read(row.read()))
        except DynamoError:
            continue  # the run's page says what is wrong with it
        ended = attempt.ended_at or row.created_at
        found += [
            Stamped(
                one, _stamp(ended.timestamp() - (one.ended - one.began)), _stamp(ended.timestamp())
            )
            for one in tests
        ]
    return results_csv.write(found, description)


def _stamp(at: float) -> str:
    when = datetime.fromtimestamp(at, UTC)
    return f"{when:%Y-%m-%d %H:%M:%S}:{when.microsecond // 1000:03}"
