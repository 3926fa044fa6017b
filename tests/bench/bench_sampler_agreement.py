"""Does the sampler say what `iostat -dxy` says? On the practice host, under fio, over the same seconds.

On one disk. Three windows of 10 s; the sampler's own intervals are cut to each window. Target: within 2 %. Then twenty
windows of 1 s, printed only: neither of the two begins its seconds with the other, and what one holds is taken to be
spread evenly when it is cut.
"""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import dataclass

from agents.contracts import Job, Secret, Series, Shell
from agents.jobs import job
from agents.samplers import diskstats
from agents.ssh import shell
from benchlab.practice import SlowDisk, UmlHost
from tests.bench import options

TARGET = 0.02
LEAD_S = 3
LONG, SHORT = (10, 3), (1, 20)  # seconds of a window; windows
DEVICE = "nbd0"  # slow, so that util is far from both 0 and 1
# iostat's column, its unit in ours, our metric
COLUMNS = (
    ("r/s", 1.0, "read.iops"),
    ("w/s", 1.0, "write.iops"),
    ("rkB/s", 1024.0, "read.bandwidth"),
    ("wkB/s", 1024.0, "write.bandwidth"),
    ("util", 0.01, "util"),
)
FIO = Job(
    (
        *("fio", "--name=mix", f"--filename=/dev/{DEVICE}", "--rw=randrw", "--rwmixread=60"),
        *("--bs=4k", "--direct=1", "--ioengine=libaio", "--iodepth=2", "--rate_iops=240,160"),
        *(
            "--time_based",
            f"--runtime={LEAD_S * 2 + LONG[0] * LONG[1] + 2 * SHORT[0] * SHORT[1] + 5}",
        ),
    )
)
# The clock at the end, so that the windows can be found in the sampler's time.
IOSTAT = "iostat -dxy -o JSON {} {} {}; read at _ </proc/uptime; echo $at"


@dataclass(frozen=True)
class Window:
    begin: float  # seconds of the host's clock
    end: float
    said: dict[str, float]  # iostat's columns


def main() -> int:
    options.none(__doc__)
    host = UmlHost("bench-agreement")
    host.start(slow_disks=[SlowDisk(256)], memory_mb=768)
    try:
        worst = measure(reach(host))
    finally:
        host.stop()
    print(f"worst difference {worst:.2%}, target {TARGET:.0%}")
    return int(worst > TARGET)


def reach(host: UmlHost) -> Shell:
    key = shell.offered_host_key("127.0.0.1", host.port).public_key
    private = Secret(host.key_path.read_text())
    return shell.connect_shell(shell.Address("127.0.0.1", host.port, "root", private, key))


def measure(remote: Shell) -> float:
    """Largest relative difference over the long windows and all columns."""
    spool = job.Spool("agreement")
    job.start_job(remote, spool, FIO, diskstats.FILES)
    remote.run(("sleep", str(LEAD_S)))
    long = watch(remote, *LONG)
    # One by one, for iostat does not tell when its windows ended, and here they are a bit longer than they should be.
    short = [window for _ in range(SHORT[1]) for window in watch(remote, SHORT[0], 1)]
    job.poll(remote, spool, 60)
    frames = job.frames(job.fetch(remote, spool).samples)
    job.remove_spool(remote, spool)
    found = {one.metric: one for one in diskstats.frames_to_series(frames) if one.device == DEVICE}
    for metric, differences in compared(short, found, frames[0].at).items():
        middle = statistics.median(differences)
        print(f"{metric:16} over {SHORT[0]} s: median {middle:.2%}, worst {max(differences):.2%}")
    each = compared(long, found, frames[0].at)
    for metric, differences in each.items():
        print(f"{metric:16} over {LONG[0]} s: worst {max(differences):.2%}")
    return max(max(differences) for differences in each.values())


def compared(
    windows: list[Window], found: dict[str, Series], began: float
) -> dict[str, list[float]]:
    """Relative difference in each window, by metric."""
    return {
        metric: [
            abs(mean(found[metric], one.begin - began, one.end - began) / (one.said[column] * unit) - 1)
            for one in windows
        ]
        for column, unit, metric in COLUMNS
    }  # fmt: skip


def watch(remote: Shell, seconds: int, windows: int) -> list[Window]:
    text = IOSTAT.format(DEVICE, seconds, windows)
    ran = remote.run(("sh", "-c", text), timeout_s=seconds * windows + 60)
    said, _, clock = ran.stdout.decode().strip().rpartition("\n")
    reports = json.loads(said)["sysstat"]["hosts"][0]["statistics"]
    began = float(clock) - seconds * windows
    return [
        Window(began + n * seconds, began + (n + 1) * seconds, report["disk"][0])
        for n, report in enumerate(reports)
    ]


def mean(series: Series, begin: float, end: float) -> float:
    """Mean rate between two times, from rates that each hold since the time before."""
    total, before = 0.0, 0.0
    for time, value in zip(series.times, series.values, strict=True):
        total += value * max(0.0, min(time, end) - max(before, begin))
        before = time
    return total / (end - begin)


if __name__ == "__main__":
    sys.exit(main())
