# SPDX-License-Identifier: Apache-2.0
"""Live figures of a session, one JSON line a second. Not the result: see transcript.py. On the host."""

import json
from pathlib import Path
from typing import Dict, List, Optional

from agents.dynamo import figures, results, wire
from agents.dynamo.calibrate import Poll, calibrate_rate
from agents.dynamo.script import Phase, ResultsReported
from agents.dynamo.wire import DynamoError

# only the last lines
NOW = "now.json"
# number of these lines: the sampler's ticks and ours are not in step, and no second may be missed
RECENT_LINES = 3
# s between two lines during a file layout
LAYOUT_INTERVAL_S = 1.0


class Live:
    """Writes the live figures. Set `updates.ticks` once dynamo has reported it."""

    def __init__(self, path: Path, began: float) -> None:
        self.updates = Updates()
        self._path, self._began = path, began
        self._phase = ""
        self._said = 0.0
        self._last: List[str] = []
        path.write_text("")

    def handle_event(self, event: object, now: float) -> None:
        if isinstance(event, Phase):
            self._phase = event.name
            self.updates.reset()
            self._write_line(now, {})
        elif isinstance(event, ResultsReported) and event.purpose == wire.REPORT_UPDATE:
            self._write_line(now, self.updates.update_figures(event))

    def laid_out(self, written: int, total: int, now: float) -> None:
        """Record the progress after each piece of a file."""
        if written == total or now >= self._said + LAYOUT_INTERVAL_S:
            self._said = now
            self._write_line(now, {"done": written / total})

    def _write_line(self, now: float, more: Dict[str, object]) -> None:
        fields = {"t": round(now - self._began, 3), "phase": self._phase}
        line = json.dumps(dict(fields, **more)) + "\n"
        with self._path.open("a") as file:
            file.write(line)
        self._last = [*self._last, line][-RECENT_LINES:]
        # The sampler reads this file at each of its ticks.
        half = self._path.with_name(NOW + ".part")
        half.write_text("".join(self._last))
        half.replace(self._path.with_name(NOW))


class Updates:
    """Figures of each update. `ticks` per second as dynamo reports them or, if that is wrong, as measured meanwhile."""

    def __init__(self, ticks: float = 0.0) -> None:
        self.ticks = ticks
        self._first: Optional[Poll] = None

    def reset(self) -> None:
        """Forget earlier updates, as another phase begins."""
        self._first = None

    def update_figures(self, event: ResultsReported) -> Dict[str, object]:
        """The figures since the last update; {} if they make no sense, as the transcript has the real ones."""
        try:
            workers = [
                results.decode_worker_results(raw, targets, self.ticks)
                for raw, targets in zip(event.answer.parts[1:], event.active)
            ]
            poll = Poll(event.answer.sent_at, event.answer.times[1], workers[0].last)
            self._first = self._first or poll
            ticks = calibrate_rate(self.ticks, [[self._first, poll]]).used
        except (DynamoError, IndexError):
            return {}
        parts: List[figures.Figures] = []
        for worker in workers:
            if worker.last <= worker.first:
                return {}
            seconds = (worker.last - worker.first) / ticks
            parts += [figures.target_figures(target, seconds, ticks) for target in worker.targets]
        whole = figures.sum_figures(parts)
        return {
            "iops": whole.combined.iops,
            "read.iops": whole.reads.iops,
            "write.iops": whole.writes.iops,
            "bandwidth": whole.combined.bandwidth,
            "lat.mean": whole.combined.mean,
            "lat.max": whole.combined.slowest,
            "errors": whole.combined.errors,
        }
