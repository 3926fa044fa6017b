# SPDX-License-Identifier: Apache-2.0
"""Diagnosis of a draft: each file's own answer, and one for the draft, which is stored with it.

The worker that reads a file diagnoses it, as it has the reading in hand. What a person hands in as a few small files
is about one machine, so the files are diagnosed together. Of an archive each file is diagnosed by itself, and the
answers are merged. Both are bounded, and the answer says what was left out.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import accumulate

from agents.context.reading import read_facts
from agents.texts.parsed_result import Reading
from benchlab.diagnosis.answer_json import (
    AnswerJson,
    assign_lines,
    diagnose_text_evidence,
    merge_answers,
)
from benchlab.diagnosis.evidence import Evidence
from benchlab.diagnosis.pasted import build_evidence, join_evidence, read_evidence
from benchlab.imports import readings
from benchlab.imports.machine import MachineRow, describe_machine
from benchlab.imports.models import Draft, DraftFile

log = logging.getLogger(__name__)

# bytes of a file: a larger one is read, and not diagnosed
MAX_FILE_BYTES = 8 << 20
# files, and their bytes, that are diagnosed together
MAX_FILES_TOGETHER = 8
MAX_BYTES_TOGETHER = 2 << 20
# files whose answers are merged
MAX_MERGED_FILES = 200


def diagnose_file(row: DraftFile, reading: Reading, text: str) -> AnswerJson | None:
    """The answer for a file that was just read; None if it is too large or its diagnosis fails."""
    if row.size > MAX_FILE_BYTES:
        return None
    try:
        answer = _answer(build_evidence(reading, text), [row], [len(text.split("\n"))])
    except Exception:
        # The results matter more than what they mean.
        log.exception("diagnosis of %s (file %s)", row.name, row.pk)
        return None
    stored: AnswerJson = readings.storable_value(answer)
    return stored


def machine_rows(row: DraftFile, text: str) -> list[MachineRow]:
    """The machine as the file shows it; nothing for a file that is too large to diagnose."""
    return describe_machine(read_facts(text)) if row.size <= MAX_FILE_BYTES else []


def diagnose_draft(draft: Draft, texts: Sequence[tuple[DraftFile, str]] = ()) -> AnswerJson:
    """The answer for a draft that was read. `texts`: files to diagnose together; else answers are merged."""
    if texts:
        try:
            parts = [read_evidence(text, row.name)[0] for row, text in texts]
            lengths = [len(part.lines) for part in parts]
            answer = _answer(join_evidence(parts), [row for row, _ in texts], lengths)
            stored: AnswerJson = readings.storable_value(answer)
        except Exception:
            log.exception("diagnosis of draft %s", draft.pk)
        else:
            return stored
    rows = draft.files.filter(answer__isnull=False).order_by("position")
    answers: list[AnswerJson] = [
        row.answer for row in rows.only("answer")[: MAX_MERGED_FILES + 1] if row.answer
    ]
    return merge_answers(answers[:MAX_MERGED_FILES], _left_out(draft, len(answers)))


def stored_answer(draft: Draft) -> AnswerJson | None:
    """The answer for a draft that was read; None if no file of it was diagnosed."""
    if draft.answer is None and draft.files.filter(answer__isnull=False).exists():
        # The worker that read the last file ended before it stored the answer.
        return diagnose_draft(draft)
    answer: AnswerJson | None = draft.answer
    return answer


def _left_out(draft: Draft, answered: int) -> str:
    """Sentences on the files that were not diagnosed; "" if nothing was left out."""
    large = draft.files.filter(trouble="", size__gt=MAX_FILE_BYTES).count()
    sentences = []
    if answered > MAX_MERGED_FILES:
        sentences.append(f"Only the first {MAX_MERGED_FILES} files were diagnosed.")
    if large:
        files = "file of" if large == 1 else "files of"
        verb = "was" if large == 1 else "were"
        sentences.append(
            f"{large} {files} more than {MAX_FILE_BYTES >> 20} MiB {verb} not diagnosed."
        )
    return " ".join(sentences)


def _answer(evidence: Evidence, rows: Sequence[DraftFile], lengths: Sequence[int]) -> AnswerJson:
    """The answer, with each quoted line under its file; `lengths`: lines of each file."""
    starts = [0, *accumulate(lengths)]
    places = list(zip(starts, (row.pk for row in rows), strict=False))
    return assign_lines(diagnose_text_evidence(evidence), places)


def files_together(draft: Draft) -> list[DraftFile]:
    """The files of a draft that is diagnosed as one; empty if it has one file, many or large ones."""
    rows = list(
        draft.files.defer("content", "reading").filter(trouble="")[: MAX_FILES_TOGETHER + 1]
    )
    few = 1 < len(rows) <= MAX_FILES_TOGETHER
    return rows if few and sum(row.size for row in rows) <= MAX_BYTES_TOGETHER else []
