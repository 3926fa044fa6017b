# SPDX-License-Identifier: Apache-2.0
"""dynamo never notices that an I/O failed; the kernel's count of the same seconds shows it.

agents/dynamo/crosscheck.py decides what is compared when dynamo's output is read. It attaches its words to the figures
as a note.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchlab.analysis.evidence import Run
from benchlab.analysis.finding import Finding, Number, Severity

LABEL = "dynamo's count against the kernel's"
METHOD = "Findings"

# What the note begins with (agents.dynamo.crosscheck.kernel_count_note): the kernel counted fewer, or more.
BEGINS = ("not to be trusted: ", "disturbed: ")


def applies(run: Run) -> list[Finding]:
    if not any(f"kernel.{way}.bytes" in run.figures for way in ("read", "write")):
        # There is no count beside the tool's.
        return []
    return [
        Finding(sentence, Severity.DOUBT, _counted_bytes(run, sentence))
        for sentence in list(_note_sentences(run))[:1]
    ]


def _note_sentences(run: Run) -> Iterator[str]:
    for note in run.notes.values():
        for begins in BEGINS:
            _, separator, rest = note.partition(begins)
            if separator:
                yield rest.rstrip(".")


def _counted_bytes(run: Run, sentence: str) -> dict[str, Number]:
    """Bytes that dynamo and the kernel counted in the direction that the sentence is about."""
    way, verb = ("read", "read") if "bytes read" in sentence else ("write", "written")
    names_by_key = {
        "dynamo": (f"{way}.bytes", f"{verb}, by dynamo"),
        "kernel": (f"kernel.{way}.bytes", f"{verb}, by the kernel"),
    }
    return {
        key: Number(run.figures[name], "B", value_index, figure=name)
        for key, (name, value_index) in names_by_key.items()
        if name in run.figures
    }
