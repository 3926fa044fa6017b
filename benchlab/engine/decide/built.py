# SPDX-License-Identifier: Apache-2.0
"""On a host where layers are built: from a host that others may hold, to a verified layout, its runs, and down."""

from __future__ import annotations

from agents.contracts import Reason
from agents.jobs.job import State
from benchlab.engine.checks.cut_off import cut_off
from benchlab.engine.decisions import (
    Build,
    CheckOverdue,
    CheckPerson,
    Collect,
    Decision,
    Drop,
    End,
    Grow,
    HurryUp,
    Move,
    Poll,
    Replay,
    Settle,
    Skip,
    Start,
    Stop,
    Take,
    TakeBack,
    TakeDown,
    Wait,
    Watch,
)
from benchlab.engine.scene import Current, Person, Scene
from benchlab.runs.states import AttemptPhase, Outcome, Player

BUSY_S = 3.0
# a word from a person wakes the layout at once; this is for a word that got lost
WAITS_S = 60.0
# a host that cuts off every build is not one to measure on
REBUILDS = 3
PAUSED_S = 3.0
# Beyond what is expected of a run; and so often from then on. What a pool or a cache wrote to a disk that is gone may
# never end, and the tool with it: its limit is half an hour and more.
OVERDUE = 1.5
OVERDUE_S = 60.0
# the console of a job that is over is about to store what it has
STORING_S = 0.2


def waiting(scene: Scene) -> Decision:
    """While another layout may hold the host."""
    if scene.cancelled:
        return Drop(Outcome.CANCELLED, "", "cancelled while it waited for its host")
    # The campaign's random order of layouts is part of its method; and a package manager beside a benchmark would be
    # measured.
    if scene.paused or scene.behind or scene.installing:
        return Wait(BUSY_S)
    return Take()


def provisioning(scene: Scene) -> Decision:
    """To a verified layout. What was cut off is taken back, and begun anew."""
    if scene.cancelled:
        return Move(Outcome.CANCELLED, Reason.CANCELLED, "cancelled")
    if scene.person is Person.ASKED:
        return Wait(WAITS_S)
    if scene.begun != scene.applied:
        return _cut_off(scene)
    return CheckPerson() if scene.person is Person.SAID_DONE else Build()


def _cut_off(scene: Scene) -> Decision:
    if not scene.asked and scene.rebuilds < REBUILDS:
        return TakeBack()
    error = cut_off(
        scene.trouble, "the layout was built", "What it left is taken down; retry the runs."
    )
    return Move(Outcome.INTERRUPTED, error.reason, str(error))


def ready(scene: Scene) -> Decision:
    """While the layout stands: one attempt at a time is started, polled and collected; after the last one, down."""
    current = scene.current
    if current is None or scene.cancelled:
        return no_more(scene)
    if current.phase is AttemptPhase.RUNNING:
        return _running(scene, current)
    if (waits := not_to_start(scene, current)) is not None:
        return waits
    if current.phase is AttemptPhase.QUEUED and _passed(scene, current):
        return Skip()
    return _approach(scene, current) or Start()


def no_more(scene: Scene) -> Decision:
    """It is cancelled, or it did its work: it stood for all its runs, each of which has an outcome of its own."""
    return Stop() if scene.cancelled else Move(Outcome.SUCCEEDED)


def not_to_start(scene: Scene, current: Current) -> Decision | None:
    """Decision on an attempt that is neither running nor to be started now; None of others."""
    if current.phase is AttemptPhase.COLLECTING:
        return Collect()
    if current.phase is AttemptPhase.QUEUED and scene.paused:
        return Watch(PAUSED_S)
    return None


def _passed(scene: Scene, wanted: Current) -> bool:
    """True when the moment at which the run measures is over for this layout."""
    over = scene.stage == wanted.stage and wanted.growing and scene.settled
    return over or scene.stage > wanted.stage


def _approach(scene: Scene, wanted: Current) -> Decision | None:
    """Nearer to the moment at which the run measures. None: it is there."""
    if scene.stage < wanted.stage:
        return Grow() if scene.settled else Settle()
    return None if wanted.growing or scene.settled else Settle()


def _running(scene: Scene, current: Current) -> Decision:
    if current.player is Player.GONE:
        return Replay()
    # what is wrong with its output, who collects tells
    if scene.not_fetched:
        return Poll(fetches=False, waits=False)
    again = Poll(fetches=current.player is not Player.PLAYING)
    if scene.polled is None:
        return again
    if current.player is Player.PLAYING:
        return Wait(STORING_S) if scene.polled.is_over else again
    if scene.polled.is_over:
        return Collect()
    if scene.polled is State.ABSENT:
        said = "The job's directory is gone from the host."
        return End(Outcome.INTERRUPTED, Reason.JOB_VANISHED, said)
    # The runner ends the tool in time; a host on which it did not is not waited for.
    if current.running_s > current.timeout_s + scene.lost_after_s:
        said = f"The host still reports the job as running, well past its limit of {current.timeout_s:g} s."
        return End(Outcome.FAILED, Reason.JOB_TIMEOUT, said, stop=True)
    if current.player is Player.LATE:
        return HurryUp()
    return CheckOverdue() if _overdue(current) else again


def _overdue(current: Current) -> bool:
    """True when it is time to look whether a run that takes long has a layout that is in order."""
    patience_s = OVERDUE * current.expected_s + OVERDUE_S
    known = current.expected_s > 0
    return known and current.running_s > patience_s and current.looked_s > OVERDUE_S


def tearing_down(scene: Scene) -> Decision:
    """The way down. A try that was cut off anywhere is done once more: what is left to do, it does."""
    if scene.person is Person.ASKED:
        return Wait(WAITS_S)
    return TakeDown(nothing=not scene.begun)
