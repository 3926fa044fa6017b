# SPDX-License-Identifier: Apache-2.0
"""Dismissals of answers by people. The answers themselves are not stored: they are computed anew each time."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import ClassVar, Self

from django.db import models

from benchlab.analysis.differences import LEAST
from benchlab.campaigns.models import Campaign
from benchlab.findings.models import Dismissible
from benchlab.team.models import OwnedQuerySet

# line -> (verdict, ratio to the baseline)
VerdictSnapshot = Mapping[str, tuple[str, float]]


class DismissedAnswer(Dismissible):
    """A dismissed answer, identified by what it compares (benchlab.verdicts.dismissals), with what it said then.

    An answer over several campaigns belongs to one of them, without which it does not exist.
    """

    campaign = models.ForeignKey(Campaign, on_delete=models.CASCADE, related_name="+")
    answer = models.CharField(
        max_length=24, unique=True, help_text="Digest of the set-ups that are compared"
    )
    # Keys of lines instead of names: the names of another campaign must not be stored with this one.
    said = models.JSONField(
        default=dict, help_text="Verdicts when it was dismissed: {line: [verdict, ratio]}"
    )

    TEAM_PATH = "campaign__team"
    KEPT_WITH: ClassVar = ("said",)
    objects = OwnedQuerySet["DismissedAnswer"].as_manager()

    def __str__(self) -> str:
        return f"answer {self.answer}"

    def same(self, now: Self) -> bool:
        return not changed_lines(self.said, now.said)


def changed_lines(before: VerdictSnapshot, now: VerdictSnapshot) -> list[str]:
    """Lines that have another verdict now, or a ratio that differs by more than is worth naming.

    A line that is gone counts as unchanged: a page that is narrowed down shows only some of them.
    """
    return [line for line, verdict in now.items() if not _same_verdict(before.get(line), verdict)]


def _same_verdict(before: tuple[str, float] | None, now: tuple[str, float]) -> bool:
    return before is not None and before[0] == now[0] and abs(log(before[1] / now[1])) < LEAST
