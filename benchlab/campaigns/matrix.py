# SPDX-License-Identifier: Apache-2.0
"""A campaign's factors become runs in order. Pure: the same factors and seed give the same list for ever.

Order (docs/method.md): a layout (host x topology) is built once and carries all of its runs. Within it every repeat is
a block in which all points of all workloads appear once, in a new random order, lest drift pose as an effect.
A topology with stages has such blocks for each of its moments, in the order of time; what the kernel does meanwhile (a
resync, a reshape) lasts only so long, so a moment of that kind has one block.

Schedulers of the disks below are a factor within a layout: a block has every point with each of them.

Between layouts that helps nothing: there drift and the luck of one build are the effect (docs/analysis.md, section 1).
In the order ABBA each layout is built in several visits, every round in the reverse order of the one before (A B C,
C B A, …), and its blocks are divided over them.

Points are described in words, and ranked in the order in which people count: {"iodepth": 4, "block_size": 8192} is
"iodepth 4, block size 8 KiB"; 4096 comes before 16384, and "64k" before "128k".
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple, TypeVar

from django.core.exceptions import ValidationError

from benchlab.topologies.moments import Moment
from benchlab.web.driver_forms import option_text, parse_option

T = TypeVar("T")
Sweep = Mapping[str, Sequence[Any]]

RANDOM_BLOCKS = "random_blocks"
AS_WRITTEN = "as_written"
ABBA = "abba"
ORDERS = (RANDOM_BLOCKS, AS_WRITTEN, ABBA)
# of each layout in the order ABBA, unless more are asked for
MIN_ABBA_VISITS = 2
MAX_RUNS = 20_000
AS_BUILT = (Moment(),)
# its key in a point
SCHEDULER = "scheduler"


class MatrixError(ValueError):
    """Factors that make no matrix; the text names the factor and the value."""


@dataclass(frozen=True, slots=True)
class Factors:
    """Factors to be multiplied. Hosts, topologies and workloads by their ids; a workload with its sweep.

    `moments`: topology -> when in its life it is measured, in the order of time; one that is not there: as built.
    `visits`: how often each layout is built; more than once in the order ABBA only.
    `schedulers`: each point is measured with each; without any it has none.
    """

    hosts: tuple[int, ...]
    topologies: tuple[int, ...]
    workloads: tuple[tuple[int, Sweep], ...]
    repeats: int = 3
    moments: Mapping[int, Sequence[Moment]] = field(default_factory=dict)
    visits: int = 1
    schedulers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        values_by_name = {
            "hosts": self.hosts,
            "topologies": self.topologies,
            "workloads": tuple(pk for pk, _ in self.workloads),
        }
        _refuse_twice("schedulers", self.schedulers)
        for name, values in values_by_name.items():
            if not values:
                raise MatrixError(f"{name}: choose at least one")
            _refuse_twice(name, values)
        if self.repeats < 1:
            raise MatrixError(f"repeats: {self.repeats} is below 1")
        self._check_visits()
        for pk, sweep in self.workloads:
            _check_sweep(pk, sweep)
            if self.schedulers and SCHEDULER in sweep:
                raise MatrixError(f"workload {pk}: it sweeps an option {SCHEDULER} of its own")
        if (runs := count_runs(self)) > MAX_RUNS:
            raise MatrixError(f"{runs} runs are more than {MAX_RUNS}; split the campaign")

    def _check_visits(self) -> None:
        if self.visits < 1:
            raise MatrixError(f"visits: {self.visits} is below 1")
        if self.visits > self.repeats:
            raise MatrixError(
                f"repeats: {self.repeats} cannot be divided over {self.visits} visits of each layout (ABBA): "
                f"every visit measures at least one; use at least {self.visits} repeats, or another order"
            )

    @property
    def times(self) -> int:
        """Number of times that a block has each point of a workload."""
        return len(self.schedulers) or 1

    def factor_points(self, sweep: Sweep) -> list[dict[str, Any]]:
        """Every point of a workload, with the scheduler that it is measured with."""
        scheduler_sweep: Sweep = {SCHEDULER: self.schedulers} if self.schedulers else {}
        return sweep_points({**scheduler_sweep, **sweep})

    def visit_blocks(self, topology: int, visit: int = 1) -> list[tuple[Moment, int]]:
        """Pairs (moment, repeat) of each block of one visit of a layout, in order; repeats count on over the visits."""
        whole = divide_repeats(self.repeats, self.visits)[visit - 1]
        return [
            (moment, repeat)
            for moment in self.moments.get(topology, AS_BUILT)
            for repeat in ((visit,) if moment.growing else whole)
        ]


class Build(NamedTuple):
    """One time that a layout is built: its `visit`, from 1."""

    host: int
    topology: int
    visit: int


class Block(NamedTuple):
    """All points once, at one moment of one layout."""

    host: int
    topology: int
    repeat: int
    moment: Moment


@dataclass(frozen=True, slots=True)
class Cell:
    """One run: `point` is what the sweep varies here, `repeat` is 1-based and also the number of its block.

    `visit`: which time that its layout is built it belongs to.
    """

    host: int
    topology: int
    workload: int
    point: Mapping[str, Any]
    repeat: int
    moment: Moment
    visit: int = 1
    # of its point; "": none is asked for
    scheduler: str = ""

    @property
    def tool_point(self) -> dict[str, Any]:
        """The point without what is not an option of the tool."""
        excluded = {SCHEDULER} if self.scheduler else set[str]()
        return {name: value for name, value in self.point.items() if name not in excluded}


def visits_of_order(order: str, requested: int | None) -> int:
    """Number of builds of each layout in that order. `requested`: None for the default. Raises MatrixError."""
    if order != ABBA:
        if requested is not None and requested > 1:
            raise MatrixError(f"visits: more than one visit of each layout needs the order {ABBA}")
        return 1
    if requested is not None and requested < MIN_ABBA_VISITS:
        raise MatrixError(
            f"visits: the order {ABBA} builds each layout at least {MIN_ABBA_VISITS} times"
        )
    return requested or MIN_ABBA_VISITS


def divide_repeats(repeats: int, visits: int) -> list[range]:
    """The repeats of each visit, in whole blocks: as many in each, and one more in the first ones where some are left.

    (5, 2) -> repeats 1 to 3 in the first visit, 4 and 5 in the second.
    """
    each, remainder = divmod(repeats, visits)
    ranges, at = [], 1
    for visit in range(visits):
        end = at + each + (visit < remainder)
        ranges.append(range(at, end))
        at = end
    return ranges


def sweep_points(sweep: Sweep) -> list[dict[str, Any]]:
    """Every combination of a sweep's values, the last option fastest; no sweep is one empty point."""
    return [dict(zip(sweep, values, strict=True)) for values in itertools.product(*sweep.values())]


def json_key(value: Any) -> str:
    """Unique text of a JSON value. 1 and True are one value to Python but two options to a tool."""
    return json.dumps(value, sort_keys=True)


def count_runs(factors: Factors) -> int:
    """Number of runs of the matrix, without making them."""
    per_block = sum(math.prod(map(len, sweep.values())) for _, sweep in factors.workloads)
    blocks = sum(
        len(factors.visit_blocks(topology, visit))
        for topology in factors.topologies
        for visit in range(1, factors.visits + 1)
    )
    return len(factors.hosts) * blocks * per_block * factors.times


def layout_builds(factors: Factors, order: str, seed: int) -> list[Build]:
    """Every build of every layout, in the order in which they are made."""
    visits_of_order(order, factors.visits)
    first = _ordered(
        itertools.product(factors.hosts, factors.topologies), order, _rng(seed, "layouts")
    )
    return [
        Build(host, topology, visit)
        for visit in range(1, factors.visits + 1)
        for host, topology in (first if visit % 2 else reversed(first))
    ]


def run_cells(factors: Factors, order: str, seed: int) -> Iterator[Cell]:
    """Every cell once, in the order in which they run."""
    per_layout = [
        (pk, point) for pk, sweep in factors.workloads for point in factors.factor_points(sweep)
    ]
    for host, topology, visit in layout_builds(factors, order, seed):
        for moment, repeat in factors.visit_blocks(topology, visit):
            block = Block(host, topology, repeat, moment)
            for workload, point in order_block(per_layout, block, order, seed):
                scheduler = point[SCHEDULER] if factors.schedulers else ""
                yield Cell(host, topology, workload, point, repeat, moment, visit, scheduler)


def order_block(items: Iterable[T], block: Block, order: str, seed: int) -> list[T]:
    """Items of a block, in the order in which they run."""
    # A generator per block: adding a host or a repeat leaves the order of the others as it was.
    where = f"{block.host}/{block.topology}/{block.repeat}"
    return _ordered(items, order, _rng(seed, "/".join(filter(None, [where, block.moment.code]))))


def _ordered(items: Iterable[T], order: str, rng: Random) -> list[T]:
    if order not in ORDERS:
        raise MatrixError(f"order: {order!r} is not one of {', '.join(ORDERS)}")
    if order == AS_WRITTEN:
        return list(items)
    # Only random() is promised to give the same sequence on every Python, shuffle() is not.
    return sorted(items, key=lambda _: rng.random())


def _rng(seed: int, block: str) -> Random:
    return Random(f"{seed}:{block}")  # noqa: S311  # an order of runs, repeatable on purpose


def _check_sweep(workload: int, sweep: Sweep) -> None:
    for option, values in sweep.items():
        if not values:
            raise MatrixError(f"workload {workload}: the sweep of {option} is empty")
        _refuse_twice(f"workload {workload}: the sweep of {option}", values)


def _refuse_twice(name: str, values: Sequence[Any]) -> None:
    keys: set[str] = set()
    for value in values:
        if json_key(value) in keys:
            raise MatrixError(f"{name}: {value} is listed twice")
        keys.add(json_key(value))


# Options of the tools, ours and those that others' outputs name, whose numbers are bytes.
SIZE_OPTIONS = frozenset(
    {
        "block_size",
        "size",
        "obs",
        "ibs",
        "bs",
        "blocksize",
        "chunk_size",
        "ram",
        "file_max",
        "file_min",
        "file_size",
    }
)
PREFIX = re.compile(r"(?<=\d)(?=[KMGT]iB$)")
NUMBERS = re.compile(r"(\d+(?:\.\d+)?)")

Rank = tuple[tuple[bool, float, tuple[tuple[bool, float, str], ...]], ...]


def describe_point(point: Mapping[str, Any]) -> str:
    """Words of a page for a point."""
    return ", ".join(
        f"{name.replace('_', ' ')} {format_value(name, setting)}" for name, setting in point.items()
    )


def format_value(name: str, setting: Any) -> str:
    """A value of that option: sizes with a binary unit, exactly."""
    size = _size_in_bytes(name, setting)
    if size is None:
        return str(setting)
    text = option_text(size, "B")
    return f"{text} B" if text.isdigit() else PREFIX.sub(" ", text)


def numeric_value(name: str, setting: Any) -> float | None:
    """Value of that option as a number, sizes in bytes; None where it is no number."""
    size = _size_in_bytes(name, setting)
    amount = setting if size is None else size
    return (
        float(amount) if isinstance(amount, int | float) and not isinstance(amount, bool) else None
    )


def point_rank(point: Mapping[str, Any]) -> Rank:
    """Key to sort points by: the option that is last by its name decides first."""
    return tuple(_option_rank(name, point[name]) for name in sorted(point, reverse=True))


def _option_rank(
    name: str, setting: Any
) -> tuple[bool, float, tuple[tuple[bool, float, str], ...]]:
    """Numbers as numbers, before texts; a text by the numbers in it."""
    size = _size_in_bytes(name, setting)
    number = setting if size is None else size
    if isinstance(number, int | float):
        return False, float(number), ()
    parts = [part for part in NUMBERS.split(str(setting)) if part]
    return True, 0.0, tuple(_text_rank(part) for part in parts)


def _text_rank(text: str) -> tuple[bool, float, str]:
    return (False, float(text), "") if NUMBERS.fullmatch(text) else (True, 0.0, text)


def _size_in_bytes(name: str, setting: Any) -> int | None:
    """Size in bytes; None where the value is no size, or not written as one."""
    if name not in SIZE_OPTIONS or isinstance(setting, bool):
        return None
    if isinstance(setting, int):
        return setting
    try:
        return int(parse_option(setting, int, "B")) if isinstance(setting, str) else None
    except ValidationError:
        return None
