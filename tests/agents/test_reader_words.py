"""The words that a reader wants to see before it looks: cheap, and never in the way of a result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agents.drivers import registry, text_reading
from agents.texts.parsed_result import ParsedResult
from tests.agents.test_line_readers import READERS
from tests.agents.test_readers import cases, name_of, text_of
from tests.each_case import check_each


@pytest.mark.parametrize("kind", registry.all_readers())
def test_a_text_with_a_result_has_one_of_its_readers_words(kind: str) -> None:
    check_each(check_words, cases(kind), name_of)


def check_words(path: Path) -> None:
    text, name = text_of(path)
    for kind, reader in registry.all_readers().items():
        if reader.find_results(text, name):
            assert text_reading.may_hold(text.replace("\xa0", " "), reader), kind


@pytest.mark.parametrize(
    "kind",
    [
        "bonnie",
        "dd",
        "figures",
        "icf",
        "iometer",
        "iostat",
        "pg_test_fsync",
        "zpool_iostat",
        *READERS,
    ],
)
def test_readers_of_others_do_not_look_at_fios_json(kind: str, monkeypatch) -> None:
    text = (Path(__file__).parents[1] / "cases" / "tools" / "fio" / "3.33-randrw.json").read_text()
    asked = '"bs" : "4k,8k,16k",\n        "filename" : "/dev/sda:/srv/a+b",\n        '
    text = text.replace('"jobname" : ', f'{asked}"jobname" : ')
    looked: list[str] = []

    def watched(name: str) -> Any:
        def find(text: str, file: str) -> list[ParsedResult]:
            looked.append(name)
            return []

        return find

    for name, reader in registry.all_readers().items():
        monkeypatch.setattr(reader, "find_results", watched(name))
    text_reading.read_text(text, "a.json")
    assert kind not in looked and "fio" in looked
