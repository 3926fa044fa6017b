"""Stands for the confined process while it reads a text that takes for ever."""

from __future__ import annotations

from benchlab.diagnosis.answer_json import AnswerJson
from benchlab.imports import diagnose_text


def read_for_ever(name: str, raw: bytes) -> AnswerJson:
    while True:
        pass


if __name__ == "__main__":
    diagnose_text.diagnose_bytes = read_for_ever
    diagnose_text.answer_confined()
