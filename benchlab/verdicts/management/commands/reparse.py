# SPDX-License-Identifier: Apache-2.0
"""manage.py reparse: measurements and series anew from the stored artifacts, and findings from those."""

from __future__ import annotations

import logging
from argparse import ArgumentParser
from typing import Any

from django.db import InterfaceError, OperationalError

from benchlab import terminal
from benchlab.findings import storing
from benchlab.runs import conclusion
from benchlab.runs.models import Attempt
from benchlab.runs.states import AttemptPhase, Outcome
from benchlab.verdicts import set_ups

log = logging.getLogger(__name__)


class Command(terminal.Command):
    help = (
        "Parse stored artifacts again and replace the figures and findings made from them. "
        "Artifacts are never touched, and what was dismissed stays dismissed."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--campaign", type=int, help="only attempts of this campaign")
        parser.add_argument("--attempt", type=int, help="only this attempt")

    def handle(self, *args: Any, **options: Any) -> None:
        # A team's rule may have removed the artifacts: those figures stay as they are.
        attempts = Attempt.objects.filter(
            phase=AttemptPhase.DONE, artifacts__isnull=False, raw_removed_at=None
        )
        attempts = attempts.distinct().select_related("run").order_by("pk")
        if options["campaign"]:
            attempts = attempts.filter(run__campaign=options["campaign"])
        if options["attempt"]:
            attempts = attempts.filter(pk=options["attempt"])
        reparsed = failed = 0
        campaigns: set[int] = set()
        for attempt in attempts.iterator(chunk_size=100):
            problem = _reparse(attempt)
            reparsed += 1
            campaigns.add(attempt.run.campaign_id)
            if problem:
                failed += 1
                self.stderr.write(f"attempt {attempt.pk}: {problem}")
        storing.reset_comparison(campaigns)
        set_ups.sweep_campaigns(campaigns)
        self.stdout.write(
            f"{reparsed} attempts parsed again, {failed} with something that could not be read"
        )


def _reparse(attempt: Attempt) -> str:
    """Parse one attempt again and return the problem, if any. A parser that crashes does not stop the others."""
    try:
        problem = conclusion.reparse_attempt(attempt)
        if attempt.outcome == Outcome.SUCCEEDED:
            storing.find_for_attempts([attempt.pk])
        return problem
    except (OperationalError, InterfaceError):
        # A problem of the database would affect all others, too.
        raise
    except Exception as error:
        log.exception("attempt %s", attempt.pk)
        return f"BenchLab itself failed: {type(error).__name__}: {error}"
