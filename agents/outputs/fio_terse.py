# SPDX-License-Identifier: Apache-2.0
"""fio's terse output (`--minimal`), versions 2 to 5, of fio 1.5x to 3.4x, as FioJobs. Raises ParseError, nothing else.

One line a job, fields between semicolons, latencies in whole microseconds in all versions of fio. Rates are cut to
whole KiB/s and I/Os a second: both are computed again, the latter where the block size can be told. The depth is not
told, so neither is what share of the I/Os reached it. The number of directions is not told (2, with trim 3, unified 1,
both 4): it is the only one with which all the fields behind them are in their places.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agents.contracts import ParseError
from agents.outputs.fio_model import ALL_CLIENTS, FioJob, Latencies, Traffic
from agents.outputs.fio_text import roundest

HEAD = re.compile(r"^\s*(?:2;[^;\n]*|[345];fio[- ][^;\n]*;[^;\n]*);\d+;\d+;\d+;\d+;\d+;", re.M)
# of any such line, fast to be found missing
RATES_OF = re.compile(r";\d+;\d+;\d+;\d+;\d+;")
# fio always prints so many
RANKS = 20
# fields of a direction, before 1.58 without percentiles
SHORT, LONG = 21, 21 + RANKS
# more fields of a direction in version 5
RATES = 6
# of depths, and of latencies in usec and msec
SHARES = 7 + 10 + 12
NAMES = {1: ("mixed",), 2: ("read", "write"), 3: ("read", "write", "trim")}
_WHOLE = re.compile(r"\d{1,20}\Z")
_REAL = re.compile(r"\d{1,20}(?:\.\d{1,10})?\Z")
_SHARE = re.compile(r"(?:\d{1,20}(?:\.\d{1,10})?|-?nan)%\Z")
_RANK = re.compile(r"(\d{1,3}(?:\.\d{1,10})?)%=(\d{1,20})\Z")


def parse_jobs(text: str) -> tuple[list[FioJob], str]:
    """Jobs, and fio's own warnings."""
    jobs: list[FioJob] = []
    notes: list[str] = []
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if HEAD.match(line):
            record = _Record(line, number)
            if not jobs or record.name != ALL_CLIENTS:
                jobs.append(record.to_job())
        elif line.count(";") > SHORT:
            raise ParseError("a damaged line of fio's terse output", number, line)
        elif line.startswith(("fio: ", "note: ")):
            notes.append(line)
    if not jobs:
        raise ParseError("no line of fio's terse output")
    return jobs, "; ".join(notes)[:1000]


def terse_fio_version(line: str) -> str:
    """fio's, as printed; version 2 does not say."""
    return "" if line.lstrip().startswith("2;") else line.split(";")[1]


def job_name(line: str) -> str:
    return line.split(";")[1 if line.lstrip().startswith("2;") else 2]


class _Record:
    """One line of it."""

    def __init__(self, text: str, number: int) -> None:
        self.text, self.number = text, number
        self.fields = text.split(";")
        self.layout = int(self.fields[0])
        self.begin = 4 if self.layout == 2 else 5
        self.name = self.fields[self.begin - 3]
        fits = [form for form in self._forms() if self._fits(*form)]
        if len(fits) != 1:
            raise self.error("truncated or damaged: the fields are not in their places")
        ((self.count, self.length),) = fits

    def error(self, message: str) -> ParseError:
        return ParseError(message, self.number, self.text)

    def _forms(self) -> Iterator[tuple[int, int]]:
        more = RATES if self.layout == 5 else 0
        for length in (SHORT + more, LONG + more):
            for count in (1, 2, 3, 4):
                yield count, length

    def _fits(self, count: int, length: int) -> bool:
        """True when so many directions are followed by CPU times, three counts and the shares."""
        behind = self.fields[self.begin + count * length :][: 5 + SHARES]
        if len(behind) < 5 + SHARES:
            return False
        shares = behind[:2] + behind[5:]
        return all(map(_SHARE.match, shares)) and all(map(_WHOLE.match, behind[2:5]))

    def to_job(self) -> FioJob:
        behind = self.begin + self.count * self.length
        cpu = [self.real(at, "%") / 100 for at in (behind, behind + 1)]
        # with two directions unified_rw_reporting=both cannot be told from reads and writes: then there are 3 or 4
        names = self._field_names()
        traffic = {}
        for place, direction in enumerate(names):
            part = self.traffic(self.begin + place * self.length)
            if part is not None:
                traffic[direction] = part
        if set(traffic) > {"mixed"}:
            # the sum of the others
            del traffic["mixed"]
        return FioJob(
            group=int(self.real(self.begin - 2)),
            errors=self.errors(behind + 5 + SHARES),
            traffic=traffic,
            cpu_user=cpu[0],
            cpu_system=cpu[1],
            lines={"": self.number},
        )

    def _field_names(self) -> tuple[str, ...]:
        if self.count == 4 or (self.count == 3 and self.layout == 3):
            return (*NAMES[self.count - 1], "mixed")
        return NAMES[self.count]

    def errors(self, at: int) -> int:
        """The count of continue_on_error, where it is there, else whether the job failed."""
        while self.layout > 2 and at + 8 < len(self.fields) and self.fields[at + 8].endswith("%"):
            # the figures of one disk
            at += 9
        rest = self.fields[at : at + 2]
        if len(rest) == 2 and all(map(_WHOLE.match, rest)):
            return int(rest[0])
        return int(self.real(self.begin - 1) != 0)

    def traffic(self, at: int) -> Traffic | None:
        kib, rate, iops, msec = (self.real(at + place) for place in range(4))
        if not (kib or iops or msec):
            return None
        runtime = msec / 1000
        if not abs(rate * runtime - kib) <= 1 + runtime + 1e-3 * kib:
            raise self.error(f"{rate:.0f} KiB/s in {runtime} s do not make {kib:.0f} KiB")
        iops = _iops(iops, kib, runtime)
        weight = iops * runtime
        with_ranks = self.length >= LONG
        ranks = self.ranks(at + 12) if with_ranks else {}
        return Traffic(
            iops=iops,
            bandwidth=max(rate, kib / runtime if runtime else 0.0) * 1024,
            bytes=kib * 1024,
            ios=None,
            runtime=runtime,
            slat=self.latencies_at(at + 4, weight, {}),
            clat=self.latencies_at(at + 8, weight, ranks),
            lat=self.latencies_at(at + 12 + (RANKS if with_ranks else 0), weight, {}),
            lines={"": self.number},
        )

    def latencies_at(self, at: int, weight: float, ranks: dict[float, float]) -> Latencies | None:
        low, high, mean, stddev = (self.real(at + place) / 1e6 for place in range(4))
        if not (high or mean):
            # slat of a synchronous engine
            return None
        if not low - 1e-6 <= mean <= high + 1e-6:
            raise self.error(f"mean {mean} s is not between min {low} and max {high}")
        lines = {"": self.number}
        return Latencies(weight or 1.0, mean, stddev, low, high, percentiles=ranks, lines=lines)

    def ranks(self, at: int) -> dict[float, float]:
        values_by_rank: dict[float, float] = {}
        for field in self.fields[at : at + RANKS]:
            read = _RANK.match(field)
            if read is None:
                raise self.error(f"{field[:40]!r} is not a percentile")
            # padded with 0%=0
            if float(read[1]):
                values_by_rank[float(read[1])] = float(read[2]) / 1e6
        return values_by_rank

    def real(self, at: int, unit: str = "") -> float:
        text = self.fields[at]
        if not text.endswith(unit) or not _REAL.match(text.removesuffix(unit)):
            raise self.error(f"{text[:40]!r} is not a number")
        return float(text.removesuffix(unit))


def _iops(printed: float, kib: float, runtime: float) -> float:
    """I/Os a second that fio cut to `printed`: with the roundest block size of those that make so many.

    Whatever the blocks were, it lies between `printed` and one more.
    """
    if not (printed and kib and runtime):
        return printed
    most, least = (kib * 1024 / (rate * runtime) for rate in (printed, printed + 1))
    size = roundest(least, most)
    return kib * 1024 / size / runtime if size else printed
