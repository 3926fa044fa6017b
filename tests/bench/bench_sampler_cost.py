"""The cost of sampling to the measured tool: fio's IOPS with and without, in ABBA order.

Here: fio keeps every CPU busy on a file in memory, the worst case, for each ms the sampler takes
is one that fio lacks. Target: the median block loses less than 1 %. The practice host's figure
(one CPU, a fork costs 20 to 30 ms) is printed too.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence

from agents.contracts import Job, Shell, Watch
from agents.drivers import registry
from agents.jobs import job
from benchlab.practice import DiskSpec, UmlHost
from tests.agents.local_shell import LocalShell
from tests.bench import options
from tests.bench.bench_sampler_agreement import reach

TARGET = 0.01
BLOCKS, RUN_S = 8, 3
# All that a run on Linux is watched by: most of it is not there, and must cost nothing.
SAMPLERS = registry.all_samplers().values()
SAMPLED: tuple[str | Watch, ...] = (
    *(name for sampler in SAMPLERS for name in sampler.FILES),
    *(watch for sampler in SAMPLERS for watch in sampler.WATCHES if not watch.families),
)


def main() -> int:
    options.none(__doc__)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        tool = fio(f"--filename={folder}/file", "--size=64m", f"--numjobs={os.cpu_count()}")
        here = cost(LocalShell(), tool, folder)
    host = UmlHost("bench-cost")
    host.start([DiskSpec(256)], memory_mb=768)
    try:
        rig = fio("--filename=/dev/ubdb", "--direct=1", "--ioengine=libaio", "--iodepth=4")
        there = cost(reach(host), rig, "/var/tmp")
    finally:
        host.stop()
    print(f"here: sampled / not sampled = {1 - here:.4f}, cost {here:.2%}, target {TARGET:.0%}")
    print(f"practice host: sampled / not sampled = {1 - there:.4f}, cost {there:.2%}, no target")
    return int(here > TARGET)


def fio(*options: str) -> Job:
    return Job(
        (
            *("fio", "--name=cost", "--rw=randread", "--bs=4k", "--group_reporting"),
            *("--time_based", f"--runtime={RUN_S}", "--output-format=json", *options),
        ),
        drop_caches=False,
    )


def cost(shell: Shell, tool: Job, base: str) -> float:
    """Median over ABBA blocks of the share of IOPS lost to sampling."""
    iops(shell, tool, base, SAMPLED)  # warm up, lay out the file
    lost = []
    for _ in range(BLOCKS):
        a1, b1, b2, a2 = (iops(shell, tool, base, s) for s in ((), SAMPLED, SAMPLED, ()))
        lost.append(1 - (b1 + b2) / (a1 + a2))
    quartiles = statistics.quantiles(lost, n=4)
    print(
        f"blocks lose {', '.join(f'{one:.2%}' for one in lost)}; quartiles {quartiles[0]:.2%} to {quartiles[2]:.2%}"
    )
    return statistics.median(lost)


def iops(shell: Shell, tool: Job, base: str, sampled: Sequence[str | Watch]) -> float:
    spool = job.Spool("cost", base=base)
    job.start_job(shell, spool, tool, sampled)
    job.poll(shell, spool, 60)
    output = job.fetch(shell, spool).files["stdout"]
    job.remove_spool(shell, spool)
    return float(json.loads(output)["jobs"][0]["read"]["iops"])


if __name__ == "__main__":
    sys.exit(main())
