# SPDX-License-Identifier: Apache-2.0
"""The CPU was held back while it measured: by heat, or by the quota of the container that the tool runs in."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

import numpy as np

from benchlab.analysis.evidence import Run, known_values
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.formats import share

LABEL = "CPU throttled"
METHOD = "Findings"

# share of the samples, or of the quota's periods
OFTEN = 0.05


def applies(run: Run) -> list[Finding]:
    return [*_throttled_by_heat(run), *_throttled_by_quota(run)]


def _throttled_by_heat(run: Run) -> Iterator[Finding]:
    """Report throttling by heat.

    The CPU counts how often it begins to throttle and not how long that lasts: a single time may be long.
    """
    samples = known_values(run.measured_tracks("cpu.heat"))
    times = int(np.count_nonzero(samples))
    if not times:
        return
    share_of_samples = times / samples.size
    numbers = {
        "heat": Number(share_of_samples, "1", "samples in which it was counted", metric="cpu.heat")
    }
    clock = next((track.mean() for track in run.measured_tracks("cpu.speed")), float("nan"))
    at = ""
    if not isnan(clock):
        numbers["clock"] = Number(clock, "1", "clock, of its highest", metric="cpu.speed")
        at = f"; over the run its clock was {share(clock)} of its highest"
    yield Finding(
        f"the CPU was throttled for heat, counted in {times} of {samples.size} samples while it measured{at}",
        Severity.DOUBT if share_of_samples >= OFTEN else Severity.NOTE,
        numbers,
        about="heat",
    )


def _throttled_by_quota(run: Run) -> Iterator[Finding]:
    used = next((track.mean() for track in run.measured_tracks("cpu.quota")), float("nan"))
    if isnan(used) or used < OFTEN:
        return
    yield Finding(
        f"the host's CPU quota (cgroup) was used up in {share(used)} of its periods: what ran then had to wait",
        Severity.DOUBT,
        {"quota": Number(used, "1", "periods in which the quota was used up", metric="cpu.quota")},
        about="quota",
    )
