# SPDX-License-Identifier: Apache-2.0
"""Every metric that /metrics prints: its type, its labels and what it says. docs/operating.md has this table, too.

Labels have few values. Names of hosts, disks, people, teams and campaigns are in none, nor their numbers, so that a
token shows nothing of a team's, and a large lab has as many series as a small one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family

from benchlab.workers.process_counters import BOUNDS, INFINITE, SUM, Series

# by the labels' values
Samples = dict[tuple[str, ...], float]
PREFIX = "benchlab_"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric; `name` is without the prefix. A counter's name ends with _total; a histogram is in seconds."""

    name: str
    description: str
    labels: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        if self.name.endswith("_total"):
            return "counter"
        return "histogram" if self in HISTOGRAMS else "gauge"

    def family(self, samples: Samples) -> Family:
        """The metric as a family of prometheus_client.

        The last label of a histogram's sample is the bound of its bucket, or SUM.
        """
        name = PREFIX + self.name
        if self.kind == "histogram":
            return _histogram(
                HistogramMetricFamily(name, self.description, labels=self.labels), samples
            )
        make = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        family = make(name, self.description, labels=self.labels)
        for labels, value in sorted(samples.items()):
            family.add_metric(labels, value)
        return family


def _histogram(family: HistogramMetricFamily, samples: Samples) -> Family:
    for labels in sorted({key[:-1] for key in samples}):
        total, buckets = 0.0, []
        for bound in (*map(str, BOUNDS), INFINITE):
            total += samples.get((*labels, bound), 0.0)
            buckets.append((bound, total))
        family.add_metric(labels, buckets, samples.get((*labels, SUM), 0.0))
    return family


# Counted by each process and added up in Valkey.
COUNTED = (
    Metric(
        "http_requests_total",
        "Requests by route class, method and status",
        ("route", "method", "status"),
    ),
    Metric("tasks_total", "Finished Celery tasks", ("task", "outcome")),
    Metric("work_total", "Finished work items of worker threads", ("work", "outcome")),
    Metric(
        "attempts_ended_total",
        "Finished attempts by outcome and reason",
        ("outcome", "reason"),
    ),
)
HISTOGRAMS = (
    Metric("http_request_seconds", "Time until a response began", ("route",)),
    Metric("task_wait_seconds", "Time from a task's message to its start", ("task",)),
    Metric("task_seconds", "Duration of a task", ("task",)),
    Metric(
        "work_wait_seconds",
        "Time from the request of a work item to its start",
        ("work",),
    ),
    Metric(
        "work_lag_seconds",
        "Time from the request of a work item to its end; a layout's step is requested when due",
        ("work",),
    ),
    Metric("work_seconds", "Duration of a work item", ("work",)),
)
# Read from Valkey when asked.
BROKER = (
    Metric("processes", "Processes that reported within 30 s", ("role",)),
    Metric(
        "process_reported_timestamp_seconds",
        "Last report of a process; the latest 100",
        ("role", "process"),
    ),
    Metric("http_connections", "Open connections of all web processes"),
    Metric("http_streams", "Open event streams among the connections"),
    Metric("hosts_paused", "Hosts not contacted for a while because they did not respond"),
    Metric("queue_messages", "Messages waiting for a worker", ("queue",)),
    Metric(
        "queue_oldest_message_seconds",
        "Age of the oldest waiting message; 0 if none waits",
        ("queue",),
    ),
    Metric("queue_unacknowledged_messages", "Messages taken by a worker and not finished"),
    Metric("worker_swept_timestamp_seconds", "Last sweep for due work"),
    Metric("backup_timestamp_seconds", "Last successful `manage.py backup`"),
)
# Read from PostgreSQL when asked.
DATABASE = (
    Metric("workers", "Workers with a live database session"),
    Metric("layouts", "Layouts by phase", ("phase",)),
    Metric("layouts_overdue", "Layouts whose next step is more than 30 s late"),
    Metric("layout_overdue_seconds", "Delay of the most overdue layout"),
    Metric("attempts", "Attempts by phase; finished ones up to a minute old", ("phase",)),
    Metric(
        "attempts_done",
        "Finished attempts by outcome; up to a minute old",
        ("outcome",),
    ),
    Metric("attempts_silent", "Running attempts whose host was silent for 30 s"),
    Metric("campaigns", "Campaigns by state, without deleted ones", ("state",)),
    Metric(
        "findings",
        "Current findings that were not dismissed, by severity; up to a minute old",
        ("severity",),
    ),
    Metric("hosts", "Hosts by state", ("state",)),
    Metric("disks", "Disks by role and state", ("role", "state")),
    Metric("database_size_bytes", "Size of the database"),
    Metric("database_connections", "Connections to the database, of all programs"),
    Metric("audit_entries", "Entries of the audit log"),
    Metric("audit_head_ok", "1 if the end of the audit log matches its seal and the stored head"),
)
MACHINE = (
    Metric(
        "state_free_bytes", "Free space of the file system of BENCHLAB_STATE, on the web server"
    ),
    Metric("state_size_bytes", "Size of that file system"),
)
OWN = (
    Metric("info", "1, with the version as label", ("version",)),
    Metric("scrape_ok", "1 if that part could be read", ("part",)),
    Metric("scrape_seconds", "Time to read that part", ("part",)),
)
METRICS = (*COUNTED, *HISTOGRAMS, *BROKER, *DATABASE, *MACHINE, *OWN)


def samples_by_metric(counts: dict[Series, float]) -> dict[str, Samples]:
    """Group the counts by metric.

    Skip metrics that are not in the table or have other labels: another version of BenchLab wrote them.
    """
    parts = {metric.name: len(metric.labels) for metric in COUNTED}
    parts |= {metric.name: len(metric.labels) + 1 for metric in HISTOGRAMS}
    samples: dict[str, Samples] = {name: {} for name in parts}
    for (name, *labels), value in counts.items():
        if parts.get(name) == len(labels):
            samples[name][tuple(labels)] = value
    return samples


def families(read: dict[str, Samples]) -> Iterable[Family]:
    """The metrics to print, in the order of the table; a metric that was not read is left out."""
    return [metric.family(read[metric.name]) for metric in METRICS if metric.name in read]
