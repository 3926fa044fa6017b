# SPDX-License-Identifier: Apache-2.0
"""A cache device is read while the tool only writes: what the cache does by itself (article 000).

There 56,192 kB/s were read of the SSD, in pieces of 64 KiB, and 56,192 kB/s were written to the twelve disks behind it:
the cache copied its blocks to them while it was measured.
"""

from __future__ import annotations

from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity
from benchlab.analysis.findings._disks import disk_groups, only_writes
from benchlab.analysis.formats import join_names, rate

LABEL = "The cache is read under writes"
METHOD = "Findings"

# Share of the bytes written to it: less is metadata.
SHARE = 0.10
# least B/s
LEAST = 1 << 20
# Largest difference between the bytes read from it and those written to the disks behind it: they are copied.
SAME = 0.20


def applies(run: Run) -> list[Finding]:
    if not only_writes(run):
        return []
    cache = tuple(
        name for group in disk_groups(run) if group.use == "cache" for name in group.names
    )
    behind = tuple(
        name
        for group in disk_groups(run)
        if group.use in ("backing", "data")
        for name in group.names
        if name not in cache
    )
    read, written = (
        run.total_rate("read.bandwidth", cache),
        run.total_rate("write.bandwidth", cache),
    )
    if not cache or read is None or written is None or read < max(LEAST, SHARE * written):
        return []
    copied = run.total_rate("write.bandwidth", behind)
    sentence = (
        f"{join_names(cache)} (cache) was read at {rate(read)} and written at {rate(written)},"
        " though the tool only writes"
    )
    numbers = {
        "read": Number(read, "B/s", f"read of {join_names(cache)}", metric="read.bandwidth"),
        "written": Number(
            written, "B/s", f"written to {join_names(cache)}", metric="write.bandwidth"
        ),
    }
    if copied is not None:
        numbers["behind"] = Number(
            copied, "B/s", f"written to {join_names(behind)}", metric="write.bandwidth"
        )
        if abs(copied - read) <= SAME * read:
            sentence += f": it copies to the disks behind it, which were written at {rate(copied)}"
        else:
            sentence += f"; the disks behind it were written at {rate(copied)}"
    return [Finding(sentence, Severity.LIMIT, numbers, about=" ".join(cache))]
