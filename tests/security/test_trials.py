"""Patterns that are tried on a sample and never end, or fill the memory: a process of their own pays for them."""

from __future__ import annotations

import json
import resource
import subprocess
import threading
import time

import pytest

from agents.contracts import ParseError
from agents.texts import extraction_sandbox
from agents.texts.extraction import ExtractionOutcome
from agents.tools import command
from benchlab.campaigns import services
from tests.agents.test_command import try_extractions

# For each of half a million numbers some sixty comparisons.
COSTLY = "x [1] = json: $[?" + "||".join(["@==2"] * 60) + "]"
MANY = "[" + "1," * 400_000 + "1]"
FAIR = "y [1] = json first: $[0]"


@pytest.fixture
def small_limits(monkeypatch):
    monkeypatch.setattr(services, "LINE_SECONDS", 0.3)
    monkeypatch.setattr(services, "TOTAL_SECONDS", 1)
    monkeypatch.setattr(services, "WAIT_SECONDS", 0.1)


def own_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def test_a_costly_path_ends_and_the_next_line_is_tried(small_limits):
    before = own_cpu()
    costly, fair = services.try_lines(1, MANY, [COSTLY, FAIR], "stdout")
    assert costly.name == "x" and "takes more than 0.3 s" in costly.trouble
    assert (fair.value, fair.trouble) == (1.0, "")
    assert own_cpu() - before < 0.5


def test_a_hundred_of_them_end_together(small_limits):
    begun, before = time.monotonic(), own_cpu()
    lines = [COSTLY.replace("x", f"x{n}", 1) for n in range(100)]
    rows = services.try_lines(1, MANY, lines, "stdout")
    assert [row.extraction for row in rows] == lines
    assert all(row.trouble for row in rows) and "was not tried" in rows[-1].trouble
    assert time.monotonic() - begun < 20 and own_cpu() - before < 0.5


def test_memory_has_a_limit(small_limits, monkeypatch):
    monkeypatch.setattr(services, "LINE_SECONDS", 5)
    monkeypatch.setattr(services, "TOTAL_SECONDS", 8)
    monkeypatch.setattr(services, "MEMORY_BYTES", 100 * 2**20)
    hungry, after = services.try_lines(1, MANY, ["x [1] = json last: $[*]", FAIR], "stdout")
    assert "100 MiB" in hungry.trouble
    assert "was not tried" in after.trouble


def test_one_team_does_not_keep_another_waiting(small_limits, monkeypatch):
    monkeypatch.setattr(services, "LINE_SECONDS", 2)
    monkeypatch.setattr(services, "TOTAL_SECONDS", 2)
    outcomes: list[object] = []

    def attack() -> None:
        try:
            outcomes.append(services.try_lines(1, MANY, [COSTLY], "stdout"))
        except services.Busy as busy:
            outcomes.append(busy)

    attackers = [threading.Thread(target=attack) for _ in range(5)]
    for thread in attackers:
        thread.start()
    time.sleep(0.05)
    (row,) = services.try_lines(2, "[7]", ["y [1] = json: $[0]"], "stdout")
    for thread in attackers:
        thread.join()
    assert row.value == 7.0
    assert sum(isinstance(outcome, services.Busy) for outcome in outcomes) == 4


def test_the_process_gets_no_secret_and_says_what_the_server_would(monkeypatch):
    calls: list[dict] = []
    run = subprocess.run

    def recorded(argv, **more):
        calls.append(more)
        return run(argv, **more)

    monkeypatch.setattr(subprocess, "run", recorded)
    sample = json.dumps({"a": 1, "b": "n/a"})
    lines = ["a [s] x 0.5 = json: $.a", "a [1] = json: $.b", "b [1] = json: $.b", "c = wrong"]
    lines.append("d [1] = o json: $.a")
    rows = services.try_lines(1, sample, lines, "stdout")
    assert set(calls[0]["env"]) == {"PATH", "PYTHONPATH"}
    assert rows == try_extractions(sample, lines)
    assert all(isinstance(row, ExtractionOutcome) for row in rows)


@pytest.fixture
def small_limits_of_runs(monkeypatch):
    monkeypatch.setattr(extraction_sandbox, "LINE_SECONDS", 0.3)
    monkeypatch.setattr(extraction_sandbox, "TOTAL_SECONDS", 2)
    monkeypatch.setattr(extraction_sandbox, "MEMORY_BYTES", 200 * 2**20)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (COSTLY, r"x takes more than 0\.\d+ s for this text"),
        ("x [1] = json last: $[*]", "x takes "),
    ],
)
def test_a_run_s_output_is_read_within_the_same_limits(small_limits_of_runs, line, says):
    """As the worker reads what a run printed: by the tool's own parser."""
    options = command.Options(command="true", extract=(line, FAIR))
    outputs = {"stdout": MANY.encode()}
    before = own_cpu()
    with pytest.raises(ParseError, match=says):
        command.parse(outputs, options)
    assert [(one.name, one.value) for one in command.parse_partial(outputs, options)] == [
        ("y", 1.0)
    ]
    assert own_cpu() - before < 0.5
