"""How fast and how small is fio's parser on a long json+? Against orjson alone, on the same bytes, in the same run.

100 MB as fio 3.x prints them: many jobs, two directions, over a thousand bins each. Targets: at least half of orjson's
speed (medians of turns taken by both), and never more than three times the file in memory, the file's bytes
included: a process of its own that reads and parses it, above one that only imports the parser.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson

from agents.tools import fio

SIZE = 100_000_000
TURNS = 7
SPEED, MEMORY = 0.5, 3.0
CHILD = """
import sys
from pathlib import Path
from agents.tools import fio
raw = Path(sys.argv[1]).read_bytes() if len(sys.argv) > 1 else b""
found = fio.parse({"fio.json": raw}, fio.Options()) if raw else []
status = Path("/proc/self/status").read_text()  # ru_maxrss would be the parent's, which was larger
print(int(status.partition("VmHWM:")[2].split()[0]) * 1024)
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fio.json"
        path.write_bytes(document())
        size = path.stat().st_size
        memory = (peak(str(path)) - peak()) / size
        ratio = speed(path.read_bytes())
    print(f"fio JSON+ of {size / 1e6:.0f} MB: {ratio:.2f} of orjson's speed, target {SPEED}")
    print(f"memory {memory:.2f} x the file, target {MEMORY}")
    return int(ratio < SPEED or memory > MEMORY)


def speed(raw: bytes) -> float:
    """Median of orjson's time over ours, turn by turn."""
    ratios = []
    for _ in range(TURNS):
        alone = timed(lambda: orjson.loads(raw))
        ours = timed(lambda: fio.parse({fio.RESULT: raw}, fio.Options()))
        ratios.append(alone / ours)
        print(f"orjson {alone:.2f} s, parser {ours:.2f} s")
    return statistics.median(ratios)


def timed(work) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def peak(*arguments: str) -> int:
    """Bytes that a process of its own had at most."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments], capture_output=True, text=True, check=True
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
