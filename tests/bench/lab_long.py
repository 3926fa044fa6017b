"""A long run of many disks as a worker stores it, and a campaign of one size: what pages are measured with."""

from __future__ import annotations

from typing import Any

import numpy as np
from django.conf import settings
from django.contrib.auth.models import User

from agents.contracts import Series, Unit
from benchlab.runs import artifact_figures, attempt_meta, conclusion
from benchlab.runs.models import Attempt
from tests.bench import lab_data

METRICS = {
    "read.iops": Unit.OPS_PER_SECOND,
    "write.iops": Unit.OPS_PER_SECOND,
    "read.bandwidth": Unit.BYTES_PER_SECOND,
    "write.bandwidth": Unit.BYTES_PER_SECOND,
    "await": Unit.SECONDS,
    "queue": Unit.RATIO,
    "util": Unit.RATIO,
}


def run(user: User, disks: int, seconds: int) -> Attempt:
    """Noise on each of so many disks and on the volume over them, a sample a second, each metric of the samplers."""
    [campaign] = lab_data.runs(user, lab_data.RUNS_EACH, 0)
    attempt = Attempt.objects.filter(run__campaign=campaign).earliest("pk")
    names = [f"sd{chr(98 + n)}" for n in range(disks)]
    attempt.meta = {attempt_meta.DISKS: {"data": names}}
    attempt.windows = [
        {"name": "ramp", "start": 0.0, "end": seconds / 60, "measured": False},
        {"name": "measured", "start": seconds / 60, "end": float(seconds), "measured": True},
    ]
    attempt.save()
    dice = np.random.default_rng(seconds)
    times = np.arange(1.0, seconds + 1)
    series = [
        ("diskstats", Series(name, metric, unit, times, dice.gamma(2.0, 50.0, seconds)))  # type: ignore[arg-type]
        for name in (*names, "dm-0")
        for metric, unit in METRICS.items()
    ]
    conclusion.store_figures(attempt, artifact_figures.Figures([], series, []))
    return attempt


def campaign(user: User, runs: int) -> int:
    """One of so many runs, finished; its id."""
    before, lab_data.RUNS_EACH = lab_data.RUNS_EACH, runs
    try:
        [found] = lab_data.runs(user, runs)
    finally:
        lab_data.RUNS_EACH = before
    return found


def session(user: User) -> dict[str, Any]:
    """Cookies of somebody who is logged in."""
    from django.test import Client

    client = Client()
    client.force_login(user)
    return {settings.SESSION_COOKIE_NAME: client.cookies[settings.SESSION_COOKIE_NAME].value}
