"""Reading and writing cases of layers: shared steps by name, and what --accept does."""

from __future__ import annotations

import pytest

from agents.steps import scripts
from tests.agents import named_steps
from tests.agents.layer_cases import as_now, commands

ASKED = {"options": {}, "target": {"devices": {"data": ["sdb"]}},
         "facts": {"devices": [{"name": "sdb"}, {"name": "sdc"}]}}  # fmt: skip
ERASED = [["wipefs", "--all", "/dev/sdb"], "@zero sdb", "@settle"]


def test_a_case_that_only_asks_is_told_all():
    told = as_now("raw", ASKED)
    assert told["plan"] == told["teardown"] == ERASED and told["verify"] == []
    assert told["gives"]["volume"] == "/dev/sdb"


def test_an_error_is_told_with_what_was_asked_alone():
    none = {**ASKED, "target": {}, "plan": ERASED, "verify": []}
    said = "data: needs exactly one disk or partition, got 0"
    assert as_now("raw", none) == {**ASKED, "target": {}, "error": said}
    known = {**ASKED, "target": {}, "error": "exactly one disk"}
    assert as_now("raw", known) == known, "a part of it is enough"


def test_one_that_quotes_a_script_is_not_as_it_should_be():
    [zero] = [argv for argv in commands({**ASKED, "plan": ERASED}) if argv[0] == "sh"]
    assert zero[2] == scripts.ZERO
    case = {**ASKED, "plan": [ERASED[0], zero, ERASED[2]]}
    assert as_now("raw", case) == {**ASKED, "plan": ERASED}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["/dev/sdb", "0", "/dev/sdb", "999"], "@zero sdb:0 sdb:999"),
        (["/dev/sdb", "0", "/dev/sdb", "7340032", "/dev/sdc", "4096"], "@zero sdb sdc:4096"),
        (["/dev/small", "0", "/dev/sdb", "0"], "@zero small sdb:0"),
        (["/dev/disk/by-partlabel/bl17-log-1", "0"], "@zero disk/by-partlabel/bl17-log-1:0"),
        ([], "@zero"),
    ],
)
def test_zeros_are_told_by_their_places(words, told):
    sizes = {"/dev/sdb": 8 << 20, "/dev/small": 512}
    argv = ["sh", "-c", scripts.ZERO, "zero", *words]
    assert named_steps.short(argv, sizes) == told
    assert named_steps.whole(told, sizes) == argv


@pytest.mark.parametrize("name", named_steps.SCRIPTS)
def test_every_script_has_its_name(name):
    argv = ["sh", "-c", named_steps.SCRIPTS[name], named_steps.CALLED[name], "/a b", "17"]
    told = named_steps.short(argv, {})
    assert isinstance(told, str) and len(told) < 40
    if name not in named_steps.ZEROS:
        assert named_steps.whole(told, {}) == argv
    other = [*argv[:3], "another", *argv[4:]]
    assert named_steps.short(other, {}) == other, "nothing of it is passed over"


def test_accepting_writes_and_fails_once(accepted, request, monkeypatch, tmp_path):
    file = tmp_path / "case.json"
    file.write_text("old")
    monkeypatch.setattr(request.config.option, "accept", False, raising=False)
    with pytest.raises(AssertionError, match="--accept"):
        accepted(file, "new")
    assert file.read_text() == "old"
    monkeypatch.setattr(request.config.option, "accept", True)
    with pytest.raises(pytest.fail.Exception, match="read its diff"):
        accepted(file, "new")
    assert file.read_text() == "new"
    accepted(file, "new")
