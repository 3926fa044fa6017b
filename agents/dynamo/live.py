# SPDX-License-Identifier: Apache-2.0
"""Live figures of a session, one JSON line a second. Not the result: see transcript.py. On the host."""

import json
from pathlib import Path
from typing import Dict, List, Optional

from agents.dynamo import figures, results, wire
from agents.dynamo.calibrate import Poll, rate
from agents.dynamo.script import Phase, Reported
from agents.dynamo.wire import DynamoError

# the last lines alone
NOW = "now.json"
# Of them: the sampler's ticks and ours are not in step, and no second is to be passed over
KEPT = 3
# s between two lines of a layout that goes on
EACH = 1.0


class Live:
    """Writes what happens. `updates.ticks` is to be set once dynamo has said it."""

    def __init__(self, path: Path, began: float) -> None:
        self.updates = Updates()
        self._path, self._began = path, began
        self._phase = ""
        self._said = 0.0
        self._last: List[str] = []
        path.write_text("")

    def event(self, event: object, now: float) -> None:
        if isinstance(event, Phase):
            self._phase = event.name
            self.updates.begin()
            self._line(now, {})
        elif isinstance(event, Reported) and event.purpose == wire.REPORT_UPDATE:
            self._line(now, self.updates.figures(event))

    def laid_out(self, done: int, wanted: int, now: float) -> None:
        """Called after each piece of a file."""
        if done == wanted or now >= self._said + EACH:
            self._said = now
            self._line(now, {"done": done / wanted})

    def _line(self, now: float, more: Dict[str, object]) -> None:
        said = {"t": round(now - self._began, 3), "phase": self._phase}
        line = json.dumps(dict(said, **more)) + "\n"
        with self._path.open("a") as file:
            file.write(line)
        self._last = [*self._last, line][-KEPT:]
        # the sampler reads this one, at each of its ticks
        half = self._path.with_name(NOW + ".part")
        half.write_text("".join(self._last))
        half.replace(self._path.with_name(NOW))


class Updates:
    """Figures of each update. `ticks`: what dynamo says one second has; where that is wrong, as was seen meanwhile."""

    def __init__(self, ticks: float = 0.0) -> None:
        self.ticks = ticks
        self._first: Optional[Poll] = None

    def begin(self) -> None:
        """Another phase: what was seen before is forgotten."""
        self._first = None

    def figures(self, event: Reported) -> Dict[str, object]:
        """{} where they make no sense: the transcript has them, this is only a look."""
        try:
            workers = [
                results.worker_results(raw, targets, self.ticks)
                for raw, targets in zip(event.answer.parts[1:], event.active)
            ]
            poll = Poll(event.answer.sent_at, event.answer.times[1], workers[0].last)
            self._first = self._first or poll
            ticks = rate(self.ticks, [[self._first, poll]]).used
        except (DynamoError, IndexError):
            return {}
        parts: List[figures.Figures] = []
        for worker in workers:
            if worker.last <= worker.first:
                return {}
            seconds = (worker.last - worker.first) / ticks
            parts += [figures.figures(target, seconds, ticks) for target in worker.targets]
        whole = figures.total(parts)
        return {
            "iops": whole.all.iops,
            "read.iops": whole.reads.iops,
            "write.iops": whole.writes.iops,
            "bandwidth": whole.all.bandwidth,
            "lat.mean": whole.all.mean,
            "lat.max": whole.all.slowest,
            "errors": whole.all.errors,
        }
