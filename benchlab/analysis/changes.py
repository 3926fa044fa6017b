# SPDX-License-Identifier: Apache-2.0
"""Steps and drifts in the history of one set-up, and a new run against its past (docs/analysis.md, section 5).

All is done on logarithms of values above 0. Outliers are replaced first: spells of one or two runs far from the runs
around them. Then binary segmentation: the split with the largest two-sample t is a change if that t passes what one
series in 500 without a change reaches by its best split (critical_values.json, which `make_critical_values` computes
with the same t), and each part is searched likewise. Steps below 3 % are dropped.

Neighbouring runs resemble each other, which makes a level look as if it had changed. So t is divided by what that
resemblance adds to the error of a mean (`inflation`), and a step must describe the history better than a straight line
and a smooth curve do. Two rules use this: CANDIDATE is lenient and names *possible* changes; PROOF is strict. A change
is *confirmed* if PROOF finds it among the medians of builds, in this look and the one before, and enough runs surround
it. A history without a change whose line is steeper than chance allows *drifts*.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from math import log, sqrt
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.special import stdtrit

from benchlab.analysis.curves import median_of
from benchlab.analysis.repeats import robust_scale

Array = NDArray[np.float64]

ALPHA = 0.002
# smallest step between the medians of neighbouring segments, and smallest drift
SMALLEST = log(1.03)
# runs that must follow a change before it is confirmed; more if neighbouring runs resemble each other
ENOUGH_AFTER = 6
# Builds on each side of it. Where a fifth of builds are 20 % slower, three in a row are in 27 % of histories
# (docs/analysis.md, section 5: five in 10 %).
ENOUGH_BUILDS = 5
# runs by which two looks may differ in the place of a change
SAME = 2
# runs on each side of a split
LEAST_SIDE = 3
# Outliers: the window in runs, and the distances from its median and from the neighbours in robust standard deviations.
WINDOW, FAR, APART = 11, 3.5, 2.5
# Three runs in a row can be a segment of their own (LEAST_SIDE).
LONGEST_SPELL = 2
# Least number of past runs, and the robust z from which a run is then unusual: false in 0.9 % of clean runs at most.
LIMITS = ((20, 3.6), (12, 4.5), (10, 5.0))
# Least noise assumed: a capped disk repeats itself to a tenth of a percent.
FLOOR = log(1.002)
# largest autocorrelation assumed: a random walk has 1, which leaves no number of independent runs
MAX_RHO = 0.97
# Chance of a drift, one-sided. Simulated for 1e-4 and 2e-5: both are false in 0 % of histories with rho 0.5 and 0.8.
DRIFT_ALPHA = 1e-4


@dataclass(frozen=True, slots=True)
class Rule:
    """Demands on a step. Margins are twice the ln likelihood ratio of as many effective runs.

    `shortest`: values of the shortest series to split. `rho_errors`: standard errors that are added to the estimated
    autocorrelation. `line`, `cubic`: margins by which a step must beat a straight line and a cubic. `sloping`: the
    autocorrelation is that beside a line in each part, so that a drift after a step does not hide the step.
    """

    shortest: int
    rho_errors: float
    line: float
    cubic: float
    sloping: bool


# docs/analysis.md, section 5. Of the margins of a line 4 and 9 were simulated; the cubic's of 0, 2 and 4.
CANDIDATE = Rule(2 * LEAST_SIDE, 0.0, 4.0, 0.0, sloping=True)
PROOF = Rule(12, 1.5, 9.0, 2.0, sloping=False)


@dataclass(frozen=True, slots=True)
class Change:
    """`at`: index of the first run after it. `before`, `after`: medians of the segments beside it."""

    at: int
    before: float
    after: float
    confirmed: bool

    @property
    def ratio(self) -> float:
        return self.after / self.before


@dataclass(frozen=True, slots=True)
class Drift:
    """A steady rise or fall over the runs from index `begin` to the last. `before`, `after`: its line at both ends."""

    begin: int
    before: float
    after: float

    @property
    def ratio(self) -> float:
        return self.after / self.before


@dataclass(frozen=True, slots=True)
class Unusual:
    """A run that stands out: index `at`, robust z against the `past` runs since the last change before it."""

    at: int
    z: float
    past: int


@dataclass(frozen=True, slots=True)
class Split:
    """A step before the value `at`; `inflation`: how much the resemblance of neighbours widens the error there."""

    at: int
    inflation: float


def find_changes(values: Sequence[float], builds: Sequence[object] = ()) -> list[Change]:
    """Find the changes in `values` above 0, in order of time; `builds`: the build of its layout that each run ran on.

    Without `builds` each run counts as a build of its own.
    """
    logs = np.log(np.asarray(values, dtype=float))
    build_of_run = list(builds) or list(range(len(logs)))
    confirmed = _confirmed_changes(logs, build_of_run)
    possible = [
        split.at
        for split in _change_points(logs, CANDIDATE)
        if all(abs(split.at - at) > LEAST_SIDE for at in confirmed)
    ]
    indices = sorted([*confirmed, *possible])
    medians = [median_of(values[a:b]) for a, b in pairwise([0, *indices, len(logs)]) if b > a]
    return [
        Change(at, medians[nth], medians[nth + 1], at in confirmed)
        for nth, at in enumerate(indices)
    ]


def _confirmed_changes(logs: Array, builds: Sequence[object]) -> list[int]:
    """First run of each change that both looks find among the builds, with enough of them on both sides."""
    starts = _build_starts(builds)
    splits = _change_points(_build_medians(logs, starts), PROOF)
    if not splits:
        return []
    last_starts = _build_starts(builds[:-1])
    last_look = [
        last_starts[split.at]
        for split in _change_points(_build_medians(logs[:-1], last_starts), PROOF)
    ]
    edges = [0, *(split.at for split in splits), len(starts)]
    run_edges = [*(starts[edge] for edge in edges[:-1]), len(logs)]
    return [
        run_edges[nth]
        for nth, split in enumerate(splits, start=1)
        if _smaller_side(edges, nth) >= ENOUGH_BUILDS
        and _smaller_side(run_edges, nth) >= ENOUGH_AFTER * split.inflation
        and any(abs(run_edges[nth] - other) <= SAME for other in last_look)
    ]


def _smaller_side(edges: Sequence[int], nth: int) -> int:
    return min(edges[nth] - edges[nth - 1], edges[nth + 1] - edges[nth])


def _build_starts(builds: Sequence[object]) -> list[int]:
    return [at for at in range(len(builds)) if not at or builds[at] != builds[at - 1]]


def _build_medians(logs: Array, starts: Sequence[int]) -> Array:
    return np.array([float(np.median(logs[a:b])) for a, b in pairwise([*starts, len(logs)])])


def _change_points(logs: Array, rule: Rule) -> list[Split]:
    """Changes whose steps are worth mentioning."""
    cleaned = replace_outliers(logs)
    splits = list(_segment(cleaned, 0, rule))
    while splits:
        edges = [0, *(split.at for split in splits), len(logs)]
        medians = [float(np.median(cleaned[a:b])) for a, b in pairwise(edges)]
        steps = [abs(b - a) for a, b in pairwise(medians)]
        if min(steps) >= SMALLEST:
            break
        del splits[steps.index(min(steps))]
    return splits


def _segment(logs: Array, offset: int, rule: Rule) -> Iterator[Split]:
    if len(logs) < rule.shortest:
        return
    (at,), (t,) = largest_t(logs[None, :])
    rest = _step_rest(logs, int(at))
    widening = _widening(logs, int(at), rule)
    if t / sqrt(widening) <= critical_t(len(logs)) or not _beats_curves(logs, rest, widening, rule):
        return
    yield from _segment(logs[:at], offset, rule)
    yield Split(offset + int(at), inflation(rest, 2, 0.0))
    yield from _segment(logs[at:], offset + int(at), rule)


def _step_rest(logs: Array, at: int) -> Array:
    return np.concatenate([logs[:at] - logs[:at].mean(), logs[at:] - logs[at:].mean()])


def inflation(rest: Array, fitted: int, errors: float) -> float:
    """Factor by which autocorrelation widens the variance of a mean, for residuals of `fitted` parameters; at least 1.

    It is (1 + rho) / (1 - rho) of the lag-1 autocorrelation, corrected for its bias, plus so many standard errors.
    """
    count, squares = len(rest), float((rest**2).sum())
    if squares <= 0:
        return 1.0
    rho = float((rest[1:] * rest[:-1]).sum()) / squares
    rho += (fitted + (2 + fitted) * rho) / count
    rho += errors * sqrt(max(1 - rho**2, 0) / count)
    rho = min(MAX_RHO, max(0.0, rho))
    return (1 + rho) / (1 - rho)


def _widening(logs: Array, at: int, rule: Rule) -> float:
    """The inflation by what a step there leaves; a lenient rule allows both parts a slope of their own."""
    if not rule.sloping:
        return inflation(_step_rest(logs, at), 2, rule.rho_errors)
    parts = (logs[:at], logs[at:])
    rest = np.concatenate([part - _smooth(part, 1) for part in parts])
    return inflation(rest, 4, rule.rho_errors)


def _beats_curves(logs: Array, rest: Array, widening: float, rule: Rule) -> bool:
    """True when the step leaves less than a straight line and a cubic do, by the margins of the rule."""
    effective = len(logs) / widening
    step = _squares(rest)
    return all(
        effective * log(_squares(logs - _smooth(logs, degree)) / step) >= margin
        for degree, margin in ((1, rule.line), (3, rule.cubic))
    )


def _squares(rest: Array) -> float:
    """Sum of squares, of at least the least noise."""
    return max(float((rest**2).sum()), len(rest) * FLOOR**2)


def _smooth(logs: Array, degree: int) -> Array:
    """The least-squares polynomial of that degree, at each run."""
    basis = _polynomials(len(logs), degree)
    return np.asarray(basis @ (basis.T @ logs))


@lru_cache(maxsize=512)
def _polynomials(length: int, degree: int) -> Array:
    """Orthonormal polynomials up to `degree`, a column each."""
    basis, _ = np.linalg.qr(np.vander(np.linspace(-1, 1, length), degree + 1))
    return np.asarray(basis)


def find_drift(
    values: Sequence[float], builds: Sequence[object], changes: Sequence[Change]
) -> Drift | None:
    """Find a drift of 3 % or more since the last confirmed change, which two looks in a row find; else None.

    `changes`: what `find_changes` finds in the same values. A possible change after the confirmed ones excludes it.
    """
    begin = max((change.at for change in changes if change.confirmed), default=0)
    if any(change.at > begin for change in changes):
        return None
    logs = np.log(np.asarray(values[begin:], dtype=float))
    build_of_run = list(builds[begin:]) or list(range(len(logs)))
    rise = _rise(logs, build_of_run)
    if rise is None or _rise(logs[:-1], build_of_run[:-1]) is None:
        return None
    start, end = rise
    return Drift(begin, float(np.exp(start)), float(np.exp(end)))


def _rise(logs: Array, builds: Sequence[object]) -> tuple[float, float] | None:
    """Both ends of the line through the medians of builds, if it is steep and describes them as well as a step."""
    medians = _build_medians(logs, _build_starts(builds))
    count = len(medians)
    if count < PROOF.shortest:
        return None
    # Beside a rough line, or a steep drift would make its own ends outliers.
    rough = _smooth(medians, 1)
    medians = rough + replace_outliers(medians - rough)
    line = _smooth(medians, 1)
    rest, rise = medians - line, float(line[-1] - line[0])
    freedom = count / inflation(rest, 2, PROOF.rho_errors) - 2
    if abs(rise) < SMALLEST or freedom <= 0:
        return None
    # The error of the slope, by as many independent builds as the autocorrelation leaves.
    spread = float(((line - line.mean()) ** 2).sum())
    t = sqrt(spread * (freedom + 2) / (_squares(rest) * count / (count - 2)))
    (at,), _ = largest_t(medians[None, :])
    stepped = _squares(_step_rest(medians, int(at))) < _squares(rest)
    steep = t > float(stdtrit(freedom, 1 - DRIFT_ALPHA))
    return (float(line[0]), float(line[-1])) if steep and not stepped else None


@cache
def _critical_table() -> tuple[Array, Array]:
    """(ln lengths, critical values at ALPHA)."""
    table = json.loads(Path(__file__).with_name("critical_values.json").read_text())
    column = table["alphas"].index(ALPHA)
    rows = sorted((int(length), values[column]) for length, values in table["critical"].items())
    return np.log([length for length, _ in rows]), np.array([value for _, value in rows])


def critical_t(length: int) -> float:
    """Critical value of the largest t in a series of that length; beyond the table, that of its longest series."""
    lengths, values = _critical_table()
    return float(np.interp(log(length), lengths, values))


def replace_outliers(logs: Array) -> Array:
    """Replace spells of one or two runs that are far from the median around them by that median.

    A longer spell is kept, as is one that is like the run before or after it: it may belong to another level.
    """
    if len(logs) < WINDOW:
        return logs
    median = np.median(sliding_window_view(np.pad(logs, WINDOW // 2, "reflect"), WINDOW), axis=1)
    steps = np.diff(logs)
    noise = max(FLOOR, robust_scale(steps - np.median(steps)) / sqrt(2))
    far = np.concatenate([[False], np.abs(logs - median) > FAR * noise, [False]])
    apart = np.concatenate([[True], np.abs(steps) > APART * noise, [True]])
    edges = np.flatnonzero(np.diff(far))
    cleaned = logs.copy()
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        if end - begin <= LONGEST_SPELL and apart[begin] and apart[end]:
            cleaned[begin:end] = median[begin:end]
    return cleaned


def find_unusual(values: Sequence[float], changes: Sequence[Change]) -> list[Unusual]:
    """The runs that stand out from those before them since the last confirmed change. Each needs ten."""
    logs = np.log(np.asarray(values, dtype=float))
    starts = [0, *(change.at for change in changes if change.confirmed)]
    stand_out = []
    for at in range(len(logs)):
        begun = max(start for start in starts if start <= at)
        z, limit = robust_z(logs[begun:at], float(logs[at]))
        if limit is not None and z > limit:
            stand_out.append(Unusual(at, z, at - begun))
    return stand_out


def robust_z(past: Array, new: float) -> tuple[float, float | None]:
    """(robust z of a logarithm against those before it, from where on it is unusual: None with too few)."""
    limit = next((limit for enough, limit in LIMITS if len(past) >= enough), None)
    if limit is None:
        return 0.0, None
    median = float(np.median(past))
    noise = max(FLOOR, robust_scale(past - median))
    return abs(new - median) / noise, limit


def largest_t(series: Array) -> tuple[NDArray[np.int64], Array]:
    """Best split of each row (at least 2 x LEAST_SIDE values): (start of the second part, t with pooled sd).

    If the parts of a row have no spread, t is infinite where they differ and 0 where they do not.
    """
    n = series.shape[1]
    before = np.arange(LEAST_SIDE, n - LEAST_SIDE + 1)
    centred = series - series.mean(axis=1, keepdims=True)
    sums = np.cumsum(centred, axis=1)[:, before - 1]
    total = (centred**2).sum(axis=1, keepdims=True)
    # Centred, the second part's sum is minus the first's.
    between = sums**2 * (1 / before + 1 / (n - before))
    within = np.maximum(total - between, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        squared = np.where(between > 1e-12 * total, between / within * (n - 2), 0.0)
    best = squared.argmax(axis=1)
    rows = np.arange(len(series))
    return before[best], np.sqrt(squared[rows, best])
