"""Speed and memory of reading fio's json+: against orjson alone, on the same bytes, in the same run.

Both ways in: the parser of our own runs, and what an import calls, which does not know yet what it holds (bytes to
text, every reader, the results as JSON). 100 MB as fio 3.x prints them: many jobs, two directions, over a thousand bins
each. Targets, by medians of turns taken by all: the parser at least half of orjson's speed, an import an eighth (20
MB/s of CPU where orjson does 160); and never more than three and three and a half times the file in memory, its bytes
included: a process of its own that reads it, above one that only loads the program.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from tests.bench import options

SIZE = 100_000_000
TURNS = 7
SPEED, MEMORY = 0.5, 3.0
IMPORT_SPEED, IMPORT_MEMORY = 0.125, 3.5
PARSE = """
from agents.tools import fio
def work(raw):
    return fio.parse({"fio.json": raw}, fio.Options())
"""
IMPORT = """
import django
django.setup()
from agents.drivers import registry, text_reading
from benchlab.imports import readings, texts
registry.all_readers()
def work(raw):
    found = text_reading.read_text(texts.decode_upload("fio.json", raw).text, "fio.json")
    assert len(found.results) == 1 and not found.results[0].trouble and not found.unread
    return readings.to_json(found)
"""
CHILD = """
import sys
from pathlib import Path
if len(sys.argv) > 1:
    work(Path(sys.argv[1]).read_bytes())
status = Path("/proc/self/status").read_text()  # ru_maxrss would be the parent's, which was larger
print(int(status.partition("VmHWM:")[2].split()[0]) * 1024)
"""


def main() -> int:
    options.none(__doc__)
    works = {"parser": _work(PARSE), "import": _work(IMPORT)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fio.json"
        path.write_bytes(document())
        size = path.stat().st_size
        memory = {name: (peak(code, str(path)) - peak(code)) / size
                  for name, code in (("parser", PARSE), ("import", IMPORT))}  # fmt: skip
        ratios = speed(path.read_bytes(), works)
    failed = False
    for name, fast, small in (
        ("parser", SPEED, MEMORY),
        ("import", IMPORT_SPEED, IMPORT_MEMORY),
    ):
        print(
            f"fio JSON+ of {size / 1e6:.0f} MB, {name}: {ratios[name]:.3f} of orjson's speed, target {fast}; "
            f"memory {memory[name]:.2f} x the file, target {small}"
        )
        failed = failed or ratios[name] < fast or memory[name] > small
    return int(failed)


def _work(code: str) -> Callable[[bytes], Any]:
    names: dict[str, Any] = {}
    exec(code, names)
    return names["work"]


def speed(raw: bytes, works: Mapping[str, Callable[[bytes], Any]]) -> dict[str, float]:
    """Medians of orjson's CPU time over ours, turn by turn."""
    ratios: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(TURNS):
        alone = timed(lambda: orjson.loads(raw))
        told = [f"orjson {len(raw) / alone / 1e6:.0f} MB/s"]
        for name, work in works.items():
            ours = timed(partial(work, raw))
            ratios[name].append(alone / ours)
            told.append(f"{name} {len(raw) / ours / 1e6:.0f} MB/s")
        print(", ".join(told), flush=True)
    return {name: statistics.median(found) for name, found in ratios.items()}


def timed(work: Callable[[], Any]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def peak(code: str, *arguments: str) -> int:
    """Bytes that a process of its own had at most."""
    done = subprocess.run(
        [sys.executable, "-c", code + CHILD, *arguments], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def document() -> bytes:
    """About SIZE bytes, laid out as fio does: two blanks a level, " : ", one bin a line."""
    draw = random.Random(4)
    jobs: list[bytes] = []
    size = 0
    while size < SIZE:
        jobs.append(job(draw, len(jobs)))
        size += len(jobs[-1])
    head = b'{\n  "fio version" : "fio-3.33",\n  "global options" : {\n    "iodepth" : "8"\n  },\n'
    return head + b'  "jobs" : [\n' + b",\n".join(jobs) + b'\n  ],\n  "disk_util" : []\n}\n'


def job(draw: random.Random, number: int) -> bytes:
    text = f'    {{\n      "jobname" : "job{number}",\n      "groupid" : 0,\n      "error" : 0,\n'
    text += f'      "job options" : {{\n        "filename" : "/dev/disk/by-path/pci-0000:00:{number}"\n      }},\n'
    text += "".join(direction(draw, name) for name in ("read", "write"))
    text += '      "usr_cpu" : 1.500000,\n      "sys_cpu" : 2.500000\n    }'
    return text.encode()


def direction(draw: random.Random, name: str) -> str:
    bins = {at: draw.randint(1, 4000) for at in draw.sample(fio_bins(), 1200)}
    count = sum(bins.values())
    mean = sum(at * hits for at, hits in bins.items()) / count
    shown = ",\n".join(f'            "{at}" : {bins[at]}' for at in sorted(bins))
    return (
        f'      "{name}" : {{\n        "io_bytes" : {count * 4096},\n        "io_kbytes" : {count * 4},\n'
        f'        "bw_bytes" : {count * 4096},\n        "bw" : {count * 4},\n        "iops" : {count}.000000,\n'
        f'        "runtime" : 1000,\n        "total_ios" : {count},\n        "clat_ns" : {{\n'
        f'          "min" : {min(bins)},\n          "max" : {max(bins)},\n          "mean" : {mean:.6f},\n'
        f'          "stddev" : 1.000000,\n          "N" : {count},\n          "bins" : {{\n{shown}\n'
        "          }\n        }\n      },\n"
    )


def fio_bins() -> list[int]:
    """The middles of fio's bins from 128 ns to 17 s."""
    return [(64 + k) * 2**bits + 2 ** (bits - 1) for bits in range(1, 28) for k in range(64)]


if __name__ == "__main__":
    sys.exit(main())
