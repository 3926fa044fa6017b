# SPDX-License-Identifier: Apache-2.0
"""States of layouts and attempts: phase, outcome, and the legal transitions. Pure data.

*failed*: the host or the tool said no. *errored*: our code broke. *interrupted*: the host rebooted or was lost.
*skipped*: what it was to measure was over before it could start.
"""

from __future__ import annotations

from enum import StrEnum

from django.db import models

from agents.contracts import RETRYABLE, Reason


class Outcome(models.TextChoices):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ERRORED = "errored"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class LayoutPhase(models.TextChoices):
    DRAFT = "draft", "plan not confirmed"
    WAITING = "waiting", "waiting for the host"
    PROVISIONING = "provisioning"
    READY = "ready", "running its runs"
    TEARING_DOWN = "tearing_down", "tearing down"
    STUCK = "stuck", "stuck: a person must look"
    DONE = "done"


class AttemptPhase(models.TextChoices):
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    COLLECTING = "collecting"
    DONE = "done"


class Player(StrEnum):
    """Player of the console of a tool that is played from here, and not started beside it."""

    # nobody has to
    NONE = "none"
    PLAYING = "playing"
    # The player died, and nothing of the session was stored.
    DIED = "died"
    # the session is over and stored
    STORED = "stored"
    # as KEPT, and the tool had time enough to end since
    OVERDUE = "overdue"


# The phases in which a layout holds its host. The partial unique constraint over them is the host lock.
HOLDING = (
    LayoutPhase.PROVISIONING,
    LayoutPhase.READY,
    LayoutPhase.TEARING_DOWN,
    LayoutPhase.STUCK,
)

# Reasons that concern the layout, not just one run: it cannot serve the other runs either.
LAYOUT_IS_LOST = RETRYABLE | {
    Reason.DEGRADED,
    Reason.GUARD_REFUSED,
    Reason.HOST_KEY_CHANGED,
    Reason.HOST_LOST,
    Reason.HOST_REBOOTED,
    Reason.VERIFY_FAILED,
}

LAYOUT_MOVES: dict[str, frozenset[str]] = {
    LayoutPhase.DRAFT: frozenset({LayoutPhase.WAITING, LayoutPhase.DONE}),
    LayoutPhase.WAITING: frozenset({LayoutPhase.PROVISIONING, LayoutPhase.DONE}),
    LayoutPhase.PROVISIONING: frozenset({LayoutPhase.READY, LayoutPhase.TEARING_DOWN}),
    LayoutPhase.READY: frozenset({LayoutPhase.TEARING_DOWN}),
    LayoutPhase.TEARING_DOWN: frozenset({LayoutPhase.DONE, LayoutPhase.STUCK}),
    # Done: an owner released the host as it is (benchlab.engine.host_cleanup).
    LayoutPhase.STUCK: frozenset({LayoutPhase.TEARING_DOWN, LayoutPhase.DONE}),
    # What it left was seen later, and a person wants it gone (benchlab.engine.host_cleanup).
    LayoutPhase.DONE: frozenset({LayoutPhase.TEARING_DOWN}),
}

ATTEMPT_MOVES: dict[str, frozenset[str]] = {
    AttemptPhase.QUEUED: frozenset({AttemptPhase.STARTING, AttemptPhase.DONE}),
    AttemptPhase.STARTING: frozenset({AttemptPhase.RUNNING, AttemptPhase.DONE}),
    AttemptPhase.RUNNING: frozenset({AttemptPhase.COLLECTING, AttemptPhase.DONE}),
    AttemptPhase.COLLECTING: frozenset({AttemptPhase.DONE}),
    AttemptPhase.DONE: frozenset(),
}
