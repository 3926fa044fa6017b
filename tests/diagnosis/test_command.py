"""`diagnose FILE...` on a terminal, without a database."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from benchlab.diagnosis.answer_json import NextStepJson
from benchlab.imports import diagnose_text
from benchlab.up.bootstrap import ROOT
from tests.diagnosis.made import FIO, four_diagnoses  # noqa: F401

pytestmark = pytest.mark.usefixtures("four_diagnoses")


@pytest.fixture
def fio(tmp_path):
    path = tmp_path / "fio.txt"
    path.write_text(FIO)
    return str(path)


def test_the_answer_fits_80_columns(fio, capsys):
    assert diagnose_text.run_command([fio]) == 0
    text = capsys.readouterr().out
    assert "DOUBT  The queue depth of 32 had no effect" in text
    assert "line 7: read: IOPS=12.1k" in text and "Next: Measure with a queue" in text
    free = [
        line
        for line in text.splitlines()
        if not line.strip().startswith(("line ", "fio ", "READ:"))
    ]
    assert max(map(len, free)) <= diagnose_text.WIDTH


def test_json_is_that_of_the_api(fio, capsys):
    assert diagnose_text.run_command([fio, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["shown"][1]["rule"] == "T1"
    assert diagnose_text.run_command([fio, fio, "--json"]) == 0
    assert [row["file"] for row in json.loads(capsys.readouterr().out)] == [fio, fio]


def test_standard_input(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(FIO.encode())))
    assert diagnose_text.run_command(["-"]) == 0
    assert "3 likely causes found in 1 result." in capsys.readouterr().out


def test_a_result_that_cannot_be_read_is_not_passed_over(tmp_path, capsys):
    """Its figures contradict each other; the other result is diagnosed."""
    path = tmp_path / "fio.txt"
    path.write_text(FIO + FIO.replace("avg=82.60", "avg=99999.00"))
    assert diagnose_text.run_command([str(path)]) == 0
    text = capsys.readouterr().out
    assert "in 1 result." in text
    assert "1 result could not be read: mean is not between min and max (line 22" in text


def test_a_reader_that_has_seen_enough_ends_it_without_a_traceback(fio):
    closed, pipe = os.pipe()
    os.close(closed)
    run = f"import sys; from benchlab.imports.diagnose_text import run_command; sys.exit(run_command([{fio!r}]))"
    ended = subprocess.run(
        [sys.executable, "-c", run], stdout=pipe, stderr=subprocess.PIPE, cwd=ROOT, check=False
    )
    os.close(pipe)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_file_that_cannot_be_read_is_exit_code_2(fio, tmp_path, capsys):
    (tmp_path / "picture").write_bytes(b"\x89PNG\0\0")
    assert diagnose_text.run_command([fio, str(tmp_path / "picture"), "/no/such"]) == 2
    captured = capsys.readouterr()
    assert "/no/such: No such file" in captured.err and "binary" in captured.err
    assert "DOUBT" in captured.out


def test_control_characters_do_not_reach_the_terminal(tmp_path, capsys):
    path = tmp_path / "hostile.txt"
    path.write_text(FIO.replace("deep:", "de\x07ep:"))
    diagnose_text.run_command([str(path)])
    assert "\x07" not in capsys.readouterr().out


def test_the_guide_shows_a_real_answer(monkeypatch, tmp_path, capsys):
    """By the rules of the catalogue, not those of these tests."""
    monkeypatch.undo()
    section = (ROOT / "docs" / "guide.md").read_text().split("## Paste your output")[1]
    text, _, answer = section.split("```\n")[1:4]
    (tmp_path / "dd.txt").write_text(text)
    assert diagnose_text.run_command([str(tmp_path / "dd.txt")]) == 0
    assert capsys.readouterr().out.startswith(answer)


def test_a_risk_stands_above_its_command():
    step: NextStepJson = {
        "text": "Fail it.",
        "command": "mdadm /dev/md0 --fail /dev/sdf",
        "expect": "",
        "risk": "No redundancy is left.",
        "options": {},
        "workload": None,
    }
    lines = diagnose_text._step_lines(step)
    assert [line.strip() for line in lines] == [
        "Next: Fail it.", "Risk: No redundancy is left.", "mdadm /dev/md0 --fail /dev/sdf",
    ]  # fmt: skip
