# SPDX-License-Identifier: Apache-2.0
"""CPU assignment of practice hosts that have one CPU.

The kernel of a User Mode Linux and each of its programs are processes of this machine that take turns, several times
in every system call. On one CPU a turn is a switch of tasks; on two it wakes the other CPU, which takes a virtual
machine so long that a guest whose processes all stay on one CPU works 1.3 to 1.8 times as fast.
"""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from benchlab.practice.paths import cache_root, every_host, locked


@contextmanager
def bound() -> Iterator[int]:
    """Block in which all that this thread starts runs on one CPU, the one that fewest running hosts are bound to."""
    before = os.sched_getaffinity(0)
    # Two hosts that boot at once would choose the same
    with locked(cache_root() / "practice" / "cpus.lock"):
        cpu = quietest(before, _pinned_cpus())
        os.sched_setaffinity(0, {cpu})
        try:
            yield cpu
        finally:
            os.sched_setaffinity(0, before)


def quietest(allowed: set[int], running: Iterator[set[int]]) -> int:
    """The allowed CPU to which the fewest hosts are bound.

    `running` holds the CPUs that each running host may use.
    """
    hosts = Counter(next(iter(cpus)) for cpus in running if len(cpus) == 1)
    return min(sorted(allowed), key=lambda cpu: hosts[cpu])


def _pinned_cpus() -> Iterator[set[int]]:
    for record in every_host():
        if record.kernel and record.kernel.alive:
            with suppress(ProcessLookupError):
                yield os.sched_getaffinity(record.kernel.pid)
