# SPDX-License-Identifier: Apache-2.0
"""Counters of all processes, added up in Valkey; benchlab/metrics prints the sums.

Web, worker and beat are processes on several machines or in several containers, and Prometheus asks one of them. They
share no directory, so prometheus_client's files cannot add them up, and an address for each process would have to be
found and guarded. A process counts in memory, which costs a request some microseconds, and a thread of its own hands
over what came every EVERY_S. What a process had not handed over when it was killed is lost. An answer of Valkey's that
is lost may add one batch twice. Counters that begin anew with an empty Valkey are what Prometheus expects of them.

Each process also says there that it is alive, with its gauges.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import redis

from benchlab.workers import beats

# Valkey's keys, by beats.key
COUNTS, PROCESSES, TIMES = "counts", "processes", "times"
EVERY_S = 5.0
# A process is forgotten after so long without a report; the page shows the age of the others' reports.
FORGOTTEN_S = 600.0
# Upper bounds of the histograms' buckets, in seconds.
BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
INFINITE = "+Inf"
# limit of series in one process, whatever it is asked to count
MOST_SERIES = 3000
SUM = "sum"

# A metric's name, its labels' values, and of a histogram a bucket's bound or SUM.
Series = tuple[str, ...]


@dataclass(slots=True)
class ProcessCounters:
    """Counters of one process. Without `begin` they stay in memory until `hand_over`."""

    role: str = ""
    gauges: dict[str, Callable[[], float]] = field(default_factory=dict)
    _counts: defaultdict[Series, float] = field(default_factory=lambda: defaultdict(float))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _known_series: set[Series] = field(default_factory=set)

    def add(self, name: str, *labels: str, by: float = 1.0) -> None:
        with self._lock:
            self._add_to_series((name, *labels), by)

    def add_duration(self, name: str, *labels: str, seconds: float) -> None:
        """Count a duration in the histogram `name`."""
        bound = next((str(limit) for limit in BOUNDS if seconds <= limit), INFINITE)
        with self._lock:
            self._add_to_series((name, *labels, bound), 1.0)
            self._add_to_series((name, *labels, SUM), seconds)

    def _add_to_series(self, series: Series, by: float) -> None:
        if series not in self._known_series:
            if len(self._known_series) >= MOST_SERIES:
                return
            self._known_series.add(series)
        self._counts[series] += by

    def begin(self, role: str = "") -> None:
        """Hand over from now on. Nothing happens in a process that has no role: a test, a shell."""
        self.role = role or self.role
        if not self.role or self._thread is not None:
            return
        self._stopped.clear()
        self._thread = threading.Thread(
            target=self._hand_over_repeatedly, name="tally", daemon=True
        )
        self._thread.start()
        atexit.register(self.end)

    def end(self) -> None:
        """Hand over the rest, and stop reporting that this process is alive."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._stopped.set()
        thread.join(EVERY_S)
        with contextlib.suppress(redis.RedisError):
            self.hand_over()
            beats.client().hdel(beats.installation_key(PROCESSES), identity())

    def _hand_over_repeatedly(self) -> None:
        while not self._stopped.is_set():
            with contextlib.suppress(redis.RedisError):
                self.hand_over()
            self._stopped.wait(EVERY_S)

    def hand_over(self) -> None:
        """Hand the counts over now, in one round trip.

        Raises redis.RedisError; the counts then wait for the next time.
        """
        with self._lock:
            counts, self._counts = self._counts, defaultdict(float)
        try:
            pipeline = beats.client().pipeline(transaction=True)
            for series, by in counts.items():
                pipeline.hincrbyfloat(beats.installation_key(COUNTS), json.dumps(series), by)
            if self.role:
                pipeline.hset(
                    beats.installation_key(PROCESSES), identity(), json.dumps(self._sign_of_life())
                )
            pipeline.execute()
        except BaseException:
            with self._lock:
                for series, by in counts.items():
                    self._counts[series] += by
            raise

    def _sign_of_life(self) -> dict[str, Any]:
        gauges = {name: read_gauge() for name, read_gauge in self.gauges.items()}
        return {"role": self.role, "at": time.time(), "gauges": gauges}


def identity() -> str:
    """A name that identifies this process within the installation."""
    return f"{socket.gethostname()}:{os.getpid()}"


def note_time(name: str) -> None:
    """Record the time of a rare event, such as a backup. A broker that is away is ignored."""
    with contextlib.suppress(redis.RedisError):
        beats.client().hset(beats.installation_key(TIMES), name, f"{time.time():.3f}")


@dataclass(frozen=True, slots=True)
class Process:
    """A process by its own last report."""

    name: str
    role: str
    # seconds since the epoch
    at: float
    gauges: Mapping[str, float]


def parse_counts(hash_fields: Mapping[Any, Any]) -> dict[Series, float]:
    """Parse the sums of all processes from the COUNTS hash in Valkey; skip anything that is not ours."""
    sums: dict[Series, float] = {}
    for key, value in hash_fields.items():
        with contextlib.suppress(ValueError):
            series = json.loads(key)
            if isinstance(series, list):
                sums[tuple(map(str, series))] = float(value)
    return sums


def parse_processes(hash_fields: Mapping[Any, Any]) -> list[Process]:
    """Parse the PROCESSES hash in Valkey: processes that reported within FORGOTTEN_S, the latest first."""
    parsed = []
    for name, value in hash_fields.items():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            report = json.loads(value)
            parsed.append(
                Process(
                    name.decode(), str(report["role"]), float(report["at"]), dict(report["gauges"])
                )
            )
    parsed.sort(key=lambda process: -process.at)
    return [process for process in parsed if time.time() - process.at < FORGOTTEN_S]


counters = ProcessCounters()
