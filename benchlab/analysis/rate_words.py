# SPDX-License-Identifier: Apache-2.0
"""Words for what a rate counts: I/Os, fsyncs, flushes. The one place that gives op/s the word which a person reads."""

from __future__ import annotations

import re

IOPS = "IOPS"
# of what is no I/O, and has no word of its own
OPERATIONS = "ops/s"
WORDS = (
    (re.compile(r"(?:.+\.)?flush\.iops"), "flushes/s"),
    (re.compile(r"(?:.+\.)?iops"), IOPS),
    (re.compile(r"(?:.+\.)?fdatasync\.ops"), "fdatasyncs/s"),
    (re.compile(r"(?:.+\.)?(?:fsync|fsync_writethrough)\.ops"), "fsyncs/s"),
)


def shown_unit(name: str, unit: str) -> str:
    """ "one.fsync.ops", "op/s" -> "fsyncs/s"; other units stay as they are, as does op/s of what has no name."""
    if unit != "op/s" or not name:
        return unit
    return next((word for pattern, word in WORDS if pattern.fullmatch(name)), OPERATIONS)


def separates_prefix(word: str) -> bool:
    """True for a word to which a prefix does not stick: 12.3 k IOPS, 4 k fsyncs/s, but 4 kB/s."""
    return word == IOPS or word.endswith("s/s")
