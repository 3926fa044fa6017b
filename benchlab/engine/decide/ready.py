"""While the layout stands: one attempt at a time is started, polled and collected; after the last one, down."""

from __future__ import annotations

from agents.contracts import Reason
from agents.jobs.job import State
from benchlab.engine.decisions import (
    Collect,
    Decision,
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
    Wait,
    Watch,
)
from benchlab.engine.scene import Current, Scene
from benchlab.runs.states import AttemptPhase, Outcome, Player

PAUSED_S = 3.0
STORING_S = 0.2  # the console of a job that is over is about to store what it has


def decide(scene: Scene) -> Decision:
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
    """What is done with an attempt that is neither running nor to be started now."""
    if current.phase is AttemptPhase.COLLECTING:
        return Collect()
    if current.phase is AttemptPhase.QUEUED and scene.paused:
        return Watch(PAUSED_S)
    return None


def _passed(scene: Scene, wanted: Current) -> bool:
    """Whether the moment at which the run measures is over for this layout."""
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
    if scene.not_fetched:  # what is wrong with its output, who collects tells
        return Poll(fetches=False, waits=False)
    again = Poll(fetches=current.player is not Player.PLAYING)
    if scene.polled is None:
        return again
    if current.player is Player.PLAYING:
        return Wait(STORING_S) if scene.polled.over else again
    if scene.polled.over:
        return Collect()
    if scene.polled is State.ABSENT:
        said = "The job's directory is gone from the host."
        return End(Outcome.INTERRUPTED, Reason.JOB_VANISHED, said)
    # The runner ends the tool in time; a host on which it did not is not waited for.
    if current.running_s > current.timeout_s + scene.lost_after_s:
        said = f"The host still tells of a running job long after its limit of {current.timeout_s:g} s."
        return End(Outcome.FAILED, Reason.JOB_TIMEOUT, said, stop=True)
    return HurryUp() if current.player is Player.LATE else again
