"""Does the sampler say what `iostat -dxy` says? On the practice host, under fio, over the same seconds.

Three windows of 10 s; the sampler's own intervals are cut to each window. Target: within 2 %.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

from agents import job, shell
from agents.contracts import Job, Secret, Series, Shell
from agents.samplers import diskstats
from benchlab.practice import SlowDisk, UmlHost

TARGET = 0.02
WINDOW_S, WINDOWS, LEAD_S = 10, 3, 3
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
        *("--time_based", f"--runtime={LEAD_S * 2 + WINDOW_S * WINDOWS + 2}"),
    )
)
# The clock at the end, so that the windows can be found in the sampler's time.
IOSTAT = f"iostat -dxy -o JSON {DEVICE} {WINDOW_S} {WINDOWS}; read at _ </proc/uptime; echo $at"


@dataclass(frozen=True)
class Window:
    begin: float  # seconds of the host's clock
    end: float
    said: dict[str, float]  # iostat's columns


def main() -> int:
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
    return shell.connect(shell.Address("127.0.0.1", host.port, "root", private, key))


def measure(remote: Shell) -> float:
    """Largest relative difference over windows and columns."""
    spool = job.Spool("agreement")
    job.start(remote, spool, FIO, diskstats.FILES)
    remote.run(("sleep", str(LEAD_S)))
    windows = watch(remote)
    job.poll(remote, spool, 60)
    frames = job.frames(job.fetch(remote, spool).samples)
    job.remove(remote, spool)
    found = {one.metric: one for one in diskstats.series(frames) if one.device == DEVICE}
    worst = 0.0
    for window in windows:
        for column, unit, metric in COLUMNS:
            theirs = window.said[column] * unit
            ours = mean(found[metric], window.begin - frames[0].at, window.end - frames[0].at)
            print(
                f"{metric:16} sampler / iostat = {ours / theirs:.4f}  ({ours:.4g} / {theirs:.4g})"
            )
            worst = max(worst, abs(ours / theirs - 1))
    return worst


def watch(remote: Shell) -> list[Window]:
    ran = remote.run(("sh", "-c", IOSTAT), timeout_s=WINDOW_S * WINDOWS + 60)
    text, _, clock = ran.stdout.decode().strip().rpartition("\n")
    reports = json.loads(text)["sysstat"]["hosts"][0]["statistics"]
    began = float(clock) - WINDOW_S * WINDOWS
    return [
        Window(began + n * WINDOW_S, began + (n + 1) * WINDOW_S, report["disk"][0])
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
