"""`manage.py bench`: which benchmarks its words choose, and to whom options go."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext

import pytest

from benchlab.testing import command
from benchlab.up.bootstrap import ROOT
from benchlab.up.trouble import Trouble

SCRIPTS = sorted(path.stem for path in (ROOT / "tests" / "bench").glob("bench_*.py"))


@pytest.fixture
def started(monkeypatch):
    """The command lines of the benchmarks that were started, without their interpreter; none of them runs."""
    found: list[list[str]] = []

    def run(argv, **_):
        found.append(list(argv[1:]))
        return subprocess.CompletedProcess(argv, 0)

    monkeypatch.setattr(command, "stores", lambda: nullcontext({}))
    monkeypatch.setattr("benchlab.testing.command.subprocess.run", run)
    return found


def test_options_go_to_the_benchmark_named_before_them(started):
    assert command.run_benchmarks(["bench_hosts", "--hosts", "150", "--runs=2"]) == 0
    assert started == [["-m", "tests.bench.bench_hosts", "--hosts", "150", "--runs=2"]]


def test_words_choose_by_a_part_of_the_name_and_no_word_chooses_all(started):
    command.run_benchmarks(["knees", "bench_pages"])
    assert started == [["-m", f"tests.bench.bench_{name}"] for name in ("knees", "pages")]
    del started[:]
    command.run_benchmarks([])
    assert started == [["-m", f"tests.bench.{name}"] for name in SCRIPTS]


@pytest.mark.parametrize("words", [[], ["sampler"], ["bench_hosts", "knees"]])
def test_options_need_one_benchmark(started, words):
    with pytest.raises(Trouble, match="one benchmark"):
        command.run_benchmarks([*words, "--hosts", "150"])
    assert not started


def test_help_without_a_name_tells_the_names(started, capsys):
    assert command.run_benchmarks(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in SCRIPTS) and not started


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", SCRIPTS)
def test_every_benchmark_knows_its_options_and_refuses_others(name):
    for option, code, says in (("--no-such", 2, "unrecognized"), ("--help", 0, "usage:")):
        argv = [sys.executable, "-m", f"tests.bench.{name}", option]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert done.returncode == code and says in done.stdout + done.stderr, done.stderr
