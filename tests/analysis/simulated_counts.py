"""Counts beside a simulated run, and writes of runs before it: by the project's own rules, of clean numbers.

The kernel is asked up to 0.5 s before and after what dynamo counts, by a clock of hundredths; in that time the disk
does as much as meanwhile, or less. It counts what dynamo does to 0.3 %, up to 3 % more with 256 in flight (as was
seen), and up to 32 KiB/s of a journal. A volume that is read was written from end to end, among other runs.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from agents import options
from agents.drivers import registry
from agents.dynamo import crosscheck
from agents.plans import fits
from agents.plans.chain import LayerSpec
from benchlab.findings import earlier_writes
from benchlab.findings.earlier_writes import EarlierWrite
from benchlab.runs.models import Attempt

JOURNAL = 32 << 10  # B/s
BEGAN = datetime(2026, 1, 1)
# Tools that read what is on a volume, told to.
READING: dict[str, dict[str, Any]] = {
    "fio": {"rw": "randread", "size": 64 << 30},
    "dd": {"direction": "read", "count": 65536},
    "dynamo": {"read_percent": 100, "size": 64 << 30},
}


def of_dynamo(truth):
    """(its figures, their notes), with what the kernel counted; a fifth of them without."""
    dice, seconds = truth.dice, float(truth.seconds)
    way, other = ("read", "write") if truth.reads else ("write", "read")
    moved, iops = float(truth.rate.sum()), float(truth.rate.mean()) / truth.block
    figures = {f"{way}.bytes": moved, f"{way}.ios": moved / truth.block, "ios": moved / truth.block}
    figures |= {f"{other}.bytes": 0.0, f"{other}.ios": 0.0}
    if truth.counted:
        around = float(dice.uniform(0.02, 1.0))
        done = moved * (1 - truth.failed) * dice.normal(1, 0.003)
        done *= 1 + dice.uniform(0, 0.03) * truth.outstanding / 256
        done += moved * around / seconds * dice.random()
        done += moved * truth.beside + JOURNAL * dice.random() * (seconds + around)
        figures |= {f"kernel.{way}.bytes": float(done), f"kernel.{other}.bytes": 0.0}
        figures["kernel.seconds"] = round(seconds + around, 2)
    known = {"iops": iops, "lat.mean": truth.flight * truth.outstanding / iops, "runtime": seconds}
    said = crosscheck.kernel_count_note(figures | known)
    return figures, {"iops": said} if said else {}


def unwritten(truth, size):
    """As benchlab.findings.stored_runs tells it of a run that goes over so many B: "" once they were written."""
    if not truth.reads or truth.tool not in READING:
        return ""
    specs = [LayerSpec(one.kind, one.options) for one in truth.stack.layers]
    built = options.build_options(registry.tool(truth.tool).Options, READING[truth.tool])
    said = fits.unwritten(specs, truth.tool, built)
    began, before = _before(truth.dice, size, truth.filled)
    return "" if earlier_writes.cover_read(Attempt(started_at=began), size, before) else said


def _before(dice, size, filled):
    """Start of the run, and runs before it: one wrote `filled` of all in order, the others some of it, or here and
    there. Some come after it.
    """
    whole = [
        ("fio", {"rw": "write", "size": size}, size * filled),
        ("fio", {"rw": "write", "size": 0, "runtime_s": 0}, size * filled),
        ("dd", {"block_size": 1 << 20, "count": size >> 20}, size * filled),
    ]
    others = [
        ("fio", {"rw": "randwrite", "size": size}, size * dice.uniform(0.1, 3)),
        ("fio", {"rw": "write", "size": size // 4}, size / 4),
        ("fio", {"rw": "write", "size": size, "runtime_s": 60}, size * dice.uniform(0.1, 0.9)),
        ("fio", {"rw": "randread", "size": size}, 0.0),
    ]
    first = whole[0] if filled < 1 else whole[int(dice.integers(3))]
    before = [first, *(others[int(dice.integers(4))] for _ in range(int(dice.integers(6))))]
    at, found = BEGAN, []
    for index in dice.permutation(len(before)):
        at += timedelta(seconds=float(dice.uniform(10, 600)))
        found += _wrote(at, *before[index])
    began = at + timedelta(seconds=float(dice.exponential(5)))
    later = began + timedelta(seconds=60)
    return began, [*found, *_wrote(later, *others[1])]


def _wrote(ended, tool, told, moved):
    """Rows as the product has them: what wrote here and there is none."""
    upto = earlier_writes._contiguous_bytes(tool, told, moved)
    return [EarlierWrite(ended, upto)] if upto else []
