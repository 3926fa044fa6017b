# SPDX-License-Identifier: Apache-2.0
"""Say what is looked at, where its fields are documented, and what NaN means here.

Copy this file to a name of your own (the name is the sampler's kind), and add a folder of cases,
tests/cases/samplers/KIND/: CASE.txt as `hostside/sampler.sh` wrote it, CASE.expected.json beside.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agents.contracts import Frame, ParseError, Series, Unit, Watch
from agents.samplers._frames import in_time

LABEL = "Load average (/proc/loadavg)"

# Read once per tick by the shell on the host: small text files, or patterns like
# /sys/block/bcache*/bcache/stats_total/cache_hits. One that is missing is missing in the frame.
FILES = ("/proc/loadavg",)

# Commands, where no file says it: run each tick, or started once, with each line stamped as it comes.
#   Watch(("dmsetup", "status"))                      frame.files["|dmsetup status"] is its output
#   Watch(("iostat", "-x", "-w", "1"), lasting=True, begins="*device statistics*", families=("freebsd",))
#                                                     _frames.stamped_lines(frames, WATCH) gives (seconds, line)
WATCHES: tuple[Watch, ...] = ()


def frames_to_series(frames: Sequence[Frame]) -> list[Series]:
    """Pure: no clock, no file. Times are seconds since the first frame; for counters see _frames.

    Raises ParseError, with line and text, on content that makes no sense.
    """
    frames_with_load = [frame for frame in in_time(frames) if FILES[0] in frame.files]
    times = tuple(frame.at - frames[0].at for frame in frames_with_load)
    values = tuple(_load_average(frame.files[FILES[0]]) for frame in frames_with_load)
    return [Series("", "load.1min", Unit.RATIO, times, values)]


def _load_average(text: str) -> float:
    match = re.match(r"(\d{1,9}\.\d\d) ", text)
    # also what is empty or cut
    if not match:
        raise ParseError("not what /proc/loadavg says", 1, text[:80])
    return float(match[1])
