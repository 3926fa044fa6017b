# SPDX-License-Identifier: Apache-2.0
"""True tick rate of dynamo's clock, from its readings at known times. Runs on the host.

dynamo counts ticks of the CPU's time-stamp counter and takes their rate from the first "cpu MHz" line of /proc/cpuinfo
as it was when it started: the core's momentary clock, which may be half or twice the counter's.

The rate is a measurement with an uncertainty. Each reading was taken between the request and the end of its answer, so
any two of them bound the rate from below and above; where answers take long, these bounds lie far apart.
"""

from typing import List, NamedTuple, Optional, Sequence, Tuple

from agents.dynamo.wire import DynamoError

# a rate with a smaller error is not corrected
TOLERANCE = 0.005
# least number of seconds between two polls that are useful
SHORTEST = 0.5
# Relative error of a measurement whose answers took long, at most, as seen with the real dynamo (0.6 %)
USUAL_ERROR = 0.01
# Seconds by which one of two readings comes later than the other at most on a busy machine: a real dynamo that shared
# its core with three busy loops was 24 ms late at most, in 200 tests, and 9 ms in 99 of 100 readings. In less than 3 s
# that is more than USUAL_ERROR.
JITTER = 0.03
# Relative uncertainty above which the clock is not called right: two runs differ by as much anyway
MAX_DOUBT = 0.02
# at each end of a test that are compared with those at the other
READINGS = 8
# two workers' clocks may differ by so much before they are called unsynchronised
MAX_CLOCK_DIFFERENCE = 0.01


class Poll(NamedTuple):
    """`ticks` were on dynamo's clock when the request arrived: soon after `sent`, long before all of the answer was
    `received` (seconds), whose length would make the clock seem too fast."""

    sent_at: float
    received: float
    ticks: int

    @property
    def doubt(self) -> float:
        """The largest possible delay of the reading in seconds."""
        return max(0.0, self.received - self.sent_at)


class TickRate(NamedTuple):
    """Ticks per second: as reported by dynamo, as measured (None: the test was too short), and the one to use."""

    reported: float
    measured: Optional[float]
    # relative: how far the true rate may be from `measured`
    doubt: float
    used: float

    @property
    def is_certain(self) -> bool:
        """True if the measurement is good enough to judge dynamo's own rate."""
        return self.measured is not None and self.doubt <= MAX_DOUBT

    @property
    def is_corrected(self) -> bool:
        """True if dynamo's own rate is not used."""
        return self.used != self.reported


def calibrate_rate(reported: float, polls: Sequence[Sequence[Poll]]) -> TickRate:
    """Calibrate the rate from the `polls` of each worker, in order of time.

    Raises DynamoError if the clocks make no sense.
    """
    if not 1e5 <= reported <= 1e12:
        raise DynamoError("result", f"dynamo reports a clock rate of {reported:g} ticks per second")
    rates: List[float] = []
    doubts: List[float] = []
    spans: List[float] = []
    for own in polls:
        if len(own) < 2 or own[-1].sent_at - own[0].sent_at < SHORTEST:
            continue
        span = own[-1].sent_at - own[0].sent_at
        if own[-1].ticks <= own[0].ticks:
            raise DynamoError(
                "result", "dynamo's clock went backwards: CPU clocks out of sync, or a migrated VM"
            )
        spans.append(span)
        rates.append((own[-1].ticks - own[0].ticks) / span)
        low, high = _bounds(own)
        doubts.append(max(0.0, high / rates[-1] - 1, 1 - low / rates[-1]))
    if not rates:
        return TickRate(reported, None, 0.0, reported)
    measured, doubt = sorted(rates)[len(rates) // 2], max(doubts)
    if max(rates) / min(rates) - 1 > MAX_CLOCK_DIFFERENCE + 2 * doubt:
        raise DynamoError(
            "result",
            f"the workers' clocks run at different rates ({min(rates):.4g} to {max(rates):.4g} per s)",
        )
    off = abs(measured / reported - 1)
    wrong = off > max(TOLERANCE, min(doubt, max(USUAL_ERROR, JITTER / min(spans))))
    return TickRate(reported, measured, doubt, measured if wrong else reported)


def _bounds(polls: Sequence[Poll]) -> Tuple[float, float]:
    """Lower and upper bound of the ticks per second, from the fastest readings at both ends of a test."""
    half = max(1, len(polls) // 2)
    early = sorted(polls[:half], key=lambda poll: poll.doubt)[:READINGS]
    late = sorted(polls[half:], key=lambda poll: poll.doubt)[:READINGS]
    pairs = [(a, b) for a in (polls[0], *early) for b in (*late, polls[-1])]
    low = max((b.ticks - a.ticks) / (b.received - a.sent_at) for a, b in pairs)
    highs = [
        (b.ticks - a.ticks) / (b.sent_at - a.received) for a, b in pairs if b.sent_at > a.received
    ]
    return low, min(highs, default=float("inf"))
