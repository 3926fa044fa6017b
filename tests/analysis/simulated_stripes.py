"""Runs on a stripe whose members are servers with queues, simulated request by request: what chance does to waits.

A closed network: each of the outstanding I/Os goes to a member drawn at random, waits there for its turn (first come,
first served), is served for a time with a coefficient of variation of 0.5, and begins again. Reported each second, as
the kernel does: requests, their mean wait, and the share of the time in which one was in flight.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from benchlab.analysis.evidence import Access, Device, Layer, Run, Track, Window

BLOCK = 4096
# Shape of the gamma distribution of service times: a coefficient of variation of 0.5.
SHAPE = 4.0


def stripe(dice, services, depth, seconds, servers=1):
    """A run of reads over members that take so many seconds for a request, `servers` of them at a time."""
    columns = _events(dice, services, depth, seconds, servers)
    names = tuple(f"sd{letter}" for letter in "bcdefghijklm"[: len(services)])
    times = tuple(float(second) for second in range(1, seconds + 1))
    tracks = []
    for name, (requests, waits, busy) in zip(names, columns, strict=True):
        wait = np.divide(waits, requests, out=np.full(seconds, np.nan), where=requests > 0)
        rows = {
            "read.iops": requests,
            "read.bandwidth": requests * BLOCK,
            "read.await": wait,
            "util": np.minimum(busy, 1.0),
        }
        tracks += [Track(name, m, "", times, tuple(v.tolist())) for m, v in rows.items()]
    iops = float(sum(requests.sum() for requests, *_ in columns)) / seconds
    return Run(
        "fio",
        Access(reads=True, writes=False, random=True, block=BLOCK, outstanding=depth),
        figures={"iops": iops, "read.iops": iops, "lat.mean": depth / iops},
        tracks=tuple(tracks),
        layers=(Layer("lvm", {"type": "striped"}, {"data": names}),),
        devices={name: Device(name, rotational=servers == 1) for name in names},
        windows=(Window("measured", 0.0, float(seconds)),),
    )


def _events(dice, services, depth, seconds, servers):
    """(requests, sum of their waits in s, busy share) of each member, in each second."""
    n = len(services)
    free = [[0.0] * servers for _ in services]
    requests, waits, busy = (np.zeros((n, seconds)) for _ in range(3))
    until = [0.0] * n
    arrivals = [(0.0, number) for number in range(depth)]
    while arrivals:
        now, number = heappop(arrivals)
        if now >= seconds:
            continue
        at = int(dice.integers(n))
        begin = max(now, heappop(free[at]))
        end = begin + services[at] * dice.gamma(SHAPE) / SHAPE
        heappush(free[at], end)
        heappush(arrivals, (end, number))
        _add_busy(busy[at], max(until[at], now), end)
        until[at] = max(until[at], end)
        if end < seconds:
            requests[at, int(end)] += 1
            waits[at, int(end)] += end - now
    return list(zip(requests, waits, busy, strict=True))


def _add_busy(row, begin, end):
    """Add the span to the seconds that it touches."""
    second = int(begin)
    while begin < min(end, len(row)):
        upto = min(end, second + 1)
        row[second] += upto - begin
        begin, second = upto, second + 1
